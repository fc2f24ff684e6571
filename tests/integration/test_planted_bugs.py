"""The planted bugs of transactions.md that a search can't show: each rule is a test, and each test sees its bug planted.

A bug is planted by a patched copy or a wrapper of the test's own. What the search shows is in tests/model.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

import services.agent.adapters.postgres_turns as turns_module
import services.agent.steps as steps_module
import services.agent.writing as writing_module
import shared.work.sweeper as sweeper_module
from services.agent.core.heard import Heard, Taken, take
from services.dispatch.adapters.channels.sim import SimChannel
from services.dispatch.adapters.postgres_outbox import PostgresOutbox
from services.guard.adapters import postgres_conversations
from services.guard.adapters.postgres_conversations import PostgresConversations
from services.ingest.adapters.postgres_inbox import PostgresInbox
from shared.broker.memory import MemoryBroker
from shared.clock import SystemClock
from shared.database import open_pool
from shared.database.queries import Queries
from shared.errors import Unavailable
from shared.ids import MessageId, new_id
from shared.llm.port import Answer
from shared.messages import MessageKind, Verdict
from shared.settings import Timeouts
from shared.telemetry.metrics import Metrics
from shared.tickets import Packet, Stage, packets
from shared.work.stage import StageLoop
from shared.work.sweeper import sweep
from tests.support.eventually import eventually
from tests.support.faults import Fault, Installation, installation
from tests.support.stack import Shop, Stack, stack_on

CUSTOMER = "+40700000001"
Patch = pytest.MonkeyPatch


# The loop that feeds a stage


class Claims:
    """A stage whose claim fails, or dies, as told."""

    def __init__(self, *, away: int = 0, dies: bool = False) -> None:
        self.away = away
        self.dies = dies
        self.claimed: list[UUID] = []
        self.counted = 0

    async def room(self) -> int:
        return 100

    async def claim(self, ids: Sequence[UUID]) -> None:
        if self.dies:
            await asyncio.get_running_loop().create_future()
        if self.away > 0:
            self.away -= 1
            raise Unavailable("the database is away")
        self.claimed += ids

    async def count(self, ticket: UUID) -> int:
        self.counted += 1
        return 1

    async def give_up(self, ticket: UUID) -> None:
        raise AssertionError("not expected here")


@asynccontextmanager
async def looping(broker: MemoryBroker, claims: Claims, loop: type[StageLoop]) -> AsyncIterator[None]:
    one = loop(
        broker=broker, stage=Stage.GUARD, claims=claims, clock=SystemClock(), metrics=Metrics(process=False),
        prefetch=4, batch=100, hold_s=60, suspects=True,
    )  # fmt: skip
    task = asyncio.create_task(one.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class AcksFirst(StageLoop):
    """Planted: acknowledges before the claim's commit."""

    async def _worked(self, deliveries: Any) -> bool:
        for delivery in deliveries:
            await delivery.ack()
        return await super()._worked(deliveries)


class Nacks(StageLoop):
    """Planted: gives the deliveries back when the database is lost."""

    async def _held(self, work: Callable[[], Any]) -> bool:
        try:
            await work()
        except Unavailable:
            return False
        return True


@pytest.mark.parametrize(("loop", "kept"), [(StageLoop, True), (AcksFirst, False)], ids=["holds", "planted"])
async def test_a_packet_is_acknowledged_when_its_claim_is_committed(
    loop: type[StageLoop], kept: bool
) -> None:
    broker, (packet,) = MemoryBroker(), packets(Stage.GUARD, [new_id()])
    await broker.publish(Stage.GUARD, [packet])
    async with looping(broker, Claims(dies=True), loop):
        await eventually(lambda: not broker._queues[Stage.GUARD].waiting)
        await asyncio.sleep(0.05)
    assert (await broker.ready(Stage.GUARD) == 1) is kept, (
        "of a worker that died in its claim the packet comes again"
    )


@pytest.mark.parametrize(("loop", "holds"), [(StageLoop, True), (Nacks, False)], ids=["holds", "planted"])
async def test_deliveries_are_held_while_the_database_is_away(loop: type[StageLoop], holds: bool) -> None:
    broker, claims, (packet,) = MemoryBroker(), Claims(away=3), packets(Stage.GUARD, [new_id()])
    async with looping(broker, claims, loop):
        await broker.publish(Stage.GUARD, [packet])
        await eventually(lambda: claims.claimed == list(packet.ids), within_s=20)
    assert (claims.counted == 0) is holds, "what is given back comes again as a suspect, and is counted"


