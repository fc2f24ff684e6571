"""SIGTERM: a service stops taking, finishes or releases, and ends by itself within 20 s; nothing is lost."""

import asyncio
import os
import re
import signal
from collections import Counter

import pytest

from shared.ids import new_id
from tests.end_to_end.conftest import Tell
from tests.support import stack_ingest
from tests.support.eventually import eventually
from tests.support.stack import ECHO, HALF_A_BODY, SERVICES, Running, Shop, Stack

pytestmark = [pytest.mark.stack, pytest.mark.postgres, pytest.mark.rabbitmq]

DRAIN_S = 20.0
SLACK_S = 5.0  # of a machine that is busy with other tests

LIVES = 50
SIDE_BY_SIDE = 5  # ingests, each on a port of its own
POSTS = 6  # in a life, over some 20 ms
POST_EVERY_S = 0.004
TERM_AFTER_S = 0.010
LIFE = re.compile("^" + stack_ingest.BEGINS.format(r"(\d+)") + "$", re.MULTILINE)

# What a stopped stack must not leave: work that seems to be going on, and messages that nothing owes an answer.
IN_HAND = """
select (select count(*) from leeway.conversation_state where lease_token is not null or sending_attempt is not null)
     + (select count(*) from leeway.send_attempt where state in ('sending', 'unknown'))
     + (select count(*) from leeway.llm_call where state = 'started')
"""
FORGOTTEN = """
select count(*) from leeway.inbound_message m join leeway.conversation_state s on s.conversation = m.conversation
where (m.seq is null or m.seq > s.handled_seq) and s.guard_due_at is null and s.due_at is null
"""


@pytest.mark.parametrize("name", SERVICES)
async def test_drains_under_load_and_loses_nothing(stack: Stack, name: str) -> None:
    shop = await stack.shop()
    stack.make("agent", module=ECHO, LEEWAY_TEST_LATENCY_S="0.3")
    await stack.start()
    senders: list[str] = []
    for _ in range(2):
        writing = asyncio.create_task(stack.customers_write(shop, 20))
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
    async with stack.one("agent").connected(
        HALF_A_BODY % b"/metrics"
    ):  # which has the drain's time and no more
        took = await stack.one("agent").stop()
    assert took < DRAIN_S + SLACK_S
    tell(f"an agent with a 40-s model call ended {took:.1f} s after SIGTERM")
    turn = (await stack.ask("select fruitless from leeway.turn"))[0]
    row = (await stack.ask("select lease_token, due_at from leeway.conversation_state"))[0]
    assert (turn["fruitless"], row["lease_token"]) == (0, None)
    assert row["due_at"] is not None


async def under_way(stack: Stack) -> bool:
    return bool(await stack.ask("select from leeway.llm_call where state = 'started'"))


async def test_all_four_at_once_while_each_is_busy(stack: Stack) -> None:
    """OPS-06: each ends by itself with 0, nothing seems to be going on, and what was in flight is owed and answered."""
    shop = await stack.shop()
    stack.make("agent", module=ECHO, LEEWAY_TEST_LATENCY_S="0.5")
    await stack.start()
    stack.receiver.taking.clear()  # dispatch is in the middle of its calls until it is told to end
    senders = await stack.customers_write(shop, 20)
    await eventually(lambda: stack.receiver.requests.total() >= 5, within_s=30)
    writing = asyncio.create_task(stack.customers_write(shop, 60))  # which go on until they are taken
    await eventually(lambda: under_way(stack), within_s=30)
    for one in stack.every():
        one.send(signal.SIGTERM)
    stack.receiver.taking.set()
    for one in stack.every():
        await one.ended(within_s=DRAIN_S + SLACK_S)
        assert "Traceback" not in one.tail()
    assert (await stack.ask(IN_HAND))[0][0] == 0
    assert (await stack.ask(FORGOTTEN))[0][0] == 0
    await stack.start()
    await stack.answered(senders + await writing)


async def test_fifty_times_a_post_and_a_stop(stack: Stack, tell: Tell) -> None:
    """OPS-05: what got a 200 is answered, once; what got none may have been stored, and then is answered once too."""
    shop = await stack.shop()
    await stack.start("guard", "agent", "dispatch")
    ingests = [stack.make("ingest", module=stack_ingest.__name__) for _ in range(SIDE_BY_SIDE)]
    for ingest in ingests:
        ingest.start()
    async with asyncio.TaskGroup() as living:
        running = [living.create_task(lives(stack, shop, ingest)) for ingest in ingests]
    answers = {sender: status for lived in running for sender, status in lived.result().items()}
    assert len(answers) == LIVES * POSTS
    assert set(answers.values()) <= {200, 503, 0}
    taken = [sender for sender, status in answers.items() if status == 200]
    assert len(taken) >= LIVES, "posts did get through before the stops"
    await stack.answered(taken)
    others = await stack.all_replies([sender for sender, status in answers.items() if status != 200])
    assert all(len(replies) <= 1 for replies in others.values()), others
    tell(f"{LIVES} stops of ingest right after a post: answers by status {dict(Counter(answers.values()))}")


async def lives(stack: Stack, shop: Shop, ingest: Running) -> dict[str, int]:
    """One after another: posts, and in the midst of them SIGTERM. What each post was answered."""
    answers: dict[str, int] = {}
    for number in range(1, LIVES // SIDE_BY_SIDE + 1):
        await eventually(lambda number=number: len(said(ingest)) == number, within_s=30)
        await ingest.ready()
        async with asyncio.TaskGroup() as posting:
            posts = {}
            for n in range(POSTS):
                sender = f"{('sim', 'generic')[n % 2]}-{new_id().hex}"
                posts[sender] = posting.create_task(
                    stack.say(shop, sender.partition("-")[0], sender, "hello", to=ingest)
                )
                if n * POST_EVERY_S <= TERM_AFTER_S < (n + 1) * POST_EVERY_S:
                    os.kill(said(ingest)[-1], signal.SIGTERM)
                await asyncio.sleep(POST_EVERY_S)
        answers |= {sender: post.result() for sender, post in posts.items()}
    assert ingest.is_running, ingest.tail()
    assert not ingest.logged("Traceback")
    return answers


def said(ingest: Running) -> list[int]:
    """The processes of its lives so far."""
    return [int(number) for number in LIFE.findall(ingest.log.read_text())]
