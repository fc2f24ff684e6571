"""A stop at a bad moment: requests that never end, servers that are away, a start that is under way, a second signal.

The process ends by itself within the drain's time, with 0 and without a traceback.
"""

import asyncio
import contextlib
import json
import signal
from pathlib import Path

import pytest

from tests.end_to_end.conftest import Tell
from tests.support import stack_console
from tests.support.eventually import eventually
from tests.support.servers import Servers
from tests.support.stack import ECHO, HALF_A_BODY, HALF_A_HEAD, SERVICES, Running, Stack

pytestmark = [pytest.mark.stack, pytest.mark.postgres, pytest.mark.rabbitmq]

DRAIN_S = 20.0
HTTP_S = 5.0  # what a request is given to end by itself
SLACK_S = 5.0  # of a machine that is busy with other tests
MODEL_S = 2.0

KEPT_ALIVE = b"GET /healthz HTTP/1.1\r\nHost: leeway\r\n\r\n"
LIVE_PAGE = b"GET /live HTTP/1.1\r\nHost: leeway\r\n\r\n"
SESSIONS = """
select count(*) from pg_stat_activity where datname = current_database() and application_name = 'leeway'
"""


def assert_quiet(one: Running) -> None:
    """Every line of its log is one of ours, and none tells of an error."""
    lines = [json.loads(line) for line in one.log.read_text().splitlines()]
    assert [line for line in lines if line["level"] == "error"] == []


class TestRequestsThatDoNotEnd:
    async def test_a_console_with_streams_open(self, stack: Stack, tell: Tell) -> None:
        """OPS-07."""
        console = stack.make("console", module=stack_console.__name__)
        console.start()
        await console.ready()
        async with contextlib.AsyncExitStack() as opened:
            for sent in [LIVE_PAGE] * 3 + [KEPT_ALIVE]:
                reader = await opened.enter_async_context(console.connected(sent))
                assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            await opened.enter_async_context(console.connected(HALF_A_HEAD))
            assert (await stack.ask(SESSIONS))[0][0] > 0
            took = await console.stop()
        assert took < HTTP_S + SLACK_S
        assert (await stack.ask(SESSIONS))[0][0] == 0
        assert_quiet(console)
        tell(f"a console with three streams open ended {took:.1f} s after SIGTERM")

    async def test_an_ingest_with_webhooks_half_sent(self, stack: Stack) -> None:
        shop = await stack.shop()
        await stack.start("ingest")
        ingest = stack.one("ingest")
        async with contextlib.AsyncExitStack() as opened:
            path = f"/hooks/generic/{shop.address('generic')}".encode()
            for sent in (HALF_A_BODY % path, HALF_A_BODY % path, HALF_A_HEAD, KEPT_ALIVE):
                await opened.enter_async_context(ingest.connected(sent))
            assert await ingest.stop() < HTTP_S + SLACK_S
        assert_quiet(ingest)


async def all_asked(stack: Stack, count: int) -> bool:
    """Whether so many turns have come to their model."""
    return len(await stack.ask("select from leeway.llm_call")) == count


class TestServersThatAreAway:
    pytestmark = pytest.mark.xdist_group("own-servers")

    @pytest.mark.parametrize("name", ["postgres", "rabbitmq"])
    async def test_all_stop_and_nothing_is_lost(
        self, own_stack: Stack, own_servers: Servers, tell: Tell, name: str
    ) -> None:
        stack = own_stack
        shop = await stack.shop()
        stack.make("agent", module=ECHO, LEEWAY_TEST_LATENCY_S=str(MODEL_S))
        stack.make("console")
        await stack.start("console", *SERVICES)
        senders = await stack.customers_write(shop, 6)
        await eventually(lambda: all_asked(stack, len(senders)), within_s=20)
        server = own_servers.postgres if name == "postgres" else own_servers.rabbitmq
        await server.kill()
        began = asyncio.get_running_loop().time()
        for one in stack.every():
            one.send(signal.SIGTERM)
        for one in stack.every():
            await one.ended(within_s=DRAIN_S + SLACK_S)
            assert not one.logged("Traceback"), one.log.read_text()
        tell(f"with {name} away all ended {asyncio.get_running_loop().time() - began:.1f} s after SIGTERM")
        await server.start()
        await stack.start()
        await stack.answered(senders)


class TestSignals:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    async def test_as_soon_as_it_can_be_heard(self, stack: Stack, number: signal.Signals) -> None:
        """In the middle of the start, when some connections are open and others are not."""
        for name in (*SERVICES, "console"):
            one = stack.make(name)
            one.start()
            await eventually(lambda one=one: hears(one), within_s=30, every_s=0.002)
            assert await one.stop(number) < DRAIN_S
            assert_quiet(one)

    async def test_a_second_one_changes_nothing_and_ctrl_c_is_heard_as_well(self, stack: Stack) -> None:
        shop = await stack.shop()
        stack.make("agent", module=ECHO, LEEWAY_TEST_LATENCY_S=str(MODEL_S))
        await stack.start()
        senders = await stack.customers_write(shop, 4)
        await eventually(lambda: all_asked(stack, len(senders)), within_s=20)
        for first, second in ((signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGTERM)):
            for name in ("agent", "guard", "dispatch") if first is signal.SIGTERM else ("ingest",):
                stack.one(name).send(first)
                await asyncio.sleep(0.1)
                stack.one(name).send(second)
        for one in stack.every():
            await one.ended(within_s=DRAIN_S + SLACK_S)
            assert_quiet(one)
        assert len(await stack.ask("select from leeway.turn where state = 'done'")) == len(senders)


def hears(one: Running) -> bool:
    """Whether the process has a handler of its own for SIGTERM, as the system knows it."""
    status = Path(f"/proc/{one.pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) & 1 << (signal.SIGTERM - 1))
