"""A message that kills its worker every time goes to people, and its neighbours are answered; what can't be read is
among the dead."""

import asyncio
from pathlib import Path

import aio_pika
import pytest

from shared.tickets import Stage
from shared.topology import DEAD_QUEUE, EXCHANGE, WORK_QUEUE
from tests.support.brokers import raw_channel
from tests.support.commands import environment, leeway
from tests.support.eventually import eventually
from tests.support.stack import ECHO, Running, Shop, Stack

pytestmark = [pytest.mark.stack, pytest.mark.postgres, pytest.mark.rabbitmq]

DEADLY = {"agent": ECHO, "guard": "tests.support.stack_guard", "dispatch": "tests.support.stack_dispatch"}
TEXT = {"agent": "die now", "guard": "kill the guard", "dispatch": "kill dispatch"}


async def restarted_whenever_it_dies(one: Running) -> None:
    """As a supervisor does."""
    while True:
        if not one.is_running:
            one.kill()
            one.start()
        await asyncio.sleep(0.05)


async def write(stack: Stack, shop: Shop, deadly: str) -> list[str]:
    neighbours = [f"neighbour-{n}" for n in range(6)]
    async with asyncio.TaskGroup() as writing:
        for n, sender in enumerate(neighbours):
            if n == 3:
                writing.create_task(stack.deliver(shop, "sim", "deadly", deadly))
            writing.create_task(stack.deliver(shop, "sim", sender, "hello"))
    return neighbours


@pytest.mark.parametrize("name", ["agent", "guard"])
async def test_goes_to_people(stack: Stack, name: str) -> None:
    shop = await stack.shop()
    one = stack.make(name, module=DEADLY[name])
    await stack.start(agent=ECHO)
    supervising = asyncio.create_task(restarted_whenever_it_dies(one))
    try:
        neighbours = await write(stack, shop, TEXT[name])
        await stack.answered(neighbours)
        await eventually(lambda: handed_over(stack), within_s=60)
    finally:
        supervising.cancel()
    await one.ready()
    await stack.settled()
    rows = await stack.ask("select stage, reason from leeway.dead")
    assert [row["stage"] for row in rows] == [name]
    assert len(await stack.replies("deadly")) == 1, "one fixed message, and silence after it"
    assert [len(await stack.replies(sender)) for sender in neighbours] == [1] * len(neighbours)


async def test_a_send_that_kills_is_not_sent_for_ever(stack: Stack) -> None:
    shop = await stack.shop()
    one = stack.make("dispatch", module=DEADLY["dispatch"])
    await stack.start(agent=ECHO)
    supervising = asyncio.create_task(restarted_whenever_it_dies(one))
    try:
        neighbours = await write(stack, shop, TEXT["dispatch"])
        await eventually(lambda: no_longer_queued(stack), within_s=60)
    finally:
        supervising.cancel()
    await one.ready()
    await eventually(lambda: all_answered(stack, neighbours), within_s=30)
    assert not await stack.replies("deadly")
    assert [len(await stack.replies(sender)) for sender in neighbours] == [1] * len(neighbours)


async def handed_over(stack: Stack) -> bool:
    rows = await stack.ask("select reason from leeway.handoff")
    return [row["reason"] for row in rows] == ["processing_failed"]


async def no_longer_queued(stack: Stack) -> bool:
    rows = await stack.ask("select state from leeway.outbound where body like '%kill dispatch%'")
    return [row["state"] for row in rows] in (["unknown"], ["draft"])


async def all_answered(stack: Stack, senders: list[str], *, count: int = 1) -> bool:
    return all([len(await stack.replies(sender)) >= count for sender in senders])


async def test_a_turn_that_raises_every_time_goes_to_people(stack: Stack, tmp_path: Path) -> None:
    """DUP-11: one apology at most, and an operator's task: who tries it again when the agent works gets it answered, once."""
    shop = await stack.shop()
    await stack.start(agent=ECHO)
    for _ in range(4):
        assert await stack.say(shop, "sim", "boom", "raise please", message="boom-1") == 200
    await stack.deliver(shop, "sim", "beside", "hello")
    await stack.answered(["beside"])
    await eventually(lambda: handed_over(stack), within_s=60)
    await stack.settled()
    assert len(await stack.replies("boom")) == 1
    (dead,) = await stack.ask("select id, stage from leeway.dead")
    assert dead["stage"] == "agent"

    await stack.one("agent").stop()
    healthy = stack.make("agent")
    healthy.start()
    await healthy.ready()
    env = environment(LEEWAY_DATABASE_URL=stack.database_url)
    retried = await leeway("dead", "retry", str(dead["id"]), cwd=tmp_path, env=env)
    assert retried.code == 0, retried.err
    await eventually(lambda: all_answered(stack, ["boom"], count=2), within_s=30)
    await stack.settled()
    assert len(await stack.replies("boom")) == 2


UNREADABLE = {
    "not JSON": b"not json",
    "no fields": b"{}",
    "another version": b'{"v":999,"kind":"conversation","ids":[]}',
    "huge": b"[" + b"9," * 400_000 + b"9]",
    "not text": b"\xff\xfe\x00",
}


async def test_what_cannot_be_read_is_among_the_dead_and_the_rest_flows(stack: Stack) -> None:
    """BRK-05."""
    shop = await stack.shop()
    await stack.start()
    async with raw_channel(stack.amqp_url) as channel:
        exchange = await channel.get_exchange(EXCHANGE)
        for stage in Stage:
            for body in UNREADABLE.values():
                await exchange.publish(aio_pika.Message(body), WORK_QUEUE[stage])
        await stack.deliver(shop, "sim", "beside", "hello")
        await stack.answered(["beside"])
        for stage in Stage:
            await eventually(
                lambda stage=stage: holds(channel, DEAD_QUEUE[stage], len(UNREADABLE)), within_s=30
            )
            assert await count(channel, WORK_QUEUE[stage]) == 0
            queue = await channel.declare_queue(DEAD_QUEUE[stage], passive=True)
            message = await queue.get(no_ack=True)
            assert message is not None
            assert "reason" in " ".join(message.headers), message.headers


async def count(channel: aio_pika.abc.AbstractChannel, queue: str) -> int:
    return (await channel.declare_queue(queue, passive=True)).declaration_result.message_count or 0


async def holds(channel: aio_pika.abc.AbstractChannel, queue: str, messages: int) -> bool:
    return await count(channel, queue) == messages