# The sweeper's gate, on a real Postgres; all its times are a tenth

OWED = 3_000


@pytest.mark.postgres
@pytest.mark.parametrize("gate", [True, False], ids=["holds", "planted"])
async def test_a_wiped_broker_is_filled_again_once(database_url: str, monkeypatch: Patch, gate: bool) -> None:
    texts = dict(postgres_conversations.QUERIES)
    texts["ring_due"] = texts["ring_due"].replace("interval '10 s'", "interval '1 s'")
    monkeypatch.setattr(postgres_conversations, "QUERIES", Queries(texts))
    monkeypatch.setattr(sweeper_module, "LOOK_EVERY_S", 0.025)
    monkeypatch.setattr(sweeper_module, "READY_MOST", 4 if gate else 10**9)
    broker = Counting()
    async with stack_on(database_url, "amqp://none.invalid") as stack:
        await stack.shop()
        await owe(stack, OWED)
        pool = await open_pool(database_url, size=3, timeouts=Timeouts())
        sweeping = asyncio.create_task(sweep(broker, Stage.GUARD, PostgresConversations(pool)))
        working = asyncio.create_task(work_slowly(broker, stack))
        try:
            await eventually(lambda: owed(stack, 0), within_s=60, every_s=0.2)
        finally:
            for task in (sweeping, working):
                task.cancel()
            await asyncio.wait((sweeping, working))
            await pool.close()
    assert (broker.published <= 1.2 * OWED) is gate, f"{broker.published} published for {OWED} owed"


class Counting(MemoryBroker):
    published = 0

    async def publish(self, stage: Stage, packets: Sequence[Packet], *, notes: Sequence[str] = ()) -> None:
        self.published += sum(len(packet.ids) for packet in packets)
        await super().publish(stage, packets, notes=notes)


async def work_slowly(broker: MemoryBroker, stack: Stack) -> None:
    """A guard that judges a packet of a hundred every tenth of a second, and nothing else."""
    connection = await stack.connect()
    try:
        async with broker.consume(Stage.GUARD, prefetch=1) as consumer:
            while True:
                for delivery in await consumer.take(most=100):
                    await connection.execute(
                        "update leeway.conversation_state set unguarded = 0, guard_due_at = null where conversation = any ($1::uuid[])",
                        list(delivery.packet.ids),
                    )
                    await asyncio.sleep(0.1)
                    await delivery.ack()
    finally:
        await connection.close()


async def owe(stack: Stack, count: int) -> None:
    await stack.ask(
        """
        with made as materialized (select gen_random_uuid() as id, a.id as account, a.business
          from leeway.channel_account a, generate_series(1, $1::int) where a.channel = 'sim'),
        customers as (insert into leeway.customer (id, business) select id, business from made),
        conversations as (insert into leeway.conversation (id, business, account, customer) select id, business, account, id from made)
        insert into leeway.conversation_state (conversation, business, unguarded, guard_due_at)
        select id, business, 1, now() - interval '1 min' from made
        """,
        count,
    )


async def owed(stack: Stack, count: int) -> bool:
    query = "select count(*) as n from leeway.conversation_state where guard_due_at is not null"
    return (await stack.ask(query))[0]["n"] == count


# In a running installation


@pytest.fixture
async def stack(database_url: str) -> AsyncIterator[Stack]:
    """Only its database and its questions; no process of it runs."""
    async with stack_on(database_url, "amqp://none.invalid") as stack:
        yield stack


class KeylessChannel(SimChannel):
    """A provider that takes no idempotency key: what is handed to it twice arrives twice."""

    async def send(self, claimed: Any, *, key: str) -> Any:
        return await super().send(claimed, key=f"{key}-{claimed.attempt.hex}")


