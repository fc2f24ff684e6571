"""What the mock model understands of a change: which appointment is meant, and which words are of the new time."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from enum import StrEnum
from typing import Any, Final

from packs.clinic.dates import NamedDays, read_days
from packs.clinic.mock_clock import Clock, read_clock
from packs.clinic.mock_page import Page
from packs.clinic.mock_phrases import find_dentist, find_service, hears, phrases

ORDINALS: Final = ("first", "second", "third")

# Where the new time begins, after the verb: the surest word first. "de la 10", "de pe 4" still tell of the old time.
_TOWARDS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?<!quarter )(?<!minutes )(?<!\d )\bto\b",
        r"(?<!de )\bpe\b",
        r"\b(?:for|until|pentru)\b",
        r"(?<!de )\bla\b",
    )
)


NO_DAY: Final = NamedDays()


class Goal(StrEnum):
    """What the talk is about, if not about a booking."""

    MOVE = "move"
    CANCEL = "cancel"
    RENAME = "rename"


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """How the customer described an appointment of theirs."""

    named: NamedDays = NO_DAY
    clock: Clock | None = None
    service: str | None = None

    def fits(self, mine: "Mine") -> bool:
        """A description that says nothing fits all."""
        return (
            self.named.agrees(mine.day)
            and (self.clock is None or mine.at in self.clock.readings())
            and (self.service is None or self.service == mine.service)
        )

    def __bool__(self) -> bool:
        return bool(self.named or self.clock or self.service)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mine:
    """An appointment of the customer's, as the tool lists it."""

    id: str
    service: str
    dentist: str
    day: date
    at: time
    listed: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A time in a text of ours."""

    day: date
    at: time
    dentist: str | None


def find_goal(normal_text: str) -> Goal | None:
    """The change that a text asks for, but for what it says not to do."""
    rest = phrases("listen", "keep").sub(" ", normal_text)
    if hears("rename", rest):
        return Goal.RENAME
    if hears("move", rest):
        return Goal.MOVE
    return Goal.CANCEL if hears("cancel", rest) else None


def split_move(normal_text: str) -> tuple[str, str]:
    """A request to move, as the part that tells of the old time and the part that tells of the new one."""
    verb = phrases("listen", "move").search(normal_text)
    after = verb.end() if verb else 0
    for towards in _TOWARDS:
        match = towards.search(normal_text, after)
        if match:
            return normal_text[: match.start()], normal_text[match.end() :]
    return normal_text, ""


def read_which(normal_text: str, page: Page) -> Which:
    """The appointment that a text describes."""
    named, rest = read_days(normal_text, page.today)
    return Which(named=named, clock=read_clock(rest, lone=bool(named)), service=find_service(rest, page))


def picked(normal_text: str, offered: str, page: Page) -> Which | None:
    """The one that an answer picks out of those in our text, by its place or with a plain yes to the only one."""
    options = read_options(offered, page)
    place = next((at for at, key in enumerate(ORDINALS) if hears(key, normal_text)), None)
    if place is None and len(options) == 1 and hears("affirm", normal_text):
        place = 0
    if place is None or place >= len(options):
        return None
    option = options[place]
    return Which(
        named=NamedDays(calendar=frozenset({option.day})),
        clock=Clock(hour=option.at.hour, minute=option.at.minute, exact=True),
    )


def read_options(offered: str, page: Page) -> list[Option]:
    """The times in a text of ours, in its order."""
    options = []
    for part in offered.split(";"):
        named, rest = read_days(part, page.today)
        clock = read_clock(rest, lone=False)
        days = named.days(page.today)
        if clock and days:
            at = time(clock.hour, clock.minute)
            options.append(Option(day=days[0], at=at, dentist=find_dentist(rest, page)))
    return options


def read_mine(data: Mapping[str, Any]) -> Sequence[Mine]:
    """The customer's appointments out of the tool's result. Raises KeyError or ValueError for anything else."""
    found = []
    for one in data["appointments"]:
        start = datetime.fromisoformat(one["start"])
        found.append(
            Mine(
                id=one["appointment"],
                service=one["code"],
                dentist=one["dentist"],
                day=start.date(),
                at=start.time(),
                listed=one,
            )
        )
    return found
