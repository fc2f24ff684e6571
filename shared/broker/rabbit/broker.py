"""The broker on RabbitMQ (3.10 and 4.x): two links a process, one to publish and one to consume and ask.

A memory or disk alarm stops the broker from reading what publishers send; on a connection of their own,
acknowledgements still get through, and with them the work that frees the memory.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from shared.broker.port import DeadLetter, Seen, Tally, untold
from shared.broker.rabbit import dead
from shared.broker.rabbit.asking import Asking
from shared.broker.rabbit.backoff import Chance
from shared.broker.rabbit.consuming import RabbitConsumer
from shared.broker.rabbit.declaring import declare, delete_work
from shared.broker.rabbit.examining import Examined, examine
from shared.broker.rabbit.link import Link
from shared.broker.rabbit.publishing import LEFT_TO_CONSUMERS_S, Headers, Publisher
from shared.broker.rabbit.trouble import translated
from shared.errors import NotPublished
from shared.tickets import Packet, Stage, encode
from shared.topology import NOTE_HEADER, WORK_QUEUE

WATCH_S = 15.0


class RabbitBroker:
    """The port `Broker`. Open it first; one that is not open can only `rebuild`.

    `confirm_s` bounds a publish and every question to the broker; `watch_s` is how often consumers ask
    whether the broker still knows them; `tally` is told of every packet.
    """

    def __init__(
        self,
        url: str,
        *,
        confirm_s: float,
        watch_s: float = WATCH_S,
        chance: Chance = random.random,
        tally: Tally = untold,
    ) -> None:
        self._tally = tally
        self._timeout_s = confirm_s
        self._watch_s = watch_s
        self._chance = chance
        self._publishing = Link(url, name="publish", timeout_s=confirm_s, chance=chance)
        self._consuming = Link(url, name="consume", timeout_s=confirm_s, chance=chance)
        self._publisher = Publisher(self._publishing, confirm_s=confirm_s)
        self._asking = Asking(self._consuming, timeout_s=confirm_s)

    async def open(self) -> None:
        """Connect both links, or go on trying. Raises Misconfigured, for what trying will not mend."""
        try:
            await self._publishing.open()
            await self._consuming.open()
        except BaseException:
            await self.close()
            raise

    async def publish(self, stage: Stage, packets: Sequence[Packet], *, notes: Sequence[str] = ()) -> None:
        if not packets:
            return
        headers: list[Headers | None] = [{NOTE_HEADER: note} if note else None for note in notes]
        try:
            await self._publisher.publish(
                WORK_QUEUE[stage], [encode(packet) for packet in packets], headers=headers
            )
        except NotPublished:
            self._tally(stage, Seen.NOT_PUBLISHED, len(packets))
            raise
        self._tally(stage, Seen.PUBLISHED, len(packets))

    @asynccontextmanager
    async def consume(self, stage: Stage, *, prefetch: int) -> AsyncIterator[RabbitConsumer]:
        consumer = RabbitConsumer(
            stage,
            link=self._consuming,
            publisher=self._publisher,
            prefetch=prefetch,
            watch_s=self._watch_s,
            timeout_s=self._timeout_s,
            chance=self._chance,
            tally=self._tally,
        )
        consumer.start()
        try:
            yield consumer
        finally:
            await consumer.close()

    async def ready(self, stage: Stage) -> int:
        return await self._asking.ready(WORK_QUEUE[stage])

    async def dead_letters(self, stage: Stage, *, most: int) -> Sequence[DeadLetter]:
        connection = self._consuming.connection()
        with translated("reading the dead"):
            async with asyncio.timeout(self._timeout_s):
                return await dead.read(connection, stage, most=most)

    async def drop_dead_letters(self, stage: Stage) -> int:
        connection = self._consuming.connection()
        with translated("dropping the dead"):
            async with asyncio.timeout(self._timeout_s):
                return await dead.drop(connection, stage)

    async def rebuild(self) -> None:
        """Over a connection of its own, since no link comes up while queues are wrong."""
        async with self._consuming.bare() as connection:
            await delete_work(connection)
            await asyncio.sleep(LEFT_TO_CONSUMERS_S)
            await declare(connection)

    async def examine(self) -> Examined:
        """Over a connection of its own, on which nothing is declared that is not there."""
        async with self._consuming.bare() as connection:
            return await examine(connection)

    async def close(self) -> None:
        await self._publishing.close()
        await self._consuming.close()
