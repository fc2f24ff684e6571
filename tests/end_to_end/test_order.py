"""Bursts, order and parallel work over two agent processes; the same webhook again and again."""

import asyncio
import itertools
from datetime import UTC, datetime, timedelta

import pytest

from shared.clock import SystemClock
from shared.ids import new_id
from tests.support.eventually import eventually
from tests.support.stack import ECHO, Stack

pytestmark = [pytest.mark.stack, pytest.mark.postgres, pytest.mark.rabbitmq]


async def two_agents(stack: Stack, **environment: str) -> None:
    for _ in range(2):
        stack.make("agent", module=ECHO, **environment)
    await stack.start(agents=2)


async def test_a_burst_of_five_is_one_turn_and_one_reply(stack: Stack) -> None:
    shop = await stack.shop(window_ms=1000)
    await two_agents(stack)
    for text in ("hi", "I want", "an appointment", "tomorrow", "at 10"):
        await stack.deliver(shop, "sim", "burst", text)
    await stack.answered(["burst"])
    assert await stack.replies("burst") == ["heard: hi | I want | an appointment | tomorrow | at 10"]
    assert len(await stack.ask("select from leeway.turn")) == 1


async def test_one_turn_at_a_time_and_in_order(stack: Stack) -> None:
    """Messages that come while a turn runs belong to the next one, whichever process takes it."""
    shop = await stack.shop(window_ms=0)
    await two_agents(stack, LEEWAY_TEST_LATENCY_S="0.3")
    texts = [
        f"question {n} about {word}" for n, word in enumerate(("price", "time", "place", "pain", "payment"))
    ]
    for text in texts:
        await stack.deliver(shop, "sim", "order", text)
        await asyncio.sleep(0.4)
    await stack.settled()
    turns = await stack.ask(
        "select seq_from, seq_to, started_at, ended_at from leeway.turn order by seq_from"
    )
    assert all(one["ended_at"] <= other["started_at"] for one, other in itertools.pairwise(turns))
    assert all(one["seq_to"] < other["seq_from"] for one, other in itertools.pairwise(turns))
    heard = " | ".join(reply.removeprefix("heard: ") for reply in await stack.replies("order")).split(" | ")
    assert list(dict.fromkeys(heard)) == texts, "each is answered, and in order"


async def test_two_hundred_conversations_at_once_are_answered_in_parallel(stack: Stack) -> None:
    shop = await stack.shop(window_ms=0)
    await two_agents(stack, LEEWAY_TEST_LATENCY_S="1.0")
    senders = [f"many-{n}" for n in range(200)]
    async with asyncio.TaskGroup() as writing:
        for sender in senders:
            writing.create_task(stack.deliver(shop, "sim", sender, "hello"))
    await stack.answered(senders)
    assert (await most_at_once(stack)) >= 20, "of 200 turns of a second each, many run side by side"


async def most_at_once(stack: Stack) -> int:
    turns = await stack.ask("select started_at, ended_at from leeway.turn")
    return max(sum(one["started_at"] <= t["started_at"] < one["ended_at"] for one in turns) for t in turns)


@pytest.mark.parametrize("channel", ["sim", "generic"])
async def test_the_same_webhook_twenty_times_at_once(stack: Stack, channel: str) -> None:
    shop = await stack.shop()
    await stack.start()
    async with asyncio.TaskGroup() as posting:
        posts = [
            posting.create_task(stack.say(shop, channel, "twenty", "hello", message="same-message"))
            for _ in range(20)
        ]
    assert {post.result() for post in posts} == {200}
    await stack.answered(["twenty"])
    assert len(await stack.ask("select from leeway.inbound_message")) == 1


