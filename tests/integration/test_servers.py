"""The fixtures bring what they promise, whichever way the servers came."""

import asyncio

import aio_pika
import asyncpg
import pytest
from aio_pika.exceptions import ChannelInvalidStateError
from pamqp.common import FieldTable

from tests.support.servers import Postgres, RabbitMQ, Servers, database_of, vhost_of

LOST = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
DURABLE: FieldTable = {"x-queue-type": "quorum"}


async def rows(url: str) -> list[int]:
    connection = await asyncpg.connect(url)
    try:
        return [row["value"] for row in await connection.fetch("SELECT value FROM kept ORDER BY value")]
    finally:
        await connection.close()


async def encoding(url: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval("SHOW server_encoding")
    finally:
        await connection.close()


async def keep(url: str, value: int) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("CREATE TABLE IF NOT EXISTS kept (value int PRIMARY KEY)")
        await connection.execute("INSERT INTO kept VALUES ($1)", value)
    finally:
        await connection.close()


async def publish(url: str, queue: str, body: bytes) -> None:
    """Persistent and confirmed, to a quorum queue."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel(publisher_confirms=True)
        await channel.declare_queue(queue, durable=True, arguments=DURABLE)
        message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await channel.default_exchange.publish(message, routing_key=queue)


async def queued(url: str, queue: str) -> list[bytes]:
    """What lies in the queue, taken; the queue is made when it is not there."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        declared = await channel.declare_queue(queue, durable=True, arguments=DURABLE)
        bodies = []
        while (message := await declared.get(no_ack=True, fail=False)) is not None:
            bodies.append(message.body)
        return bodies


@pytest.mark.postgres
class TestPostgres:
    async def test_each_database_is_empty_and_apart(
        self, postgres: Postgres, empty_database_url: str
    ) -> None:
        assert await encoding(empty_database_url) == "UTF8"
        other = await postgres.create_database(migrated=False)
        await keep(empty_database_url, 1)
        await keep(other, 2)
        assert await rows(empty_database_url) == [1]
        await postgres.drop_database(other)
        with pytest.raises(asyncpg.InvalidCatalogNameError):
            await asyncpg.connect(other)

    async def test_a_database_can_be_dropped_under_its_clients(self, postgres: Postgres) -> None:
        url = await postgres.create_database(migrated=False)
        connection = await asyncpg.connect(url)
        assert await postgres.force_close_connections(url) == 1
        with pytest.raises(LOST):
            await connection.fetchval("SELECT 1")
        await postgres.drop_database(url)
        connection.terminate()

    async def test_the_shared_one_can_not_be_stopped(self, postgres: Postgres) -> None:
        with pytest.raises(AssertionError, match="own_servers"):
            await postgres.stop()

    async def test_migrated_databases_are_apart(self, database_url: str, postgres: Postgres) -> None:
        other = await postgres.create_database()
        assert database_of(other) != database_of(database_url)
        await postgres.drop_database(other)

    @pytest.mark.parametrize("hard", [False, True], ids=["orderly", "killed"])
    async def test_a_restart_keeps_what_was_committed(self, own_postgres: Postgres, *, hard: bool) -> None:
        url = await own_postgres.create_database(migrated=False)
        await keep(url, 7)
        await own_postgres.restart(hard=hard)
        assert await rows(url) == [7]
        await own_postgres.drop_database(url)

    async def test_a_stopped_server_refuses_clients(self, own_postgres: Postgres) -> None:
        url = await own_postgres.create_database(migrated=False)
        await own_postgres.stop()
        with pytest.raises(ConnectionRefusedError):
            await asyncpg.connect(url, timeout=5)
        await own_postgres.start()
        await own_postgres.drop_database(url)


@pytest.mark.rabbitmq
class TestRabbitMQ:
    async def test_each_vhost_is_empty_and_apart(self, rabbitmq: RabbitMQ, amqp_url: str) -> None:
        other = await rabbitmq.create_vhost()
        await publish(amqp_url, "work", b"mine")
        assert await queued(other, "work") == []
        assert await queued(amqp_url, "work") == [b"mine"]
        await rabbitmq.delete_vhost(other)

    async def test_connections_of_one_vhost_can_be_closed(self, rabbitmq: RabbitMQ, amqp_url: str) -> None:
        other = await rabbitmq.create_vhost()
        kept, lost = await aio_pika.connect(other), await aio_pika.connect(amqp_url)
        noticed = asyncio.Event()
        lost.close_callbacks.add(lambda *_: noticed.set())
        await rabbitmq.force_close_connections(amqp_url)
        async with asyncio.timeout(10):
            await noticed.wait()
        assert not kept.is_closed
        await kept.close()
        await rabbitmq.delete_vhost(other)

    async def test_a_queue_can_be_deleted(self, rabbitmq: RabbitMQ, amqp_url: str) -> None:
        await publish(amqp_url, "work", b"gone")
        await rabbitmq.delete_queue(vhost_of(amqp_url), "work")
        assert await queued(amqp_url, "work") == []

    async def test_the_shared_one_can_not_be_wiped(self, rabbitmq: RabbitMQ) -> None:
        with pytest.raises(AssertionError, match="own_servers"):
            await rabbitmq.wipe()

    @pytest.mark.parametrize("hard", [False, True], ids=["orderly", "killed"])
    async def test_a_restart_keeps_what_was_confirmed(self, own_rabbitmq: RabbitMQ, *, hard: bool) -> None:
        url = await own_rabbitmq.create_vhost()
        await publish(url, "work", b"kept")
        await own_rabbitmq.restart(hard=hard)
        assert await queued(url, "work") == [b"kept"]
        await own_rabbitmq.delete_vhost(url)

    async def test_a_wiped_server_has_the_vhost_and_nothing_in_it(self, own_rabbitmq: RabbitMQ) -> None:
        url = await own_rabbitmq.create_vhost()
        await publish(url, "work", b"lost")
        await own_rabbitmq.wipe()
        assert await queued(url, "work") == []
        await own_rabbitmq.delete_vhost(url)

    async def test_a_memory_alarm_blocks_publishers(self, own_rabbitmq: RabbitMQ) -> None:
        url = await own_rabbitmq.create_vhost()
        await own_rabbitmq.set_memory_alarm(True)
        with pytest.raises((TimeoutError, ChannelInvalidStateError)):
            async with asyncio.timeout(1):
                await publish(url, "work", b"late")
        await own_rabbitmq.set_memory_alarm(False)
        await publish(url, "work", b"on time")
        assert b"on time" in await queued(url, "work")
        await own_rabbitmq.delete_vhost(url)


@pytest.mark.postgres
@pytest.mark.rabbitmq
async def test_own_servers_are_not_the_shared_ones(
    own_servers: Servers, postgres: Postgres, rabbitmq: RabbitMQ
) -> None:
    assert own_servers.postgres.url != postgres.url
    assert own_servers.rabbitmq.url != rabbitmq.url
