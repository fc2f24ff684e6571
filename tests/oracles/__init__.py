"""Second opinions: what the vendors' own packages say about requests, asked in an environment of their own (`.oracles/`)."""
