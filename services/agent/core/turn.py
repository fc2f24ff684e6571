"""The nouns of a turn. No I/O here, and no clock."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from zoneinfo import ZoneInfo

from services.agent.core.gate import Dials
from services.agent.core.heard import Heard, Taken, take
from shared.autonomy import Asked, Mode
from shared.ids import (
    ActionId,
    BusinessId,
    CallId,
    ConversationId,
    CustomerId,
    LeaseToken,
    OutboundId,
    TurnId,
)
from shared.messages import Verdict

NOT_SAID = frozenset({"superseded", "discarded", "draft"})  # replies that the customer never saw


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An outbound of the conversation, for the history."""

    state: str
    text: str
    basis_seq: int
    created_at: datetime
    firm: bool = False  # no newer message supersedes it: it carries a receipt, or no turn made it
    asked_at: datetime | None = None  # when the oldest message that it answers was received

    @property
    def was_said(self) -> bool:
        """Whether the customer saw it or will. What is queued when they write again is superseded, and answered anew."""
        return self.state not in NOT_SAID and (self.firm or self.state != "queued")


class PromptState(StrEnum):
    """How far the prompt of a pending action has come."""

    DRAFT = "draft"
    QUEUED = "queued"
    SENDING = "sending"
    UNKNOWN = "unknown"
    SENT = "sent"


class WaitsFor(StrEnum):
    """Who has to say something about a pending action."""

    CUSTOMER = "customer"
    OPERATOR = "operator"


class Decided(StrEnum):
    """What became of an approval."""

    APPROVED = "approved"
    DECLINED = "declined"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """An operator's, or the clock's, on an action that waited for approval."""

    decided: Decided
    reason: str | None  # for the customer, in the operator's words
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The message that asks the customer, at the step that is asked now."""

    outbound: OutboundId
    state: PromptState
    at_send_seq: int | None  # the last seq given when its sending was claimed
    sent_at: datetime | None  # when its sending was claimed
    taken_at: datetime | None = None  # by the channel, when it took it
    provider_ids: frozenset[str] = frozenset()  # what a quote of it names; of the same question before, too


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A write that waits for a person. `shown` and `arguments` are canonical JSON; the digest covers both and the tool."""

    id: ActionId
    tool: str
    arguments: str
    shown: str
    digest: bytes
    summary: str  # what its prompt asks about, in the system's words
    confirmations_needed: int
    asked: Asked
    waits_for: WaitsFor
    at_seq: int  # the last seq given when its prompt was made
    step: int = 1  # the confirmation that is asked for now
    repeats: int = 0  # how often this step's question was asked again
    clock_from: datetime | None = None  # the first sending of this step's question, where it was asked again
    prompt: Prompt | None = None  # None: it ended, or there is none, as an operator alone is asked
    executing: bool = False  # its effect outside the record was called for, and nobody knows what came of it
    decision: Decision | None = None

    @property
    def asked_at(self) -> datetime | None:
        """From when its fifteen minutes count."""
        return self.clock_from or (self.prompt.sent_at if self.prompt else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """What became of an action of the conversation's last day: the model is told, as a call's result."""

    tool: str
    arguments: str
    state: str
    reason: str | None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """What model calls may cost in US dollars; None: no cap."""

    turn_usd: Decimal | None = None
    conversation_usd: Decimal | None = None  # in 24 rolling hours
    day_usd: Decimal | None = None  # of the business's local day

    @property
    def any(self) -> bool:
        return not (self.turn_usd is None and self.conversation_usd is None and self.day_usd is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Business:
    """The tenant as the turn needs it."""

    id: BusinessId
    slug: str
    name: str
    pack: str
    engine: str
    locales: tuple[str, ...]
    zone: ZoneInfo
    stale_after: timedelta
    caps: Caps


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCall:
    """A tool call of an earlier attempt, with what it came to."""

    n: int
    position: int
    call_id: str
    tool: str
    decision: str
    reason: str | None
    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Where the conversation's evidence ends: how many envelopes it has, and the last one's digest."""

    length: int = 0
    head: bytes | None = None


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A claimed turn with all that it needs. `attempt` counts claims; `fruitless` those since something was last stored."""

    id: TurnId
    conversation: ConversationId
    token: LeaseToken
    business: Business
    customer: CustomerId
    customer_name: str | None = None
    locale: str
    dials: Dials
    epoch: int
    attempt: int
    fruitless: int
    now: datetime
    waited: timedelta = timedelta()  # from when it was due to its claim
    messages: tuple[Heard, ...]  # history and new ones, by seq
    handled_seq: int
    replies: tuple[Reply, ...] = ()
    pending: Pending | None = None
    dropped: ActionId | None = (
        None  # waited, but what it came from was edited or deleted: it ends with this turn
    )
    decides: bool = False  # the turn is for a decision on the pending action, and takes no message
    earlier: tuple[Earlier, ...] = ()
    chain: Chain = field(default_factory=Chain)
    open_call: CallId | None = None
    stored_answers: tuple[str, ...] = ()  # of earlier attempts, the first iterations in order
    stored_calls: tuple[StoredCall, ...] = ()
    calls_to_hear: int = 0  # of the model's, made for the words of its media before it was understood

    @property
    def mode(self) -> Mode:
        return self.dials.mode

    @cached_property
    def taken(self) -> Taken:
        if self.decides:
            return Taken(seq_to=self.handled_seq)
        return take(self.messages, after=self.handled_seq)

    @property
    def said_since_the_prompt(self) -> bool:
        """Whether the customer wrote something between the pending action's prompt and this turn."""
        prompt = self.pending.prompt if self.pending else None
        if prompt is None or prompt.at_send_seq is None:
            return False
        return any(
            prompt.at_send_seq < one.seq < self.taken.first_seq
            and one.verdict is Verdict.TURN
            and not one.unsupported
            for one in self.messages
        )

    @property
    def presses_again(self) -> bool:
        """The same button as in the customer's message before, which was answered: pressed twice is once."""
        press = self.taken.button
        before = [
            one for one in self.messages if one.seq < self.taken.first_seq and one.verdict is Verdict.TURN
        ]
        again = press is not None and bool(press.button and before) and before[-1].button == press.button
        # What is queued still leaves: no reply gives way to a press.
        return again and not (self.left_unsaid and self.replies[-1].state == "superseded")

    @property
    def left_unsaid(self) -> bool:
        """Whether our last reply never reaches the customer, who wrote again before it left: this turn answers both."""
        last = self.replies[-1] if self.replies else None
        return last is not None and not last.firm and last.state in ("queued", "superseded")

    @property
    def asked_at(self) -> datetime | None:
        """When the oldest message that its reply answers was received, of those too whose answer never left. None: it is for a
        decision, and nobody waited for an answer alone."""
        received = [one.received_at for one in self.taken.messages]
        if received and self.left_unsaid and self.replies[-1].asked_at is not None:
            received.append(self.replies[-1].asked_at)
        return min(received, default=None)

    @property
    def is_late(self) -> bool:
        """Nobody is answered at three in the morning about yesterday."""
        newest = max((one.received_at for one in self.taken.messages), default=self.now)
        return self.now - newest > self.business.stale_after