@pytest.mark.postgres
@pytest.mark.parametrize("resends", [False, True], ids=["holds", "planted"])
async def test_an_unknown_outcome_is_not_sent_again(stack: Stack, monkeypatch: Patch, resends: bool) -> None:
    init = PostgresOutbox.__init__

    def without_key(self: PostgresOutbox, *arguments: Any, **more: Any) -> None:
        init(self, *arguments, **(more | {"idempotent": ["sim"] if resends else []}))

    monkeypatch.setattr(PostgresOutbox, "__init__", without_key)
    monkeypatch.setattr("services.dispatch.wiring.SimChannel", KeylessChannel)
    shop = await stack.shop(window_ms=0)
    fault = Fault(service="dispatch", after="deliver_sim")
    async with installation(stack.settings, MemoryBroker(), fault=fault) as dying:
        await dying.say(shop, CUSTOMER, "hello", message="m-1")
        await happens(fault)
    async with installation(stack.settings, MemoryBroker()):
        await eventually(lambda: no_send_under_way(stack), within_s=30)
    assert (len(await stack.ask("select from leeway.sim_delivery")) == 1) is not resends
    states = [row["state"] for row in await stack.ask("select state from leeway.outbound")]
    assert (states == ["unknown"]) is not resends


async def happens(fault: Fault) -> None:
    async with asyncio.timeout(30):
        await fault.happened.wait()


async def no_send_under_way(stack: Stack) -> bool:
    query = "select from leeway.outbound where state in ('queued', 'sending')"
    return not await stack.ask(query)


@pytest.mark.postgres
@pytest.mark.parametrize("forgets", [False, True], ids=["holds", "planted"])
async def test_a_status_that_comes_before_the_provider_id_is_stored(
    stack: Stack, monkeypatch: Patch, forgets: bool
) -> None:
    """The provider knows its message by its own id, and says so before our settling is committed."""
    if forgets:
        monkeypatch.setattr(PostgresInbox, "retry_held", nothing_held)
    shop = await stack.shop(window_ms=0)
    settling = Held()
    monkeypatch.setattr(PostgresOutbox, "settle", settling.around(PostgresOutbox.settle))
    async with installation(stack.settings, MemoryBroker()) as one:
        await one.say(shop, CUSTOMER, "hello", message="m-1")
        await eventually(lambda: settling.waiting, within_s=30)
        attempt = (await stack.ask("select id from leeway.send_attempt"))[0]["id"]
        status = {"statuses": [{"status": "delivered", "provider_id": f"sim_{attempt.hex}"}]}
        assert await one.post(shop, status) == 200
        settling.go_on.set()
        await stack.settled()
        await stack.ask("update leeway.held_status set due_at = now() - interval '1 s'")
        if forgets:
            await asyncio.sleep(3)
        else:
            await eventually(lambda: delivered(stack), within_s=30)
        assert await delivered(stack) is not forgets


async def nothing_held(self: PostgresInbox) -> int:
    return 0


async def delivered(stack: Stack) -> bool:
    return [row["state"] for row in await stack.ask("select state from leeway.outbound")] == ["delivered"]


class Held:
    """Keeps a method waiting at its door."""

    def __init__(self) -> None:
        self.waiting = False
        self.go_on = asyncio.Event()

    def around(self, method: Callable[..., Any]) -> Callable[..., Any]:
        async def held(*arguments: Any) -> Any:
            self.waiting = True
            await self.go_on.wait()
            return await method(*arguments)

        return held


@pytest.mark.postgres
@pytest.mark.parametrize("skips", [False, True], ids=["holds", "planted"])
async def test_what_was_not_shown_is_not_executed(stack: Stack, monkeypatch: Patch, skips: bool) -> None:
    """The service gets another name between prompt and YES: nothing is written, and the customer is asked anew."""
    shop = await stack.shop(window_ms=0)
    if skips:
        always = b"always the same"
        for module in (steps_module, writing_module):
            monkeypatch.setattr(module, "digest", lambda *_: always)
    async with installation(stack.settings, MemoryBroker()) as one:
        await asked(stack, one, shop)
        if skips:
            await stack.ask("update leeway.pending_action set digest = $1", always)
        await stack.ask(
            "update clinic.service set names = replace(names::text, 'leaning', 'leaning de luxe')::jsonb"
        )
        await one.say(shop, CUSTOMER, "YES", message="m-2")
        await stack.answered([CUSTOMER], count=2)
        assert bool(await stack.ask("select from clinic.appointment")) is skips
        if not skips:
            assert "YES" in (await stack.replies(CUSTOMER))[1]
            await one.say(shop, CUSTOMER, "YES", message="m-3")
            await stack.answered([CUSTOMER], count=3)
            assert len(await stack.ask("select from clinic.appointment")) == 1


