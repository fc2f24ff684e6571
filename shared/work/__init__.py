"""The unit of work that all stages share: batches, claims acknowledged when committed, sweepers, leases, presence."""
