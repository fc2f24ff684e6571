"""What is new on the record since the last look: on telephones, among drafts and approvals, in people's hands."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from services.console.adapters.postgres_waiting import PostgresWaiting
from services.console.core.waiting import WaitingApproval, WaitingDraft
from shared.database import Database, load_queries
from shared.ids import BusinessId, ConversationId

QUERIES = load_queries(Path(__file__).with_suffix(".sql"))

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A message on a customer's telephone."""

    number: str
    text: str
    buttons: tuple[tuple[str, str], ...]  # id and title
    origin: str  # turn, notice, operator or reminder


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver:
    """A conversation came to people, or back to the bot."""

    number: str
    reason: str
    released: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    deliveries: Sequence[Delivery]
    drafts: Sequence[WaitingDraft]
    gone: Sequence[WaitingDraft]  # drafts that wait no more
    approvals: Sequence[WaitingApproval]
    handoffs: Sequence[HandedOver]

    def __bool__(self) -> bool:
        return any((self.deliveries, self.drafts, self.gone, self.approvals, self.handoffs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a customer's conversation stands."""

    id: ConversationId
    in_handoff: bool
    opted_out: bool


class Record:
    """Of one business with a sim line. It remembers what it told of."""

    def __init__(self, database: Database, *, business: BusinessId, slug: str, address: str) -> None:
        self._database = database
        self._business = business
        self._slug = slug
        self._address = address
        self._waiting = PostgresWaiting(database)
        self._told: set[object] = set()
        self._drafts: dict[UUID, WaitingDraft] = {}
        self._found: list[News] = []

    async def news(self) -> News:
        """What happened since the last look; of that, the last `look` may have found some already."""
        await self.look()
        found, self._found = self._found, []
        return News(
            deliveries=[one for news in found for one in news.deliveries],
            drafts=[one for news in found for one in news.drafts],
            gone=[one for news in found for one in news.gone],
            approvals=[one for news in found for one in news.approvals],
            handoffs=[one for news in found for one in news.handoffs],
        )

    async def look(self) -> bool:
        """Whether there is news."""
        if news := await self._look():
            self._found.append(news)
        return bool(self._found)

    async def _look(self) -> News:
        deliveries = await self._database.fetch(QUERIES["arrived"], self._address)
        handoffs = await self._database.fetch(QUERIES["handoffs"], self._business)
        before = self._drafts
        waiting = await self.drafts()
        gone = [one for id_, one in before.items() if id_ not in self._drafts]
        return News(
            deliveries=[_delivery(row) for row in deliveries if self._fresh(row["key"])],
            drafts=[one for one in waiting if self._fresh((one.id, one.seen.round))],
            gone=gone,
            approvals=[one for one in await self.approvals() if self._fresh(one.id)],
            handoffs=[
                _handed_over(row)
                for row in handoffs
                if self._fresh((row["conversation"], row["epoch"], row["released"]))
            ],
        )

    async def drafts(self) -> Sequence[WaitingDraft]:
        waiting = await self._waiting.drafts(self._slug)
        self._drafts = {one.id: one for one in waiting}
        return waiting

    async def approvals(self) -> Sequence[WaitingApproval]:
        return await self._waiting.approvals(self._slug)

    def decided(self, draft: UUID) -> None:
        """It waits no more because of us: that is no news."""
        self._drafts.pop(draft, None)

    async def standing(self, number: str) -> Standing | None:
        """None for a customer who never wrote."""
        rows = await self._database.fetch(QUERIES["conversation"], self._address, number)
        if not rows:
            return None
        row = rows[0]
        return Standing(
            id=row["conversation"], in_handoff=row["state"] == "handoff", opted_out=row["opted_out"]
        )

    async def latest(self) -> datetime | None:
        """Up to which business time the record tells."""
        at: datetime | None = (await self._database.fetch(QUERIES["latest"], self._business))[0]["at"]
        return at

    async def moved(self, by: timedelta) -> None:
        """Business time was moved on: let what waits for an hour of the day know."""
        await self._database.fetch(QUERIES["sooner"], self._business, by)

    def _fresh(self, key: object) -> bool:
        if key in self._told:
            return False
        self._told.add(key)
        return True


def _delivery(row: Row) -> Delivery:
    return Delivery(
        number=row["user_id"],
        text=row["body"],
        buttons=tuple((one["id"], one["title"]) for one in json.loads(row["buttons"] or "[]")),
        origin=row["origin_kind"] or "turn",
    )


def _handed_over(row: Row) -> HandedOver:
    return HandedOver(number=row["user_id"], reason=row["reason"], released=row["released"])