@pytest.mark.postgres
async def test_an_action_that_was_tampered_with_is_not_executed(stack: Stack) -> None:
    shop = await stack.shop(window_ms=0)
    async with installation(stack.settings, MemoryBroker()) as one:
        await asked(stack, one, shop)
        await stack.ask("update leeway.pending_action set arguments = replace(arguments, 'T10:00', 'T11:00')")
        await one.say(shop, CUSTOMER, "YES", message="m-2")
        await stack.answered([CUSTOMER], count=2)
        assert not await stack.ask("select from clinic.appointment")
        assert not await stack.ask("select from leeway.receipt")


async def asked(stack: Stack, one: Installation, shop: Shop) -> None:
    """The customer wants an appointment and got the prompt."""
    day = SystemClock().now() + timedelta(days=2)
    while day.weekday() > 3:
        day += timedelta(days=1)
    await one.say(shop, CUSTOMER, f"Book a cleaning on {day:%A} at 10, please", message="m-1")
    await stack.answered([CUSTOMER])


@pytest.mark.postgres
@pytest.mark.parametrize("counted", [False, True], ids=["holds", "planted"])
async def test_a_token_that_was_given_back_by_a_restore_fences_all_the_same(
    stack: Stack, monkeypatch: Patch, counted: bool
) -> None:
    """Two processes, each with a counter of its own, give the same token: the stopped one's commit gets through."""
    if counted:
        monkeypatch.setattr(turns_module, "random_token", lambda: UUID(int=1))
    shop = await stack.shop(window_ms=0)
    stopped, other = Waiting(), Waiting()
    async with installation(stack.settings, MemoryBroker(), model=stopped) as one:
        await one.say(shop, CUSTOMER, "hello", message="m-1")
        await eventually(lambda: stopped.asked == 1, within_s=30)
        async with installation(stack.settings, MemoryBroker(), model=other):
            await stack.ask("update leeway.conversation_state set lease_until = now() - interval '1 s'")
            await eventually(lambda: other.asked == 1, within_s=30)
            stopped.go_on.set()
            await eventually(lambda: stopped.answered == 1, within_s=30)
            await asyncio.sleep(0.5)
            assert bool(await stack.ask("select from leeway.outbound")) is counted


class Waiting:
    """A model that answers when it may."""

    provider = "test"
    name = "waiting"

    def __init__(self) -> None:
        self.asked = 0
        self.answered = 0
        self.go_on = asyncio.Event()

    async def complete(self, request: Any, *, timeout_s: float) -> Answer:
        self.asked += 1
        await self.go_on.wait()
        self.answered += 1
        return Answer(text="late", model=self.name)

    def price(self, usage: Any, *, model: str) -> None:
        return None

    async def close(self) -> None:
        """Nothing is held."""


# A tap among texts

NOW = datetime(2026, 12, 3, 8, tzinfo=UTC)


def heard(seq: int, kind: MessageKind) -> Heard:
    return Heard(
        seq=seq, id=MessageId(UUID(int=seq)), kind=kind, text=f"text {seq}", button=None, quoted=None,
        channel_at=NOW, received_at=NOW, verdict=Verdict.TURN, unsupported=False,
    )  # fmt: skip


def taps_first(messages: Sequence[Heard], *, after: int) -> Taken:
    """Planted: a tap is handled before the text ahead of it."""
    taps = [one for one in messages if one.kind is MessageKind.BUTTON and one.seq > after]
    return Taken(messages=(taps[0],), seq_to=taps[0].seq) if taps else take(messages, after=after)


@pytest.mark.parametrize(
    ("taking", "in_order"), [(take, True), (taps_first, False)], ids=["holds", "planted"]
)
def test_a_tap_waits_for_the_text_ahead_of_it(taking: Callable[..., Taken], in_order: bool) -> None:
    burst = [heard(1, MessageKind.TEXT), heard(2, MessageKind.BUTTON), heard(3, MessageKind.TEXT)]
    turns, handled = [], 0
    while handled < 3:
        taken = taking(burst, after=handled)
        turns += [one.seq for one in taken.messages]
        handled = taken.seq_to
    assert (turns == [1, 2, 3]) is in_order
