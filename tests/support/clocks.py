"""The clock's work on a Ground whose business time a test moves, beside a pack that needs no tables."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from packs.clinic import PACK
from services.agent.adapters.postgres_clocks import PostgresClocks
from services.agent.clocks import Clocks
from services.agent.reminding import Reminders
from shared.broker.memory import MemoryBroker
from shared.clock import Shift
from shared.database import Database, Queries, open_pool
from shared.ids import ActionId, BusinessId, ConversationId, CustomerId, OutboundId
from shared.packs import Reminder, ReminderWords, ToolContext
from shared.settings import Timeouts
from shared.telemetry.metrics import Metrics
from tests.support.factories import Ground

RACES = 20

Span = tuple[datetime, datetime]


class Almanac:
    """A pack that keeps hours and reminds, by what the test puts into it. It stands for the clinic."""

    name = PACK.name

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.appointments: dict[UUID, tuple[BusinessId, CustomerId, datetime]] = {}
        self.broken_for: set[BusinessId] = set()
        self.asked: list[timedelta] = []

    async def open_spans(self, context: ToolContext, begins: datetime, ends: datetime) -> Sequence[Span]:
        self._refuse_if_broken(context)
        return self.spans

    async def reminders(self, context: ToolContext, *, ahead: timedelta) -> Sequence[Reminder]:
        self._refuse_if_broken(context)
        self.asked.append(ahead)
        return [
            Reminder(
                key=key,
                customer=customer,
                tool="cancel_appointment",
                arguments={"appointment": str(key)},
                word=words,
            )
            for key, (business, customer, begins) in sorted(self.appointments.items())
            if business == context.business and context.now < begins <= context.now + ahead
        ]

    def _refuse_if_broken(self, context: ToolContext) -> None:
        if context.business in self.broken_for:
            raise ZeroDivisionError


def words(locale: str) -> ReminderWords:
    ro = locale == "ro"
    return ReminderWords(
        text="Vă amintim de programare." if ro else "A reminder of your appointment.",
        keep="Vin" if ro else "I'll be there",
        cancel="Nu pot" if ro else "I can't come",
        thanks="Mulțumim!" if ro else "Thank you!",
    )


@dataclass
class Hand:
    """Moves business time, and runs the clock's rounds as an agent would; `another` is a second agent."""

    place: Ground
    shift: Shift
    database: Database
    pack: Almanac = field(default_factory=Almanac)
    metrics: Metrics = field(default_factory=lambda: Metrics(process=False))
    broker: MemoryBroker = field(default_factory=MemoryBroker)

    @property
    def record(self) -> PostgresClocks:
        queries: Mapping[str, Queries] = {self.pack.name: Queries({})}
        return PostgresClocks(self.database, pack_queries=queries)

    @property
    def clocks(self) -> Clocks:
        packs: Any = {self.pack.name: self.pack}
        return Clocks(record=self.record, packs=packs, broker=self.broker, metrics=self.metrics)

    @property
    def reminders(self) -> Reminders:
        packs: Any = {self.pack.name: self.pack}
        return Reminders(record=self.record, packs=packs, broker=self.broker, metrics=self.metrics)

    def pass_(self, **time: float) -> None:
        self.shift.by += timedelta(**time)

    async def now(self) -> datetime:
        """Business time."""
        return await self.place.now() + self.shift.by

    def counted(self, metric: Any) -> dict[str, float]:
        """A counter's values by its `state` label, over all businesses."""
        values: Counter[str] = Counter()
        for family in metric.collect():
            for one in family.samples:
                if one.name.endswith("_total"):
                    values[one.labels["state"]] += one.value
        return dict(values)

    async def handed(self, reason: str = "handoff_requested", **state: Any) -> ConversationId:
        """A conversation that people answer since now, with the message that led to it."""
        conversation = await self.place.conversation(**state)
        await self.place.said(conversation, "I want a human", due=False, verdict="handoff")
        await self.place.set_state(conversation, state="handoff", handoff_epoch=1, handled_seq=1)
        business = (await self.place.state(conversation))["business"]
        opened = await self.now()
        await self.place.insert(
            "handoff",
            conversation=conversation,
            business=business,
            epoch=1,
            reason=reason,
            opened_at=opened,
        )
        return conversation

    async def handoff(self, conversation: ConversationId) -> Any:
        return await self.place.row("handoff", conversation=conversation, epoch=1)

    async def notices(self, conversation: ConversationId) -> list[OutboundId]:
        rows = await self.place.rows("outbound", conversation=conversation, origin_kind="notice")
        return [row["id"] for row in rows]

    async def waits_for_operator(self, **columns: Any) -> tuple[ConversationId, ActionId]:
        """An action that an operator may approve for a day from now."""
        place = self.place
        conversation = await place.conversation()
        message = await place.said(conversation, "Yes", due=False)
        await place.set_state(conversation, handled_seq=1)
        prompt = await place.outbound(conversation, state="sent", ring_at=None)
        turn = await place.turn(conversation, message, state="done")
        plain = {"state": "operator", "asked": "both", "waits_until": await self.now() + timedelta(hours=24)}
        return conversation, await place.action(conversation, prompt=prompt, turn=turn, **(plain | columns))


@asynccontextmanager
async def hand_on(place: Ground) -> AsyncIterator[Hand]:
    shift = Shift()
    database = await open_pool(place.url, size=4, timeouts=Timeouts(), shift=shift)
    try:
        yield Hand(place=place, shift=shift, database=database)
    finally:
        await database.close()


@asynccontextmanager
async def another(hand: Hand) -> AsyncIterator[Hand]:
    """A second agent on the same record and pack, with a pool, a broker and metrics of its own."""
    database = await open_pool(hand.place.url, size=4, timeouts=Timeouts(), shift=hand.shift)
    try:
        yield replace(hand, database=database, metrics=Metrics(process=False), broker=MemoryBroker())
    finally:
        await database.close()


async def at_once(*calls: Callable[[], Awaitable[object]]) -> None:
    """All of them, begun at the same moment."""
    gate = asyncio.Event()

    async def call(one: Callable[[], Awaitable[object]]) -> None:
        await gate.wait()
        await one()

    async with asyncio.TaskGroup() as tasks:
        for one in calls:
            tasks.create_task(call(one))
        gate.set()
