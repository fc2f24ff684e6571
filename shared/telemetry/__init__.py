"""Metrics, logs and health of a process."""
