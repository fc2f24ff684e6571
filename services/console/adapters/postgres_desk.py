"""The desk's record in Postgres: a sitting is one transaction, which locks the row first and the audit head last."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from services.console.adapters.postgres_audit import append
from services.console.core.approvals import Answer, Approval, Decline
from services.console.core.drafts import Decision, Draft, Order, Request, Seen, Wish
from services.console.core.handoffs import Handoff
from services.console.core.row import Row
from shared.audit import Note
from shared.database import Database, Transaction, load_queries
from shared.errors import Conflict
from shared.ids import ActionId, BusinessId, ConversationId, OutboundId

QUERIES = load_queries(Path(__file__).with_name("desk.sql"))


class PostgresRecord:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def draft(self, outbound: OutboundId, *, round_: int) -> Draft | None:
        rows = await self._database.fetch(QUERIES["draft"], outbound, round_)
        return _draft(rows[0]) if rows else None

    async def seen(self, outbound: OutboundId) -> Sequence[Seen]:
        rows = await self._database.fetch(QUERIES["seen"], outbound)
        return [Seen(round=row["round"], digest=row["digest"]) for row in rows]

    async def conversation_of(self, action: ActionId) -> ConversationId | None:
        rows = await self._database.fetch(QUERIES["conversation_of"], action)
        return ConversationId(rows[0]["conversation"]) if rows else None

    @asynccontextmanager
    async def sitting(self, conversation: ConversationId) -> AsyncIterator["PostgresSitting | None"]:
        async with self._database.transaction() as transaction:
            rows = await transaction.fetch(QUERIES["lock_row"], conversation)
            yield PostgresSitting(transaction, conversation, rows[0]) if rows else None


class PostgresSitting:
    """An open transaction that holds the conversation's row."""

    def __init__(
        self, transaction: Transaction, conversation: ConversationId, row: Mapping[str, Any]
    ) -> None:
        self._transaction = transaction
        self._conversation = conversation
        self.business = BusinessId(row["business"])
        self.row = Row(
            unguarded=row["unguarded"],
            customer_seq=row["customer_seq"],
            in_handoff=row["state"] == "handoff",
            epoch=row["handoff_epoch"],
            opted_out=row["opted_out"],
        )

    async def draft(self, outbound: OutboundId, *, round_: int) -> Draft | None:
        rows = await self._transaction.fetch(QUERIES["draft"], outbound, round_)
        return _draft(rows[0]) if rows else None

    async def queue(self, order: Order, *, text: str | None) -> None:
        await self._written(
            "queue_draft",
            order.draft,
            self._conversation,
            order.seen.round,
            order.seen.digest,
            order.wish.value,
            order.by,
            text,
        )

    async def discard(self, order: Order, *, action_ends_as: str, why: str) -> bool:
        row = await self._written(
            "discard_draft",
            order.draft,
            self._conversation,
            order.seen.round,
            order.seen.digest,
            order.by,
            action_ends_as,
            why,
        )
        return bool(row["ended"])

    async def approval(self, action: ActionId) -> Approval | None:
        rows = await self._transaction.fetch(QUERIES["approval"], action)
        return Approval(**dict(rows[0])) if rows else None

    async def answer(self, action: ActionId, answer: Answer, *, by: str, decision: UUID) -> None:
        declined = answer if isinstance(answer, Decline) else None
        decided, why = ("declined", declined.why) if declined else ("approved", None)
        await self._written("answer", action, self._conversation, decision, decided, why, by)

    async def handoff(self) -> Handoff | None:
        rows = await self._transaction.fetch(QUERIES["handoff"], self._conversation, self.row.epoch)
        return Handoff(**dict(rows[0])) if rows else None

    async def claim(self, *, by: str) -> None:
        await self._written("claim", self._conversation, self.row.epoch, by)

    async def reply(self, text: str, *, by: str, outbound: OutboundId, origin: UUID) -> None:
        await self._written("reply", self._conversation, self.row.epoch, by, outbound, origin, text)

    async def release(self, *, by: str, note: str | None) -> bool:
        row = await self._written("release", self._conversation, self.row.epoch, by, note)
        return bool(row["due"])

    async def take(self, *, by: str) -> bool:
        row = await self._written("take", self._conversation, self.row.epoch, by)
        return bool(row["ended"])

    async def audit(self, note: Note) -> None:
        await append(self._transaction, self.business, note)

    async def _written(self, query: str, *arguments: object) -> Mapping[str, Any]:
        """The row that the statement wrote. None: what it is about changed in spite of the lock; the sitting is off."""
        rows = await self._transaction.fetch(QUERIES[query], *arguments)
        if not rows:
            raise Conflict(f"{query}: the record changed under its lock")
        return rows[0]


def _draft(row: Mapping[str, Any]) -> Draft:
    request = None
    if row["action"] is not None:
        request = Request(
            id=row["action"],
            customer=row["customer"],
            tool=row["tool"],
            arguments=row["arguments"],
            digest=row["digest"],
            summary=row["summary"],
            state=row["action_state"],
            asked_by_this=row["asked_by_this"],
        )
    decision = None
    if row["decision"] is not None:
        decision = Decision(what=Wish(row["decision"]), by=row["decided_by"], at=row["decided_at"])
    return Draft(
        id=row["id"],
        business=BusinessId(row["business"]),
        conversation=row["conversation"],
        state=row["state"],
        reason=row["reason"],
        round=row["round"],
        body=row["body"],
        basis_seq=row["basis_seq"],
        operators_own=row["origin_kind"] == "operator",
        receipt=row["receipt"],
        may_have_left=row["may_have_left"],
        created_at=row["created_at"],
        now=row["now"],
        request=request,
        decision=decision,
    )
