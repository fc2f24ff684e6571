"""The days that a customer's own words name. Pure, in every language at once, and never a guess.

It serves twice: the mock model understands by it, and a booking is checked against it, so that "Thursday" is
never booked on a Friday. The words are the ``[grammar]`` of the wording files.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from typing import Final

from packs.clinic.locales import languages, words

_Reading = Callable[[re.Match[str]], date | None]

_ISO: Final = re.compile(r"\b(?P<year>20\d\d)-(?P<month>\d\d)-(?P<day>\d\d)\b")
_NOT_INSIDE: Final = r"(?<![\d.:])"
_NOT_A_TIME: Final = _NOT_INSIDE + r"(?<!\bat )(?<!\bla )(?<!\bora )"
_MAY: Final = 4  # its place among the months
_DOTTED: Final = re.compile(
    _NOT_A_TIME + r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})(?:\.(?P<year>20\d\d))?(?![\d:])"
)
_NTH: Final = re.compile(
    r"\b(?:the|on) (?P<day>\d{1,2})(?:st|nd|rd|th)\b(?! (?:one|slot|option|time|floor))"
    r"|\bpe (?P<zi>\d{1,2})\b(?![:.])"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedDays:
    """What a text says of the day: "tomorrow", "3 Dec", ISO weekdays, whether "next" stands by one."""

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
        return (not self.calendar or day in self.calendar) and (
            not self.weekdays or day.isoweekday() in self.weekdays
        )

    def without(self, day: date) -> "NamedDays":
        """What is left when every word for this day is taken out."""
        return NamedDays(
            relative=self.relative - {day},
            calendar=self.calendar - {day},
            weekdays=self.weekdays - {day.isoweekday()},
            next=self.next,
        )

    def days(self, today: date) -> tuple[date, ...]:
        """The days that may be meant, soonest first; one when the text is clear."""
        upcoming = {day for weekday in self.weekdays for day in _upcoming(weekday, today, after=self.next)}
        fitting = {day for day in self.calendar if not self.weekdays or day.isoweekday() in self.weekdays}
        contradictory = bool(self.calendar) and not fitting
        named = self.calendar | upcoming if contradictory else fitting or upcoming
        return tuple(sorted(self.relative | named))


def normal(text: str) -> str:
    """Without case, accents and needless space, so that "Mâine" and "maine" are one word."""
    bare = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
    return " ".join(bare.casefold().replace("’", "'").split())


def read_days(text: str, today: date) -> tuple[NamedDays, str]:
    """The days named in a text, and what is left of it in normal form."""
    rest, calendar = _read_calendar(_far_ahead().sub(" ", normal(text)), today)
    relative: set[date] = set()
    for pattern, ahead in _relative_patterns():
        rest, hits = pattern.subn(" ", rest)
        relative |= {today + timedelta(days=ahead)} if hits else set()
    weekdays: set[int] = set()
    said_next = False
    for number, pattern in enumerate(_weekday_patterns(), start=1):
        for match in pattern.finditer(rest):
            weekdays.add(number)
            said_next = said_next or bool(match["before"] or match["after"])
        rest = pattern.sub(" ", rest)
    named = NamedDays(
        relative=frozenset(relative), calendar=calendar, weekdays=frozenset(weekdays), next=said_next
    )
    return named, rest


def one_of(phrases: Iterable[str]) -> str:
    """A pattern of any of these phrases as whole words, in normal form, the longest first."""
    return (
        r"\b(?:"
        + "|".join(re.escape(one) for one in sorted(map(normal, phrases), key=len, reverse=True))
        + r")\b"
    )


def _read_calendar(rest: str, today: date) -> tuple[str, frozenset[date]]:
    found: set[date] = set()
    if not any(char.isdigit() for char in rest):
        return rest, frozenset()
    rest = _take(rest, _ISO, _dated(today), found)
    for month, pattern in enumerate(_month_patterns(), start=1):
        rest = _take(rest, pattern, _monthly(month, today), found)
    rest = _take(rest, _DOTTED, _dated(today), found)
    rest = _take(rest, _NTH, lambda match: _nth(int(match["day"] or match["zi"]), today), found)
    return rest, frozenset(found)


def _take(rest: str, pattern: re.Pattern[str], read: _Reading, found: set[date]) -> str:
    """The text without what the pattern finds and can be read as a day; the days go into `found`."""

    def taken(match: re.Match[str]) -> str:
        when = read(match)
        if when is None:
            return match[0]
        found.add(when)
        return " "

    return pattern.sub(taken, rest)


def _dated(today: date) -> _Reading:
    return lambda match: _day(match["year"], match["month"], match["day"], today)


def _monthly(month: int, today: date) -> _Reading:
    return lambda match: _day(match["year"], month, match["day"] or match["then"], today)


def _day(year: str | None, month: str | int, day: str, today: date) -> date | None:
    """That day, of this year or the next where none is said; None where there is no such day."""
    try:
        if year:
            return date(int(year), int(month), int(day))
        this_year = date(today.year, int(month), int(day))
        return this_year if this_year >= today else this_year.replace(year=today.year + 1)
    except ValueError:
        return None


def _nth(number: int, today: date) -> date | None:
    """The next day with that number in its month."""
    coming = (today + timedelta(days=ahead) for ahead in range(62))
    return next((day for day in coming if day.day == number), None)


def _upcoming(weekday: int, today: date, *, after: bool) -> Sequence[date]:
    """The next such weekday, today included; with "next" it may be the coming one or the one after it."""
    coming = today + timedelta(days=(weekday - today.isoweekday()) % 7)
    if not after:
        return (coming,)
    later = coming + timedelta(days=7)
    return (later,) if coming == today else (coming, later)


@cache
def _relative_patterns() -> tuple[tuple[re.Pattern[str], int], ...]:
    return tuple(
        (re.compile(one_of(_grammar(key))), ahead)
        for key, ahead in (("day_after_tomorrow", 2), ("tomorrow", 1), ("today", 0))
    )


@cache
def _far_ahead() -> re.Pattern[str]:
    """ "peste două luni" is in two months, not on a Monday."""
    return re.compile(one_of(_grammar("far_ahead")))


@cache
def _weekday_patterns() -> tuple[re.Pattern[str], ...]:
    following = one_of(_grammar("next"))
    return tuple(
        re.compile(rf"(?P<before>{following} )?{one_of(_grammar('weekdays', index))}(?P<after> {following})?")
        for index in range(7)
    )


@cache
def _month_patterns() -> tuple[re.Pattern[str], ...]:
    """ "3 dec", "the 3rd of December", "December 3"; in May not "la 5 mai târziu", which is "later, at 5"."""
    ending = r"(?:st|nd|rd|th)?"
    return tuple(
        re.compile(
            rf"{_NOT_A_TIME if index == _MAY else _NOT_INSIDE}\b(?P<day>\d{{1,2}}){ending}(?: of)? {month}"
            r"(?: (?P<year>20\d\d))?"
            rf"|{month} (?P<then>\d{{1,2}}){ending}(?![\d:.])\b"
        )
        for index, month in enumerate(one_of(_grammar("months", index)) for index in range(12))
    )


def _grammar(key: str, index: int | None = None) -> list[str]:
    """A word list of every language together."""
    lists = [words(known)["grammar"][key] for known in languages()]
    return [word for one in lists for word in (one if index is None else one[index])]
