"""Whatever the database makes of a webhook, the channel hears a 503 and delivers again; a strange address is a 404."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from services.ingest.adapters.postgres_inbox import PostgresInbox
from shared.broker.memory import MemoryBroker
from shared.errors import Conflict, ConstraintRefused, LeewayError
from tests.support.faults import installation
from tests.support.stack import Stack, stack_on

pytestmark = pytest.mark.postgres


@pytest.fixture
async def stack(database_url: str) -> AsyncIterator[Stack]:
    """Only its database and its questions; no process of it runs."""
    async with stack_on(database_url, "amqp://none.invalid") as stack:
        yield stack


@pytest.mark.parametrize("error", [Conflict("met too often"), ConstraintRefused("some_key")], ids=type)
async def test_a_commit_that_fails_is_503(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, error: LeewayError
) -> None:
    async def fails(*_: Any) -> None:
        raise error

    shop = await stack.shop()
    monkeypatch.setattr(PostgresInbox, "store", fails)
    async with installation(stack.settings, MemoryBroker()) as one:
        assert await one.say(shop, "customer", "hello", message="m-1") == 503


@pytest.mark.parametrize("address", ["%00", "a%00b", "%ff", "x" * 300])
async def test_a_strange_address_is_404(stack: Stack, address: str) -> None:
    async with installation(stack.settings, MemoryBroker()) as one:
        answer = await one.client.post(f"/hooks/sim/{address}", content=b"{}")
        assert answer.status_code == 404
