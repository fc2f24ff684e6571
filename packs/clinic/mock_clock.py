"""The times of day in a customer's words, for the mock model. Pure, EN and RO; what is not understood is asked."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import time
from typing import Final

_WORDED: Final = (
    ("one", "unu", "una"), ("two", "doua"), ("three", "trei"), ("four", "patru"), ("five", "cinci"),
    ("six", "sase"), ("seven", "sapte"), ("eight", "opt"), ("nine", "noua"), ("ten", "zece"),
    ("eleven", "unsprezece"), ("twelve", "douasprezece", "doisprezece"),
)  # fmt: skip
_HOURS: Final = {word: hour for hour, spellings in enumerate(_WORDED, start=1) for word in spellings}
_MINUTES: Final = {
    "half": 30, "quarter": 15, "a quarter": 15, "five": 5, "ten": 10, "twenty": 20, "twenty-five": 25,
    "jumate": 30, "jumatate": 30, "un sfert": 15, "cinci": 5, "zece": 10, "douazeci": 20,
    "douazeci si cinci": 25,
}  # fmt: skip


def _any(words: Mapping[str, int]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


_H: Final = rf"(?P<hour>\b(?:\d{{1,2}}|{_any(_HOURS)})\b)"
_M: Final = rf"(?P<minutes>\b(?:{_any(_MINUTES)})\b)"
_M_RO: Final = rf"(?P<minutes>\b(?:[1-5]?[05]|{_any(_MINUTES)})\b)"

# Ways to say minutes: past an hour, or before it. Digits before "to" are no minutes: "10 to 11" is a stretch of time.
_PAST: Final = (
    re.compile(rf"{_M}(?: minutes)? past {_H}"),
    re.compile(rf"\b(?P<minutes>[1-5]?\d)(?: minutes)? past {_H}"),
    re.compile(rf"{_H} (?P<minutes>jumate|jumatate)\b"),
    re.compile(rf"{_H} si {_M_RO}(?![.:]\d)"),
)
_BEFORE: Final = (
    re.compile(rf"{_M}(?: minutes)? to {_H}"),
    re.compile(rf"\b(?P<minutes>[1-5]?\d) minutes to {_H}"),
    re.compile(rf"\bfara (?P<minutes>un sfert) {_H}"),
    re.compile(rf"{_H} fara {_M_RO}(?![.:]\d)"),
)
_MARK: Final = r"\b(?:at|around|about|la|ora|orele|after|dupa|by)"
_WORDED_HOUR: Final = re.compile(rf"(?P<before>{_MARK} )(?P<word>{_any(_HOURS)})\b")

_HALF: Final = r"(?P<half>a\.?m\b|p\.?m\b|at night\b|noaptea\b)"
_COLON: Final = re.compile(rf"(?<![\d.:])(?P<hour>\d{{1,2}})(?:[:.]|h ?)(?P<minute>[0-5]\d)(?!\d) ?{_HALF}?")
_WITH_HALF: Final = re.compile(rf"(?<![\d.:])(?P<hour>\d{{1,2}}) ?{_HALF}")
_AFTER_MARK: Final = re.compile(rf"{_MARK} (?:ora )?(?P<hour>\d{{1,2}})\b(?![.:h]\d)(?! ?[ap]\.?m\b)")
_LONE: Final = re.compile(r"(?<![\d.:])(?P<hour>\d{1,2})(?![\d.:%])\b")
_SEVERAL: Final = re.compile(r"\d ?(?:-|–|\bto\b|\bor\b|\bsau\b|\bpana\b) ?(?:at |la |in )?\d")
_NOON: Final = re.compile(r"\b(?:noon|midday|la pranz|amiaza)\b(?<!dupa amiaza)(?<!dupa-amiaza)")
_MIDNIGHT: Final = re.compile(r"\b(?:midnight|miezul noptii)\b")
_NIGHT_ENDS: Final = 6  # "2 at night" is before it, "9 at night" is not


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """A time of day as said; without a half of the day it may stand for two, unless it is `exact`."""

    hour: int
    minute: int = 0
    half: str | None = None  # "am" or "pm"
    exact: bool = False  # "09:15", as only a clock of 24 hours says it

    def readings(self) -> tuple[time, ...]:
        """The times it may stand for, as said first."""
        if self.half:
            return (time(self.hour % 12 + (12 if self.half == "pm" else 0), self.minute),)
        if 1 <= self.hour < 12 and not self.exact:
            return (time(self.hour, self.minute), time(self.hour + 12, self.minute))
        return (time(self.hour, self.minute),)


def read_clock(text: str, *, lone: bool) -> Clock | None:
    """The last time in a text in normal form without its days; `lone` lets a single number be an hour.

    None for no time, and for several of which one is to be chosen: "10 or 11".
    """
    digits = _WORDED_HOUR.sub(lambda match: match["before"] + str(_HOURS[match["word"]]), _minutes(text))
    if _SEVERAL.search(digits):
        return None
    found = sorted(_clocks(digits), key=lambda one: one[0])
    if found:
        return found[-1][1]
    if _NOON.search(digits):
        return Clock(hour=12)
    if _MIDNIGHT.search(digits):
        return Clock(hour=0)
    numbers = _LONE.findall(digits) if lone else []
    return _clock(numbers[0]) if len(numbers) == 1 else None


def choose(
    clock: Clock, stretches: Sequence[tuple[time, time]] | None, part: str | None = None
) -> tuple[time, ...]:
    """What it can mean on a day open like this: what lies in its hours, else the time as it was said.

    The customer's own half of the day goes before; where the hours are not known (None), all it may stand for.
    """
    readings = clock.readings()
    if part:
        readings = tuple(one for one in readings if (one.hour < 12) is (part == "morning")) or readings
    if stretches is None:
        return readings
    if not stretches:
        return readings[:1]
    opens, closes = stretches[0][0], stretches[-1][1]
    inside = tuple(reading for reading in readings if opens <= reading < closes)
    return inside or readings[:1]


def _minutes(text: str) -> str:
    """The text with its worded minutes as figures: "ten to five" is "4:50"."""
    for pattern in _PAST:
        text = pattern.sub(lambda match: _figures(match, before=False), text)
    for pattern in _BEFORE:
        text = pattern.sub(lambda match: _figures(match, before=True), text)
    return text


def _figures(match: re.Match[str], *, before: bool) -> str:
    hour = _HOURS.get(match["hour"]) or int(match["hour"])
    minutes = _MINUTES.get(match["minutes"]) or int(match["minutes"])
    if hour > 24 or not 0 < minutes < 60:
        return match[0]
    if not before:
        return f"{hour}:{minutes:02}"
    return f"{hour - 1 if hour > 1 else 12}:{60 - minutes:02}"


def _clocks(text: str) -> Iterator[tuple[int, Clock]]:
    for match in _COLON.finditer(text):
        yield from _placed(match, _clock(match["hour"], int(match["minute"]), match["half"]))
    for match in _WITH_HALF.finditer(text):
        yield from _placed(match, _clock(match["hour"], 0, match["half"]))
    for match in _AFTER_MARK.finditer(text):
        yield from _placed(match, _clock(match["hour"]))


def _placed(match: re.Match[str], clock: Clock | None) -> Iterator[tuple[int, Clock]]:
    if clock is not None:
        yield match.end(), clock


def _clock(hour: str, minute: int = 0, half: str | None = None) -> Clock | None:
    number = int(hour)
    if number > 23 or (half and not 1 <= number <= 12):
        return None
    return Clock(
        hour=number, minute=minute, half=_half(number, half) if half else None, exact=hour.startswith("0")
    )


def _half(hour: int, half: str) -> str:
    if half in ("at night", "noaptea"):
        return "am" if hour == 12 or hour < _NIGHT_ENDS else "pm"
    return half.replace(".", "")
