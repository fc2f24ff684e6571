"""RabbitMQ and Postgres are stopped, killed, blocked and wiped under the running stack."""

import asyncio
import signal
from collections.abc import Mapping

import httpx2
import pytest

from shared.ids import new_id
from shared.tickets import Stage
from shared.topology import EXCHANGE, WORK_QUEUE
from tests.support.brokers import raw_channel
from tests.support.eventually import eventually
from tests.support.servers import Servers
from tests.support.stack import ECHO, Running, Shop, Stack

pytestmark = [
    pytest.mark.stack,
    pytest.mark.postgres,
    pytest.mark.rabbitmq,
    pytest.mark.xdist_group("own-servers"),
]


async def all_ready(stack: Stack) -> bool:
    return not any([await one.why_not() for one in stack.every()])


async def answer(one: Running, path: str) -> str:
    async with httpx2.AsyncClient(trust_env=False, timeout=5) as client:
        return (await client.get(f"http://127.0.0.1:{one.port}{path}")).raise_for_status().text


async def not_ready(stack: Stack, reasons: Mapping[str, str | None]) -> bool:
    """Whether each service says just that of itself; None: it can work."""
    said = {name: await stack.one(name).why_not() for name in reasons}
    return said == reasons


WITHOUT_POSTGRES = {
    "ingest": "the database is away",
    "guard": "the database is away",
    "agent": "the agent does not hold its worker number",
    "dispatch": "dispatch does not hold its worker number",
}
WITHOUT_RABBITMQ = {
    "ingest": None,  # it answers 200 all the same: rows owe the work
    "guard": "the guard's queue does not feed it",
    "agent": "the agent's queue does not feed it",
    "dispatch": "dispatch's queue does not feed it",
}


class TestRabbitMQ:
    async def test_its_data_wiped_while_messages_are_under_way(
        self, own_stack: Stack, own_servers: Servers
    ) -> None:
        stack = own_stack
        shop = await stack.shop()
        await stack.start()
        stack.one("guard").send(signal.SIGSTOP)
        before_the_guard = await stack.customers_write(shop, 6)
        wiping = asyncio.create_task(own_servers.rabbitmq.wipe())
        meanwhile = await stack.customers_write(shop, 4)
        await wiping
        stack.one("guard").send(signal.SIGCONT)
        await stack.answered([*before_the_guard, *meanwhile])
        await eventually(lambda: all_ready(stack), within_s=60)

    async def test_killed_with_messages_before_during_and_after(
        self, own_stack: Stack, own_servers: Servers
    ) -> None:
        """BRK-01."""
        stack = own_stack
        shop = await stack.shop()
        await stack.start()
        senders = await stack.customers_write(shop, 15)
        await own_servers.rabbitmq.kill()
        await eventually(lambda: not_ready(stack, WITHOUT_RABBITMQ), within_s=30)
        senders += await stack.customers_write(shop, 15)
        await own_servers.rabbitmq.start()
        senders += await stack.customers_write(shop, 15)
        await stack.answered(senders)
        await eventually(lambda: all_ready(stack), within_s=60)
        assert await consumers(stack) == [1, 1, 1]

    async def test_blocked_by_a_memory_alarm(self, own_stack: Stack, own_servers: Servers) -> None:
        """200 all the same, and answered: at the latest when the alarm is over."""
        stack = own_stack
        shop = await stack.shop()
        await stack.start()
        await stack.answered(await stack.customers_write(shop, 2))
        await own_servers.rabbitmq.set_memory_alarm(True)
        async with asyncio.timeout(15):
            senders = [f"sim-{new_id().hex}" for _ in range(4)]
            assert [await stack.say(shop, "sim", sender, "hello") for sender in senders] == [200] * 4
        await asyncio.sleep(1)
        await own_servers.rabbitmq.set_memory_alarm(False)
        await stack.answered(senders)
        assert stack.one("ingest").is_running

    async def test_connections_closed_by_force(self, own_stack: Stack, own_servers: Servers) -> None:
        """BRK-03: also with packets in hand."""
        stack = own_stack
        shop = await stack.shop()
        await stack.start()
        for _ in range(2):
            senders = await stack.customers_write(shop, 4)
            await own_servers.rabbitmq.force_close_connections(stack.amqp_url)
            await stack.answered(senders)
        await eventually(lambda: all_ready(stack), within_s=60)
        assert all(one.is_running for one in stack.every())

    async def test_a_queue_deleted_under_its_consumer(self, own_stack: Stack, own_servers: Servers) -> None:
        stack = own_stack
        shop = await stack.shop()
        await stack.start()
        for stage in Stage:
            await own_servers.rabbitmq.delete_queue(stack.amqp_url, WORK_QUEUE[stage])
            await stack.answered(await stack.customers_write(shop, 2))
        await eventually(lambda: all_ready(stack), within_s=60)
        assert await consumers(stack) == [1, 1, 1]

    async def test_a_queue_unbound_before_its_service_starts(self, own_stack: Stack) -> None:
        """BRK-10: the message stays owed, and is answered when there is an agent."""
        stack = own_stack
        shop = await stack.shop()
        await stack.start("ingest", "guard", "dispatch")
        async with raw_channel(stack.amqp_url) as channel:
            queue = await channel.declare_queue(WORK_QUEUE[Stage.AGENT], passive=True)
            await queue.unbind(EXCHANGE, WORK_QUEUE[Stage.AGENT])
        senders = await stack.customers_write(shop, 2)
        await stack.start("agent")
        await stack.answered(senders)

    async def test_a_queue_with_other_arguments_is_said_in_one_line(self, own_stack: Stack) -> None:
        """BRK-08."""
        stack = own_stack
        async with raw_channel(stack.amqp_url) as channel:
            await channel.declare_queue(WORK_QUEUE[Stage.AGENT], durable=True)
        agent = stack.make("agent")
        agent.start()
        await eventually(lambda: not agent.is_running, within_s=30)
        assert agent.process is not None
        assert agent.process.exit_code == 1
        assert WORK_QUEUE[Stage.AGENT] in agent.tail()
        assert "--rebuild-broker" in agent.tail()
        assert "Traceback" not in agent.tail()

    async def test_a_backlog_is_bounded_by_prefetch_and_slots(self, own_stack: Stack) -> None:
        """BRK-09."""
        stack = own_stack
        shop = await stack.shop(window_ms=0)
        stack.make("agent", module=ECHO, LEEWAY_TEST_LATENCY_S="0.5", LEEWAY_SLOTS="8")
        await stack.start("ingest", "guard", "dispatch")
        senders = await stack.customers_write(shop, 60)
        await stack.start("agent")
        most = 0

        async def done() -> bool:
            nonlocal most
            most = max(
                most,
                (await stack.ask("select count(*) as n from leeway.llm_call where state = 'started'"))[0][
                    "n"
                ],
            )
            return (
                not (await stack.ask("select count(*) as n from leeway.turn where state = 'running'"))[0]["n"]
                and await stack.replies(senders[-1]) != []
            )

        await eventually(done, within_s=60)
        await stack.answered(senders)
        assert 1 <= most <= 8


