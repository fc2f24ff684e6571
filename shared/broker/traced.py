"""A broker whose packets tell of traces: what was left for a ticket goes beside its packet, and what came beside one is kept.

Around any broker; only there where traces are on.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from shared.broker.port import Broker, Consumer, DeadLetter, Delivery
from shared.telemetry.traces import Traces
from shared.tickets import Packet, Stage


def traced(broker: Broker, traces: Traces) -> Broker:
    """The broker itself where no traces are told."""
    return TracedBroker(broker, traces) if traces.on else broker


class TracedBroker:
    """The port `Broker`."""

    def __init__(self, broker: Broker, traces: Traces) -> None:
        self._broker = broker
        self._traces = traces

    async def publish(self, stage: Stage, packets: Sequence[Packet], *, notes: Sequence[str] = ()) -> None:
        told = notes or [self._traces.inject(stage, packet.ids) for packet in packets]
        await self._broker.publish(stage, packets, notes=told)

    @asynccontextmanager
    async def consume(self, stage: Stage, *, prefetch: int) -> AsyncIterator[Consumer]:
        async with self._broker.consume(stage, prefetch=prefetch) as consumer:
            yield _TracedConsumer(consumer, stage, self._traces)

    async def ready(self, stage: Stage) -> int:
        return await self._broker.ready(stage)

    async def dead_letters(self, stage: Stage, *, most: int) -> Sequence[DeadLetter]:
        return await self._broker.dead_letters(stage, most=most)

    async def drop_dead_letters(self, stage: Stage) -> int:
        return await self._broker.drop_dead_letters(stage)

    async def rebuild(self) -> None:
        await self._broker.rebuild()

    async def close(self) -> None:
        await self._broker.close()


class _TracedConsumer:
    """The port `Consumer`."""

    def __init__(self, consumer: Consumer, stage: Stage, traces: Traces) -> None:
        self._consumer = consumer
        self._stage = stage
        self._traces = traces

    @property
    def attached(self) -> bool:
        return self._consumer.attached

    async def take(self, *, most: int) -> Sequence[Delivery]:
        taken = await self._consumer.take(most=most)
        for delivery in taken:
            self._traces.extract(self._stage, delivery.packet.ids, delivery.note)
        return taken

    async def let_go(self) -> None:
        await self._consumer.let_go()
