"""Questions about queues, over one channel that is kept for them."""

import asyncio

from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import ChannelNotFoundEntity

from shared.broker.rabbit.link import Link
from shared.broker.rabbit.trouble import translated
from shared.errors import Unavailable


class QueueMissing(Unavailable):
    """The queue is not there: somebody deleted it, or the broker lost its disk."""


class Asking:
    """Asks by passive declare. A channel that an answer closed is opened again for the next question."""

    def __init__(self, link: Link, *, timeout_s: float) -> None:
        self._link = link
        self._timeout_s = timeout_s
        self._channel: AbstractChannel | None = None
        self._turn = asyncio.Lock()

    async def ready(self, queue: str) -> int:
        """How many packets wait in the queue. Raises QueueMissing, Unavailable."""
        connection = self._link.connection()
        with translated(f"counting {queue}"):
            async with asyncio.timeout(self._timeout_s), self._turn:
                if self._channel is None or self._channel.is_closed:
                    self._channel = await connection.channel(publisher_confirms=False)
                try:
                    declared = (await self._channel.declare_queue(queue, passive=True)).declaration_result
                except ChannelNotFoundEntity as error:
                    raise QueueMissing(f"RabbitMQ has no queue {queue}") from error
        return declared.message_count or 0
