"""How long to wait before the next attempt at something that is away."""

from collections.abc import Callable

FIRST_S = 0.1
LONGEST_S = 5.0

Chance = Callable[[], float]
"""Gives a number in [0, 1)."""


def pause_s(failures: int, chance: float) -> float:
    """Seconds to wait after that many failures in a row (1 or more): doubling, bounded, jittered by `chance`.

    Never less than half of the full pause; many clients come neither in step nor all at once.
    """
    full = min(LONGEST_S, FIRST_S * 2.0 ** min(failures - 1, 16))
    return full * (0.5 + chance / 2)
