"""The steps of an action in Postgres, inside its one transaction."""

from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

from services.agent.adapters.arguments import commit_arguments
from services.agent.adapters.rows import read_committed, read_decision, read_dials
from services.agent.core.turn import Turn
from services.agent.ports import Commit, Committed, Locked, Receipt, ToolRecord
from shared.autonomy import Asked
from shared.database import Queries, Tenant, Transaction, load_queries
from shared.ids import ActionId, MessageId, OutboundId, new_id
from shared.text import storable

QUERIES = load_queries(Path(__file__).with_name("turns.sql"))


class PostgresExecution:
    """services.agent.ports.Execution over one open transaction."""

    def __init__(self, transaction: Transaction, turn: Turn, queries: Queries) -> None:
        self._transaction = transaction
        self._turn = turn
        self._queries = queries

    async def lock(self, action: ActionId | None) -> Locked | None:
        turn = self._turn
        rows = await self._transaction.fetch(QUERIES["lock_row"], turn.conversation, turn.token, turn.epoch)
        if not rows:
            return None
        dials = read_dials(rows[0])
        if action is None:
            return Locked(dials=dials, pending=None, confirmations=0)
        if turn.pending is None or turn.pending.id != action:
            return None
        rows = await self._transaction.fetch(
            QUERIES["lock_action"], turn.conversation, action, turn.pending.waits_for.value
        )
        if not rows:
            return None
        row = rows[0]
        stored = replace(
            turn.pending,
            tool=row["tool"],
            arguments=row["arguments"],
            shown=row["shown"],
            digest=row["digest"],
            summary=row["summary"],
            confirmations_needed=row["confirmations_needed"],
            asked=Asked(row["asked"]),
            step=row["step"],
            repeats=row["repeats"],
            decision=read_decision(row["decided"], row["decided_why"], row["decided_by"]),
            executing=row["executing"],
        )
        return Locked(dials=dials, pending=stored, confirmations=row["confirmations"])

    async def confirm(self, action: ActionId, message: MessageId) -> int:
        rows = await self._transaction.fetch(QUERIES["confirm"], action, self._turn.business.id, message)
        return int(rows[0]["had"])

    async def settle_prompt(self, prompt: OutboundId) -> None:
        await self._transaction.fetch(QUERIES["settle_prompt"], prompt)

    def tenant(self) -> AbstractAsyncContextManager[Tenant]:
        return self._transaction.tenant(self._turn.business.id, self._queries)

    async def receipt(self, receipt: Receipt) -> None:
        await self._transaction.fetch(
            QUERIES["receipt"],
            new_id(),
            self._turn.business.id,
            self._turn.conversation,
            receipt.action,
            self._turn.id,
            receipt.tool,
            receipt.digest,
            receipt.result,
        )

    async def record(self, tool: ToolRecord) -> None:
        await self._transaction.fetch(
            QUERIES["record_tool"],
            self._turn.id,
            self._turn.business.id,
            tool.n,
            tool.position,
            storable(tool.call_id),
            storable(tool.tool),
            storable(tool.arguments),
            tool.decision,
            tool.reason,
            tool.result,
            tool.why,
        )

    async def executing(self, action: ActionId) -> None:
        await self._transaction.fetch(QUERIES["executing"], action)

    async def commit(self, commit: Commit) -> Committed:
        return read_committed(
            await self._transaction.fetch(QUERIES["commit_full"], *commit_arguments(commit))
        )
