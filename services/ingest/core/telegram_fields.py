"""Reading Telegram's objects field by field: each value may be anything, and a bad one costs its neighbours nothing."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

NUMBER_MAX: Final = 2**52  # ids have at most so many bits
TIME_MAX: Final = 2**33  # seconds, far beyond any date that is believed

Item = Mapping[str, Any]


def item_at(item: Item, name: str) -> Item:
    value = item.get(name)
    return value if isinstance(value, dict) else {}


def signed(value: object) -> int | None:
    """A whole number of at most 52 bits. True is none, nor is 1.0."""
    return value if type(value) is int and abs(value) < NUMBER_MAX else None


def positive(value: object) -> int | None:
    number = signed(value)
    return number if number is not None and number > 0 else None


def time_at(value: object) -> datetime | None:
    seconds = positive(value)
    return datetime.fromtimestamp(seconds, UTC) if seconds is not None and seconds < TIME_MAX else None
