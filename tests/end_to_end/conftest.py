"""Stacks of real processes: on the run's servers, or on servers that a test may stop, kill and wipe."""

from collections.abc import AsyncIterator, Callable

import pytest

from tests.support.desk import Desk
from tests.support.prometheus import prometheus
from tests.support.servers import Servers
from tests.support.stack import Stack, stack_on

__all__ = ["own_stack", "prometheus", "stack", "tell"]

Tell = Callable[[str], None]


@pytest.fixture
async def stack(database_url: str, amqp_url: str) -> AsyncIterator[Stack]:
    """Nothing of it runs before its `start`."""
    async with stack_on(database_url, amqp_url) as stack:
        yield stack


@pytest.fixture
async def own_stack(own_servers: Servers) -> AsyncIterator[Stack]:
    """On own_servers, for tests that take those away."""
    database_url = await own_servers.postgres.create_database()
    amqp_url = await own_servers.rabbitmq.create_vhost()
    async with stack_on(database_url, amqp_url) as stack:
        yield stack
    await own_servers.postgres.restore()
    await own_servers.rabbitmq.restore()
    await own_servers.postgres.drop_database(database_url)
    await own_servers.rabbitmq.delete_vhost(amqp_url)


@pytest.fixture
def tell(desk: Desk) -> Tell:
    """Shows a figure at the end of the run."""
    return desk.note
