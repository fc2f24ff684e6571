"""Ingest as a process for tests that stop it again and again: one life after another, each forked from here.

A life is the real service from its settings to its exit; what is saved is Python's start. Each says its process's number
when it begins, and its exit code when it has ended; one that ends with another than 0 is the last.
"""

import os
import sys

from services.ingest.__main__ import wired
from shared.work.process import main

BEGINS = "a life of process {}"
ENDED = "ended with {}"


def live() -> int:
    """One life; its exit code."""
    child = os.fork()
    if child == 0:
        main("ingest", wired)
        sys.exit(0)
    say(BEGINS.format(child))
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    say(ENDED.format(code))
    return code


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    while live() == 0:
        pass
