"""The broker that fails when told to does what tests of the stages rely on."""

import asyncio

import pytest

from shared.broker.memory import MemoryBroker
from shared.errors import NotPublished, Unavailable
from shared.tickets import Stage
from tests.support.brokers import ids_of, packet, take_tickets, takes_nothing
from tests.support.eventually import eventually
from tests.support.faulty_broker import FaultyBroker

GUARD = Stage.GUARD


@pytest.fixture
def broker() -> FaultyBroker:
    return FaultyBroker(MemoryBroker())


async def test_without_a_fault_it_is_the_broker_inside(broker: FaultyBroker) -> None:
    sent = packet()
    await broker.publish(GUARD, [sent])
    assert broker.published == [(GUARD, sent)]
    async with broker.consume(GUARD, prefetch=2) as consumer:
        assert ids_of(await take_tickets(consumer, 1)) == [*sent.ids]


async def test_it_refuses(broker: FaultyBroker) -> None:
    broker.refusing = True
    with pytest.raises(NotPublished):
        await broker.publish(GUARD, [packet()])
    assert await broker.ready(GUARD) == 0


async def test_it_loses_what_it_confirmed(broker: FaultyBroker) -> None:
    broker.dropping = True
    await broker.publish(GUARD, [packet()])
    assert await broker.ready(GUARD) == 0


async def test_it_duplicates(broker: FaultyBroker) -> None:
    broker.duplicating = True
    await broker.publish(GUARD, [packet()])
    assert await broker.ready(GUARD) == 2


async def test_it_holds_confirms(broker: FaultyBroker) -> None:
    broker.hold_confirms()
    async with asyncio.TaskGroup() as group:
        publishing = group.create_task(broker.publish(GUARD, [packet()]))
        await eventually(lambda: _has_ready(broker, 1))
        assert not publishing.done()
        broker.release_confirms()


async def test_it_loses_the_connection_under_a_waiting_take_and_comes_back(broker: FaultyBroker) -> None:
    async with broker.consume(GUARD, prefetch=2) as consumer, asyncio.TaskGroup() as group:
        taking = group.create_task(consumer.take(most=1))
        await asyncio.sleep(0)
        await broker.lose_connection()
        assert not consumer.attached
        with pytest.raises(NotPublished):
            await broker.publish(GUARD, [packet()])
        with pytest.raises(Unavailable):
            await broker.ready(GUARD)
        broker.restore_connection()
        await broker.publish(GUARD, [packet()])
        assert len(await taking) == 1


async def test_what_was_in_hand_comes_again(broker: FaultyBroker) -> None:
    await broker.publish(GUARD, [packet()])
    async with broker.consume(GUARD, prefetch=2) as consumer:
        (held,) = await take_tickets(consumer, 1)
        await broker.lose_connection()
        await held.ack()
        broker.restore_connection()
        (again,) = await take_tickets(consumer, 1)
        assert again.redelivered
        assert await takes_nothing(consumer)


async def _has_ready(broker: FaultyBroker, count: int) -> bool:
    return await broker.ready(GUARD) == count
