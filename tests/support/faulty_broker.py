"""A broker that fails when told to, around any other: for tests of handlers and loops."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from shared.broker.port import Broker, Consumer, DeadLetter, Delivery
from shared.errors import NotPublished, Unavailable
from shared.tickets import Packet, Stage


class FaultyBroker:
    """Every fault lasts until it is taken back; several may be on at once."""

    def __init__(self, inner: Broker) -> None:
        self._inner = inner
        self._connected = asyncio.Event()
        self._connected.set()
        self._consumers: list[FaultyConsumer] = []
        self._confirming = asyncio.Event()
        self._confirming.set()
        self.refusing = False
        self.dropping = False
        self.duplicating = False
        self.published: list[tuple[Stage, Packet]] = []
        """Everything that was confirmed, lost or not."""

    def hold_confirms(self) -> None:
        """Packets go through, but `publish` does not return before `release_confirms`."""
        self._confirming.clear()

    def release_confirms(self) -> None:
        self._confirming.set()

    async def lose_connection(self) -> None:
        """Unacknowledged packets go back; publishing fails and taking waits until it is restored."""
        self._connected.clear()
        for consumer in tuple(self._consumers):
            await consumer.lose()

    def restore_connection(self) -> None:
        self._connected.set()

    async def publish(self, stage: Stage, packets: Sequence[Packet], *, notes: Sequence[str] = ()) -> None:
        if self.refusing or not self._connected.is_set():
            raise NotPublished("refused by a test")
        if not self.dropping:
            await self._inner.publish(stage, packets, notes=notes)
            if self.duplicating:
                await self._inner.publish(stage, packets, notes=notes)
        await self._confirming.wait()
        self.published += [(stage, packet) for packet in packets]

    @asynccontextmanager
    async def consume(self, stage: Stage, *, prefetch: int) -> AsyncIterator[Consumer]:
        async with self._inner.consume(stage, prefetch=prefetch) as inner:
            consumer = FaultyConsumer(inner, self._connected)
            self._consumers.append(consumer)
            try:
                yield consumer
            finally:
                self._consumers.remove(consumer)

    async def ready(self, stage: Stage) -> int:
        if not self._connected.is_set():
            raise Unavailable("taken away by a test")
        return await self._inner.ready(stage)

    async def dead_letters(self, stage: Stage, *, most: int) -> Sequence[DeadLetter]:
        return await self._inner.dead_letters(stage, most=most)

    async def drop_dead_letters(self, stage: Stage) -> int:
        return await self._inner.drop_dead_letters(stage)

    async def rebuild(self) -> None:
        await self._inner.rebuild()

    async def close(self) -> None:
        await self._inner.close()


class FaultyConsumer:
    def __init__(self, inner: Consumer, connected: asyncio.Event) -> None:
        self._inner = inner
        self._connected = connected
        self._lost = asyncio.Event()

    @property
    def attached(self) -> bool:
        return self._connected.is_set() and self._inner.attached

    async def take(self, *, most: int) -> Sequence[Delivery]:
        while True:
            await self._connected.wait()
            self._lost.clear()
            taken = await self._take_unless_lost(most)
            if self._lost.is_set():
                await self._inner.let_go()  # what came while the connection was being lost
            elif taken:
                return taken

    async def let_go(self) -> None:
        await self._inner.let_go()

    async def lose(self) -> None:
        self._lost.set()
        await self._inner.let_go()

    async def _take_unless_lost(self, most: int) -> Sequence[Delivery]:
        async with asyncio.TaskGroup() as group:
            taking = group.create_task(self._inner.take(most=most))
            losing = group.create_task(self._lost.wait())
            await asyncio.wait((taking, losing), return_when=asyncio.FIRST_COMPLETED)
            taking.cancel()
            losing.cancel()
        return () if taking.cancelled() else taking.result()
