"""The clinic's facts, as the rules see them, and the words of a refusal. Nothing here decides."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from functools import cached_property
from uuid import UUID
from zoneinfo import ZoneInfo

Span = tuple[datetime, datetime]


class Why(StrEnum):
    """Why it can't be."""

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
    DENTIST_AWAY = "dentist_away"
    NO_SUCH_APPOINTMENT = "no_such_appointment"  # or another's: nobody can tell which
    APPOINTMENT_PAST = "appointment_past"
    APPOINTMENT_CANCELLED = "appointment_cancelled"
    APPOINTMENT_CHANGED = "appointment_changed"  # since it was shown
    SAME_TIME = "same_time"
    IMPLAUSIBLE_NAME = "implausible_name"
    SAME_NAME = "same_name"


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
    """A booked or held stretch; whose it is only as far as: the sender's or not."""

    dentist_no: int
    starts_at: datetime
    ends_at: datetime
    mine: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Away:
    """A dentist's time off."""

    dentist_no: int
    starts_at: datetime
    ends_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Appointment:
    """One of the sender's own."""

    id: UUID
    service: str
    names: Mapping[str, str]  # the service's: language → name
    dentist: str
    starts_at: datetime


@dataclass(frozen=True, kw_only=True)
class Diary:
    """A clinic, and what is taken in the stretch of time it was asked for."""

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
    away: Sequence[Away] = ()
    holidays: Mapping[date, Mapping[str, str]] = field(default_factory=dict)  # local day → names
    holds: bool = False  # a proposed booking keeps its slot for a while

    @cached_property
    def spans(self) -> dict[int, list[Span]]:
        """When each dentist can't, booked, held or away: in order and apart."""
        return _spans((*self.busy, *self.away))

    @cached_property
    def off(self) -> dict[int, list[Span]]:
        """When each dentist is away: in order and apart."""
        return _spans(self.away)

    @cached_property
    def own(self) -> list[Span]:
        return sorted((busy.starts_at, busy.ends_at) for busy in self.busy if busy.mine)

    def today(self, now: datetime) -> date:
        return now.astimezone(self.zone).date()

    def last_day(self, now: datetime) -> date:
        return self.today(now) + timedelta(days=self.horizon_days)


def merged(spans: Iterable[Span]) -> list[Span]:
    """The same time in order and apart."""
    apart: list[Span] = []
    for begins, ends in sorted(spans):
        if apart and begins <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(apart[-1][1], ends))
        else:
            apart.append((begins, ends))
    return apart


def _spans(stretches: Iterable[Busy | Away]) -> dict[int, list[Span]]:
    spans: dict[int, list[Span]] = {}
    for one in stretches:
        spans.setdefault(one.dentist_no, []).append((one.starts_at, one.ends_at))
    return {no: merged(taken) for no, taken in spans.items()}
