"""Exchange, queues and bindings as `shared.topology` says, on an open connection."""

from collections.abc import Mapping

from aio_pika import ExchangeType
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractExchange
from aio_pika.exceptions import ChannelPreconditionFailed

from shared.errors import Misconfigured
from shared.topology import DEAD_QUEUE, DEAD_QUEUE_ARGUMENTS, EXCHANGE, QUEUE_ARGUMENTS, WORK_QUEUE

REBUILD = "Run `leeway migrate --rebuild-broker`: it makes the work queues anew, and the rows fill them."


async def declare(connection: AbstractConnection) -> None:
    """Declare everything; a queue's routing key is its name. A repeat changes nothing.

    Raises Misconfigured, with what exists with other arguments and the way out; and the driver's errors.
    """
    async with connection.channel(publisher_confirms=False) as channel:
        try:
            exchange = await channel.declare_exchange(EXCHANGE, ExchangeType.DIRECT, durable=True)
        except ChannelPreconditionFailed as error:
            raise Misconfigured(f"The exchange {EXCHANGE} exists with another type. {REBUILD}") from error
        for name in WORK_QUEUE.values():
            await _declare_queue(channel, exchange, name, QUEUE_ARGUMENTS, way_out=REBUILD)
        for name in DEAD_QUEUE.values():
            way_out = f"Keep what you need of it, then delete it: `rabbitmqctl delete_queue {name}`."
            await _declare_queue(channel, exchange, name, DEAD_QUEUE_ARGUMENTS, way_out=way_out)


async def delete_work(connection: AbstractConnection) -> None:
    """Delete the exchange and the work queues with what is in them, whatever their arguments."""
    async with connection.channel(publisher_confirms=False) as channel:
        await channel.exchange_delete(EXCHANGE)
        for name in WORK_QUEUE.values():
            await channel.queue_delete(name)


async def _declare_queue(
    channel: AbstractChannel,
    exchange: AbstractExchange,
    name: str,
    arguments: Mapping[str, str | int],
    *,
    way_out: str,
) -> None:
    try:
        queue = await channel.declare_queue(name, durable=True, arguments=dict(arguments))
    except ChannelPreconditionFailed as error:
        raise Misconfigured(f"The queue {name} exists with other arguments. {way_out}") from error
    await queue.bind(exchange, routing_key=name)