async def test_a_repeat_after_a_restart_of_every_process_is_still_a_repeat(stack: Stack) -> None:
    """DUP-14, and DUP-07's repeat that comes later."""
    shop = await stack.shop()
    await stack.start()
    assert await stack.say(shop, "generic", "again", "hello", message="restart-1") == 200
    await stack.answered(["again"])
    for one in stack.every():
        one.kill()
    await stack.start()
    assert await stack.say(shop, "generic", "again", "hello", message="restart-1") == 200
    await stack.answered(["again"])
    assert len(await stack.ask("select from leeway.turn")) == 1


async def test_a_request_keeps_its_messages_order_and_the_channels_times(stack: Stack) -> None:
    """DUP-13 and DUP-03: array order at one second; the channel's time, not the arrival's, decides between seconds."""
    shop = await stack.shop(window_ms=800)
    await two_agents(stack)
    now = datetime.fromtimestamp(SystemClock().now().timestamp() // 1, UTC)
    messages = [
        {"id": "o-2", "from": "times", "text": "second", "at": (now - timedelta(seconds=10)).isoformat()},
        {"id": "o-3", "from": "times", "text": "third", "at": (now - timedelta(seconds=10)).isoformat()},
    ]
    assert await stack.post(shop, "sim", {"messages": messages}) == 200
    earlier = {"id": "o-1", "from": "times", "text": "first", "at": (now - timedelta(seconds=20)).isoformat()}
    assert await stack.post(shop, "sim", {"messages": [earlier]}) == 200
    await stack.settled()
    stored = await stack.ask(
        "select body, channel_at from leeway.inbound_message order by channel_at, received_at, id"
    )
    assert [row["channel_at"] for row in stored] == [now - timedelta(seconds=s) for s in (20, 10, 10)]
    assert [row["body"] for row in stored] == ["first", "second", "third"]
    replies = " ".join(await stack.replies("times"))
    assert all(text in replies for text in ("first", "second", "third"))


async def test_no_part_numbers_one_answer(stack: Stack) -> None:
    """BUR-05 and DUP-01: three texts by the generic webhook within two seconds, out of the writer's order."""
    shop = await stack.shop(window_ms=1000)
    await two_agents(stack)
    texts = (
        "tooth since yesterday and I would like",
        "Good morning, I have pain in a",
        "to come today after 17:00",
    )
    for text in texts:
        await stack.deliver(shop, "generic", "parts", text)
    await stack.answered(["parts"])
    (reply,) = await stack.replies("parts")
    assert all(text in reply for text in texts)


async def test_who_goes_on_writing_is_answered_within_the_longest_wait(stack: Stack) -> None:
    """BUR-08: a message every second into a window of two would keep it open for ever; ten seconds are the most."""
    shop = await stack.shop(window_ms=2000)
    await two_agents(stack)
    began = asyncio.get_running_loop().time()
    number = 0
    while not await stack.replies("goes-on"):
        assert asyncio.get_running_loop().time() - began < 30
        await stack.deliver(shop, "sim", "goes-on", f"and also {number} {new_id().hex}")
        number += 1
        await asyncio.sleep(0.9)
    assert number >= 5, "the window did hold"


async def test_one_business_that_waits_for_its_model_does_not_hold_up_another(stack: Stack) -> None:
    """BUR-07."""
    slow, quick = await stack.shop("slow"), await stack.shop("quick")
    for _ in range(1):
        stack.make("agent", module=ECHO, LEEWAY_SLOTS="4")
    await stack.start()
    for n in range(8):
        await stack.deliver(slow, "sim", f"slow-{n}", "slow 15 please")
    await eventually(lambda: turns_under_way(stack, 2), within_s=20)
    await stack.deliver(quick, "sim", "quick-1", "hello B")
    await eventually(lambda: has_reply(stack, "quick-1"), within_s=12)
    assert not await stack.replies("slow-0")


async def turns_under_way(stack: Stack, count: int) -> bool:
    return (await stack.ask("select count(*) as n from leeway.turn where state = 'running'"))[0]["n"] >= count


async def has_reply(stack: Stack, sender: str) -> bool:
    return bool(await stack.replies(sender))
