"""Publishing with confirms, over a link of its own: in an alarm the broker stops reading from publishers."""

import asyncio
from collections.abc import Sequence
from itertools import count, zip_longest
from typing import cast

import aiormq
from aio_pika import DeliveryMode
from aio_pika.exceptions import ChannelNotFoundEntity, PublishError
from aiormq import spec
from pamqp.common import FieldTable

from shared.broker.rabbit.link import Link
from shared.broker.rabbit.trouble import RAISED, cancellations, in_words, only_trouble, translated
from shared.errors import LeewayError, NotPublished
from shared.topology import EXCHANGE

# A missing queue's consumers declare it themselves once they hear, and not all hear at once.
LEFT_TO_CONSUMERS_S = 1.0
Headers = FieldTable


class Publisher:
    """One channel in confirm mode, opened again when it was lost."""

    def __init__(self, link: Link, *, confirm_s: float) -> None:
        self._link = link
        self._confirm_s = confirm_s
        self._channel: aiormq.Channel | None = None
        self._opening = asyncio.Lock()
        self._missing_since: float | None = None
        self._numbers = count(1)

    async def publish(
        self, queue: str, bodies: Sequence[bytes], *, headers: Sequence[Headers | None] = ()
    ) -> None:
        """Publish them in flight together, each with its headers. Raises NotPublished unless each was confirmed in time."""
        try:
            async with asyncio.timeout(self._confirm_s):
                channel = await self._ready()
                failed = await self._send_all(channel, queue, bodies, headers)
        except TimeoutError as error:
            raise NotPublished(f"no confirm for {queue} within {self._confirm_s:g} s") from error
        except NotPublished:
            raise
        except LeewayError as error:
            raise NotPublished(str(error)) from error
        if failed is not None:
            raise failed

    async def _ready(self) -> aiormq.Channel:
        channel = self._channel
        if channel is None or channel.is_closed or self._missing_since is not None:
            async with self._opening:
                channel = await self._open()
        try:
            async with asyncio.timeout(0):
                await channel.connection.ready()
        except TimeoutError as error:
            # What is written now would pile up in our memory and arrive long after it was rung again.
            raise NotPublished("RabbitMQ takes no messages: an alarm (memory or disk) is on") from error
        return channel

    async def _open(self) -> aiormq.Channel:
        connection = self._link.connection()
        if self._missing_since is not None and _now() - self._missing_since > LEFT_TO_CONSUMERS_S:
            await self._link.declare()
            self._missing_since = None
        if self._channel is None or self._channel.is_closed:
            with translated("opening a channel"):
                channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
                self._channel = cast("aiormq.Channel", await channel.get_underlay_channel())
        return self._channel

    async def _send_all(
        self, channel: aiormq.Channel, queue: str, bodies: Sequence[bytes], headers: Sequence[Headers | None]
    ) -> NotPublished | None:
        if len(bodies) == 1:  # the ordinary case at rest, and a task costs as much as half a publish
            return await self._send(channel, queue, bodies[0], headers[0] if headers else None)
        async with asyncio.TaskGroup() as group:
            sending = [
                group.create_task(self._send(channel, queue, body, has))
                for body, has in zip_longest(bodies, headers)
            ]
        return next((failed for each in sending if (failed := each.result()) is not None), None)

    async def _send(
        self, channel: aiormq.Channel, queue: str, body: bytes, headers: Headers | None
    ) -> NotPublished | None:
        """Why it was not published, if so: one that fails does not call off the others.

        Without the driver's `wait`, or each would wait for the socket after the one before.
        """
        before = cancellations()
        properties = spec.Basic.Properties(
            content_type="application/json",
            delivery_mode=DeliveryMode.PERSISTENT,
            message_id=str(next(self._numbers)),  # tells aiormq what came back; its own default costs more
            headers=headers,
        )
        try:
            await channel.basic_publish(
                body, exchange=EXCHANGE, routing_key=queue, properties=properties, mandatory=True, wait=False
            )
        except RAISED as error:
            only_trouble(error, before=before)
            if isinstance(error, PublishError | ChannelNotFoundEntity):
                self._missing_since = self._missing_since or _now()
                return NotPublished(f"{queue} is not there or not bound; it will be declared again")
            return NotPublished(f"{queue} did not confirm: {in_words(error)}")
        return None


def _now() -> float:
    return asyncio.get_running_loop().time()
