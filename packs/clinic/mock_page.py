"""What the mock model reads in the system prompt: the page that prompt.py writes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from typing import Final

from packs.clinic.dates import normal
from packs.clinic.locales import FALLBACK, languages
from shared.locales import load

_SERVICE: Final = re.compile(r"^- ([a-z][a-z0-9_]*): (.+), \d+ min, [\d.]+ [A-Z]{3}; (.+)$", re.MULTILINE)
_TODAY: Final = re.compile(r"^Today: (\d{4}-\d\d-\d\d), (.+)$", re.MULTILINE)
_WEEK: Final = re.compile(r"^- ([^\W\d]+): (closed|\d[\d:, -]+)$", re.MULTILINE)
_CALENDAR: Final = re.compile(r"^(\d{4}-\d\d-\d\d) \S+ (closed|\d[\d:, -]+)(?: \(.+\))?$", re.MULTILINE)

Stretch = tuple[time, time]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The clinic as the prompt describes it."""

    today: date
    language: str
    services: Mapping[str, str]  # code → name in that language
    dentists: Sequence[str]
    calendar: Mapping[date, Sequence[Stretch]]
    week: Mapping[int, Sequence[Stretch]]  # by ISO weekday

    def open_on(self, day: date) -> Sequence[Stretch] | None:
        """The hours of a day, by the calendar or else by its weekday; None where the page says neither."""
        found = self.calendar.get(day)
        return self.week.get(day.isoweekday()) if found is None else found


def read_page(system: str) -> Page | None:
    """The page, or None where the prompt has no clinic in it."""
    today = _TODAY.search(system)
    services = {match[1]: match for match in _SERVICE.finditer(system)}
    if not today or not services:
        return None
    named = [name for match in services.values() for name in match[3].split(", ") if name != "nobody"]
    known = next((known for known in languages() if _has_weekday(known, today[2])), FALLBACK)
    weekdays = list(map(normal, load(known).weekdays))
    return Page(
        today=date.fromisoformat(today[1]),
        language=known,
        services={code: match[2] for code, match in services.items()},
        dentists=list(dict.fromkeys(named)),
        calendar={date.fromisoformat(m[1]): _stretches(m[2]) for m in _CALENDAR.finditer(system)},
        week={
            weekdays.index(normal(match[1])) + 1: _stretches(match[2])
            for match in _WEEK.finditer(system)
            if normal(match[1]) in weekdays
        },
    )


def _has_weekday(known: str, weekday: str) -> bool:
    return normal(weekday) in map(normal, load(known).weekdays)


def _stretches(text: str) -> list[Stretch]:
    if text == "closed":
        return []
    pairs = (one.partition("-") for one in text.split(", "))
    return [(time.fromisoformat(opens), time.fromisoformat(closes)) for opens, _, closes in pairs]
