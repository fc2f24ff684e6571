"""What waits for operators, as values: a list's entries, and how short names of things are made and read. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from services.console.core.drafts import Seen
from shared.ids import ActionId, ConversationId, OutboundId

SHORT_HEX: Final = 12  # the time of an id to the millisecond: later ids don't make it ambiguous
PREFIX_HEX_MIN: Final = 6
_HEX: Final = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Whom it is about."""

    business: str  # slug
    conversation: ConversationId
    name: str | None
    address: str  # on the channel: a telephone number, mostly
    channel: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingDraft:
    id: OutboundId
    person: Person
    reason: str | None
    text: str
    seen: Seen
    receipt: bool
    parts: int
    parts_sent: int
    summary: str | None  # of a prompt: the system's words, which stay
    tool: str | None
    may_have_left: bool
    since: datetime
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingApproval:
    id: ActionId
    person: Person
    tool: str
    summary: str
    confirmed: bool  # the customer said yes already
    since: datetime
    until: datetime | None
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingHandoff:
    person: Person
    reason: str
    claimed_by: str | None
    said: str | None  # the last words of the customer
    since: datetime
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A thing whose id begins so. `rank`: 0 for what waits, more for what does less."""

    id: UUID
    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Every id that begins so lies between these two, and no other."""

    first: UUID
    last: UUID


def prefix_range(text: str) -> Range | None:
    """The ids that begin with the text's hex digits, dashes aside; None for what is no such beginning."""
    digits = text.replace("-", "").lower()
    if not PREFIX_HEX_MIN <= len(digits) <= 32 or not set(digits) <= _HEX:
        return None
    return Range(first=UUID(hex=digits.ljust(32, "0")), last=UUID(hex=digits.ljust(32, "f")))


def the_one(matches: Iterable[Match]) -> UUID | None:
    """The only one of the best rank; None where there is none, or more than one."""
    found = sorted(matches, key=lambda one: one.rank)
    best = [one for one in found if one.rank == found[0].rank]
    return best[0].id if len(best) == 1 else None


def short(id_: UUID, among: Sequence[UUID]) -> str:
    """The beginning of an id that tells it from the others."""
    length = SHORT_HEX
    while any(other != id_ and other.hex[:length] == id_.hex[:length] for other in among):
        length += 1
    whole, digits = str(id_), 0
    for at, character in enumerate(whole):
        digits += character != "-"
        if digits == length:
            return whole[: at + 1]
    raise AssertionError("an id has 32 digits")
