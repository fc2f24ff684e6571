"""Metrics, logs, traces and health of a process."""