async def consumers(stack: Stack) -> list[int]:
    async with raw_channel(stack.amqp_url) as channel:
        declared = [await channel.declare_queue(WORK_QUEUE[stage], passive=True) for stage in Stage]
        return [queue.declaration_result.consumer_count or 0 for queue in declared]


class TestPostgres:
    async def test_down_is_503_and_the_redelivery_succeeds(
        self, own_stack: Stack, own_servers: Servers
    ) -> None:
        stack = own_stack
        shop = await stack.shop()
        await stack.start()
        await stack.answered(await stack.customers_write(shop, 2))
        await own_servers.postgres.stop()
        statuses = [await stack.say(shop, "sim", "sim-down", "hello", message="down-1") for _ in range(2)]
        assert statuses == [503, 503]
        await eventually(lambda: not_ready(stack, WITHOUT_POSTGRES), within_s=20)
        assert [await answer(one, "/healthz") for one in stack.every()] == ["alive\n"] * 4
        await own_servers.postgres.start()
        await eventually(lambda: taken(stack, shop), within_s=60)
        await stack.answered(["sim-down"])
        await eventually(lambda: all_ready(stack), within_s=60)

    @pytest.mark.parametrize("hard", [False, True], ids=["restarted", "killed"])
    async def test_away_while_messages_are_under_way(
        self,
        own_stack: Stack,
        own_servers: Servers,
        hard: bool,
    ) -> None:
        stack = own_stack
        shop = await stack.shop()
        stack.make("agent", module=ECHO, LEEWAY_TEST_LATENCY_S="0.5")
        await stack.start()
        for pause in (0.05, 0.4):
            senders = await stack.customers_write(shop, 6)
            await asyncio.sleep(pause)
            await own_servers.postgres.restart(hard=hard)
            senders += await stack.customers_write(shop, 2)
            await stack.answered(senders)
        assert all(one.is_running for one in stack.every())

    async def test_every_session_ended_by_force(self, own_stack: Stack, own_servers: Servers) -> None:
        stack = own_stack
        shop = await stack.shop()
        await stack.start()
        for _ in range(2):
            senders = await stack.customers_write(shop, 4)
            await own_servers.postgres.force_close_connections(stack.database_url)
            await stack.answered(senders)

    async def test_a_pool_that_is_held_up_answers_in_time_and_recovers(self, own_stack: Stack) -> None:
        """PGS-04: the rows ingest needs are locked for longer than a statement may wait."""
        stack = own_stack
        shop = await stack.shop()
        stack.make("ingest", LEEWAY_POOL_SIZE="3")
        await stack.start()
        await stack.answered(await stack.customers_write(shop, 2))
        blocker = await stack.connect()
        try:
            await blocker.execute("begin; lock table leeway.inbound_message in access exclusive mode")
            async with asyncio.timeout(30), asyncio.TaskGroup() as posting:
                posts = [
                    posting.create_task(stack.say(shop, "sim", f"sim-held-{n}", "hello")) for n in range(30)
                ]
            assert {post.result() for post in posts} == {503}
            await blocker.execute("rollback")
        finally:
            await blocker.close()
        await stack.answered(await stack.customers_write(shop, 10))


async def taken(stack: Stack, shop: Shop) -> bool:
    return await stack.say(shop, "sim", "sim-down", "hello", message="down-1") == 200
