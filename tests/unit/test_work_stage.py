"""The loop that feeds a stage, and its sweeper, on the broker in this process: nothing acknowledged before its claim."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

import pytest

from shared.broker.memory import MemoryBroker
from shared.errors import NotPublished, Unavailable
from shared.ids import new_id
from shared.telemetry.metrics import Metrics
from shared.tickets import Kind, Stage, packets
from shared.work.stage import ATTEMPTS_MAX, StageLoop, ring, rings_courtesies
from shared.work.sweeper import READY_MOST, sweep
from tests.support.eventually import eventually
from tests.support.factories import SetClock
from tests.support.faulty_broker import FaultyBroker

GUARD = Stage.GUARD
HOLD_S = 600.0


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Back-off and looks take a turn of the loop, and no time."""
    monkeypatch.setattr("shared.work.stage.BACKOFF_FIRST_S", 0.0)
    monkeypatch.setattr("shared.work.sweeper.LOOK_EVERY_S", 0.0)
    monkeypatch.setattr("shared.work.sweeper.PAUSE_AFTER_ERROR_S", 0.0)


class Rows:
    """What a stage owes, as its claims: it can be held up, be away, and hold tickets that raise."""

    def __init__(self) -> None:
        self.claims: list[list[UUID]] = []
        self.done: list[UUID] = []
        self.counts: dict[UUID, int] = {}
        self.given_up: list[UUID] = []
        self.raising: set[UUID] = set()
        self.owing_nothing: set[UUID] = set()
        self.away = False
        self.committing = asyncio.Event()
        self.committing.set()
        self.free = 100

    async def room(self) -> int:
        return self.free

    async def claim(self, ids: Sequence[UUID]) -> None:
        self.claims.append(list(ids))
        await self.committing.wait()
        if self.away:
            raise Unavailable("taken away by a test")
        if self.raising & set(ids):
            raise ZeroDivisionError
        self.done += ids

    async def count(self, ticket: UUID) -> int:
        if self.away:
            raise Unavailable("taken away by a test")
        if ticket in self.owing_nothing:
            return 0
        self.counts[ticket] = self.counts.get(ticket, 0) + 1
        return self.counts[ticket]

    async def give_up(self, ticket: UUID) -> None:
        self.given_up.append(ticket)


@pytest.fixture
async def rows() -> Rows:
    return Rows()


@pytest.fixture
async def broker() -> MemoryBroker:
    return MemoryBroker()


def loop_of(
    broker: MemoryBroker | FaultyBroker, rows: Rows, *, suspects: bool = True, clock: SetClock | None = None,
    batch: int = 100, prefetch: int = 32,
) -> StageLoop:  # fmt: skip
    return StageLoop(
        broker=broker,
        stage=GUARD,
        claims=rows,
        clock=clock or SetClock(),
        metrics=Metrics(process=False),
        prefetch=prefetch,
        batch=batch,
        hold_s=HOLD_S,
        suspects=suspects,
    )


@asynccontextmanager
async def running(loop: StageLoop) -> AsyncIterator[StageLoop]:
    async with asyncio.TaskGroup() as group:
        job = group.create_task(loop.run())
        yield loop
        job.cancel()


async def publish(broker: MemoryBroker | FaultyBroker, *ids: UUID) -> None:
    await broker.publish(GUARD, list(packets(GUARD, ids)))


async def unacknowledged(broker: MemoryBroker) -> list[UUID]:
    """What comes again once nobody holds it."""
    async with broker.consume(GUARD, prefetch=100) as consumer:
        if await broker.ready(GUARD) == 0:
            taking = asyncio.ensure_future(consumer.take(most=1000))
            await asyncio.sleep(0)
            if not taking.done():
                taking.cancel()
                return []
            return [ticket for delivery in taking.result() for ticket in delivery.packet.ids]
        return []


IDS = [new_id() for _ in range(5)]


async def test_what_is_at_hand_is_one_claim(broker: MemoryBroker, rows: Rows) -> None:
    for ticket in IDS:
        await publish(broker, ticket)
    async with running(loop_of(broker, rows)):
        await eventually(lambda: len(rows.done) == len(IDS))
    assert rows.claims == [IDS]
    assert not await unacknowledged(broker)


async def test_a_ticket_that_is_there_twice_is_claimed_once(broker: MemoryBroker, rows: Rows) -> None:
    for ticket in (IDS[0], IDS[1], IDS[0]):
        await publish(broker, ticket)
    async with running(loop_of(broker, rows)):
        await eventually(lambda: len(rows.done) == 2)
    assert rows.claims == [[IDS[0], IDS[1]]]


