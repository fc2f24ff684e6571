"""Who may take, claim, answer and release a conversation that people answer. Pure, on facts read under its lock."""

from dataclasses import dataclass
from datetime import datetime

from services.console.core.drafts import MESSAGE_CHARS_MAX
from services.console.core.outcomes import (
    AlreadyClaimed,
    Blank,
    HandedOver,
    NotInHandoff,
    NotPossible,
    OptedOut,
    TooLong,
)
from services.console.core.row import Row
from shared.words import is_blank


@dataclass(frozen=True, slots=True, kw_only=True)
class Handoff:
    """The one that is open."""

    reason: str
    opened_at: datetime
    claimed_by: str | None
    claimed_at: datetime | None


@dataclass(frozen=True, slots=True)
class Claim:
    """It becomes this operator's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A person's own words to the customer. Who answers what nobody claimed has claimed it."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The bot answers again. `note`: for whoever looks at it later."""

    note: str | None


@dataclass(frozen=True, slots=True)
class Take:
    """From now on people answer."""


Step = Claim | Reply | Release | Take


def decide(step: Step, handoff: Handoff | None, row: Row) -> Step | NotPossible:
    """The step as it may be recorded, or why it may not. `handoff`: the open one, None where there is none."""
    if isinstance(step, Take):
        return _take(step, handoff) if row.in_handoff else step
    if not row.in_handoff or handoff is None:
        return NotInHandoff()
    match step:
        case Claim():
            if handoff.claimed_by is not None and handoff.claimed_at is not None:
                return AlreadyClaimed(by=handoff.claimed_by, at=handoff.claimed_at)
            return step
        case Reply(text=text):
            return (OptedOut() if row.opted_out else None) or unfit(text) or step
        case Release(note=note):
            return (TooLong(most=MESSAGE_CHARS_MAX) if len(note or "") > MESSAGE_CHARS_MAX else None) or step


def _take(step: Take, handoff: Handoff | None) -> Take | NotPossible:
    if handoff is None:
        return step
    return HandedOver(
        reason=handoff.reason, by=handoff.claimed_by, at=handoff.claimed_at or handoff.opened_at
    )


def unfit(text: str) -> NotPossible | None:
    """Why a text can't be a message, or None."""
    if is_blank(text):
        return Blank()
    return TooLong(most=MESSAGE_CHARS_MAX) if len(text) > MESSAGE_CHARS_MAX else None
