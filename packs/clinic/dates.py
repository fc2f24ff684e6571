"""The days and times that a customer's own words name. Pure, EN and RO at once; never a guess.

It serves twice: the mock model understands by it, and a booking is checked against it, so that "Thursday" is never booked
on a Friday. Words come from the ``[grammar]`` of the wording files.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from functools import cache
from typing import Final

from packs.clinic.locales import LOCALES, words

_DAY: Final = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_ISO: Final = re.compile(r"\b(20\d\d)-(\d\d)-(\d\d)\b")
_DOTTED: Final = re.compile(r"(?<![\d.:])(?<!\bat )(?<!\bla )(?<!\bora )(\d{1,2})\.(\d{1,2})(?:\.(20\d\d))?(?![\d:])")
_NTH: Final = re.compile(r"\b(?:the|on|pe) (\d{1,2})(?:st|nd|rd|th)\b(?! (?:one|slot|option|time|floor))|\bpe (\d{1,2})\b(?![:.])")

_HALVES: Final = r"(?P<half>a\.?m\b|p\.?m\b)?"
_CLOCK: Final = re.compile(rf"(?<![\d.:])(?P<hour>\d{{1,2}})(?:[:.]|h ?)(?P<minute>[0-5]\d)(?!\d)\s*{_HALVES}")
_HALF_ONLY: Final = re.compile(r"(?<![\d.:])(?P<hour>\d{1,2})\s*(?P<half>a\.?m\b|p\.?m\b)")
_AFTER_WORD: Final = re.compile(
    r"\b(?:at|around|about|la|ora|orele|after|dupa)\s+(?:ora\s+)?(?P<hour>\d{1,2})\b(?![.:]\d)(?P<more> jumate| si jumatate| si un sfert)?"
)
_PAST_TO: Final = re.compile(r"\b(?P<which>half past|quarter past|quarter to|fara un sfert)\s+(?P<hour>\d{1,2})\b")
_BARE: Final = re.compile(r"(?<![\d.:])(?P<hour>\d{1,2})(?![\d.:])")
_MORE: Final = {" jumate": 30, " si jumatate": 30, " si un sfert": 15}
_NUMBERS: Final = (
    ("one", "unu", "una"), ("two", "doua"), ("three", "trei"), ("four", "patru"), ("five", "cinci"), ("six", "sase"),
    ("seven", "sapte"), ("eight", "opt"), ("nine", "noua"), ("ten", "zece"), ("eleven", "unsprezece"),
    ("twelve", "doisprezece", "douasprezece"),
)  # fmt: skip
_NUMBER_BEFORE: Final = r"(?P<before>\b(?:at|la|ora|half past|quarter past|quarter to|fara un sfert) )"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedDays:
    """What a text says of the day: words like "tomorrow", dates like "3 Dec", weekdays (ISO), "next" before one."""

    relative: frozenset[date] = frozenset()
    calendar: frozenset[date] = frozenset()
    weekdays: frozenset[int] = frozenset()
    next: bool = False

    def __bool__(self) -> bool:
        return bool(self.relative or self.calendar or self.weekdays)

    def agrees(self, day: date) -> bool:
        """May this be the day that is meant? A text that names none agrees with all."""
        if not self or day in self.relative:
            return True
        if not (self.calendar or self.weekdays):
            return False
        return (not self.calendar or day in self.calendar) and (not self.weekdays or day.isoweekday() in self.weekdays)

    def days(self, today: date) -> tuple[date, ...]:
        """The days that may be meant, soonest first: one when the text is clear."""
        days = set(self.relative)
        upcoming = {_upcoming(weekday, today, after=self.next) for weekday in self.weekdays}
        if not self.calendar:
            days |= upcoming
            days |= {day + timedelta(days=7) for day in upcoming if self.next and day < today + timedelta(days=7)}
        elif self.weekdays and not any(day.isoweekday() in self.weekdays for day in self.calendar):
            days |= self.calendar | upcoming
        else:
            days |= {day for day in self.calendar if not self.weekdays or day.isoweekday() in self.weekdays}
        return tuple(sorted(days))


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """A time of day as said; without a half it may stand for two."""

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


@dataclass(slots=True)
class _Found:
    relative: set[date] = field(default_factory=set)
    calendar: set[date] = field(default_factory=set)
    weekdays: set[int] = field(default_factory=set)


def normal(text: str) -> str:
    """Without case, accents and needless space, so that "Mâine" and "maine" are one word."""
    bare = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
    return " ".join(bare.casefold().replace("’", "'").split())


def read_days(text: str, today: date) -> tuple[NamedDays, str]:
    """The days named in a text, and the rest of it in normal form."""
    found, rest = _Found(), normal(text)
    rest = _take_dates(rest, today, found)
    for pattern, days_ahead in _relative_words():
        rest, hits = pattern.subn(" ", rest)
        found.relative |= {today + timedelta(days=days_ahead)} if hits else set()
    said_next = False
    for pattern, weekday in _weekday_words():
        for match in pattern.finditer(rest):
            found.weekdays.add(weekday)
            said_next = said_next or bool(match["next"])
        rest = pattern.sub(" ", rest)
    named = NamedDays(
        relative=frozenset(found.relative),
        calendar=frozenset(found.calendar),
        weekdays=frozenset(found.weekdays),
        next=said_next,
    )
    return named, rest


def read_clock(rest: str, *, bare: bool) -> Clock | None:
    """The last time of day named in a text in normal form without its days; `bare` lets a lone number be an hour."""
    rest = _digits(rest)
    if re.search(r"\bnoon\b|\bla pranz\b", rest):
        return Clock(hour=12)
    found = sorted(_clocks(rest), key=lambda one: one[0])
    if found:
        return found[-1][1]
    alone = list(_BARE.finditer(rest)) if bare else []
    return _clock(alone[0]["hour"], 0, None) if len(alone) == 1 else None


def _clocks(rest: str) -> Iterator[tuple[int, Clock]]:
    for match in _CLOCK.finditer(rest):
        yield from _placed(match, _clock(match["hour"], int(match["minute"]), match["half"]))
    for match in _HALF_ONLY.finditer(rest):
        yield from _placed(match, _clock(match["hour"], 0, match["half"]))
    for match in _AFTER_WORD.finditer(rest):
        if not re.match(r"\s*[ap]\.?m\b", rest[match.end("hour") :]):
            yield from _placed(match, _clock(match["hour"], _MORE.get(match["more"] or "", 0), None))
    for match in _PAST_TO.finditer(rest):
        hour, which = int(match["hour"]), match["which"]
        back = which in {"quarter to", "fara un sfert"}
        minute = 45 if back else 30 if which == "half past" else 15
        yield from _placed(match, _clock(str(((hour - 2) % 12 + 1) if back else hour), minute, None))


def _placed(match: re.Match[str], clock: Clock | None) -> Iterator[tuple[int, Clock]]:
    if clock is not None:
        yield match.start("hour"), clock


def _clock(hour: str, minute: int, half: str | None) -> Clock | None:
    number = int(hour)
    half = half.replace(".", "") if half else None
    if number > 23 or (half and not 1 <= number <= 12):
        return None
    return Clock(hour=number, minute=minute, half=half)


def _take_dates(rest: str, today: date, found: _Found) -> str:
    def take(year: int | None, month: int, day: int, whole: str) -> str:
        when = _calendar_day(year, month, day, today)
        if when is None:
            return whole
        found.calendar.add(when)
        return " "

    rest = _ISO.sub(lambda m: take(int(m[1]), int(m[2]), int(m[3]), m[0]), rest)
    for pattern, month in _month_words():
        rest = pattern.sub(lambda m, month=month: take(None, month, int(m["day"] or m["day2"]), m[0]), rest)
    rest = _DOTTED.sub(lambda m: take(int(m[3]) if m[3] else None, int(m[2]), int(m[1]), m[0]), rest)
    return _NTH.sub(lambda m: _take_nth(int(m[1] or m[2]), today, m[0], take), rest)


def _take_nth(day: int, today: date, whole: str, take: object) -> str:
    raise NotImplementedError
