"""Processes of ours that must not outlive us."""

import ctypes
import signal
import sys
from collections.abc import Callable


def dies_with_us(number: signal.Signals) -> Callable[[], None] | None:
    """For the child to run first: should we be killed, it gets this signal (Linux's PR_SET_PDEATHSIG)."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(1, number)
