"""The broker in this process: no network and no disk, the same promises. Packets travel as bytes here too."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import zip_longest

from shared.broker.port import DeadLetter, Seen, Tally, untold
from shared.errors import NotPublished, Unavailable, reason_of
from shared.tickets import Packet, Stage, decode, encode


@dataclass(frozen=True, slots=True)
class _Message:
    body: bytes
    note: str | None = None
    redelivered: bool = False


class _Queue:
    """One stage's messages, dealt to its consumers in turn while they have room."""

    def __init__(self, stage: Stage, tally: Tally) -> None:
        self.stage = stage
        self.tally = tally
        self.waiting: deque[_Message] = deque()
        self.dead: list[DeadLetter] = []
        self.consumers: deque[MemoryConsumer] = deque()

    def put(self, body: bytes, note: str | None = None) -> None:
        self.waiting.append(_Message(body, note))
        self.deal()

    def put_back(self, messages: Sequence[_Message]) -> None:
        """To the front, in their order, marked as redelivered."""
        self.waiting.extendleft(replace(message, redelivered=True) for message in reversed(messages))
        self.deal()

    def deal(self) -> None:
        while self.waiting and (consumer := self._next_with_room()) is not None:
            message = self.waiting.popleft()
            try:
                packet = decode(message.body, self.stage)
            except Exception as error:
                # As in RabbitMQ's consumer: no message that can't be read may stay in hand.
                self.dead.append(DeadLetter(stage=self.stage, reason=reason_of(error), body=message.body))
                self.tally(self.stage, Seen.DEAD, 1)
            else:
                consumer.receive(message, packet)

    def _next_with_room(self) -> "MemoryConsumer | None":
        for _ in range(len(self.consumers)):
            consumer = self.consumers[0]
            self.consumers.rotate(-1)
            if consumer.has_room:
                return consumer
        return None


@dataclass(frozen=True, slots=True, eq=False)
class MemoryDelivery:
    packet: Packet
    message: _Message
    consumer: "MemoryConsumer"

    @property
    def redelivered(self) -> bool:
        return self.message.redelivered

    @property
    def note(self) -> object:
        return self.message.note

    async def ack(self) -> None:
        self.consumer.acknowledge(self)


class MemoryConsumer:
    """What it was dealt and has not acknowledged is in hand; what of it nobody took yet is at hand."""

    def __init__(self, queue: _Queue, *, prefetch: int) -> None:
        self._queue = queue
        self._prefetch = prefetch
        self._in_hand: dict[MemoryDelivery, None] = {}
        self._at_hand: deque[MemoryDelivery] = deque()
        self._arrived = asyncio.Event()

    @property
    def attached(self) -> bool:
        return self in self._queue.consumers

    @property
    def has_room(self) -> bool:
        return len(self._in_hand) < self._prefetch

    async def take(self, *, most: int) -> Sequence[MemoryDelivery]:
        self.attach()
        while not self._at_hand:
            self._arrived.clear()
            await self._arrived.wait()
        taken = [self._at_hand.popleft()]
        tickets = len(taken[0].packet.ids)
        while self._at_hand and (tickets := tickets + len(self._at_hand[0].packet.ids)) <= most:
            taken.append(self._at_hand.popleft())
        self._queue.tally(self._queue.stage, Seen.TAKEN, len(taken))
        return taken

    async def let_go(self) -> None:
        self.detach()

    def attach(self) -> None:
        if not self.attached:
            self._queue.consumers.append(self)
            self._queue.deal()

    def detach(self) -> None:
        """Take no more, and give back everything in hand."""
        if self.attached:
            self._queue.consumers.remove(self)
        messages = [delivery.message for delivery in self._in_hand]
        self._in_hand.clear()
        self._at_hand.clear()
        self._queue.put_back(messages)

    def receive(self, message: _Message, packet: Packet) -> None:
        delivery = MemoryDelivery(packet, message, self)
        self._in_hand[delivery] = None
        self._at_hand.append(delivery)
        self._arrived.set()

    def acknowledge(self, delivery: MemoryDelivery) -> None:
        if delivery in self._in_hand:
            del self._in_hand[delivery]
            self._queue.deal()


class MemoryBroker:
    """The port `Broker` for one process: demo, simulator, evals, tests. `tally` is told of every packet."""

    def __init__(self, *, tally: Tally = untold) -> None:
        self._tally = tally
        self._queues = {stage: _Queue(stage, tally) for stage in Stage}
        self._closed = False

    async def publish(self, stage: Stage, packets: Sequence[Packet], *, notes: Sequence[str] = ()) -> None:
        if self._closed:
            self._tally(stage, Seen.NOT_PUBLISHED, len(packets))
            raise NotPublished("the broker is closed")
        self._tally(stage, Seen.PUBLISHED, len(packets))
        for packet, note in zip_longest(packets, notes):
            self._queues[stage].put(encode(packet), note)
        # A confirm takes a turn of the loop, so that who only publishes starves nobody.
        await asyncio.sleep(0)

    @asynccontextmanager
    async def consume(self, stage: Stage, *, prefetch: int) -> AsyncIterator[MemoryConsumer]:
        consumer = MemoryConsumer(self._queues[stage], prefetch=prefetch)
        consumer.attach()
        try:
            yield consumer
        finally:
            consumer.detach()

    async def ready(self, stage: Stage) -> int:
        if self._closed:
            raise Unavailable("the broker is closed")
        return len(self._queues[stage].waiting)

    async def dead_letters(self, stage: Stage, *, most: int) -> Sequence[DeadLetter]:
        return self._queues[stage].dead[:most]

    async def drop_dead_letters(self, stage: Stage) -> int:
        dropped = len(self._queues[stage].dead)
        self._queues[stage].dead.clear()
        return dropped

    async def rebuild(self) -> None:
        for queue in self._queues.values():
            queue.waiting.clear()

    async def close(self) -> None:
        self._closed = True
