"""Domain packs: a folder each, found by entry point. They know the shared pages, never a service and never each other."""
