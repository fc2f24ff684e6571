"""One channel's life as a consumer: what it delivered, and the event that says it is over."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import aiormq
from aio_pika.abc import AbstractChannel, AbstractConnection
from aiormq.abc import DeliveredMessage

from shared.broker.rabbit.trouble import RAISED, cancellations, only_trouble, translated
from shared.errors import Unavailable, reason_of
from shared.tickets import Packet, Stage, decode
from shared.topology import NOTE_HEADER, WORK_QUEUE


@dataclass(frozen=True, slots=True)
class RabbitDelivery:
    packet: Packet
    redelivered: bool
    note: object
    tag: int
    subscription: "Subscription"

    async def ack(self) -> None:
        await self.subscription.ack(self.tag)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A message that is no packet, in hand and unacknowledged."""

    body: bytes
    reason: str
    tag: int
    subscription: "Subscription"


class Subscription:
    """At most `prefetch` messages unacknowledged, here and in the hands of whoever took them."""

    def __init__(self, stage: Stage, *, timeout_s: float, arrived: asyncio.Event) -> None:
        self.lost = asyncio.Event()
        self._stage = stage
        self._timeout_s = timeout_s
        self._arrived = arrived
        self._deliveries: deque[RabbitDelivery] = deque()
        self._in_hand: set[int] = set()
        self._stirred = False
        self._unreadable: Callable[[Unreadable], None]
        self._channel: AbstractChannel | None = None
        self._driver: aiormq.Channel | None = None
        self._closing: asyncio.Task[None] | None = None

    async def open(
        self, connection: AbstractConnection, *, prefetch: int, unreadable: Callable[[Unreadable], None]
    ) -> None:
        """Start consuming. Raises the driver's errors, among them that the queue is not there."""
        self._unreadable = unreadable
        self._channel = await connection.channel(publisher_confirms=False)
        self._channel.close_callbacks.add(self._on_end)
        await self._channel.set_qos(prefetch_count=prefetch)
        # aio-pika's own message and queue objects cost more than the packet is worth: below them from here.
        self._driver = cast("aiormq.Channel", await self._channel.get_underlay_channel())
        self._driver.on_consumer_cancel_callbacks.add(self._on_end)
        await self._driver.basic_consume(WORK_QUEUE[self._stage], self._on_message)

    def take(self, *, most: int) -> Sequence[RabbitDelivery]:
        """What is here, oldest first, of at most `most` tickets, but one packet if there is any."""
        taken: list[RabbitDelivery] = []
        tickets = 0
        while self._deliveries:
            tickets += len(self._deliveries[0].packet.ids)
            if taken and tickets > most:
                break
            taken.append(self._deliveries.popleft())
        return taken

    def was_idle(self) -> bool:
        """Whether nothing came since this was last asked, and nothing is in hand."""
        idle = not self._stirred and not self._in_hand
        self._stirred = False
        return idle

    async def ack(self, tag: int) -> None:
        """Acknowledge one message. Silent when the channel is lost: the broker has it back already."""
        if self._driver is None or tag not in self._in_hand:
            return
        self._in_hand.discard(tag)
        before = cancellations()
        try:
            async with asyncio.timeout(self._timeout_s):  # a dying connection takes ten frames, then none
                await self._driver.basic_ack(tag, wait=False)
        except RAISED as error:
            only_trouble(error, before=before)
            self._on_end()

    async def close(self) -> None:
        """Give back to the broker everything that is not acknowledged. May be called again."""
        self._on_end()
        if self._channel is None:
            return
        if self._closing is None:
            self._closing = asyncio.create_task(
                self._close_channel(self._channel), name="broker channel closing"
            )
        # Cancelled while it closes, aiormq closes a second time, for which the broker ends the connection.
        await asyncio.shield(self._closing)

    async def _close_channel(self, channel: AbstractChannel) -> None:
        with suppress(Unavailable), translated("closing a channel"):
            async with asyncio.timeout(self._timeout_s):
                await channel.close()

    def _on_end(self, *_: Any) -> None:
        self.lost.set()
        self._in_hand.clear()
        self._deliveries.clear()  # they come again, to us or to another

    async def _on_message(self, message: DeliveredMessage) -> None:
        tag, body = message.delivery_tag, message.body
        if tag is None or self.lost.is_set():
            return
        self._stirred = True
        self._in_hand.add(tag)
        try:
            packet = decode(body, self._stage)
        except Exception as error:
            # Unusable; and should it fail otherwise, the message must not stay in hand.
            self._unreadable(Unreadable(body=body, reason=reason_of(error), tag=tag, subscription=self))
            return
        headers = message.header.properties.headers
        note = headers.get(NOTE_HEADER) if headers else None
        self._deliveries.append(RabbitDelivery(packet, bool(message.redelivered), note, tag, self))
        self._arrived.set()
