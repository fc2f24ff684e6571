"""A service is killed while a message is on its way: it is answered exactly once, on both channels."""

import asyncio
import random
import signal
from collections.abc import Sequence

import pytest

from shared.ids import new_id
from tests.end_to_end.conftest import Tell
from tests.support.eventually import eventually
from tests.support.stack import ECHO, SERVICES, Shop, Stack

pytestmark = [pytest.mark.stack, pytest.mark.postgres, pytest.mark.rabbitmq]

KILLS = 4
WAY_S = 0.5  # a message's way from webhook to reply takes about this long, the burst window included
CHANNELS = ("sim", "generic")


async def two_customers_write(stack: Stack, shop: Shop) -> list[str]:
    senders = [f"{channel}-{new_id().hex}" for channel in CHANNELS]
    for channel, sender in zip(CHANNELS, senders, strict=True):
        await stack.deliver(shop, channel, sender, "hello")
    return senders


@pytest.mark.parametrize("name", SERVICES)
async def test_killed_at_any_moment_by_itself_and_started_again(stack: Stack, tell: Tell, name: str) -> None:
    shop = await stack.shop()
    await stack.start()
    chance = random.Random(name)
    longest = 0.0
    for _ in range(KILLS):
        writing = asyncio.create_task(two_customers_write(stack, shop))
        await asyncio.sleep(chance.uniform(0, WAY_S))
        stack.one(name).kill()
        began = asyncio.get_running_loop().time()
        await stack.start(name)
        await stack.answered(await writing)
        longest = max(longest, asyncio.get_running_loop().time() - began)
    assert stack.receiver.badly_signed == 0
    tell(f"{name} killed and started again: answered and nothing owed at most {longest:.1f} s after the kill")


@pytest.mark.parametrize("name", ["guard", "agent", "dispatch"])
async def test_killed_beside_another_of_its_stage(stack: Stack, tell: Tell, name: str) -> None:
    shop = await stack.shop()
    second = stack.make(name), stack.make(name)
    await stack.start()
    for one in second:
        if not one.is_running:
            one.start()
            await one.ready()
    chance = random.Random(name)
    longest = 0.0
    for turn in range(KILLS):
        senders = await two_customers_write(stack, shop)
        await asyncio.sleep(chance.uniform(0, WAY_S))
        killed = stack.one(name, turn % 2)
        killed.kill()
        began = asyncio.get_running_loop().time()
        await stack.answered(senders)
        longest = max(longest, asyncio.get_running_loop().time() - began)
        killed.start()
        await killed.ready()
    tell(f"{name} killed beside another: answered and nothing owed at most {longest:.1f} s after the kill")


