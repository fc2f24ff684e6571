"""What waits for operators, read from Postgres, and things found by the short names that lists give them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from services.console.core.drafts import Seen
from services.console.core.waiting import (
    Match,
    Person,
    WaitingApproval,
    WaitingDraft,
    WaitingHandoff,
    prefix_range,
    the_one,
)
from shared.database import Database, load_queries
from shared.ids import ActionId, ConversationId, OutboundId

QUERIES = load_queries(Path(__file__).with_name("waiting.sql"))
LISTED_MOST: Final = 500

Row = Mapping[str, Any]


class PostgresWaiting:
    """Lists, oldest first. `slug`: of one business; None: of all."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def drafts(self, slug: str | None = None) -> Sequence[WaitingDraft]:
        return [_draft(row) for row in await self._database.fetch(QUERIES["drafts"], slug, LISTED_MOST, None)]

    async def draft(self, outbound: OutboundId) -> WaitingDraft | None:
        """One of them; None when it waits for nobody."""
        rows = await self._database.fetch(QUERIES["drafts"], None, 1, outbound)
        return _draft(rows[0]) if rows else None

    async def approvals(self, slug: str | None = None) -> Sequence[WaitingApproval]:
        rows = await self._database.fetch(QUERIES["approvals"], slug, LISTED_MOST)
        return [_approval(row) for row in rows]

    async def handoffs(self, slug: str | None = None) -> Sequence[WaitingHandoff]:
        rows = await self._database.fetch(QUERIES["handoffs"], slug, LISTED_MOST)
        return [_handoff(row) for row in rows]

    async def find_draft(self, text: str) -> OutboundId | None:
        """The reply whose id begins so: a draft, else one that was decided about. None: there is none, or not one alone."""
        found = await self._find(QUERIES["find_drafts"], text)
        return OutboundId(found) if found else None

    async def find_approval(self, text: str) -> ActionId | None:
        """The action whose id begins so, in the same way."""
        found = await self._find(QUERIES["find_approvals"], text)
        return ActionId(found) if found else None

    async def find_conversation(self, text: str, *, in_handoff: bool = False) -> ConversationId | None:
        """By the beginning of its id, or as business:number. `in_handoff`: one that is comes first."""
        slug, colon, address = text.partition(":")
        if colon:
            rows = await self._database.fetch(QUERIES["find_by_address"], slug, address, in_handoff)
            found = the_one(_matches(rows))
        else:
            found = await self._find(QUERIES["find_conversations"], text, in_handoff)
        return ConversationId(found) if found else None

    async def _find(self, query: str, text: str, *arguments: object) -> UUID | None:
        between = prefix_range(text)
        if between is None:
            return None
        rows = await self._database.fetch(query, between.first, between.last, *arguments)
        return the_one(_matches(rows))


def _matches(rows: Sequence[Row]) -> list[Match]:
    return [Match(id=row["id"], rank=row["rank"]) for row in rows]


def _person(row: Row) -> Person:
    return Person(
        business=row["business"],
        conversation=row["conversation"],
        name=row["name"],
        address=row["address"],
        channel=row["channel"],
    )


def _draft(row: Row) -> WaitingDraft:
    return WaitingDraft(
        id=row["id"],
        person=_person(row),
        reason=row["reason"],
        text=row["text"],
        seen=Seen(round=row["round"], digest=row["digest"]),
        receipt=row["receipt"],
        parts=row["parts"],
        parts_sent=row["parts_sent"],
        summary=row["summary"],
        tool=row["tool"],
        may_have_left=row["may_have_left"],
        since=row["since"],
        now=row["now"],
    )


def _approval(row: Row) -> WaitingApproval:
    return WaitingApproval(
        id=row["id"],
        person=_person(row),
        tool=row["tool"],
        summary=row["summary"],
        confirmed=row["confirmed"],
        since=row["since"],
        until=row["until"],
        now=row["now"],
    )


def _handoff(row: Row) -> WaitingHandoff:
    return WaitingHandoff(
        person=_person(row),
        reason=row["reason"],
        claimed_by=row["claimed_by"],
        said=row["said"],
        since=row["since"],
        now=row["now"],
    )
