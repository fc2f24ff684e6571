"""What the clock brings about in a handoff that nobody claims: when operators are reminded, when the customer is told. Pure.

Both are reckoned in opening time: at night, over lunch and on a holiday the clock stands still.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from shared.ids import BusinessId, ConversationId

HORIZON: Final = timedelta(days=31)  # so far ahead opening hours are asked for

Span = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a handoff's reason has to do with the clock."""

    reminds: bool  # operators
    tells: bool  # the customer


# By reason; every other has both. The owner is there already; a machine at the other end is handed over silently.
RULES: Final[Mapping[str, Rule]] = {
    "owner_takeover": Rule(reminds=False, tells=False),
    "loop": Rule(reminds=True, tells=False),
}
PLAIN: Final = Rule(reminds=True, tells=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unset:
    """An open handoff whose times are not reckoned yet."""

    conversation: ConversationId
    epoch: int
    reason: str
    opened_at: datetime
    business: BusinessId
    slug: str
    pack: str
    time_zone: str
    locale: str  # the business's first
    now: datetime
    remind_after: timedelta  # of opening time
    tell_after: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """When a handoff's clock strikes; None: not at all."""

    remind_at: datetime | None
    tell_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unclaimed:
    """An open handoff that nobody claimed, at one version of its conversation's row, one of its times past."""

    conversation: ConversationId
    epoch: int
    version: int
    slug: str
    reason: str
    locale: str
    now: datetime
    remind_at: datetime | None
    reminded_at: datetime | None
    tell_at: datetime | None
    told_at: datetime | None
    answered: bool  # a person has written to the customer since
    opted_out: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """What is done now. `drops`: the customer need not be told any more."""

    reminds: bool = False
    tells: bool = False
    drops: bool = False


def times_of(unset: Unset, spans: Sequence[Span]) -> Times:
    """When the clock of a handoff strikes, by the opening hours between its beginning and the horizon."""
    rule = RULES.get(unset.reason, PLAIN)
    return Times(
        remind_at=passed(unset.opened_at, unset.remind_after, spans) if rule.reminds else None,
        tell_at=passed(unset.opened_at, unset.tell_after, spans) if rule.tells else None,
    )


def passed(begins: datetime, opening_time: timedelta, spans: Sequence[Span]) -> datetime:
    """The instant by which so much opening time has passed since `begins`, in UTC; the horizon's end if that comes first.

    A business that is never open within the horizon has not said when it is: its clock never stands still.
    """
    begins = begins.astimezone(UTC)
    left, opened = opening_time, False
    for opens, closes in _apart(spans, since=begins):
        opened = True
        if closes - opens >= left:
            return opens + left
        left -= closes - opens
    return begins + HORIZON if opened else begins + opening_time


def strike(unclaimed: Unclaimed) -> Strike:
    """Each once: remind operators; tell the customer, unless a person has answered or they want no more of us."""
    tell_due = unclaimed.told_at is None and _is_past(unclaimed.tell_at, unclaimed.now)
    tells = tell_due and not unclaimed.answered and not unclaimed.opted_out
    return Strike(
        reminds=unclaimed.reminded_at is None and _is_past(unclaimed.remind_at, unclaimed.now),
        tells=tells,
        drops=tell_due and not tells,
    )


def _is_past(at: datetime | None, now: datetime) -> bool:
    return at is not None and at <= now


def _apart(spans: Iterable[Span], *, since: datetime) -> Iterator[Span]:
    """The spans after an instant in order, none counted twice. In UTC: between two local times of one zone Python reckons
    by the wall clock, which jumps twice a year."""
    for opens, closes in sorted((opens.astimezone(UTC), closes.astimezone(UTC)) for opens, closes in spans):
        start = max(opens, since)
        if start < closes:
            yield start, closes
            since = closes