class TestPointsMadeSureByStoppingWhatComesAfter:
    async def test_ingest_after_its_200(self, stack: Stack) -> None:
        shop = await stack.shop()
        await stack.start("ingest")
        senders = await two_customers_write(stack, shop)
        stack.one("ingest").kill()
        await stack.start("guard", "agent", "dispatch")
        await stack.answered(senders)

    async def test_the_guard_with_messages_in_hand_and_after_judging(self, stack: Stack) -> None:
        shop = await stack.shop()
        await stack.start("ingest", "guard")
        stack.one("guard").send(signal.SIGSTOP)
        in_hand = await two_customers_write(stack, shop)
        stack.one("guard").kill()
        await stack.start("guard")
        judged = await two_customers_write(stack, shop)
        await eventually(lambda: all_judged(stack), within_s=30)
        stack.one("guard").kill()
        await stack.start("agent", "dispatch")
        await stack.answered([*in_hand, *judged])

    async def test_the_agent_in_a_model_call(self, stack: Stack) -> None:
        shop = await stack.shop()
        stack.make("agent", module=ECHO, LEEWAY_TEST_LATENCY_S="1.5")
        await stack.start()
        senders = await two_customers_write(stack, shop)
        await eventually(lambda: calls_under_way(stack, 2), within_s=30)
        stack.one("agent").kill()
        await stack.start("agent")
        await stack.answered(senders)
        turns = await stack.ask("select attempts, state from leeway.turn")
        assert {(row["attempts"], row["state"]) for row in turns} == {(2, "done")}

    async def test_the_agent_after_its_commit(self, stack: Stack) -> None:
        shop = await stack.shop()
        await stack.start("ingest", "guard", "agent")
        senders = await two_customers_write(stack, shop)
        await eventually(lambda: outbounds(stack, "queued", 2), within_s=30)
        stack.one("agent").kill()
        await stack.start("dispatch")
        await stack.answered(senders)

    async def test_dispatch_in_the_providers_call(self, stack: Stack) -> None:
        shop = await stack.shop()
        await stack.start()
        stack.receiver.taking.clear()
        sender = f"generic-{new_id().hex}"
        await stack.deliver(shop, "generic", sender, "hello")
        await eventually(lambda: stack.receiver.requests.total() > 0, within_s=30)
        stack.one("dispatch").kill()
        stack.receiver.taking.set()
        await stack.start("dispatch")
        await stack.answered([sender])
        assert stack.receiver.requests.total() == 2
        assert len(stack.receiver.requests) == 1, "both under one key"

    async def test_dispatch_when_the_answer_was_lost(self, stack: Stack) -> None:
        shop = await stack.shop()
        await stack.start()
        stack.receiver.losing_answers = True
        sender = f"generic-{new_id().hex}"
        await stack.deliver(shop, "generic", sender, "hello")
        await eventually(lambda: stack.receiver.requests.total() > 1, within_s=30)
        stack.receiver.losing_answers = False
        await stack.answered([sender])
        assert len(stack.receiver.requests) == 1, "all under one key"


async def test_everything_is_killed_at_once(stack: Stack) -> None:
    shop = await stack.shop()
    await stack.start()
    chance = random.Random(7)
    senders: list[str] = []
    for _ in range(3):
        senders += await two_customers_write(stack, shop)
        await asyncio.sleep(chance.uniform(0, WAY_S))
        for one in stack.every():
            one.kill()
        await stack.start()
    await stack.answered(senders)


async def test_a_dead_agents_leases_are_void_at_once(stack: Stack, tell: Tell) -> None:
    shop = await stack.shop()
    for _ in range(2):
        stack.make("agent", module=ECHO)
    await stack.start("ingest", "guard", "agent", "dispatch")
    await stack.deliver(shop, "sim", "slow-one", "slow 20 please")
    await eventually(lambda: calls_under_way(stack, 1), within_s=30)
    holder = (
        await stack.ask(
            "select w.pid from leeway.conversation_state s join leeway.worker w on w.number = s.lease_worker"
        )
    )[0]["pid"]
    other = stack.make("agent", module=ECHO)
    other.start()
    await other.ready()
    killed = next(one for one in stack.running["agent"] if one.is_running and one.pid == holder)
    killed.kill()
    began = asyncio.get_running_loop().time()
    await eventually(lambda: turn_is_anothers(stack, holder), within_s=20)
    took = asyncio.get_running_loop().time() - began
    tell(f"a killed agent's lease was void and its turn taken up again after {took:.2f} s")


async def all_judged(stack: Stack) -> bool:
    return not (await stack.ask("select count(*) as n from leeway.inbound_message where seq is null"))[0]["n"]


async def calls_under_way(stack: Stack, count: int) -> bool:
    return (await stack.ask("select count(*) as n from leeway.llm_call where state = 'started'"))[0][
        "n"
    ] >= count


async def outbounds(stack: Stack, state: str, count: int) -> bool:
    return (await stack.ask("select count(*) as n from leeway.outbound where state = $1", state))[0][
        "n"
    ] >= count


async def turn_is_anothers(stack: Stack, pid: int) -> bool:
    rows: Sequence = await stack.ask(
        "select w.pid from leeway.conversation_state s join leeway.worker w on w.number = s.lease_worker where s.lease_token is not null"
    )
    return bool(rows) and rows[0]["pid"] != pid
