"""Each stage grows and shrinks, and loses a process, while 1,000 conversations are under way: nothing is lost or doubled.

The customers are the chaos suite's, and so are the accounts afterwards; here no fault is undone, and none comes twice.
"""

import asyncio
import random
import re
import signal
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import httpx2
import pytest

from tests.chaos.accounts import problems
from tests.chaos.customers import Written, deliver_all, write
from tests.end_to_end.conftest import Tell
from tests.support.eventually import eventually
from tests.support.stack import ECHO, OWED, Running, Stack

pytestmark = [pytest.mark.stack, pytest.mark.postgres, pytest.mark.rabbitmq]

CONVERSATIONS = 1_000
MESSAGES = 3  # of each; the last two as people write, one right after the other
SECONDS = 18.0  # over which they write
BURST_S = 0.6
MODEL_S = (
    0.5  # one agent gives a business half of its 100 slots: 100 turns a second, of the 167 messages that come
)
AGENTS = 4
ALONE_S = 2.0  # what one process a stage is given before there are more
TOGETHER_S = 2.0
TURNS = re.compile(r"^leeway_turn_seconds_count\{.*\} (\d+)", re.MULTILINE)


def thousand_customers(chance: random.Random) -> list[Written]:
    script = write(
        messages=CONVERSATIONS * MESSAGES, conversations=CONVERSATIONS, seconds=SECONDS, chance=chance
    )
    by_id = {one.id: one for one in script}
    for conversation in range(CONVERSATIONS):
        second, third = (by_id[f"chaos-{conversation}-{k}"] for k in (1, 2))
        pause_s = chance.uniform(0.02, BURST_S)
        by_id[third.id] = replace(
            third, starts_s=second.starts_s + pause_s, at=second.at + timedelta(seconds=pause_s)
        )
    return sorted(by_id.values(), key=lambda one: one.starts_s + one.delay_s)


async def turns_of(agent: Running) -> int:
    """How many it has ended, by its own metrics."""
    async with httpx2.AsyncClient(trust_env=False, timeout=10) as client:
        shown = (await client.get(f"http://127.0.0.1:{agent.port}/metrics")).text
    return sum(map(int, TURNS.findall(shown)))


async def works(agent: Running) -> bool:
    return await turns_of(agent) > 0


async def grow_and_shrink(stack: Stack, tell: Tell) -> None:
    """From one process a stage to four agents, two guards and two dispatches, and back to other ones than the first."""
    clock = asyncio.get_running_loop().time
    await asyncio.sleep(ALONE_S)
    began = clock()
    added = [*stack.running["agent"][1:], stack.one("guard", 1), stack.one("dispatch", 1)]
    for one in added:
        one.start()
    for one in added:
        await one.ready()
    for agent in stack.running["agent"]:
        await eventually(lambda agent=agent: works(agent), within_s=30, every_s=0.1)
    tell(
        f"scaled to {AGENTS} agents, 2 guards, 2 dispatches, all of them at work, in {clock() - began:.1f} s"
    )
    await asyncio.sleep(TOGETHER_S)
    stack.one("agent", AGENTS - 1).kill()
    await asyncio.sleep(TOGETHER_S)
    await shrink(stack, [*stack.running["agent"][: AGENTS - 2], stack.one("guard"), stack.one("dispatch")])
    assert [len([one for one in ones if one.is_running]) for ones in stack.running.values()] == [1] * 4


async def shrink(stack: Stack, leaving: Sequence[Running]) -> None:
    owed = (await stack.ask(OWED))[0][0]
    assert owed > 50, "they are asked to go in the middle of their work"
    for one in leaving:
        one.send(signal.SIGTERM)
    for one in leaving:
        await one.ended()
        assert not one.logged("Traceback")


@pytest.mark.time_limit(180)
async def test_a_thousand_conversations_while_each_stage_grows_and_shrinks(stack: Stack, tell: Tell) -> None:
    shop = await stack.shop(window_ms=100)
    for _ in range(AGENTS):
        stack.make("agent", module=ECHO, LEEWAY_TEST_LATENCY_S=str(MODEL_S))
    for name in ("ingest", "guard", "guard", "dispatch", "dispatch"):
        stack.make(name)
    await stack.start()
    script = thousand_customers(random.Random(20_261_204))
    began = asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(deliver_all(stack, shop, script, within_s=120))
        tasks.create_task(grow_and_shrink(stack, tell))
    await stack.settled()
    found, figures = await problems(stack, script)
    took = asyncio.get_running_loop().time() - began
    tell(f"{figures} of {CONVERSATIONS} conversations in {took:.1f} s, scaled from 1 to {AGENTS} agents to 1")
    assert not found, "\n".join(found[:20])
    assert figures["messages"] == CONVERSATIONS * MESSAGES
