"""The record of turns as answering sees it: commits are kept, an execution is a list of steps that may be undone."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any

from services.agent.core.gate import Dials
from services.agent.core.turn import Pending, Turn
from services.agent.ports import (
    CallRecord,
    Cap,
    Commit,
    Committed,
    Going,
    Locked,
    Receipt,
    Share,
    ToolRecord,
)
from shared.autonomy import Mode
from shared.errors import Conflict, Unavailable
from shared.ids import ActionId, BusinessId, CallId, ConversationId, LeaseToken, MessageId, OutboundId
from shared.packs import NO_SQL, Sql

WRITTEN = Committed(written=True, live=True, again=False)


@dataclass
class MemoryTurns:
    """services.agent.ports.Turns, without claims. `stored` is the pending action as its row has it; None: it ended."""

    stored: Pending | None = None
    ours: bool = True  # the row is still as the turn left it
    dials: Dials = field(default_factory=lambda: Dials(mode=Mode.AUTO))  # as they are now
    barred_by: Cap | None = None  # under which a call does not fit
    answer: Committed = WRITTEN
    going: Going | None = None  # instead of one that lets the turn go on
    stops: bool = False  # the turn is no longer its own before the next call
    conflicts: int = 0  # so many executions meet another transaction first
    lost_at_commit: bool = False  # the connection breaks while COMMIT is under way
    commits: list[Commit] = field(default_factory=list)
    released: list[timedelta] = field(default_factory=list)
    stored_tools: list[ToolRecord] = field(default_factory=list)
    ended_calls: list[CallRecord] = field(default_factory=list)
    reserved: list[Decimal] = field(default_factory=list)
    receipts: dict[ActionId, Receipt] = field(default_factory=dict)
    confirmations: dict[ActionId, set[MessageId]] = field(default_factory=dict)
    settled_prompts: list[OutboundId] = field(default_factory=list)
    pages: set[tuple[BusinessId, bytes]] = field(default_factory=set)
    executing: set[ActionId] = field(default_factory=set)
    executions: int = 0

    async def claim(self, conversations: Sequence[ConversationId], share: Share) -> Sequence[Turn]:
        raise NotImplementedError

    async def due(self, share: Share, *, most: int) -> Sequence[ConversationId]:
        raise NotImplementedError

    async def begin_call(
        self, turn: Turn, call: CallId, *, n: int, try_: int, reserved: Decimal | None, tools: Sequence[ToolRecord]
    ) -> Going | None:  # fmt: skip
        if self.stops:
            return None
        self.stored_tools += tools
        return self.going or Going(
            customer_seq=turn.taken.seq_to, superseded_in_row=0, unanswered_since=None, now=turn.now
        )

    async def reserve(self, turn: Turn, call: CallId, *, n: int, try_: int, reserved: Decimal) -> Cap | None:
        self.reserved.append(reserved)
        return self.barred_by

    async def end_call(self, turn: Turn, call: CallRecord) -> None:
        self.ended_calls.append(call)

    async def commit(self, commit: Commit) -> Committed:
        assert commit.sealed is not None, "a commit carries its evidence"
        self.commits.append(commit)
        return self.answer

    async def release(self, turn: Turn, delay: timedelta) -> None:
        self.released.append(delay)

    async def give_back(self, turn: Turn, delay: timedelta) -> None:
        raise NotImplementedError

    async def heartbeat(self, leases: Sequence[tuple[ConversationId, LeaseToken]]) -> set[LeaseToken]:
        return {token for _, token in leases}

    @asynccontextmanager
    async def _no_sql(self) -> AsyncIterator[Sql]:
        yield NO_SQL

    def tenant(self, business: BusinessId, pack: str) -> AbstractAsyncContextManager[Sql]:
        return self._no_sql()

    @asynccontextmanager
    async def execution(self, turn: Turn) -> AsyncIterator["MemoryExecution"]:
        self.executions += 1
        if self.executions <= self.conflicts:
            raise Conflict("met another")
        execution = MemoryExecution(self)
        yield execution
        execution.keep()
        if self.lost_at_commit:
            raise Unavailable("the connection broke")

    async def receipt_of(self, action: ActionId) -> str | None:
        return self.receipts[action].result if action in self.receipts else None

    async def receipts_of(self, turn: Turn) -> Sequence[Receipt]:
        return list(self.receipts.values())

    async def called(self, turn: Turn) -> frozenset[str]:
        return frozenset(record.tool for record in self.stored_tools)

    async def keep_page(self, business: BusinessId, digest: bytes, page: str) -> None:
        self.pages.add((business, digest))


class MemoryExecution:
    """services.agent.ports.Execution: what it did is kept when its block ends, and forgotten when it raises."""

    def __init__(self, turns: MemoryTurns) -> None:
        self._turns = turns
        self._steps: list[Any] = []
        self._confirmed: set[MessageId] = set()

    async def lock(self, action: ActionId | None) -> Locked | None:
        turns = self._turns
        if not turns.ours:
            return None
        if action is None:
            return Locked(dials=turns.dials, pending=None, confirmations=0)
        if turns.stored is None or turns.stored.id != action:
            return None
        had = len(turns.confirmations.get(action, ()))
        return Locked(dials=turns.dials, pending=turns.stored, confirmations=had)

    async def confirm(self, action: ActionId, message: MessageId) -> int:
        kept = self._turns.confirmations
        self._confirmed.add(message)
        self._steps.append(lambda: kept.setdefault(action, set()).add(message))
        return len(kept.get(action, set()) | self._confirmed)

    async def settle_prompt(self, prompt: OutboundId) -> None:
        self._steps.append(lambda: self._turns.settled_prompts.append(prompt))

    def tenant(self) -> AbstractAsyncContextManager[Sql]:
        return self._turns._no_sql()

    async def receipt(self, receipt: Receipt) -> None:
        self._steps.append(lambda: self._turns.receipts.update({receipt.action: receipt}))

    async def record(self, tool: ToolRecord) -> None:
        self._steps.append(lambda: self._turns.stored_tools.append(tool))

    async def executing(self, action: ActionId) -> None:
        self._steps.append(lambda: self._turns.executing.add(action))

    async def commit(self, commit: Commit) -> Committed:
        assert commit.sealed is not None, "a commit carries its evidence"
        self._steps.append(lambda: self._turns.commits.append(commit))
        return self._turns.answer

    def keep(self) -> None:
        for step in self._steps:
            step()