async def test_no_more_is_taken_than_there_is_room_for(broker: MemoryBroker, rows: Rows) -> None:
    rows.free = 2
    for ticket in IDS:
        await publish(broker, ticket)
    async with running(loop_of(broker, rows)):
        await eventually(lambda: len(rows.done) == len(IDS))
    assert [len(claim) for claim in rows.claims] == [2, 2, 1]


async def test_nothing_is_acknowledged_before_its_claim_is_committed(
    broker: MemoryBroker, rows: Rows
) -> None:
    rows.committing.clear()
    await publish(broker, IDS[0])
    async with running(loop_of(broker, rows)):
        await eventually(lambda: bool(rows.claims))
    assert await unacknowledged(broker) == [IDS[0]], "the worker died before the commit: it comes again"


async def test_a_committed_claim_is_acknowledged(broker: MemoryBroker, rows: Rows) -> None:
    await publish(broker, IDS[0])
    async with running(loop_of(broker, rows, prefetch=1)):
        await eventually(lambda: len(rows.done) == 1)
        await publish(broker, IDS[1])
        await eventually(lambda: len(rows.done) == 2)
    assert not await unacknowledged(broker)


async def test_a_batch_that_fails_is_repeated_ticket_by_ticket(broker: MemoryBroker, rows: Rows) -> None:
    rows.raising = {IDS[1]}
    await publish(broker, *IDS[:3])
    async with running(loop_of(broker, rows)):
        await eventually(lambda: len(rows.claims) == 4)
        await eventually(lambda: len(rows.done) == 2)
    assert rows.claims == [IDS[:3], [IDS[0]], [IDS[1]], [IDS[2]]]
    assert rows.done == [IDS[0], IDS[2]]
    assert rows.counts == dict.fromkeys(IDS[:3], 1)
    assert not await unacknowledged(broker), "what raised is left to its due time, not to the broker"


async def test_a_ticket_that_raises_every_time_is_given_up_after_five_attempts(
    broker: MemoryBroker, rows: Rows
) -> None:
    rows.raising = {IDS[0]}
    async with running(loop_of(broker, rows)):
        for attempt in range(1, ATTEMPTS_MAX + 2):
            await publish(broker, IDS[0])
            await eventually(lambda attempt=attempt: rows.counts.get(IDS[0]) == attempt)  # type: ignore[misc]
        await eventually(lambda: bool(rows.given_up))
    assert rows.given_up == [IDS[0]]
    assert len(rows.claims) == ATTEMPTS_MAX + 1 + ATTEMPTS_MAX, (
        "each time once in its batch, five times alone"
    )


async def redeliver(broker: MemoryBroker, *ids: UUID) -> None:
    """The packet as it comes after a worker died with it."""
    await publish(broker, *ids)
    async with broker.consume(GUARD, prefetch=10) as consumer:
        await consumer.take(most=100)


async def test_a_redelivered_packet_is_worked_ticket_by_ticket_each_counted_before(
    broker: MemoryBroker, rows: Rows
) -> None:
    await redeliver(broker, *IDS[:3])
    async with running(loop_of(broker, rows)):
        await eventually(lambda: len(rows.done) == 3)
    assert rows.claims == [[ticket] for ticket in IDS[:3]]
    assert rows.counts == dict.fromkeys(IDS[:3], 1)


async def test_a_first_delivery_counts_nothing(broker: MemoryBroker, rows: Rows) -> None:
    await publish(broker, *IDS)
    async with running(loop_of(broker, rows)):
        await eventually(lambda: len(rows.done) == len(IDS))
    assert not rows.counts


async def test_a_redelivered_ticket_that_owes_nothing_any_more_is_passed_over(
    broker: MemoryBroker, rows: Rows
) -> None:
    rows.owing_nothing = {IDS[0]}
    await redeliver(broker, *IDS[:2])
    async with running(loop_of(broker, rows)):
        await eventually(lambda: rows.done == [IDS[1]])
    assert rows.claims == [[IDS[1]]]


async def test_where_nothing_is_suspect_a_redelivered_packet_is_a_batch(
    broker: MemoryBroker, rows: Rows
) -> None:
    await redeliver(broker, *IDS[:3])
    async with running(loop_of(broker, rows, suspects=False)):
        await eventually(lambda: len(rows.done) == 3)
    assert rows.claims == [IDS[:3]]
    assert not rows.counts


