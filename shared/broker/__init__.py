"""The broker carries the work and nothing else: tickets, in packets. `port` says what it promises.

Whoever needs the in-process one makes it: `shared.broker.memory.MemoryBroker()`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shared.broker.port import Broker, Consumer, DeadLetter, Delivery, Seen, Tally, untold
from shared.broker.rabbit import Examined, RabbitBroker
from shared.settings import Settings

__all__ = [
    "Broker",
    "Consumer",
    "DeadLetter",
    "Delivery",
    "Examined",
    "Seen",
    "Tally",
    "connect",
    "examine",
    "rebuild",
]


@asynccontextmanager
async def connect(settings: Settings, *, tally: Tally = untold) -> AsyncIterator[Broker]:
    """The broker at ``LEEWAY_AMQP_URL``, for as long as the context lasts. `tally` is told of every packet.

    One that is away is no error: it is tried until it is there. Raises Misconfigured, in one line, when it
    refuses the user or the virtual host, or when a queue exists with other arguments.
    """
    broker = _broker(settings, tally)
    await broker.open()
    try:
        yield broker
    finally:
        await broker.close()


async def rebuild(settings: Settings) -> None:
    """Delete and declare the work queues, for those that `connect` refuses."""
    await _broker(settings).rebuild()


async def examine(settings: Settings) -> Examined:
    """What stands at ``LEEWAY_AMQP_URL``, nothing changed. Raises Unavailable, Misconfigured."""
    return await _broker(settings).examine()


def _broker(settings: Settings, tally: Tally = untold) -> RabbitBroker:
    url = settings.amqp_url.get_secret_value()
    return RabbitBroker(url, confirm_s=settings.timeouts.confirm, tally=tally)
