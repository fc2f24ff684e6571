"""SIGTERM: a service stops taking, finishes or releases, and ends by itself within 20 s; nothing is lost."""

import asyncio
import signal

import pytest

from shared.ids import new_id
from tests.end_to_end.conftest import Tell
from tests.support.eventually import eventually
from tests.support.stack import ECHO, SERVICES, Shop, Stack

pytestmark = [pytest.mark.stack, pytest.mark.postgres, pytest.mark.rabbitmq]

DRAIN_S = 20.0
SLACK_S = 5.0  # of a machine that is busy with other tests


async def write(stack: Stack, shop: Shop, count: int) -> list[str]:
    senders = [f"{('sim', 'generic')[n % 2]}-{new_id().hex}" for n in range(count)]
    async with asyncio.TaskGroup() as writing:
        for sender in senders:
            writing.create_task(stack.deliver(shop, sender.partition("-")[0], sender, "hello"))
    return senders


@pytest.mark.parametrize("name", SERVICES)
async def test_drains_under_load_and_loses_nothing(stack: Stack, name: str) -> None:
    shop = await stack.shop()
    stack.make("agent", module=ECHO, LEEWAY_TEST_LATENCY_S="0.3")
    await stack.start()
    senders: list[str] = []
    for _ in range(2):
        writing = asyncio.create_task(write(stack, shop, 20))
        await asyncio.sleep(0.3)
        assert await stack.one(name).stop() < DRAIN_S + SLACK_S
        await stack.start(name)
        senders += await writing
    await stack.answered(senders)
    outcomes = await stack.ask("select state, count(*) as n from leeway.send_attempt group by state")
    assert {row["state"] for row in outcomes} == {"sent"}, "a drain leaves no send in the dark"


async def test_a_turn_that_would_take_longer_is_released_uncounted(stack: Stack, tell: Tell) -> None:
    shop = await stack.shop()
    stack.make("agent", module=ECHO)
    await stack.start()
    await stack.deliver(shop, "sim", "sim-long", "slow 40 please")
    await eventually(lambda: under_way(stack), within_s=20)
    took = await stack.one("agent").stop()
    assert took < DRAIN_S + SLACK_S
    tell(f"an agent with a 40-s model call ended {took:.1f} s after SIGTERM")
    turn = (await stack.ask("select fruitless from leeway.turn"))[0]
    row = (await stack.ask("select lease_token, due_at from leeway.conversation_state"))[0]
    assert (turn["fruitless"], row["lease_token"]) == (0, None)
    assert row["due_at"] is not None


async def under_way(stack: Stack) -> bool:
    return bool(await stack.ask("select from leeway.llm_call where state = 'started'"))


async def test_all_four_at_once(stack: Stack) -> None:
    shop = await stack.shop()
    await stack.start()
    senders = await write(stack, shop, 20)
    for one in stack.every():
        one.send(signal.SIGTERM)
    await eventually(lambda: not any(one.is_running for one in stack.every()), within_s=DRAIN_S + SLACK_S)
    for one in stack.every():
        assert one.process is not None
        assert one.process.exit_code == 0, one.tail()
        one.kill()
    await stack.start()
    await stack.answered(senders)