async def test_a_killer_s_neighbours_are_worked(broker: MemoryBroker, rows: Rows) -> None:
    """A ticket at its limit is given up, and the packet it came in goes on."""
    rows.counts = {IDS[0]: ATTEMPTS_MAX}
    await redeliver(broker, *IDS[:3])
    async with running(loop_of(broker, rows)):
        await eventually(lambda: len(rows.done) == 2)
    assert rows.given_up == [IDS[0]]
    assert rows.done == [IDS[1], IDS[2]]


@pytest.mark.parametrize("how", ["first delivery", "redelivered"])
async def test_while_the_database_is_away_deliveries_are_held_and_nothing_is_counted(
    broker: MemoryBroker, rows: Rows, how: str
) -> None:
    rows.away = True
    if how == "redelivered":
        await redeliver(broker, IDS[0])
    else:
        await publish(broker, IDS[0])
    async with running(loop_of(broker, rows)) as loop:
        await eventually(lambda: loop.healthy is False and broker_holds(broker))
        rows.away = False
        await eventually(lambda: rows.done == [IDS[0]])
        await eventually(lambda: loop.healthy)
    assert not rows.given_up
    assert rows.counts == ({IDS[0]: 1} if how == "redelivered" else {})


def broker_holds(broker: MemoryBroker) -> bool:
    """Nothing went back to the queue."""
    return not broker._queues[GUARD].waiting


async def test_after_ten_minutes_of_holding_the_deliveries_go_back(broker: MemoryBroker, rows: Rows) -> None:
    clock = SetClock()
    rows.away = True
    await publish(broker, IDS[0])
    async with running(loop_of(broker, rows, clock=clock)):
        await eventually(lambda: len(rows.claims) > 1)
        clock.pass_(HOLD_S)
        await eventually(lambda: len(rows.claims) > 3)  # taken again: redelivered, so counted once it can be
        rows.away = False
        await eventually(lambda: rows.done == [IDS[0]])
    assert not await unacknowledged(broker)


async def test_a_stopped_loop_ends_what_it_took_and_takes_no_more(broker: MemoryBroker, rows: Rows) -> None:
    rows.committing.clear()
    loop = loop_of(broker, rows)
    async with asyncio.TaskGroup() as group:
        job = group.create_task(loop.run())
        await publish(broker, IDS[0])
        await eventually(lambda: bool(rows.claims))
        stopping = group.create_task(loop.stop())
        await publish(broker, IDS[1])
        rows.committing.set()
        await stopping
        await job
    assert rows.done == [IDS[0]]
    assert not loop.healthy
    assert await broker.ready(GUARD) == 1


async def test_a_stopped_loop_that_only_waits_ends_at_once(broker: MemoryBroker, rows: Rows) -> None:
    loop = loop_of(broker, rows)
    async with asyncio.TaskGroup() as group:
        job = group.create_task(loop.run())
        await eventually(lambda: loop.healthy)
        await loop.stop()
        await job
    assert not job.cancelled()


async def test_a_loop_is_healthy_while_its_queue_feeds_it(rows: Rows) -> None:
    faulty = FaultyBroker(MemoryBroker())
    loop = loop_of(faulty, rows)
    assert not loop.healthy
    async with running(loop):
        await eventually(lambda: loop.healthy)
        await faulty.lose_connection()
        assert not loop.healthy
        faulty.restore_connection()
        await eventually(lambda: loop.healthy)
    assert not loop.healthy


# Ringing


async def test_a_ring_that_is_not_published_is_no_error(rows: Rows) -> None:
    faulty = FaultyBroker(MemoryBroker())
    faulty.refusing = True
    await ring(faulty, GUARD, IDS)
    with pytest.raises(NotPublished):
        await publish(faulty, *IDS)


async def test_a_ring_of_nothing_publishes_nothing() -> None:
    faulty = FaultyBroker(MemoryBroker())
    await ring(faulty, GUARD, [])
    assert not faulty.published


# The sweeper


class Owed:
    """Rows that owe work until they are rung."""

    def __init__(self, *ids: UUID) -> None:
        self.due = list(ids)
        self.looks = 0
        self.away = False

    async def anything_due(self) -> bool:
        self.looks += 1
        if self.away:
            raise Unavailable("taken away by a test")
        return bool(self.due)

    async def ring_due(self, *, most: int) -> Sequence[UUID]:
        rung, self.due = self.due[:most], self.due[most:]
        return rung


@asynccontextmanager
async def sweeping(broker: MemoryBroker | FaultyBroker, owed: Owed) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        job = group.create_task(sweep(broker, GUARD, owed))
        yield
        job.cancel()


