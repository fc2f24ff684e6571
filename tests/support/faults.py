"""The four services in this process, with a database and a broker that can fail at a named point: a crash, a lost publish.

Nothing in the product knows of it. A crash is: the statement is committed, and nobody ever hears of it; from then on the
process reaches neither database nor broker; its tasks are cancelled, its connections closed.
"""

import asyncio
import contextlib
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2

from services.agent import wiring as agent
from services.dispatch import wiring as dispatch
from services.guard import wiring as guard
from services.ingest import wiring as ingest
from shared.broker.port import Broker, Consumer, DeadLetter
from shared.clock import SystemClock
from shared.database import Database, Transaction
from shared.database.pool import Row, open_pool
from shared.errors import NotPublished, Unavailable
from shared.ids import new_id
from shared.llm.mock import MockModel
from shared.llm.port import Model
from shared.packs import load_packs
from shared.settings import Settings
from shared.signing import sign
from shared.telemetry.metrics import Metrics
from shared.tickets import Packet, Stage
from shared.work.service import Parts, Service
from tests.support.eventually import eventually
from tests.support.stack import Shop

_NAME = re.compile(r"/\* ([a-z_.]+) \*/")


def name_of(query: str) -> str:
    found = _NAME.match(query)
    return found[1] if found else ""


@dataclass(slots=True)
class Fault:
    """One thing that goes wrong, once. `service` and `after`: the process dies when this statement is committed;
    `lost`: the first tickets for this stage never arrive."""

    service: str = ""
    after: str = ""
    lost: Stage | None = None
    happened: asyncio.Event = field(default_factory=asyncio.Event)


class Process:
    """What dies together. Here that is all four services, as on a machine that loses its power."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.dead = False

    async def committed(self, service: str, statement: str) -> None:
        """Told of every committed statement; does not return when it was the last one."""
        if (service, statement) == (
            self.fault.service,
            self.fault.after,
        ) and not self.fault.happened.is_set():
            self.die()
            await asyncio.get_running_loop().create_future()

    def die(self) -> None:
        self.dead = True
        self.fault.happened.set()

    def check(self) -> None:
        if self.dead:
            raise Unavailable("this process is dead")


class FaultyDatabase(Database):
    """The real one, over the same pool, seen by one service."""

    def __init__(self, inner: Database, process: Process, service: str) -> None:
        super().__init__(inner._pool, acquire_timeout=5, waited=inner._waited)
        self._process = process
        self._service = service

    async def fetch(self, query: str, *arguments: object) -> Sequence[Row]:
        self._process.check()
        rows = await super().fetch(query, *arguments)
        await self._process.committed(self._service, name_of(query))
        self._process.check()
        return rows

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        self._process.check()
        async with super().transaction() as transaction:
            noted = NotedTransaction(transaction._connection)
            yield noted
        if "receipt" in noted.statements:
            await self._process.committed(self._service, "X")
        self._process.check()


class NotedTransaction(Transaction):
    """Remembers what ran in it."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self.statements: list[str] = []

    async def fetch(self, query: str, *arguments: object) -> Sequence[Row]:
        self.statements.append(name_of(query))
        return await super().fetch(query, *arguments)


class FaultyBroker:
    """Any broker, seen by a process that may die and whose tickets may be lost."""

    def __init__(self, inner: Broker, process: Process) -> None:
        self._inner = inner
        self._process = process
        self.published: Counter[Stage] = Counter()

    async def publish(self, stage: Stage, packets: Sequence[Packet], *, notes: Sequence[str] = ()) -> None:
        fault = self._process.fault
        if self._process.dead:
            raise NotPublished("this process is dead")
        self.published[stage] += sum(len(packet.ids) for packet in packets)
        if stage is fault.lost and not fault.happened.is_set():
            fault.happened.set()
            return
        await self._inner.publish(stage, packets, notes=notes)

    @asynccontextmanager
    async def consume(self, stage: Stage, *, prefetch: int) -> AsyncIterator[Consumer]:
        async with self._inner.consume(stage, prefetch=prefetch) as consumer:
            yield consumer

    async def ready(self, stage: Stage) -> int:
        return await self._inner.ready(stage)

    async def dead_letters(self, stage: Stage, *, most: int) -> Sequence[DeadLetter]:
        return await self._inner.dead_letters(stage, most=most)

    async def drop_dead_letters(self, stage: Stage) -> int:
        return await self._inner.drop_dead_letters(stage)

    async def rebuild(self) -> None:
        await self._inner.rebuild()

    async def close(self) -> None:
        await self._inner.close()


@dataclass(slots=True)
class Installation:
    """Running services and a way to write to them."""

    process: Process
    broker: FaultyBroker
    services: list[Service]
    client: httpx2.AsyncClient

    async def say(self, shop: Shop, sender: str, text: str, *, message: str, **more: Any) -> int:
        """By the sim channel; 0 when the process dies over it."""
        return await self.post(shop, {"messages": [{"id": message, "from": sender, "text": text, **more}]})

    async def post(self, shop: Shop, event: dict[str, Any]) -> int:
        body, delivery, now = json.dumps(event).encode(), new_id().hex, int(SystemClock().now().timestamp())
        headers = {
            "webhook-id": delivery,
            "webhook-timestamp": str(now),
            "webhook-signature": sign(shop.secrets["sim"], delivery, now, body),
        }
        request = asyncio.create_task(
            self.client.post(f"/hooks/sim/{shop.address('sim')}", content=body, headers=headers)
        )
        dying = asyncio.create_task(self.process.fault.happened.wait())
        await asyncio.wait((request, dying), return_when=asyncio.FIRST_COMPLETED)
        dying.cancel()
        if not request.done() and self.process.dead:
            request.cancel()
            await asyncio.wait((request,))
            return 0
        return (await request).status_code


@asynccontextmanager
async def installation(
    settings: Settings, broker: Broker, *, fault: Fault | None = None, model: Model | None = None
) -> AsyncIterator[Installation]:
    """All four services running on these servers, until the context ends: by a drainless stop, as a crash would."""
    process = Process(fault or Fault())
    packs = load_packs()
    url = settings.database_url.get_secret_value()
    pool = await open_pool(url, size=6, timeouts=settings.timeouts)
    faulty = FaultyBroker(broker, process)

    def parts(service: str) -> Parts:
        database = FaultyDatabase(pool, process, service)
        return Parts(
            settings=settings,
            clock=SystemClock(),
            broker=faulty,
            database=database,
            metrics=Metrics(process=False),
        )

    wired = await ingest.wire(parts("ingest"))
    services = [
        wired.service,
        await guard.wire(parts("guard")),
        await agent.wire(parts("agent"), model=model or MockModel(packs), packs=packs),
        await dispatch.wire(parts("dispatch")),
    ]
    client = httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=wired.app(lambda: None)), base_url="http://leeway.invalid"
    )
    jobs = [asyncio.create_task(service.run()) for service in services]
    try:
        await eventually(lambda: all(one.why_not() is None for one in services), within_s=30)
        yield Installation(process, faulty, services, client)
    finally:
        process.dead = True
        for job in jobs:
            job.cancel()
        await asyncio.wait(jobs)
        for job in jobs:
            with contextlib.suppress(asyncio.CancelledError):
                await job
        await client.aclose()
        await pool.close()
