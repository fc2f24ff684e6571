"""What a broker is and has, for a person who looks for what is wrong. Nothing is changed by looking."""

from dataclasses import dataclass

from aio_pika.abc import AbstractConnection
from aio_pika.exceptions import ChannelNotFoundEntity

from shared.broker.rabbit.declaring import declare
from shared.topology import DEAD_QUEUE, WORK_QUEUE


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A broker's product and version, our queues with the packets ready in them and who takes from them, and those it lacks."""

    product: str
    ready: dict[str, int]
    consumers: dict[str, int]
    missing: tuple[str, ...]


async def examine(connection: AbstractConnection) -> Examined:
    """Raises Misconfigured when a queue exists with other arguments; and the driver's errors."""
    ready: dict[str, int] = {}
    consumers: dict[str, int] = {}
    missing: list[str] = []
    for name in (*WORK_QUEUE.values(), *DEAD_QUEUE.values()):
        async with connection.channel(publisher_confirms=False) as channel:
            try:
                queue = await channel.declare_queue(name, passive=True)
            except ChannelNotFoundEntity:
                missing.append(name)
            else:
                ready[name] = queue.declaration_result.message_count or 0
                consumers[name] = queue.declaration_result.consumer_count or 0
    if not missing:  # then declaring makes nothing, and tells whether the arguments are ours
        await declare(connection)
    return Examined(product=_product(connection), ready=ready, consumers=consumers, missing=tuple(missing))


def _product(connection: AbstractConnection) -> str:
    transport = connection.transport
    properties = transport.connection.server_properties if transport is not None else {}
    return " ".join(_text(properties.get(key, "")) for key in ("product", "version")).strip() or "unknown"


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
