"""May this approval be given or declined? Pure, on facts read under the row's lock."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from services.console.core.outcomes import (
    AlreadyDecided,
    InHandoff,
    NotOneLine,
    NotPossible,
    NotWaiting,
    OptedOut,
    TimeOver,
    TooLong,
)
from services.console.core.row import Row
from shared.ids import ActionId, BusinessId, ConversationId
from shared.words import is_blank

REASON_CHARS_MAX: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """An action that waits for an operator, or did."""

    id: ActionId
    business: BusinessId
    conversation: ConversationId
    tool: str
    state: str
    decided: str | None  # approved, declined, expired
    decided_by: str | None
    decided_at: datetime | None
    waits_until: datetime | None
    now: datetime  # business time


@dataclass(frozen=True, slots=True)
class Approve:
    """Yes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decline:
    """No, and why: the customer reads it."""

    why: str


Answer = Approve | Decline


def decide(answer: Answer, approval: Approval, row: Row) -> Answer | NotPossible:
    """The answer as it may be recorded, or why it may not."""
    if approval.decided is not None:
        assert approval.decided_at is not None, "a decision has its time"
        return AlreadyDecided(
            by=approval.decided_by or "the clock", what=approval.decided, at=approval.decided_at
        )
    if approval.state != "operator":
        return NotWaiting(state=approval.state)
    if row.in_handoff:
        return InHandoff()
    if approval.waits_until is not None and approval.now >= approval.waits_until:
        return TimeOver(until=approval.waits_until)
    match answer:
        case Approve():
            return OptedOut() if row.opted_out else answer
        case Decline(why=why):
            return _unfit(why) or answer


def _unfit(why: str) -> NotPossible | None:
    if is_blank(why) or len(why.splitlines()) > 1:
        return NotOneLine()
    return TooLong(most=REASON_CHARS_MAX) if len(why) > REASON_CHARS_MAX else None
