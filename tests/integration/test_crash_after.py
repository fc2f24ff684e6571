"""A crash after each statement of a message's way, and each publish lost: answered exactly once, nothing left owed.

All four services die together and fresh ones start, on a real Postgres with either broker. The in-process broker dies
with them, and every ticket with it; RabbitMQ keeps its own.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import pytest

from shared.broker import Broker
from shared.broker.memory import MemoryBroker
from shared.clock import SystemClock
from shared.tickets import Stage
from tests.support.brokers import rabbit_broker
from tests.support.faults import Fault, Installation, installation
from tests.support.stack import Shop, Stack, stack_on

pytestmark = [pytest.mark.postgres, pytest.mark.rabbitmq]

HELLO = "hello"
HOURS = "What are your opening hours?"  # a call of the model, a tool's read, another call
BOOK = "Book a cleaning on {day} at 10, please"  # a call of the model, which asks
CUSTOMER = "+40700000001"

POINTS = {
    "I1 messages stored": ("ingest", "store", HELLO),
    "G2 judged": ("guard", "record", HELLO),
    "A1 claimed": ("agent", "claim", HELLO),
    "A3 first answer stored": ("agent", "end_call", HOURS),
    "A2 second call begun": ("agent", "begin_call", HOURS),
    "A4 committed with a question to the customer": ("agent", "commit_full", BOOK),
    "A3 with A4 committed": ("agent", "commit_plain", HELLO),
    "D2 send claimed": ("dispatch", "claim_plain", HELLO),
    "the provider's call": ("dispatch", "deliver_sim", HELLO),
    "D3 settled": ("dispatch", "settle", HELLO),
}


@pytest.fixture(params=["memory", "rabbitmq"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def stack(database_url: str, amqp_url: str) -> AsyncIterator[Stack]:
    """Only its database and its questions; no process of it runs."""
    async with stack_on(database_url, amqp_url) as stack:
        yield stack


@asynccontextmanager
async def some_broker(kind: str, url: str) -> AsyncIterator[Broker]:
    if kind == "memory":
        yield MemoryBroker()
        return
    async with rabbit_broker(url) as broker:
        yield broker


@asynccontextmanager
async def started(stack: Stack, kind: str, fault: Fault | None = None) -> AsyncIterator[Installation]:
    async with (
        some_broker(kind, stack.amqp_url) as broker,
        installation(stack.settings, broker, fault=fault) as one,
    ):
        yield one


async def until(fault: Fault) -> None:
    async with asyncio.timeout(30):
        await fault.happened.wait()


@pytest.mark.parametrize("point", POINTS)
async def test_crash_after(stack: Stack, kind: str, point: str) -> None:
    service, statement, text = POINTS[point]
    fault = Fault(service=service, after=statement)
    shop = await stack.shop(window_ms=0)
    async with started(stack, kind, fault) as dying:
        status = await dying.say(shop, CUSTOMER, text.format(day=f"{a_working_day():%A}"), message="m-1")
        assert status == (0 if service == "ingest" else 200)
        await until(fault)
    async with started(stack, kind):
        await stack.answered([CUSTOMER])
    await nothing_twice(stack)


async def test_crash_after_i1_and_the_channel_delivers_again(stack: Stack, kind: str) -> None:
    fault = Fault(service="ingest", after="store")
    shop = await stack.shop(window_ms=0)
    async with started(stack, kind, fault) as dying:
        assert await dying.say(shop, CUSTOMER, HELLO, message="m-1") == 0
    async with started(stack, kind) as fresh:
        assert await fresh.say(shop, CUSTOMER, HELLO, message="m-1") == 200
        await stack.answered([CUSTOMER])
    await nothing_twice(stack)


async def test_crash_after_x_executes_once_and_says_so_once(stack: Stack, kind: str) -> None:
    fault = Fault(service="agent", after="X")
    shop = await stack.shop(window_ms=0)
    async with started(stack, kind, fault) as dying:
        await asked(stack, dying, shop)
        assert await dying.say(shop, CUSTOMER, "YES", message="m-2") == 200
        await until(fault)
    async with started(stack, kind):
        await stack.answered([CUSTOMER], count=2)
    assert len(await stack.ask("select from clinic.appointment")) == 1
    assert len(await stack.ask("select from leeway.receipt")) == 1
    await nothing_twice(stack)


async def test_crash_after_d2_of_the_receipt(stack: Stack, kind: str) -> None:
    """The receipt's own way out, past the plain claim."""
    fault = Fault(service="agent", after="X")
    shop = await stack.shop(window_ms=0)
    async with started(stack, kind, fault) as dying:
        await asked(stack, dying, shop)
        assert await dying.say(shop, CUSTOMER, "YES", message="m-2") == 200
        await until(fault)
    again = Fault(service="dispatch", after="claim_plain")
    async with started(stack, kind, again):
        await until(again)
    async with started(stack, kind):
        await stack.answered([CUSTOMER], count=2)
    await nothing_twice(stack)


async def asked(stack: Stack, one: Installation, shop: Shop) -> None:
    """The customer wants an appointment and got the prompt."""
    text = BOOK.format(day=f"{a_working_day():%A}")
    assert await one.say(shop, CUSTOMER, text, message="m-1") == 200
    await stack.answered([CUSTOMER])
    assert "YES" in (await stack.replies(CUSTOMER))[0]


def a_working_day() -> datetime:
    """Not tomorrow, and not before a weekend."""
    day = SystemClock().now() + timedelta(days=2)
    while day.weekday() > 3:
        day += timedelta(days=1)
    return day


@pytest.mark.parametrize("stage", list(Stage))
async def test_a_publish_is_lost(stack: Stack, kind: str, stage: Stage) -> None:
    fault = Fault(lost=stage)
    shop = await stack.shop(window_ms=0)
    async with started(stack, kind, fault) as one:
        assert await one.say(shop, CUSTOMER, HELLO, message="m-1") == 200
        await stack.answered([CUSTOMER])
        assert fault.happened.is_set()
    await nothing_twice(stack)


async def nothing_twice(stack: Stack) -> None:
    """One turn a message, one outbound a turn, one delivery an outbound; every turn ended, every call closed or lost."""
    turns = await stack.ask("select state, count(*) as n from leeway.turn group by state")
    assert {row["state"] for row in turns} == {"done"}
    counts = (
        await stack.ask(
            "select (select count(*) from leeway.turn) as turns, (select count(*) from leeway.outbound) as outbounds,"
            " (select count(*) from leeway.sim_delivery) as deliveries,"
            " (select count(*) from leeway.outbound where state not in ('sent', 'delivered', 'read')) as unsent"
        )
    )[0]
    assert counts["turns"] == counts["outbounds"] == counts["deliveries"]
    assert counts["unsent"] == 0
