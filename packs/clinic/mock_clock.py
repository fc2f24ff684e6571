"""The times of day in a customer's words, for the mock model. Pure, EN and RO; the rest is asked."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import time
from typing import Final

_HALF: Final = r"(?P<half>a\.?m\b|p\.?m\b)"
_COLON: Final = re.compile(rf"(?<![\d.:])(?P<hour>\d{{1,2}})(?:[:.]|h ?)(?P<minute>[0-5]\d)(?!\d) ?{_HALF}?")
_WITH_HALF: Final = re.compile(rf"(?<![\d.:])(?P<hour>\d{{1,2}}) ?{_HALF}")
_AFTER_WORD: Final = re.compile(
    r"\b(?:at|around|about|la|ora|orele|after|dupa) (?:ora )?(?P<hour>\d{1,2})\b(?![.:h]\d)(?! ?[ap]\.?m\b)"
    r"(?: (?P<more>jumate|si jumatate|si un sfert))?"
)
_PAST_OR_TO: Final = re.compile(
    r"\b(?P<which>half past|quarter past|quarter to|fara un sfert) (?P<hour>\d{1,2})\b"
)
_LONE: Final = re.compile(r"(?<![\d.:])(?P<hour>\d{1,2})(?![\d.:%])\b")
_NOON: Final = re.compile(r"\b(?:noon|midday|la pranz|amiaza)\b(?<!dupa amiaza)(?<!dupa-amiaza)")
_MINUTES: Final = {"jumate": 30, "si jumatate": 30, "si un sfert": 15, "half past": 30, "quarter past": 15}
_TO: Final = {"quarter to", "fara un sfert"}
_WORDED: Final = (
    ("one", "unu"), ("two", "doua"), ("three", "trei"), ("four", "patru"), ("five", "cinci"), ("six", "sase"),
    ("seven", "sapte"), ("eight", "opt"), ("nine", "noua"), ("ten", "zece"), ("eleven", "unsprezece"),
    ("twelve", "douasprezece", "doisprezece"),
)  # fmt: skip
_HOURS: Final = {word: str(hour) for hour, spellings in enumerate(_WORDED, start=1) for word in spellings}
_WORDED_HOUR: Final = re.compile(
    r"(?P<before>\b(?:at|la|ora|half past|quarter past|quarter to|fara un sfert) )"
    rf"(?P<word>{'|'.join(_HOURS)})\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """A time of day as said; without a half of the day it may stand for two."""

    hour: int
    minute: int = 0
    half: str | None = None  # "am" or "pm"

    def readings(self) -> tuple[time, ...]:
        """The times it may stand for, as said first."""
        if self.half:
            return (time(self.hour % 12 + (12 if self.half == "pm" else 0), self.minute),)
        if 1 <= self.hour < 12:
            return (time(self.hour, self.minute), time(self.hour + 12, self.minute))
        return (time(self.hour, self.minute),)


def read_clock(text: str, *, lone: bool) -> Clock | None:
    """The last time in a text in normal form without its days; `lone` lets a single number be an hour."""
    digits = _WORDED_HOUR.sub(lambda match: match["before"] + _HOURS[match["word"]], text)
    found = sorted(_clocks(digits), key=lambda one: one[0])
    if found:
        return found[-1][1]
    if _NOON.search(digits):
        return Clock(hour=12)
    numbers = _LONE.findall(digits) if lone else []
    return _clock(numbers[0]) if len(numbers) == 1 else None


def choose(clock: Clock, stretches: Sequence[tuple[time, time]]) -> tuple[time, ...]:
    """What it can mean on a day open like this: what lies in its hours, else the time as it was said."""
    readings = clock.readings()
    if not stretches:
        return readings[:1]
    opens, closes = stretches[0][0], stretches[-1][1]
    inside = tuple(reading for reading in readings if opens <= reading < closes)
    return inside or readings[:1]


def _clocks(text: str) -> Iterator[tuple[int, Clock]]:
    for match in _COLON.finditer(text):
        yield from _placed(match, _clock(match["hour"], int(match["minute"]), match["half"]))
    for match in _WITH_HALF.finditer(text):
        yield from _placed(match, _clock(match["hour"], 0, match["half"]))
    for match in _AFTER_WORD.finditer(text):
        yield from _placed(match, _clock(match["hour"], _MINUTES.get(match["more"], 0)))
    for match in _PAST_OR_TO.finditer(text):
        which, hour = match["which"], int(match["hour"])
        if which in _TO:
            yield from _placed(match, _clock(str((hour - 2) % 12 + 1), 45))
        else:
            yield from _placed(match, _clock(match["hour"], _MINUTES[which]))


def _placed(match: re.Match[str], clock: Clock | None) -> Iterator[tuple[int, Clock]]:
    if clock is not None:
        yield match.end(), clock


def _clock(hour: str, minute: int = 0, half: str | None = None) -> Clock | None:
    number = int(hour)
    if number > 23 or (half and not 1 <= number <= 12):
        return None
    return Clock(hour=number, minute=minute, half=half.replace(".", "") if half else None)
