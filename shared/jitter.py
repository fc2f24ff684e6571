"""Chance for pauses, so that many who wait for the same do not come back at once. Nothing secret is made of it."""

import random


def between(low: float, high: float) -> float:
    """A number from `low` to `high`, any of them as likely."""
    return random.uniform(low, high)  # noqa: S311  spreads retries in time; nobody gains by guessing it
