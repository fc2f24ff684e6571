"""May this draft be sent, edited or discarded as the operator wishes? Pure, on facts read under the row's lock."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from services.console.core.outcomes import (
    AlreadyDecided,
    Blank,
    CustomerWrote,
    DryRunRefused,
    MayHaveArrived,
    MovedOn,
    NotJudgedYet,
    NotPossible,
    OptedOut,
    RequestClosed,
    SummaryChanged,
    TextChanged,
    TooLong,
)
from services.console.core.row import Row
from shared.digest import text_digest
from shared.ids import ActionId, BusinessId, ConversationId, CustomerId, OutboundId
from shared.messages import PROMPT_CHARS_MAX
from shared.words import is_blank

PROMPT_KEPT_FOR: Final = timedelta(hours=24)
PROMPT_FRESH_FOR: Final = timedelta(minutes=15)
MESSAGE_CHARS_MAX: Final = 10_000
CODE_CHARS: Final = 6


class Wish(StrEnum):
    """What an operator wants of a draft; as stored in its decision."""

    SEND = "send"
    EDIT = "edit"  # and send
    DISCARD = "discard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The draft as the operator saw it."""

    round: int
    digest: bytes  # text_digest of its text

    @property
    def code(self) -> str:
        """Both in a few characters, for lists and buttons: it names what was seen, it protects nothing."""
        return hashlib.sha256(f"{self.round}:".encode() + self.digest).hexdigest()[:CODE_CHARS]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One wish about one draft. `text`: the edited one. `knowing`: that it may have arrived, and must go all the same."""

    draft: OutboundId
    wish: Wish
    seen: Seen
    by: str
    text: str | None = None
    knowing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The action that a draft asks the customer about."""

    id: ActionId
    customer: CustomerId
    tool: str
    arguments: str
    digest: bytes
    summary: str  # the system's words, which no edit may change
    state: str
    asked_by_this: bool  # the draft is the action's present prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One that was made about the round that the operator saw."""

    what: Wish
    by: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A reply that may wait for an operator, and everything that bears on it."""

    id: OutboundId
    business: BusinessId
    conversation: ConversationId
    state: str
    reason: str | None
    round: int
    body: str
    basis_seq: int
    operators_own: bool  # written by a person: nothing that the customer writes supersedes it
    receipt: bool
    may_have_left: bool
    created_at: datetime
    now: datetime  # business time
    request: Request | None
    decision: Decision | None

    @property
    def is_prompt(self) -> bool:
        """Whether its sending asks the customer to confirm; what waits for an operator ends with no draft."""
        return self.request is not None and self.request.asked_by_this and self.request.state == "customer"

    @property
    def age(self) -> timedelta:
        return self.now - self.created_at


@dataclass(frozen=True, slots=True)
class Passes:
    """The dry run: the action could run now, with all that its prompt shows."""


@dataclass(frozen=True, slots=True)
class Fails:
    """The dry run: why it could not."""

    why: str


DryRun = Passes | Fails


@dataclass(frozen=True, slots=True)
class Queue:
    """It goes out, in its next round. `text`: as edited."""

    text: str | None


@dataclass(frozen=True, slots=True)
class Discard:
    """It never goes out; the action it asks about ends with it."""


@dataclass(frozen=True, slots=True)
class Expire:
    """A prompt that waited too long: its action is over, and it with it."""


@dataclass(frozen=True, slots=True)
class RunDry:
    """The prompt is no longer fresh, and nobody looked whether its action could still run."""


Verdict = Queue | Discard | Expire | RunDry | NotPossible


def named(code: str | None, there: Sequence[Seen]) -> Seen:
    """What a code names of the texts that there were, the present one first; without a code, the present one.

    A code of none of them names a text that nobody has: it was changed.
    """
    if code is None:
        return there[0] if there else Seen(round=0, digest=b"")
    unknown = Seen(round=there[0].round if there else 0, digest=b"")
    return next((one for one in there if one.code == code.lower()), unknown)


def needs_dry_run(order: Order, draft: Draft) -> bool:
    """Whether the draft is a prompt that may be sent only after a look at what it asks."""
    return order.wish is not Wish.DISCARD and draft.is_prompt and draft.age > PROMPT_FRESH_FOR


def decide(order: Order, draft: Draft, row: Row, dry_run: DryRun | None) -> Verdict:
    """What the order comes to. The draft's own state speaks first, then the customer's will, then the request's."""
    if (stale := _stale(order, draft)) is not None:
        return stale
    if order.wish is Wish.DISCARD:
        return Discard()
    return (
        _customers_will(draft, row)
        or _request(order, draft, dry_run)
        or _text(order, draft)
        or (MayHaveArrived() if draft.may_have_left and not order.knowing else None)
        or Queue(text=order.text)
    )


def _stale(order: Order, draft: Draft) -> NotPossible | None:
    if draft.decision is not None:
        one = draft.decision
        return AlreadyDecided(by=one.by, what=one.what.value, at=one.at)
    if draft.state != "draft":
        return MovedOn(state=draft.state)
    if draft.round != order.seen.round or text_digest(draft.body) != order.seen.digest:
        return TextChanged(round=draft.round, text=draft.body)
    return None


def _customers_will(draft: Draft, row: Row) -> NotPossible | None:
    if row.opted_out:
        return OptedOut()
    if row.unguarded:
        return NotJudgedYet()
    stays = draft.operators_own or draft.receipt or (draft.is_prompt and draft.may_have_left)
    return CustomerWrote() if row.customer_seq > draft.basis_seq and not stays else None


def _request(order: Order, draft: Draft, dry_run: DryRun | None) -> Expire | RunDry | NotPossible | None:
    if draft.request is None or draft.request.state == "operator":
        return None
    if not draft.is_prompt:
        return RequestClosed(state=draft.request.state)
    if draft.age > PROMPT_KEPT_FOR:
        return Expire()
    if not needs_dry_run(order, draft):
        return None
    match dry_run:
        case None:
            return RunDry()
        case Fails(why=why):
            return DryRunRefused(why=why)
        case Passes():
            return None


def _text(order: Order, draft: Draft) -> NotPossible | None:
    if order.text is None:
        return None
    if is_blank(order.text):
        return Blank()
    most = PROMPT_CHARS_MAX if draft.is_prompt else MESSAGE_CHARS_MAX
    if len(order.text) > most:
        return TooLong(most=most)
    if draft.is_prompt and draft.request is not None:
        summary = draft.request.summary
        if not summary or summary not in order.text:
            return SummaryChanged(summary=summary)
    return None