async def test_what_is_due_is_rung(broker: MemoryBroker) -> None:
    async with sweeping(broker, Owed(*IDS)), broker.consume(GUARD, prefetch=10) as consumer:
        (delivery,) = await consumer.take(most=100)
    assert list(delivery.packet.ids) == IDS


async def test_the_sweeper_is_silent_while_the_queue_is_full() -> None:
    """A broker wiped with 100,000 owed: what is rung is bounded by what is worked."""
    broker = MemoryBroker()
    for _ in range(READY_MOST + 1):
        await publish(broker, new_id())
    owed = Owed(*IDS)
    async with sweeping(broker, owed):
        await eventually(lambda: owed.looks > 3)
        assert owed.due == IDS
        async with broker.consume(GUARD, prefetch=1) as consumer:
            await consumer.take(most=1)
            await eventually(lambda: owed.due == [])


async def test_of_a_hundred_thousand_owed_no_more_is_rung_than_the_gate_lets_through(
    broker: MemoryBroker,
) -> None:
    owed = Owed(*(new_id() for _ in range(100_000)))
    async with sweeping(broker, owed):
        await eventually(lambda: owed.looks > 50)
    assert READY_MOST < await broker.ready(GUARD) <= READY_MOST + 5
    assert len(owed.due) > 85_000


async def test_the_sweeper_goes_on_when_the_database_was_away(broker: MemoryBroker) -> None:
    owed = Owed(*IDS)
    owed.away = True
    async with sweeping(broker, owed):
        await eventually(lambda: owed.looks > 2)
        owed.away = False
        await eventually(lambda: owed.due == [])
    assert await broker.ready(GUARD) == 1


async def test_the_sweeper_takes_nothing_while_the_broker_is_away() -> None:
    """Moving the ring time on for tickets that nobody gets would cost ten seconds."""
    faulty = FaultyBroker(MemoryBroker())
    await faulty.lose_connection()
    owed = Owed(*IDS)
    async with sweeping(faulty, owed):
        await eventually(lambda: owed.looks > 2)
        assert owed.due == IDS
        faulty.restore_connection()
        await eventually(lambda: owed.due == [])


# Beside the stage's own: courtesies


async def test_courtesies_are_handed_over_once_and_acknowledged(broker: MemoryBroker, rows: Rows) -> None:
    courtesies: list[UUID] = []
    async with asyncio.TaskGroup() as group:
        batcher = rings_courtesies(broker, most=10)
        asking = group.create_task(batcher.run())
        for message in IDS[:2]:
            batcher.enqueue(message)
        await broker.publish(Stage.DISPATCH, list(packets(Stage.DISPATCH, IDS[2:])))
        async with running(dispatch_loop(broker, rows, courtesies)):
            await eventually(lambda: len(rows.done) == 3 and len(courtesies) == 2)
        asking.cancel()
    assert courtesies == IDS[:2]
    assert sorted(rows.done) == sorted(IDS[2:])
    assert await broker.ready(Stage.DISPATCH) == 0


async def test_courtesies_that_somebody_had_before_are_dropped(broker: MemoryBroker, rows: Rows) -> None:
    """Whoever had them asked for them, or died of it."""
    courtesies: list[UUID] = []
    await ring(broker, Stage.DISPATCH, IDS[:1], kind=Kind.MESSAGE)
    async with broker.consume(Stage.DISPATCH, prefetch=1) as consumer:
        await consumer.take(most=10)
    await ring(broker, Stage.DISPATCH, IDS[1:2])
    async with running(dispatch_loop(broker, rows, courtesies)):
        await eventually(lambda: rows.done == IDS[1:2])
    assert not courtesies
    assert not rows.counts
    assert await broker.ready(Stage.DISPATCH) == 0


async def test_a_loop_that_knows_no_courtesies_passes_them_over(broker: MemoryBroker, rows: Rows) -> None:
    await ring(broker, Stage.DISPATCH, IDS[:1], kind=Kind.MESSAGE)
    await ring(broker, Stage.DISPATCH, IDS[1:2])
    async with running(dispatch_loop(broker, rows, None)):
        await eventually(lambda: rows.done == IDS[1:2])
    assert await broker.ready(Stage.DISPATCH) == 0


def dispatch_loop(broker: MemoryBroker, rows: Rows, courtesies: list[UUID] | None) -> StageLoop:
    loop = StageLoop(
        broker=broker,
        stage=Stage.DISPATCH,
        claims=rows,
        clock=SetClock(),
        metrics=Metrics(process=False),
        prefetch=32,
        batch=100,
        hold_s=HOLD_S,
        suspects=True,
    )
    if courtesies is not None:
        loop.aside = courtesies.extend
    return loop
