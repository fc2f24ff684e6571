"""What the agent needs from the outside, by role."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Protocol

from services.agent.core.gate import Dials
from services.agent.core.turn import Pending, Turn, WaitsFor
from shared.autonomy import Asked
from shared.ids import (
    ActionId,
    BusinessId,
    CallId,
    ConversationId,
    LeaseToken,
    MessageId,
    OutboundId,
)
from shared.llm.port import Answer
from shared.packs import Sql


class Cap(StrEnum):
    """What limits what model calls may cost."""

    TURN = "turn"
    CONVERSATION = "conversation"  # in 24 rolling hours
    DAY = "day"  # the business's own


class TurnState(StrEnum):
    DONE = "done"
    SUPERSEDED = "superseded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRecord:
    """A handled tool call, as it is stored. `why` and `result` are canonical JSON."""

    n: int
    position: int
    call_id: str
    tool: str
    arguments: str
    decision: str
    reason: str | None
    result: str
    why: str = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The proof that an action ran."""

    action: ActionId
    tool: str
    digest: bytes
    result: str  # canonical JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What a turn did on its way to its outcome, for the evidence: everything, also what an earlier attempt stored."""

    page: bytes | None = None  # digest of what the prompt said of the business
    answers: tuple[str, ...] = ()  # the model's, as JSON
    tools: tuple[ToolRecord, ...] = ()
    receipts: tuple[Receipt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """What came of one attempt at the provider. `answer` is the iteration to store, if there is one."""

    id: CallId
    n: int
    state: str
    model: str | None
    input: int
    cached: int
    output: int
    reasoning: int
    cost_usd: Decimal | None
    latency_ms: int
    finish: str | None
    error: str | None
    answer: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Going:
    """The turn may go on: what the row says before the next call."""

    customer_seq: int
    superseded_in_row: int
    unanswered_since: datetime | None
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAction:
    """A pending action to store; its prompt is the turn's reply."""

    id: ActionId
    tool: str
    arguments: str
    shown: str
    digest: bytes
    summary: str
    confirmations_needed: int
    asked: Asked = Asked.CUSTOMER
    call_n: int | None = None  # of the turn's call that asked for it
    call_position: int | None = None

    @property
    def waits_for(self) -> WaitsFor:
        return WaitsFor.OPERATOR if self.asked is Asked.OPERATOR else WaitsFor.CUSTOMER


@dataclass(frozen=True, slots=True, kw_only=True)
class AsksAgain:
    """The pending action's question goes out once more: the same step, or its next one."""

    action: ActionId
    step: int
    repeats: int
    clock_from: datetime | None  # from when the step's fifteen minutes count; None: from the new sending


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A turn's evidence, ready to be stored: place in the conversation's chain, header, its digest, and parts."""

    n: int
    header: str
    digest: bytes
    parts: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What a turn came to. Everything in it is written in one statement, or nothing."""

    turn: Turn
    seq_to: int
    state: TurnState
    outcome: str
    outbound: OutboundId | None = None
    text: str | None = None
    buttons: str | None = None
    receipt: bool = False
    held: str | None = None
    ends: ActionId | None = None
    ends_as: str | None = None
    ends_because: str | None = None
    ends_result: str | None = None  # what the call that asked for it came to after all, as JSON
    asks: NewAction | None = None
    asks_again: AsksAgain | None = None
    to_operator: ActionId | None = None  # what the customer confirmed waits for an operator now
    handoff: str | None = None
    dead: bool = False
    flag: str | None = None  # a person should look at the turn's last message
    tools: tuple[ToolRecord, ...] = ()  # not stored yet
    last_call: CallRecord | None = None  # closed and stored by the same statement, where the commit is plain
    trace: Trace = field(default_factory=Trace)
    sealed: Sealed | None = None

    @property
    def plain(self) -> bool:
        """The ordinary turn: one reply of the model, and nothing else; no cap, of which the call's reservation is settled."""
        return (
            self.last_call is not None
            and self.text is not None
            and self.state is TurnState.DONE
            and not (self.held or self.ends or self.asks or self.asks_again or self.handoff or self.dead)
            and not (self.tools or self.receipt or self.buttons or self.flag or self.turn.decides)
            and not self.turn.business.caps.any
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """Whether the commit was written (the lease was ours), whether its reply goes out, and whether more is owed."""

    written: bool
    live: bool
    again: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """How many turns each business has under way here, and how many one may have."""

    most: int
    under_way: dict[BusinessId, int] = field(default_factory=dict)


class Turns(Protocol):
    """The record of turns. Every method raises Unavailable when it can't be reached."""

    async def claim(self, conversations: Sequence[ConversationId], share: Share) -> Sequence[Turn]:
        """Lease what is due; the others are missing, and go on being owed."""
        ...

    async def due(self, share: Share, *, most: int) -> Sequence[ConversationId]:
        """What is owed a turn now, oldest first, none of a business that has its share under way."""
        ...

    async def begin_call(
        self,
        turn: Turn,
        call: CallId,
        *,
        n: int,
        try_: int,
        reserved: Decimal | None,
        tools: Sequence[ToolRecord],
    ) -> Going | None:
        """Before a model call: tool results and the call's row stored, the lease goes on. None: stop, nothing was written."""
        ...

    async def reserve(self, turn: Turn, call: CallId, *, n: int, try_: int, reserved: Decimal) -> Cap | None:
        """The cap under which a call that may cost so much does not fit; None: it fits, and its row is written and counted."""
        ...

    async def end_call(self, turn: Turn, call: CallRecord) -> None:
        """After a model call: its row closed in every case, its answer stored while the lease is ours."""
        ...

    async def commit(self, commit: Commit) -> Committed: ...

    async def release(self, turn: Turn, delay: timedelta) -> None:
        """Give the lease back; the attempt does not count."""
        ...

    async def give_back(self, turn: Turn, delay: timedelta) -> None:
        """Give the lease back after a failure; the attempt counts."""
        ...

    async def heartbeat(self, leases: Sequence[tuple[ConversationId, LeaseToken]]) -> set[LeaseToken]:
        """All leases go on; those still ours."""
        ...

    def tenant(self, business: BusinessId, pack: str) -> AbstractAsyncContextManager[Sql]:
        """A transaction of a pack's SQL as the tenant role."""
        ...

    def execution(self, turn: Turn) -> "AbstractAsyncContextManager[Execution]":
        """One transaction for a confirmed action. Raises Conflict when it met another and must be done again whole."""
        ...

    async def receipt_of(self, action: ActionId) -> str | None:
        """The result in the action's receipt: asked when a connection was lost at COMMIT. None: it did not run."""
        ...

    async def receipts_of(self, turn: Turn) -> Sequence[Receipt]:
        """What the turn did so far, whichever attempt did it, in order."""
        ...

    async def called(self, turn: Turn) -> frozenset[str]:
        """The tools whose calls the turn stored so far, run or not, whichever attempt made them."""
        ...

    async def keep_page(self, business: BusinessId, digest: bytes, page: str) -> None:
        """What prompts say of the business, for the evidence; again is a no-op."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """The row is ours, and this is how things stand now."""

    dials: Dials
    pending: Pending | None  # the action asked for, as stored now
    confirmations: int  # that it has had


class Execution(Protocol):
    """The steps of an action inside its transaction."""

    async def lock(self, action: ActionId | None) -> Locked | None:
        """The row by token and state, then the action, open and as stored now. None: no longer ours to execute."""
        ...

    async def confirm(self, action: ActionId, message: MessageId) -> int:
        """Store one confirmation; how many there are, of different messages."""
        ...

    async def settle_prompt(self, prompt: OutboundId) -> None:
        """A press of its button, or a quote, proves that a prompt arrived."""
        ...

    def tenant(self) -> AbstractAsyncContextManager[Sql]:
        """The pack's SQL, as the tenant role, in this transaction."""
        ...

    async def receipt(self, receipt: Receipt) -> None: ...

    async def record(self, tool: ToolRecord) -> None:
        """An allowed call's result, stored with its receipt; of one that was stored as executing, its result."""
        ...

    async def executing(self, action: ActionId) -> None:
        """An effect outside the record is called for next: whoever finds the action so does not repeat it."""
        ...

    async def commit(self, commit: Commit) -> Committed: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Metered:
    """A model's answer with the record of the call that brought it."""

    answer: Answer
    record: CallRecord
