"""What only RabbitMQ does: restarts, lost connections and consumers, deleted queues, alarms, other arguments."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import aio_pika
import pytest

from shared.broker import Broker, Consumer, connect, rebuild
from shared.broker.rabbit import RabbitBroker
from shared.broker.rabbit.publishing import LEFT_TO_CONSUMERS_S
from shared.errors import Misconfigured, NotPublished, Unavailable
from shared.settings import Settings, Timeouts
from shared.tickets import Stage
from shared.topology import DEAD_QUEUE, EXCHANGE, QUEUE_ARGUMENTS, WORK_QUEUE
from tests.support.brokers import (
    RabbitRawQueue,
    acknowledge,
    ids_of,
    packet,
    rabbit_broker,
    raw_channel,
    take_tickets,
)
from tests.support.cut_line import line_to
from tests.support.eventually import eventually
from tests.support.servers import RabbitMQ

pytestmark = pytest.mark.rabbitmq

GUARD = Stage.GUARD
QUEUE = WORK_QUEUE[GUARD]
WATCH_S = 0.5
RESTART_S = 60.0


@pytest.fixture
async def broker(amqp_url: str) -> AsyncIterator[RabbitBroker]:
    async with rabbit_broker(amqp_url, watch_s=WATCH_S) as broker:
        yield broker


# Restarts and lost connections


@pytest.mark.parametrize("hard", [False, True], ids=["orderly", "killed"])
async def test_a_restarted_broker_is_found_again_and_nothing_acknowledged_comes_back(
    own_rabbitmq: RabbitMQ, *, hard: bool
) -> None:
    url = await own_rabbitmq.create_vhost()
    async with rabbit_broker(url) as broker, broker.consume(GUARD, prefetch=10) as consumer:
        await broker.publish(GUARD, [packet() for _ in range(50)])
        done = await take_and_acknowledge(consumer, 30)
        await eventually(
            lambda: has_ready(broker, 10)
        )  # of the 20 left, 10 are prefetched: all 30 acks arrived
        await own_rabbitmq.restart(hard=hard)
        await eventually(lambda: publishes(broker), within_s=RESTART_S)
        fresh = packet()
        await broker.publish(GUARD, [fresh])
        seen = await take_until(consumer, {*fresh.ids})
        assert consumer.attached
        assert not {*done} & {*seen}


async def test_a_broker_that_is_away_is_waited_for(own_rabbitmq: RabbitMQ) -> None:
    url = await own_rabbitmq.create_vhost()
    await own_rabbitmq.stop()
    async with rabbit_broker(url) as broker, broker.consume(GUARD, prefetch=10) as consumer:
        async with asyncio.timeout(1):
            with pytest.raises(NotPublished):
                await broker.publish(GUARD, [packet()])
            with pytest.raises(Unavailable):
                await broker.ready(GUARD)
        assert not consumer.attached
        waiting = asyncio.create_task(consumer.take(most=1))
        await own_rabbitmq.start()
        await eventually(lambda: publishes(broker), within_s=RESTART_S)
        async with asyncio.timeout(RESTART_S):
            assert len(await waiting) == 1


async def test_a_broker_that_goes_away_is_noticed(own_rabbitmq: RabbitMQ) -> None:
    url = await own_rabbitmq.create_vhost()
    async with rabbit_broker(url) as broker, broker.consume(GUARD, prefetch=10) as consumer:
        await broker.publish(GUARD, [packet()])
        (delivery,) = await take_tickets(consumer, 1)
        await own_rabbitmq.stop()
        await eventually(lambda: not consumer.attached)
        async with asyncio.timeout(1):
            await delivery.ack()  # swallowed
            await consumer.let_go()
            with pytest.raises(NotPublished):
                await broker.publish(GUARD, [packet()])


async def test_a_wiped_broker_works_again(own_rabbitmq: RabbitMQ) -> None:
    url = await own_rabbitmq.create_vhost()
    async with rabbit_broker(url) as broker, broker.consume(GUARD, prefetch=10) as consumer:
        await broker.publish(GUARD, [packet()])
        await take_tickets(consumer, 1)
        await own_rabbitmq.wipe()
        await eventually(lambda: publishes(broker), within_s=RESTART_S)
        await take_and_acknowledge(consumer, 1)
        assert await broker.ready(GUARD) == 0


async def test_closed_connections_come_back(rabbitmq: RabbitMQ, amqp_url: str, broker: RabbitBroker) -> None:
    async with broker.consume(GUARD, prefetch=10) as consumer:
        await broker.publish(GUARD, [packet()])
        (held,) = await take_tickets(consumer, 1)
        await rabbitmq.force_close_connections(amqp_url)
        await eventually(lambda: publishes(broker))
        await held.ack()  # too late: it comes again, and says so
        seen = await take_tickets(consumer, 2)
        assert [delivery.redelivered for delivery in seen if delivery.packet == held.packet] == [True]


@pytest.mark.parametrize("count", [1, 500])
async def test_a_connection_lost_before_the_confirm_never_counts_as_published(
    amqp_url: str, broker: RabbitBroker, count: int
) -> None:
    """The driver ends what waits for it with a CancelledError that nobody sent."""
    async with line_to(amqp_url) as line, rabbit_broker(line.url) as behind_it:
        await behind_it.publish(GUARD, [packet()])
        line.deaf = True
        async with asyncio.TaskGroup() as group:
            publishing = group.create_task(fails_to_publish(behind_it, count))
            await eventually(lambda: has_ready(broker, 1 + count))
            line.cut()
        assert publishing.result()
        await eventually(lambda: publishes(behind_it))


async def test_closing_while_the_broker_is_away_is_quick(own_rabbitmq: RabbitMQ) -> None:
    url = await own_rabbitmq.create_vhost()
    async with rabbit_broker(url) as broker, broker.consume(GUARD, prefetch=10) as consumer:
        await eventually(lambda: consumer.attached)
        await own_rabbitmq.kill()
        async with asyncio.timeout(5):
            await broker.close()


# Lost consumers and deleted queues


async def test_a_deleted_queue_is_noticed_and_declared_again(
    rabbitmq: RabbitMQ, amqp_url: str, broker: RabbitBroker
) -> None:
    async with broker.consume(GUARD, prefetch=10) as consumer:
        await eventually(lambda: consumer.attached)
        await rabbitmq.delete_queue(amqp_url, QUEUE)
        await eventually(lambda: publishes(broker))
        await take_and_acknowledge(consumer, 1)


async def test_every_consumer_of_a_deleted_queue_comes_back(
    rabbitmq: RabbitMQ, amqp_url: str, broker: RabbitBroker
) -> None:
    async with (
        rabbit_broker(amqp_url, watch_s=WATCH_S) as other_process,
        broker.consume(GUARD, prefetch=1) as one,
        other_process.consume(GUARD, prefetch=1) as other,
    ):
        await eventually(lambda: one.attached and other.attached)
        await rabbitmq.delete_queue(amqp_url, QUEUE)
        await eventually(lambda: publishes(broker))
        await eventually(lambda: publishes(broker))
        async with asyncio.timeout(10):
            await one.take(most=1)
            await other.take(most=1)


async def test_a_queue_deleted_and_declared_anew_at_once_delivers_again(
    amqp_url: str, broker: RabbitBroker
) -> None:
    """RabbitMQ may carry the consumer over, count it, and never send it anything."""
    async with broker.consume(GUARD, prefetch=10) as consumer:
        await broker.publish(GUARD, [packet()])
        await take_and_acknowledge(consumer, 1)
        for _ in range(3):
            await replace_queue(amqp_url, QUEUE_ARGUMENTS)
            await eventually(lambda: publishes(broker))
            await take_and_acknowledge(consumer, 1)


async def test_a_consumer_lost_without_a_word_is_noticed(broker: RabbitBroker) -> None:
    async with broker.consume(GUARD, prefetch=10) as consumer:
        await broker.publish(GUARD, [packet()])
        (held,) = await take_tickets(consumer, 1)
        driver = consumer._subscriptions[-1]._driver
        await driver.basic_cancel(next(iter(driver.consumers)))
        fresh = packet()
        await broker.publish(GUARD, [fresh])
        await held.ack()
        assert await take_and_acknowledge(consumer, 1) == [*fresh.ids]


async def test_what_comes_while_a_subscription_begins_is_not_overlooked(broker: RabbitBroker) -> None:
    for _ in range(100):
        await broker.publish(GUARD, [packet()])
        async with broker.consume(GUARD, prefetch=10) as consumer:
            await take_and_acknowledge(consumer, 1)


async def test_an_idle_consumer_is_attached_all_the_while(broker: RabbitBroker) -> None:
    async with broker.consume(GUARD, prefetch=10) as consumer:
        await eventually(lambda: consumer.attached)
        first = consumer._subscriptions[-1]
        async with asyncio.timeout(10):
            while consumer._subscriptions[-1] is first:
                assert consumer.attached
                await asyncio.sleep(0.001)
        assert consumer.attached


async def test_a_closed_channel_is_opened_again(broker: RabbitBroker) -> None:
    async with broker.consume(GUARD, prefetch=10) as consumer:
        await broker.publish(GUARD, [packet()])
        await take_tickets(consumer, 1)
        await consumer._subscriptions[-1]._driver.basic_ack(
            999
        )  # an unknown tag: the broker closes the channel
        (again,) = await take_tickets(consumer, 1)
        assert again.redelivered


# Publishing


async def test_what_no_queue_takes_is_not_published_and_mends_itself(
    amqp_url: str, broker: RabbitBroker
) -> None:
    async with raw_channel(amqp_url) as channel:
        await (await channel.get_queue(QUEUE)).unbind(EXCHANGE, routing_key=QUEUE)
    with pytest.raises(NotPublished, match=QUEUE):
        await broker.publish(GUARD, [packet()])
    with pytest.raises(NotPublished, match=QUEUE):
        await broker.publish(GUARD, [packet() for _ in range(10)])
    await asyncio.sleep(LEFT_TO_CONSUMERS_S)
    await broker.publish(GUARD, [packet()])
    await eventually(lambda: has_ready(broker, 1))


async def test_a_deleted_exchange_is_not_published_and_mends_itself(
    amqp_url: str, broker: RabbitBroker
) -> None:
    async with raw_channel(amqp_url) as channel:
        await channel.exchange_delete(EXCHANGE)
    with pytest.raises(NotPublished):
        await broker.publish(GUARD, [packet() for _ in range(3)])
    await eventually(lambda: publishes(broker))


async def test_a_publish_that_is_called_off_leaves_the_next_one_well(broker: RabbitBroker) -> None:
    for turns in range(6):
        async with asyncio.TaskGroup() as group:
            publishing = group.create_task(broker.publish(GUARD, [packet() for _ in range(50)]))
            for _ in range(turns):
                await asyncio.sleep(0)
            publishing.cancel()
        await broker.publish(GUARD, [packet()])


async def test_an_alarm_stops_publishing_at_once_and_consuming_not_at_all(own_rabbitmq: RabbitMQ) -> None:
    url = await own_rabbitmq.create_vhost()
    async with rabbit_broker(url, confirm_s=1.0) as broker, broker.consume(GUARD, prefetch=2) as consumer:
        await broker.publish(GUARD, [packet() for _ in range(6)])
        await own_rabbitmq.set_memory_alarm(True)
        with pytest.raises(NotPublished):
            async with asyncio.timeout(1.5):
                await broker.publish(GUARD, [packet()])
        with pytest.raises(NotPublished, match="alarm"):
            async with asyncio.timeout(0.1):
                await broker.publish(GUARD, [packet()])
        await take_and_acknowledge(consumer, 6)
        await own_rabbitmq.set_memory_alarm(False)
        await eventually(lambda: publishes(broker))


async def test_an_unreadable_message_is_held_while_it_cannot_be_moved(own_rabbitmq: RabbitMQ) -> None:
    url = await own_rabbitmq.create_vhost()
    async with rabbit_broker(url, confirm_s=0.5) as broker:
        await RabbitRawQueue(url).put(GUARD, [b"unreadable"])
        await own_rabbitmq.set_memory_alarm(True)
        async with broker.consume(GUARD, prefetch=2) as consumer:
            await eventually(lambda: has_ready(broker, 0))
            await asyncio.sleep(1.5)  # several attempts to move it
            assert consumer.attached
            assert await broker.dead_letters(GUARD, most=10) == []
            assert await broker.ready(GUARD) == 0
            await own_rabbitmq.set_memory_alarm(False)
            await eventually(lambda: has_dead(broker))
            await eventually(lambda: not consumer._subscriptions[-1]._in_hand)
    async with rabbit_broker(url) as broker:
        assert await broker.ready(GUARD) == 0


async def test_a_message_that_came_with_no_reason_is_listed_all_the_same(
    amqp_url: str, broker: RabbitBroker
) -> None:
    async with raw_channel(amqp_url) as channel:
        message = aio_pika.Message(b"put here by hand")
        await channel.default_exchange.publish(message, DEAD_QUEUE[GUARD])
    (letter,) = await broker.dead_letters(GUARD, most=10)
    assert letter.body == b"put here by hand"
    assert letter.reason


# What a person set


@pytest.mark.parametrize(
    "arguments",
    [{"x-queue-type": "classic"}, {"x-queue-type": "quorum"}, {**QUEUE_ARGUMENTS, "x-delivery-limit": 7}],
    ids=["another kind of queue", "an argument missing", "another limit"],
)
async def test_a_queue_with_other_arguments_is_one_clear_line_and_rebuilding_mends_it(
    amqp_url: str, arguments: dict[str, Any]
) -> None:
    async with raw_channel(amqp_url) as channel:
        await channel.declare_queue(QUEUE, durable=True, arguments=arguments)
    with pytest.raises(Misconfigured) as refused:
        await use(connect(settings(amqp_url)))
    line = str(refused.value)
    assert QUEUE in line
    assert "leeway migrate --rebuild-broker" in line
    assert "\n" not in line
    await rebuild(settings(amqp_url))
    async with connect(settings(amqp_url)) as broker:
        await broker.publish(GUARD, [packet()])


async def test_an_exchange_of_another_type_is_one_clear_line_and_rebuilding_mends_it(amqp_url: str) -> None:
    async with raw_channel(amqp_url) as channel:
        await channel.declare_exchange(EXCHANGE, aio_pika.ExchangeType.FANOUT, durable=True)
    with pytest.raises(Misconfigured, match=f"{EXCHANGE}.*leeway migrate --rebuild-broker"):
        await use(connect(settings(amqp_url)))
    await rebuild(settings(amqp_url))
    await use(connect(settings(amqp_url)))


async def test_a_queue_of_the_dead_with_other_arguments_is_never_deleted(amqp_url: str) -> None:
    async with raw_channel(amqp_url) as channel:
        await channel.declare_queue(DEAD_QUEUE[GUARD], durable=True)
    with pytest.raises(Misconfigured, match=DEAD_QUEUE[GUARD]):
        await use(connect(settings(amqp_url)))
    with pytest.raises(Misconfigured, match=DEAD_QUEUE[GUARD]):
        await rebuild(settings(amqp_url))


async def test_a_queue_that_was_replaced_later_is_survived_and_rebuilding_mends_it(
    rabbitmq: RabbitMQ, amqp_url: str, broker: RabbitBroker
) -> None:
    async with broker.consume(GUARD, prefetch=10) as consumer:
        await eventually(lambda: consumer.attached)
        await replace_queue(amqp_url, {"x-queue-type": "classic"})
        await rabbitmq.force_close_connections(amqp_url)
        await eventually(lambda: not consumer.attached)
        with pytest.raises(NotPublished):
            await broker.publish(GUARD, [packet()])
        await rebuild(settings(amqp_url))
        await eventually(lambda: publishes(broker))
        await take_and_acknowledge(consumer, 1)


@pytest.mark.parametrize(
    "wrong",
    [lambda url: url.replace("guest:guest", "guest:secret-word"), lambda url: url + "-that-is-not-there"],
    ids=["password", "virtual host"],
)
async def test_a_refused_user_or_virtual_host_is_one_line_without_the_password(
    amqp_url: str, wrong: Any
) -> None:
    with pytest.raises(Misconfigured, match="LEEWAY_AMQP_URL") as refused:
        await use(connect(settings(wrong(amqp_url))))
    assert "secret-word" not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("url", ["", "localhost", "http://localhost:5672/", "amqp://", "amqp://host:port/"])
async def test_a_url_that_is_none_is_one_line(url: str) -> None:
    with pytest.raises(Misconfigured, match="LEEWAY_AMQP_URL"):
        await use(connect(settings(url)))


def settings(url: str) -> Settings:
    return Settings(amqp_url=url, timeouts=Timeouts(confirm=5))


async def use(connecting: AbstractAsyncContextManager[Broker]) -> None:
    async with connecting:
        pass


async def replace_queue(url: str, arguments: dict[str, Any]) -> None:
    async with raw_channel(url) as channel:
        await channel.queue_delete(QUEUE)
        queue = await channel.declare_queue(QUEUE, durable=True, arguments=dict(arguments))
        await queue.bind(EXCHANGE, routing_key=QUEUE)


async def publishes(broker: Broker) -> bool:
    try:
        await broker.publish(GUARD, [packet()])
    except NotPublished:
        return False
    return True


async def fails_to_publish(broker: Broker, count: int) -> bool:
    try:
        await broker.publish(GUARD, [packet() for _ in range(count)])
    except NotPublished:
        return True
    return False


async def has_ready(broker: Broker, count: int) -> bool:
    return await broker.ready(GUARD) == count


async def has_dead(broker: Broker) -> bool:
    return len(await broker.dead_letters(GUARD, most=10)) == 1


async def take_and_acknowledge(consumer: Consumer, count: int) -> list[Any]:
    seen: list[Any] = []
    async with asyncio.timeout(30):
        while len(seen) < count:
            taken = await consumer.take(most=count - len(seen))
            await acknowledge(taken)
            seen += ids_of(taken)
    return seen


async def take_until(consumer: Consumer, wanted: set[Any]) -> list[Any]:
    seen: list[Any] = []
    async with asyncio.timeout(30):
        while not wanted <= {*seen}:
            taken = await consumer.take(most=10)
            await acknowledge(taken)
            seen += ids_of(taken)
    return seen
