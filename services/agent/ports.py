"""What the agent needs from the outside, by role."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Protocol

from services.agent.core.turn import Pending, Turn
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


class TurnState(StrEnum):
    DONE = "done"
    SUPERSEDED = "superseded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRecord:
    """A handled tool call, as it is stored."""

    n: int
    position: int
    call_id: str
    tool: str
    arguments: str
    decision: str
    reason: str | None
    result: str


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
    confirmations_needed: int


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
    asks: NewAction | None = None
    asks_again: ActionId | None = None
    handoff: str | None = None
    dead: bool = False
    tools: tuple[ToolRecord, ...] = ()
    last_call: CallRecord | None = None  # closed and stored by the same statement, where the commit is plain

    @property
    def plain(self) -> bool:
        """The ordinary turn: one reply of the model, and nothing else."""
        return (
            self.last_call is not None
            and self.text is not None
            and self.state is TurnState.DONE
            and not (self.held or self.ends or self.asks or self.asks_again or self.handoff or self.dead)
            and not (self.tools or self.receipt or self.buttons)
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

    async def spent_today(self, business: BusinessId) -> Decimal:
        """What the business's calls of its local day cost or reserved, in US dollars."""
        ...

    def tenant(self, business: BusinessId, pack: str) -> AbstractAsyncContextManager[Sql]:
        """A transaction of a pack's SQL as the tenant role."""
        ...

    def execution(self, turn: Turn) -> "AbstractAsyncContextManager[Execution]":
        """One transaction for a confirmed action. Raises Conflict when it met another and must be done again whole."""
        ...

    async def executed(self, action: ActionId) -> bool:
        """Whether a receipt of the action exists: asked when a connection was lost at COMMIT."""
        ...


class Execution(Protocol):
    """The steps of a confirmed action inside its transaction."""

    async def lock(self, action: ActionId) -> Pending | None:
        """The row by token and state, then the action, open and as stored now. None: no longer ours to execute."""
        ...

    async def confirm(self, action: ActionId, message: MessageId) -> int:
        """Store one confirmation; how many there are, of different messages."""
        ...

    async def settle_prompt(self, prompt: OutboundId) -> None:
        """A press of its button proves that a prompt arrived."""
        ...

    def tenant(self) -> AbstractAsyncContextManager[Sql]:
        """The pack's SQL, as the tenant role, in this transaction."""
        ...

    async def receipt(self, action: Pending, result: str) -> None: ...

    async def commit(self, commit: Commit) -> Committed: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Metered:
    """A model's answer with the record of the call that brought it."""

    answer: Answer
    record: CallRecord
