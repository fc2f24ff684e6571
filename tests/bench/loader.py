"""The loader: publishes ready-made messages for any contestant, confirmed, from the bench's own process.

It is the same for all, and its CPU is not counted for any. Messages are built before the clock starts, in the
form that the contestant's own library puts on the wire.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection, HeadersType

IN_FLIGHT = 100
CONFIRM_SECONDS = 10.0


@dataclass(frozen=True)
class Envelope:
    """One broker message, with the numbers of the tickets it carries."""

    queue: str
    body: bytes
    numbers: tuple[int, ...]
    headers: HeadersType = field(default_factory=dict)
    properties: dict[str, Any] = field(default_factory=dict)

    def message(self) -> aio_pika.Message:
        """The message as aio-pika takes it: persistent."""
        return aio_pika.Message(
            self.body,
            headers=self.headers,
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
            **self.properties,
        )


Pack = Callable[[Sequence[int]], list[Envelope]]
"""From message numbers to what is published for them."""


class Loader:
    """One connection and one confirming channel; an unroutable message is an error."""

    def __init__(self, connection: AbstractConnection, channel: AbstractChannel) -> None:
        self._connection = connection
        self._channel = channel

    @classmethod
    async def connect(cls, amqp_url: str) -> "Loader":
        """Opens the connection."""
        connection = await aio_pika.connect(amqp_url)
        return cls(connection, await connection.channel(publisher_confirms=True, on_return_raises=True))

    async def flood(self, envelopes: Sequence[Envelope]) -> None:
        """Publishes all of them as fast as confirms come back, some in flight at a time."""
        for start in range(0, len(envelopes), IN_FLIGHT):
            async with asyncio.TaskGroup() as group:
                for envelope in envelopes[start : start + IN_FLIGHT]:
                    group.create_task(self._publish(envelope))

    async def pace(self, numbers: range, pack: Pack, rate: float, *, packs: bool) -> dict[int, int]:
        """Publishes `rate` messages a second, whatever comes back; returns when each was due (ns).

        With `packs`, what came due while the last publish waited for its confirm goes out together: at rest
        that is one message. Else each goes out by itself, without waiting for those before it.
        """
        entered: dict[int, int] = {}
        began_ns = time.monotonic_ns()
        done = 0
        async with asyncio.TaskGroup() as group:
            while done < len(numbers):
                wait_s = done / rate - (time.monotonic_ns() - began_ns) / 1e9
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
                due = int((time.monotonic_ns() - began_ns) / 1e9 * rate) + 1
                now = numbers[done : max(done + 1, due)]
                for number in now:
                    entered[number] = began_ns + int((number - numbers[0]) / rate * 1e9)
                done += len(now)
                envelopes = pack(now)
                if packs:
                    await self.flood(envelopes)
                else:
                    for envelope in envelopes:
                        group.create_task(self._publish(envelope))
        return entered

    async def consumers(self, queue: str) -> int:
        """How many consumers a queue has; 0 when there is no such queue yet."""
        channel = await self._connection.channel()
        try:
            declared = await channel.declare_queue(queue, passive=True)
            return declared.declaration_result.consumer_count or 0
        except aio_pika.exceptions.ChannelNotFoundEntity:
            return 0
        finally:
            await channel.close()

    async def declare(self, queue: str, arguments: dict[str, Any]) -> None:
        """Declares a durable queue."""
        await self._channel.declare_queue(queue, durable=True, arguments=arguments)

    async def delete(self, queues: Sequence[str], exchanges: Sequence[str]) -> None:
        """Deletes what a run left behind; what is not there is no error."""
        for queue in queues:
            await self._channel.queue_delete(queue)
        for exchange in exchanges:
            await self._channel.exchange_delete(exchange)

    async def close(self) -> None:
        """Closes the connection."""
        await self._connection.close()

    async def _publish(self, envelope: Envelope) -> None:
        await self._channel.default_exchange.publish(
            envelope.message(), routing_key=envelope.queue, timeout=CONFIRM_SECONDS
        )
