"""What failed for good, given back by `leeway dead retry` to the running services: it ends in an answer, once."""

import asyncio
from pathlib import Path

import pytest

from services.dispatch.adapters.postgres_outbox import QUERIES as OUTBOX
from services.guard.adapters.postgres_conversations import QUERIES as CONVERSATIONS
from shared.database.pool import _settings
from shared.ids import new_id
from shared.settings import Timeouts
from tests.support.commands import Ended, environment, leeway
from tests.support.eventually import eventually
from tests.support.stack import Stack

pytestmark = [pytest.mark.stack, pytest.mark.postgres, pytest.mark.rabbitmq]


async def dead(stack: Stack, stage: str) -> str | None:
    """The stage's open letter, if it has one."""
    rows = await stack.ask("select id from leeway.dead where stage = $1 and settled_at is null", stage)
    return str(rows[0]["id"]) if rows else None


async def retried(stack: Stack, stage: str, tmp_path: Path, *, times: int = 1) -> list[Ended]:
    """By so many operators at once."""
    letter = await dead(stack, stage)
    assert letter is not None
    env = environment(LEEWAY_DATABASE_URL=stack.database_url, LEEWAY_AMQP_URL=stack.amqp_url)
    async with asyncio.TaskGroup() as tasks:
        runs = [
            tasks.create_task(leeway("dead", "retry", letter, cwd=tmp_path, env=env)) for _ in range(times)
        ]
    return [run.result() for run in runs]


async def as_the_service(stack: Stack, query: str, *arguments: object) -> None:
    connection = await stack.connect()
    try:
        for name, value in _settings(Timeouts()).items():
            await connection.execute("select set_config($1, $2, false)", name, value)
        await connection.execute("set search_path = leeway")
        await connection.fetch(query, *arguments)
    finally:
        await connection.close()


async def test_what_guard_and_dispatch_gave_up_is_answered_once_after_a_retry(
    stack: Stack, tmp_path: Path
) -> None:
    """The agent's: test_work_that_kills.py."""
    shop = await stack.shop()
    await stack.start()

    await stack.one("guard").stop()
    await stack.deliver(shop, "sim", "guard", "What is free tomorrow?")
    (unjudged,) = await stack.ask("select conversation from leeway.conversation_state where unguarded > 0")
    give_up = (unjudged["conversation"], new_id(), new_id(), "Something went wrong")
    await as_the_service(stack, CONVERSATIONS["give_up"], *give_up)
    await stack.start("guard")
    await eventually(lambda: has_replies(stack, "guard", 1), within_s=30)
    done, late = sorted(await retried(stack, "guard", tmp_path, times=2), key=lambda one: one.code)
    assert (done.code, late.code) == (0, 1)
    assert "settled already" in late.err
    await eventually(lambda: has_replies(stack, "guard", 2), within_s=30)

    await stack.one("dispatch").stop()
    await stack.deliver(shop, "sim", "dispatch", "What is free tomorrow?")
    await eventually(lambda: queued(stack), within_s=30)
    (reply,) = await stack.ask("select id from leeway.outbound where state = 'queued'")
    await as_the_service(stack, OUTBOX["give_up"], reply["id"], new_id())
    await stack.start("dispatch")
    (done,) = await retried(stack, "dispatch", tmp_path)
    assert done.code == 0, done.err
    await eventually(lambda: has_replies(stack, "dispatch", 1), within_s=30)

    await stack.settled()
    assert [len(await stack.replies(one)) for one in ("guard", "dispatch")] == [2, 1]


async def has_replies(stack: Stack, sender: str, count: int) -> bool:
    return len(await stack.replies(sender)) >= count


async def queued(stack: Stack) -> bool:
    return bool(await stack.ask("select from leeway.outbound where state = 'queued'"))
