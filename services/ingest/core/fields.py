"""Reading a provider's objects field by field: each value may be anything, and a bad one costs its neighbours nothing."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from services.ingest.core.reading import WORDS_CHARS_MAX, clean

NUMBER_MAX: Final = 2**52  # ids have at most so many bits
TIME_MAX_S: Final = 2**33  # far beyond any date that is believed
DIGITS_MAX: Final = 11  # what TIME_MAX_S has, and one more
JOINED_MAX: Final = 20

Item = Mapping[str, Any]


def item_at(item: Item, name: str) -> Item:
    value = item.get(name)
    return value if isinstance(value, dict) else {}


def list_at(item: Item, name: str) -> Iterator[object]:
    found = item.get(name)
    yield from found if isinstance(found, list) else ()


def items_at(item: Item, name: str) -> Iterator[Item]:
    """What is an object in the list; anything else in it is skipped."""
    yield from (one for one in list_at(item, name) if isinstance(one, dict))


def text_at(item: Item, name: str) -> str | None:
    value = item.get(name)
    return value if isinstance(value, str) else None


def signed(value: object) -> int | None:
    """A whole number of at most 52 bits. True is none, nor is 1.0."""
    return value if type(value) is int and abs(value) < NUMBER_MAX else None


def positive(value: object) -> int | None:
    number = signed(value)
    return number if number is not None and number > 0 else None


def from_digits(value: object) -> int | None:
    """A whole number as WhatsApp writes one: its digits, in a string."""
    if not isinstance(value, str) or not (value.isascii() and value.isdigit()) or len(value) > DIGITS_MAX:
        return None
    return int(value)


def unix_time(seconds: int | None) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds is not None and seconds <= TIME_MAX_S else None


def point_of(item: Item) -> str | None:
    """`latitude` and `longitude` in words: degrees."""
    latitude, longitude = item.get("latitude"), item.get("longitude")
    known = all(isinstance(one, int | float) and abs(one) <= 180 for one in (latitude, longitude))
    return f"{latitude}, {longitude}" if known else None


def joined(*words: object, by: str = ", ") -> str | None:
    """Those that are texts and not empty, the first twenty; None: none is."""
    there = [word for word in words if isinstance(word, str) and word]
    return clean(by.join(there[:JOINED_MAX]), WORDS_CHARS_MAX) or None
