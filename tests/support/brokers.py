"""Packets to send, and the two brokers that pass the same suite, each with a way to put bytes on a queue."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

import aio_pika

from shared.broker import Broker, Consumer, Delivery, Seen, Tally
from shared.broker.memory import MemoryBroker
from shared.broker.port import untold
from shared.broker.rabbit import RabbitBroker
from shared.ids import new_id
from shared.tickets import KIND_OF, VERSION, Packet, Stage
from shared.topology import EXCHANGE, WORK_QUEUE


def packet(stage: Stage = Stage.GUARD, *, tickets: int = 1) -> Packet:
    return Packet(v=VERSION, kind=KIND_OF[stage], ids=tuple(new_id() for _ in range(tickets)))


def ids_of(deliveries: Iterable[Delivery]) -> list[UUID]:
    return [each for delivery in deliveries for each in delivery.packet.ids]


async def take_tickets(consumer: Consumer, count: int, *, within_s: float = 20.0) -> list[Delivery]:
    """Take, without acknowledging, until that many tickets are in hand."""
    taken: list[Delivery] = []
    async with asyncio.timeout(within_s):
        while len(ids_of(taken)) < count:
            taken += await consumer.take(most=count)
    return taken


async def takes_nothing(consumer: Consumer, *, for_s: float = 0.3) -> bool:
    try:
        async with asyncio.timeout(for_s):
            await consumer.take(most=1)
    except TimeoutError:
        return True
    return False


async def acknowledge(deliveries: Iterable[Delivery]) -> None:
    for delivery in deliveries:
        await delivery.ack()


class RawQueue(Protocol):
    async def put(self, stage: Stage, bodies: Sequence[bytes]) -> None: ...


@dataclass
class MemoryRawQueue:
    broker: MemoryBroker

    async def put(self, stage: Stage, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            self.broker._queues[stage].put(body)


@dataclass
class RabbitRawQueue:
    url: str

    async def put(self, stage: Stage, bodies: Sequence[bytes]) -> None:
        async with raw_channel(self.url) as channel:
            exchange = await channel.get_exchange(EXCHANGE)
            for body in bodies:
                message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
                await exchange.publish(message, WORK_QUEUE[stage])


@dataclass
class Subject:
    """A broker under test, and the queue behind it."""

    broker: Broker
    raw: RawQueue
    told: "Told"


class Told(Counter[tuple[Stage, Seen]]):
    """Packets that a tally was told of."""

    def tally(self, stage: Stage, seen: Seen, packets: int) -> None:
        self[stage, seen] += packets


@asynccontextmanager
async def raw_channel(url: str) -> AsyncIterator[aio_pika.abc.AbstractChannel]:
    """Past our own code, for what somebody else does to a broker."""
    async with (
        await aio_pika.connect(url) as connection,
        connection.channel(on_return_raises=True) as channel,
    ):
        yield channel
    await asyncio.sleep(0.01)  # the driver's own tasks end


@asynccontextmanager
async def rabbit_broker(
    url: str, *, confirm_s: float = 5.0, watch_s: float = 15.0, tally: Tally = untold
) -> AsyncIterator[RabbitBroker]:
    broker = RabbitBroker(url, confirm_s=confirm_s, watch_s=watch_s, tally=tally)
    await broker.open()
    try:
        yield broker
    finally:
        await broker.close()
