"""The record of one business as it is at a moment, read whole: small, and everything that is checked is on it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from leeway.owed import owed
from shared.database import Database, load_queries
from shared.ids import BusinessId

QUERIES = load_queries(Path(__file__).with_suffix(".sql"))

Row = Mapping[str, Any]
LEFT = frozenset({"sent", "delivered", "read"})
TABLES = (
    "conversations", "messages", "turns", "tool_calls", "outbounds", "deliveries", "actions", "confirmations",
    "receipts", "handoffs", "flags", "llm_calls", "envelopes", "levels", "modes",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The rows of every table that says what happened, in order."""

    conversations: Sequence[Row] = ()
    messages: Sequence[Row] = ()
    turns: Sequence[Row] = ()
    tool_calls: Sequence[Row] = ()
    outbounds: Sequence[Row] = ()
    deliveries: Sequence[Row] = ()
    actions: Sequence[Row] = ()
    confirmations: Sequence[Row] = ()
    receipts: Sequence[Row] = ()
    handoffs: Sequence[Row] = ()
    flags: Sequence[Row] = ()
    llm_calls: Sequence[Row] = ()
    envelopes: Sequence[Row] = ()
    levels: Sequence[Row] = ()
    modes: Sequence[Row] = ()

    def conversation_of(self, user_id: str) -> Row | None:
        return next((one for one in self.conversations if one["user_id"] == user_id), None)

    def waiting(self, conversation: UUID) -> Row | None:
        """The action that waits for a person."""
        return next(
            (
                one
                for one in self.actions
                if one["conversation"] == conversation and one["state"] in ("customer", "operator")
            ),
            None,
        )

    def prompts(self, conversation: UUID) -> list[Row]:
        """Questions of the system that left, oldest first."""
        return [
            one
            for one in self.outbounds
            if one["conversation"] == conversation and one["buttons"] and one["state"] in LEFT
        ]


class Record:
    """Reads what the services wrote."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, business: BusinessId) -> Snapshot:
        rows = {name: await self._database.fetch(QUERIES[name], business) for name in TABLES}
        return Snapshot(**rows)

    async def owed(self, business: BusinessId) -> Sequence[str]:
        """What is still owed, in words; nothing: everything is settled."""
        return await owed(self._database, business)


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """What a step changed: the record before it, the record after it, and what is new or different."""

    before: Snapshot
    after: Snapshot

    def fresh(self, table: str) -> list[Row]:
        """Rows that were not there before, or not like this."""
        known = [dict(row) for row in getattr(self.before, table)]
        return [row for row in getattr(self.after, table) if dict(row) not in known]

    def of(self, table: str, conversation: UUID) -> list[Row]:
        return [row for row in self.fresh(table) if row["conversation"] == conversation]

    def moved(self, conversation: UUID | None = None) -> list[Row]:
        """Replies that came, or came to something else, in this step."""
        was = {row["id"]: (row["state"], row["round"]) for row in self.before.outbounds}
        return [
            row
            for row in self.after.outbounds
            if was.get(row["id"]) != (row["state"], row["round"])
            and conversation in (None, row["conversation"])
        ]

    def left(self, conversation: UUID | None = None) -> list[Row]:
        """Replies that left in this step."""
        gone = {(row["id"], row["round"]) for row in self.before.outbounds if row["state"] in LEFT}
        return [
            row
            for row in self.moved(conversation)
            if row["state"] in LEFT and (row["id"], row["round"]) not in gone
        ]

    def turns(self, conversation: UUID) -> list[Row]:
        return self.of("turns", conversation)

    def tool_calls(self, conversation: UUID) -> list[Row]:
        known = {turn["id"] for turn in self.after.turns if turn["conversation"] == conversation}
        return [row for row in self.fresh("tool_calls") if row["turn"] in known]
