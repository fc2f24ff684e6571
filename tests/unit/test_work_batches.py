"""Natural batching and slots: one batch in flight, a bad item by itself, nothing claimed that has no room."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from shared.errors import Unavailable
from shared.work.batches import Batcher
from shared.work.slots import Slots


class Bad(Exception):
    """What one item does to its batch."""


class Statement:
    """A statement over arrays that can be held up, and that fails for a batch with a bad item in it."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.going = asyncio.Event()
        self.going.set()
        self.bad: set[int] = set()
        self.away = False
        self.in_flight = 0

    async def __call__(self, items: Sequence[int]) -> Sequence[int]:
        assert self.in_flight == 0, "one batch at a time"
        self.in_flight += 1
        try:
            self.batches.append(list(items))
            await self.going.wait()
            if self.away:
                raise Unavailable("away")
            if self.bad & set(items):
                raise Bad
            return [10 * item for item in items]
        finally:
            self.in_flight -= 1


@pytest.fixture
async def statement() -> Statement:
    return Statement()


@asynccontextmanager
async def running(statement: Statement, *, most: int = 100) -> AsyncIterator[Batcher[int, int]]:
    batcher: Batcher[int, int] = Batcher(statement, most=most)
    async with asyncio.TaskGroup() as group:
        job = group.create_task(batcher.run())
        yield batcher
        job.cancel()


async def settled(turns: int = 10) -> None:
    """Let every task that can go on do so."""
    for _ in range(turns):
        await asyncio.sleep(0)


async def test_an_item_alone_is_a_batch_of_one_at_once(statement: Statement) -> None:
    async with running(statement) as batcher:
        assert await batcher.submit(1) == 10
    assert statement.batches == [[1]]


async def test_what_arrived_while_a_batch_was_worked_is_the_next_one(statement: Statement) -> None:
    async with running(statement) as batcher:
        statement.going.clear()
        first = batcher.enqueue(1)
        await settled()
        others = [batcher.enqueue(item) for item in (2, 3, 4)]
        await settled()
        assert statement.batches == [[1]]
        statement.going.set()
        assert [await future for future in (first, *others)] == [10, 20, 30, 40]
    assert statement.batches == [[1], [2, 3, 4]]


async def test_a_batch_has_a_limit(statement: Statement) -> None:
    async with running(statement, most=3) as batcher:
        futures = [batcher.enqueue(item) for item in range(7)]
        assert [await future for future in futures] == [10 * item for item in range(7)]
    assert [len(batch) for batch in statement.batches] == [3, 3, 1]


async def test_a_bad_item_costs_its_neighbours_nothing(statement: Statement) -> None:
    statement.bad = {2}
    async with running(statement) as batcher:
        futures = [batcher.enqueue(item) for item in (1, 2, 3)]
        assert await futures[0] == 10
        assert await futures[2] == 30
        with pytest.raises(Bad):
            await futures[1]
        assert await batcher.submit(4) == 40
    assert statement.batches == [[1, 2, 3], [1], [2], [3], [4]]


async def test_what_is_away_is_nobody_s_fault_and_is_told_to_all(statement: Statement) -> None:
    statement.away = True
    async with running(statement) as batcher:
        futures = [batcher.enqueue(item) for item in (1, 2)]
        for future in futures:
            with pytest.raises(Unavailable):
                await future
        statement.away = False
        assert await batcher.submit(3) == 30
    assert statement.batches == [[1, 2], [3]], "no second try item by item"


async def test_who_gave_up_waiting_is_left_out_of_the_batch(statement: Statement) -> None:
    async with running(statement) as batcher:
        statement.going.clear()
        batcher.enqueue(1)
        await settled()
        batcher.enqueue(2).cancel()
        last = batcher.enqueue(3)
        statement.going.set()
        assert await last == 30
    assert statement.batches == [[1], [3]]


async def test_who_gave_up_while_it_was_worked_does_not_trouble_the_others(statement: Statement) -> None:
    async with running(statement) as batcher:
        statement.going.clear()
        first, second = batcher.enqueue(1), batcher.enqueue(2)
        await settled()
        first.cancel()
        statement.going.set()
        assert await second == 20


async def test_all_who_wait_are_cancelled_when_it_ends(statement: Statement) -> None:
    async with running(statement, most=1) as batcher:
        statement.going.clear()
        futures = [batcher.enqueue(item) for item in (1, 2)]
        await settled()
    assert all(future.cancelled() for future in futures)


# Slots


async def test_slots_bound_what_is_under_way() -> None:
    slots = Slots(2)
    assert await slots.room() == 2
    slots.take()
    assert await slots.room() == 1
    slots.take()
    assert (slots.free, slots.used) == (0, 2)


async def test_room_is_waited_for() -> None:
    slots = Slots(1)
    slots.take()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(slots.room())
        await settled()
        assert not waiting.done()
        slots.give_back()
    assert waiting.result() == 1


async def test_idle_is_when_none_is_in_use() -> None:
    slots = Slots(3)
    await slots.idle()
    slots.take()
    slots.take()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(slots.idle())
        slots.give_back()
        await settled()
        assert not waiting.done()
        slots.give_back()
    assert waiting.done()


async def test_all_who_wait_are_woken() -> None:
    slots = Slots(1)
    slots.take()
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(slots.room())
        group.create_task(slots.idle())
        await settled()
        slots.give_back()


async def test_a_slot_given_back_twice_is_our_mistake() -> None:
    with pytest.raises(AssertionError, match="given back twice"):
        Slots(1).give_back()
