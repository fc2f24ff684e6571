"""Domain packs: a folder each, found by entry point. They know shared pages, no service and no other pack."""
