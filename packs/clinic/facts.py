"""The clinic's facts, as the rules see them, and the words of a refusal. Nothing here decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from functools import cached_property
from zoneinfo import ZoneInfo

Span = tuple[datetime, datetime]


class Why(StrEnum):
    """Why an appointment can't be."""

    UNKNOWN_SERVICE = "unknown_service"
    UNKNOWN_DENTIST = "unknown_dentist"
    NOT_OFFERED = "not_offered"
    IN_THE_PAST = "in_the_past"
    CLOSED = "closed"
    NO_SUCH_TIME = "no_such_time"
    SLOT_TAKEN = "slot_taken"
    OVERLAPS_OWN = "overlaps_own"
    TOO_FAR = "too_far"
    DATE_MISMATCH = "date_mismatch"  # the customer's words name another day


class PartOfDay(StrEnum):
    MORNING = "morning"
    AFTERNOON = "afternoon"
    EVENING = "evening"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    code: str
    names: Mapping[str, str]  # language → name
    minutes: int
    price: str  # decimal, in the practice's currency

    @property
    def length(self) -> timedelta:
        return timedelta(minutes=self.minutes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dentist:
    no: int
    name: str
    services: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """One stretch of a weekday; a lunch break is the gap between two."""

    weekday: int  # ISO: 1 is Monday
    opens: time
    closes: time


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """A booked appointment; whose it is only as far as: the sender's or not."""

    dentist_no: int
    starts_at: datetime
    ends_at: datetime
    mine: bool


@dataclass(frozen=True, kw_only=True)
class Diary:
    """A clinic, and what is booked in the stretch of time it was asked for."""

    name: str
    address: str
    phone: str
    currency: str
    horizon_days: int
    zone: ZoneInfo
    services: Sequence[Service] = ()
    dentists: Sequence[Dentist] = ()
    hours: Sequence[Opening] = ()
    busy: Sequence[Busy] = ()

    @cached_property
    def spans(self) -> dict[int, list[Span]]:
        """What each dentist has booked, in order; the constraint keeps it from overlapping."""
        spans: dict[int, list[Span]] = {}
        for busy in sorted(self.busy, key=lambda one: one.starts_at):
            spans.setdefault(busy.dentist_no, []).append((busy.starts_at, busy.ends_at))
        return spans

    @cached_property
    def own(self) -> list[Span]:
        return sorted((busy.starts_at, busy.ends_at) for busy in self.busy if busy.mine)

    def today(self, now: datetime) -> date:
        return now.astimezone(self.zone).date()

    def last_day(self, now: datetime) -> date:
        return self.today(now) + timedelta(days=self.horizon_days)
