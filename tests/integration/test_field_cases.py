"""Field cases of the areas ingest-dup and postgres whose entrance exists and that need no process of their own.

What needs real processes or servers that go away is in tests/end_to_end (test_order, test_servers_go_away).
"""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from shared.broker.memory import MemoryBroker
from shared.clock import SystemClock
from tests.support.eventually import eventually
from tests.support.faults import installation
from tests.support.servers import database_of
from tests.support.stack import Stack, stack_on

pytestmark = pytest.mark.postgres

CUSTOMER = "+40700000001"


@pytest.fixture
async def stack(database_url: str) -> AsyncIterator[Stack]:
    """Only its database and its questions; no process of it runs."""
    async with stack_on(database_url, "amqp://none.invalid") as stack:
        yield stack


async def test_statuses_out_of_order_move_a_send_forward_only(stack: Stack) -> None:
    """DUP-09: read, delivered, sent, delivered again: it was read."""
    shop = await stack.shop(window_ms=0)
    async with installation(stack.settings, MemoryBroker()) as one:
        await one.say(shop, CUSTOMER, "hello", message="m-1")
        await stack.answered([CUSTOMER])
        attempt = (await stack.ask("select id from leeway.send_attempt"))[0]["id"]
        for status in ("read", "delivered", "sent", "delivered"):
            assert (
                await one.post(shop, {"statuses": [{"status": status, "correlation": str(attempt)}]}) == 200
            )
    assert [row["state"] for row in await stack.ask("select state from leeway.outbound")] == ["read"]


async def test_what_postgres_cannot_hold_is_stored_and_answered(stack: Stack) -> None:
    """PGS-01 and DUP-04: NUL and lone surrogates in text, name and ids; no name at all."""
    shop = await stack.shop(window_ms=0)
    hostile = "Hello\x00 there \ud800"
    async with installation(stack.settings, MemoryBroker()) as one:
        assert await one.say(shop, CUSTOMER, hostile, message="id\x00-1", name="An\x00a") == 200
        assert await one.say(shop, "+40700000002", "12345 is your code", message="m-2") == 200
        await stack.answered([CUSTOMER, "+40700000002"])
    stored = {
        row["external_id"]: row["body"]
        for row in await stack.ask("select external_id, body from leeway.inbound_message")
    }
    assert stored == {"id�-1": "Hello� there �", "m-2": "12345 is your code"}
    assert [row["name"] for row in await stack.ask("select name from leeway.customer order by phone")] == [
        "An�a",
        None,
    ]


@pytest.mark.parametrize("server_zone", ["UTC", "Europe/Bucharest", "America/St_Johns"])
async def test_the_servers_zone_moves_no_appointment(stack: Stack, server_zone: str) -> None:
    """PGS-10."""
    await stack.ask(f"alter database {database_of(stack.database_url)} set timezone = '{server_zone}'")
    shop = await stack.shop(window_ms=0)
    day = SystemClock().now().astimezone(ZoneInfo("Europe/Bucharest")) + timedelta(days=2)
    while day.weekday() > 3:
        day += timedelta(days=1)
    async with installation(stack.settings, MemoryBroker()) as one:
        await one.say(shop, CUSTOMER, f"Book a cleaning on {day:%A} at 10, please", message="m-1")
        await stack.answered([CUSTOMER])
        await one.say(shop, CUSTOMER, "YES", message="m-2")
        await stack.answered([CUSTOMER], count=2)
    booked: datetime = (await stack.ask("select starts_at from clinic.appointment"))[0]["starts_at"]
    assert booked == day.replace(hour=10, minute=0, second=0, microsecond=0).astimezone(UTC)
    without_zone = await stack.ask(
        "select table_name, column_name from information_schema.columns"
        " where table_schema in ('leeway', 'clinic') and data_type = 'timestamp without time zone'"
    )
    assert not without_zone


async def test_a_repeat_beside_new_messages_changes_nothing(stack: Stack) -> None:
    """DUP-12's kind: the same id in one request, twice, and again in the next, beside others."""
    shop = await stack.shop(window_ms=0)
    first = {"id": "m-1", "from": CUSTOMER, "text": "hello"}
    async with installation(stack.settings, MemoryBroker()) as one:
        assert await one.post(shop, {"messages": [first, first]}) == 200
        await stack.answered([CUSTOMER])
        other = {"id": "m-2", "from": "+40700000002", "text": "hello"}
        assert await one.post(shop, {"messages": [first, other]}) == 200
        await stack.answered([CUSTOMER, "+40700000002"])
        await eventually(lambda: is_idle(stack))
    assert len(await stack.ask("select from leeway.turn")) == 2


async def is_idle(stack: Stack) -> bool:
    return not await stack.ask(
        "select from leeway.conversation_state where unguarded > 0 or due_at is not null"
    )
