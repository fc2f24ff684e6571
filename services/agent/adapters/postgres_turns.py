"""The record of turns in Postgres: claims, calls and plain commits in batches over arrays; the rest one by one."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from services.agent.adapters.arguments import commit_arguments, sealed_of, tool_arrays
from services.agent.adapters.postgres_execution import PostgresExecution
from services.agent.adapters.rows import NOT_WRITTEN, read_committed, read_turn
from services.agent.core.turn import Turn
from services.agent.ports import (
    CallRecord,
    Cap,
    Commit,
    Committed,
    Going,
    Receipt,
    Share,
    ToolRecord,
)
from shared.database import Database, Queries, load_queries
from shared.ids import (
    ActionId,
    BusinessId,
    CallId,
    ConversationId,
    LeaseToken,
    new_id,
    random_token,
)
from shared.packs import Sql
from shared.text import storable
from shared.work.batches import Batcher, Repeated, untold
from shared.work.presence import Presence

QUERIES = load_queries(Path(__file__).with_name("turns.sql"))
BATCH_MOST = 100

Begin = tuple[Turn, CallId, int, int, Decimal | None, Sequence[ToolRecord]]
End = tuple[Turn, CallRecord]


class PostgresTurns:
    """`run` must run beside it. `pack_queries` are each pack's named queries, by the pack's name; `repeated` is told of batches
    that are repeated item by item."""

    def __init__(
        self,
        database: Database,
        *,
        presence: Presence,
        pack_queries: Mapping[str, Queries],
        provider: str,
        model: str,
        lease: timedelta,
        repeated: Repeated = untold,
    ) -> None:
        self._database = database
        self._presence = presence
        self._pack_queries = pack_queries
        self._provider = provider
        self._model = model
        self._lease = lease
        self._begins: Batcher[Begin, Going | None] = Batcher(
            self._begin_calls, most=BATCH_MOST, repeated=repeated
        )
        self._ends: Batcher[End, None] = Batcher(self._end_calls, most=BATCH_MOST, repeated=repeated)
        self._plain: Batcher[Commit, Committed] = Batcher(
            self._commit_plain, most=BATCH_MOST, repeated=repeated
        )

    @property
    def batchers(self) -> Sequence[Batcher[Any, Any]]:
        """What must run beside this."""
        return (self._begins, self._ends, self._plain)

    async def claim(self, conversations: Sequence[ConversationId], share: Share) -> Sequence[Turn]:
        wanted = list(dict.fromkeys(conversations))
        rows = await self._database.fetch(
            QUERIES["claim"],
            wanted,
            [random_token() for _ in wanted],
            [new_id() for _ in wanted],
            [new_id() for _ in wanted],
            self._presence.number,
            self._lease,
            self._provider,
            self._model,
            list(share.under_way.keys()),
            list(share.under_way.values()),
            share.most,
        )
        return [read_turn(row, model=self._model) for row in rows]

    async def due(self, share: Share, *, most: int) -> Sequence[ConversationId]:
        rows = await self._database.fetch(
            QUERIES["due"], most, list(share.under_way.keys()), list(share.under_way.values()), share.most
        )
        return [row["conversation"] for row in rows]

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
        return await self._begins.submit((turn, call, n, try_, reserved, tools))

    async def _begin_calls(self, begins: Sequence[Begin]) -> Sequence[Going | None]:
        rows = await self._database.fetch(
            QUERIES["begin_call"],
            [turn.conversation for turn, *_ in begins],
            [turn.token for turn, *_ in begins],
            [turn.epoch for turn, *_ in begins],
            self._lease,
            [turn.id for turn, *_ in begins],
            [call for _, call, *_ in begins],
            [n for _, _, n, *_ in begins],
            [turn.attempt for turn, *_ in begins],
            [try_ for _, _, _, try_, *_ in begins],
            self._provider,
            self._model,
            [reserved for *_, reserved, _ in begins],
            *tool_arrays([(turn, tools) for turn, *_, tools in begins]),
        )
        going = {
            row["conversation"]: Going(
                customer_seq=row["customer_seq"],
                superseded_in_row=row["superseded_in_row"],
                unanswered_since=row["unanswered_since"],
                now=row["now"],
            )
            for row in rows
        }
        return [going.get(turn.conversation) for turn, *_ in begins]

    async def reserve(self, turn: Turn, call: CallId, *, n: int, try_: int, reserved: Decimal) -> Cap | None:
        rows = await self._database.fetch(
            QUERIES["reserve"],
            call,
            turn.business.id,
            turn.conversation,
            turn.id,
            n,
            turn.attempt,
            try_,
            turn.business.engine,
            self._provider,
            self._model,
            reserved,
        )
        barred_by = rows[0]["barred_by"]
        return Cap(barred_by) if barred_by else None

    async def end_call(self, turn: Turn, call: CallRecord) -> None:
        await self._ends.submit((turn, call))

    async def _end_calls(self, ends: Sequence[End]) -> Sequence[None]:
        await self._database.fetch(
            QUERIES["end_call"],
            [call.id for _, call in ends],
            [call.state for _, call in ends],
            [call.model for _, call in ends],
            [call.input for _, call in ends],
            [call.cached for _, call in ends],
            [call.output for _, call in ends],
            [call.reasoning for _, call in ends],
            [call.cost_usd for _, call in ends],
            [call.latency_ms for _, call in ends],
            [call.finish for _, call in ends],
            [call.error for _, call in ends],
            [turn.conversation for turn, _ in ends],
            [turn.token for turn, _ in ends],
            [turn.id for turn, _ in ends],
            [turn.attempt for turn, _ in ends],
            [call.n for _, call in ends],
            [call.answer for _, call in ends],
        )
        return [None] * len(ends)

    async def commit(self, commit: Commit) -> Committed:
        if commit.plain:
            return await self._plain.submit(commit)
        if commit.last_call is not None:
            await self.end_call(commit.turn, commit.last_call)
        rows = await self._database.fetch(QUERIES["commit_full"], *commit_arguments(commit))
        return read_committed(rows)

    async def _commit_plain(self, commits: Sequence[Commit]) -> Sequence[Committed]:
        calls = [_call(one) for one in commits]
        rows = await self._database.fetch(
            QUERIES["commit_plain"],
            [one.turn.conversation for one in commits],
            [one.turn.token for one in commits],
            [one.turn.id for one in commits],
            [one.seq_to for one in commits],
            [one.turn.epoch for one in commits],
            [one.outbound for one in commits],
            [storable(one.text or "") for one in commits],
            [one.turn.mode.value for one in commits],
            [call.id for call in calls],
            [call.model for call in calls],
            [call.input for call in calls],
            [call.cached for call in calls],
            [call.output for call in calls],
            [call.reasoning for call in calls],
            [call.cost_usd for call in calls],
            [call.latency_ms for call in calls],
            [one.turn.attempt for one in commits],
            [call.n for call in calls],
            [call.answer for call in calls],
            [sealed_of(one).n for one in commits],
            [sealed_of(one).header for one in commits],
            [sealed_of(one).digest for one in commits],
            [sealed_of(one).parts for one in commits],
            [one.turn.asked_at for one in commits],
        )
        written = {
            row["conversation"]: Committed(written=True, live=row["live"], again=row["again"]) for row in rows
        }
        return [written.get(one.turn.conversation, NOT_WRITTEN) for one in commits]

    async def release(self, turn: Turn, delay: timedelta) -> None:
        await self._database.fetch(QUERIES["release"], [turn.conversation], [turn.token], [delay], [turn.id])

    async def give_back(self, turn: Turn, delay: timedelta) -> None:
        await self._database.fetch(QUERIES["give_back"], turn.conversation, turn.token, delay)

    async def heartbeat(self, leases: Sequence[tuple[ConversationId, LeaseToken]]) -> set[LeaseToken]:
        rows = await self._database.fetch(
            QUERIES["heartbeat"],
            [conversation for conversation, _ in leases],
            [token for _, token in leases],
            self._lease,
        )
        return {row["token"] for row in rows}

    def tenant(self, business: BusinessId, pack: str) -> AbstractAsyncContextManager[Sql]:
        return self._database.tenant(business, self._pack_queries[pack])

    @asynccontextmanager
    async def execution(self, turn: Turn) -> AsyncIterator[PostgresExecution]:
        async with self._database.transaction() as transaction:
            yield PostgresExecution(transaction, turn, self._pack_queries[turn.business.pack])

    async def receipt_of(self, action: ActionId) -> str | None:
        rows = await self._database.fetch(QUERIES["receipt_of"], action)
        return rows[0]["result"] if rows else None

    async def receipts_of(self, turn: Turn) -> Sequence[Receipt]:
        rows = await self._database.fetch(QUERIES["receipts_of"], turn.id)
        return [
            Receipt(action=row["action"], tool=row["tool"], digest=row["digest"], result=row["result"])
            for row in rows
        ]

    async def called(self, turn: Turn) -> frozenset[str]:
        rows = await self._database.fetch(QUERIES["called"], turn.id)
        return frozenset(row["tool"] for row in rows)

    async def keep_page(self, business: BusinessId, digest: bytes, page: str) -> None:
        await self._database.fetch(QUERIES["keep_page"], business, digest, storable(page))

    async def any_cap(self) -> bool:
        """Whether any business limits what its model calls may cost."""
        return bool((await self._database.fetch(QUERIES["any_cap"]))[0]["any"])

    async def leaseholders(self) -> Sequence[int]:
        """Workers that hold leases."""
        return [row["lease_worker"] for row in await self._database.fetch(QUERIES["leaseholders"])]

    async def void_leases(self, worker: int) -> Sequence[ConversationId]:
        """A dead worker's conversations are free and due at once; only while its advisory lock is held."""
        return [row["conversation"] for row in await self._database.fetch(QUERIES["void_leases"], worker)]

    async def lose_calls(self) -> int:
        """Calls that nobody closed for three minutes count as lost; how many."""
        return len(await self._database.fetch(QUERIES["lose_calls"]))


def _call(commit: Commit) -> CallRecord:
    assert commit.last_call is not None, "a plain commit closes its call"
    return commit.last_call
