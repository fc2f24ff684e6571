"""The `leeway` command, and all services in one process."""
