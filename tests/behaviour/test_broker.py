"""What every broker promises: RabbitMQ, and the one in this process."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import pytest

from shared.broker import Broker, Seen
from shared.broker.memory import MemoryBroker
from shared.errors import NotPublished
from shared.ids import new_id
from shared.tickets import Kind, Packet, Stage, encode, packets
from tests.support.brokers import (
    MemoryRawQueue,
    RabbitRawQueue,
    Subject,
    Told,
    acknowledge,
    ids_of,
    packet,
    rabbit_broker,
    take_tickets,
    takes_nothing,
)
from tests.support.eventually import eventually

GUARD = Stage.GUARD
ID = str(new_id())
UNREADABLE = {
    "not JSON": b"hello",
    "nothing": b"",
    "an empty object": b"{}",
    "null": b"null",
    "a list": b"[1]",
    "another version": json.dumps({"v": 999, "kind": "conversation", "ids": [ID]}).encode(),
    "a version too large for any integer": b'{"v":1' + b"0" * 400 + b',"kind":"conversation","ids":[]}',
    "another stage's kind": json.dumps({"v": 1, "kind": "outbound", "ids": [ID]}).encode(),
    "a kind of nobody": json.dumps({"v": 1, "kind": "weather", "ids": [ID]}).encode(),
    "no tickets": json.dumps({"v": 1, "kind": "conversation", "ids": []}).encode(),
    "too many tickets": json.dumps({"v": 1, "kind": "conversation", "ids": [ID] * 101}).encode(),
    "an id that is none": json.dumps({"v": 1, "kind": "conversation", "ids": ["1"]}).encode(),
    "an id with half a surrogate": b'{"v":1,"kind":"conversation","ids":["\\ud800"]}',
    "a field too many": json.dumps({"v": 1, "kind": "conversation", "ids": [ID], "text": "hi"}).encode(),
    "a field name longer than a header": json.dumps({"x" * 60_000: 1}).encode(),
    "a version given twice, the last one wrong": b'{"v":1,"v":2,"kind":"conversation","ids":["%b"]}'
    % ID.encode(),
    "not a number": b'{"v":NaN,"kind":"conversation","ids":[]}',
    "deep nesting": b"[" * 30_000 + b"]" * 30_000,
    "deep nesting, in an id": b'{"v":1,"kind":"conversation","ids":' + b"[" * 30_000,
    "invalid UTF-8": b'{"v":1,"kind":"\xff\xfe","ids":[]}',
    "five megabytes": b'"' + b"x" * 5_000_000 + b'"',
}


@pytest.fixture(params=["memory", pytest.param("rabbitmq", marks=pytest.mark.rabbitmq)])
def url(request: pytest.FixtureRequest) -> str | None:
    return request.getfixturevalue("amqp_url") if request.param == "rabbitmq" else None


@pytest.fixture
async def subject(url: str | None) -> AsyncIterator[Subject]:
    told = Told()
    if url is None:
        memory = MemoryBroker(tally=told.tally)
        yield Subject(memory, MemoryRawQueue(memory), told)
    else:
        async with rabbit_broker(url, tally=told.tally) as rabbit:
            yield Subject(rabbit, RabbitRawQueue(url), told)


@pytest.fixture
def broker(subject: Subject) -> Broker:
    return subject.broker


@pytest.mark.parametrize("stage", Stage)
async def test_a_packet_arrives_as_it_was_published(broker: Broker, stage: Stage) -> None:
    sent = packet(stage, tickets=16)
    await broker.publish(stage, [sent])
    async with broker.consume(stage, prefetch=32) as consumer:
        (delivery,) = await take_tickets(consumer, 16)
        assert delivery.packet == sent
        assert not delivery.redelivered
        await delivery.ack()


async def test_a_packet_beside_the_stage_s_own_arrives_as_one(broker: Broker) -> None:
    sent = Packet(v=1, kind=Kind.MESSAGE, ids=(new_id(), new_id()))
    await broker.publish(Stage.DISPATCH, [sent])
    async with broker.consume(Stage.DISPATCH, prefetch=32) as consumer:
        (delivery,) = await take_tickets(consumer, 2)
        assert delivery.packet == sent
        await delivery.ack()


async def test_a_packet_published_before_or_after_the_consumer_came_arrives(broker: Broker) -> None:
    before, after = packet(), packet()
    await broker.publish(GUARD, [before])
    async with broker.consume(GUARD, prefetch=32) as consumer:
        assert ids_of(await take_tickets(consumer, 1)) == list(before.ids)
        await broker.publish(GUARD, [after])
        assert ids_of(await take_tickets(consumer, 1)) == list(after.ids)


async def test_a_tally_is_told_of_every_packet(subject: Subject) -> None:
    broker = subject.broker
    await broker.publish(GUARD, [packet(), packet(), packet()])
    await subject.raw.put(GUARD, [b"hello"])
    async with broker.consume(GUARD, prefetch=32) as consumer:
        await acknowledge(await take_tickets(consumer, 3))
        await eventually(lambda: subject.told[GUARD, Seen.DEAD] == 1)
    await broker.close()
    with pytest.raises(NotPublished):
        await broker.publish(GUARD, [packet(), packet()])
    assert subject.told == {
        (GUARD, Seen.PUBLISHED): 3,
        (GUARD, Seen.TAKEN): 3,
        (GUARD, Seen.DEAD): 1,
        (GUARD, Seen.NOT_PUBLISHED): 2,
    }


async def test_a_stage_gets_only_its_own(broker: Broker) -> None:
    await broker.publish(Stage.DISPATCH, [packet(Stage.DISPATCH)])
    async with broker.consume(GUARD, prefetch=32) as consumer:
        assert await takes_nothing(consumer)


async def test_a_thousand_packets_at_once_all_arrive_once(broker: Broker) -> None:
    sent = [packet() for _ in range(1_000)]
    await broker.publish(GUARD, sent)
    arrived = []
    async with broker.consume(GUARD, prefetch=32) as consumer, asyncio.timeout(30):
        while len(arrived) < len(sent):
            taken = await consumer.take(most=100)
            arrived += ids_of(taken)
            await acknowledge(taken)
        assert await takes_nothing(consumer)
    assert sorted(arrived) == sorted(each for one in sent for each in one.ids)


async def test_many_publishers_at_once_do_not_disturb_each_other(broker: Broker) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(50):
            group.create_task(broker.publish(GUARD, [packet(), packet()]))
    await eventually(lambda: _has_ready(broker, 100))


async def test_publishing_nothing_is_nothing(broker: Broker) -> None:
    await broker.publish(GUARD, [])
    assert await broker.ready(GUARD) == 0


async def test_an_acknowledged_packet_is_gone(broker: Broker) -> None:
    await broker.publish(GUARD, [packet(), packet()])
    async with broker.consume(GUARD, prefetch=32) as consumer:
        await acknowledge(await take_tickets(consumer, 2))
    async with broker.consume(GUARD, prefetch=32) as consumer:
        assert await takes_nothing(consumer)


async def test_packets_are_acknowledged_one_by_one_in_any_order(broker: Broker) -> None:
    await broker.publish(GUARD, [packet() for _ in range(10)])
    async with broker.consume(GUARD, prefetch=32) as consumer:
        taken = await take_tickets(consumer, 10)
        await acknowledge(taken[1::2][::-1])
    async with broker.consume(GUARD, prefetch=32) as consumer:
        again = await take_tickets(consumer, 5)
    assert sorted(ids_of(again)) == sorted(ids_of(taken[0::2]))


async def test_acknowledging_twice_is_harmless(broker: Broker) -> None:
    sent = packet()
    await broker.publish(GUARD, [sent, packet()])
    async with broker.consume(GUARD, prefetch=1) as consumer:
        (first,) = await take_tickets(consumer, 1)
        await first.ack()
        await first.ack()
        (second,) = await take_tickets(consumer, 1)
        assert first.packet != second.packet


async def test_what_was_not_acknowledged_comes_again_after_the_context_and_says_so(broker: Broker) -> None:
    sent = [packet(), packet()]
    await broker.publish(GUARD, sent)
    async with broker.consume(GUARD, prefetch=32) as consumer:
        first = await take_tickets(consumer, 2)
        assert not any(delivery.redelivered for delivery in first)
    await acknowledge(first)  # too late, and no error
    async with broker.consume(GUARD, prefetch=32) as consumer:
        again = await take_tickets(consumer, 2)
        assert all(delivery.redelivered for delivery in again)
        assert sorted(ids_of(again)) == sorted(ids_of(first))


async def test_a_note_goes_beside_its_packet_also_the_second_time(broker: Broker) -> None:
    noted, plain, alone = packet(), packet(), packet()
    await broker.publish(GUARD, [noted, plain], notes=["where it comes from", ""])
    await broker.publish(GUARD, [alone])
    for _ in range(2):
        async with broker.consume(GUARD, prefetch=32) as consumer:
            told = {delivery.packet: delivery.note for delivery in await take_tickets(consumer, 3)}
        assert told[noted] == "where it comes from"
        assert not told[plain]
        assert told[alone] is None


async def test_an_error_in_the_context_gives_back_and_comes_through(broker: Broker) -> None:
    await broker.publish(GUARD, [packet()])
    with pytest.raises(ZeroDivisionError):
        await _fail_while_consuming(broker.consume(GUARD, prefetch=32))
    await eventually(lambda: _has_ready(broker, 1))


async def test_letting_go_gives_back_and_the_next_take_begins_again(broker: Broker) -> None:
    await broker.publish(GUARD, [packet() for _ in range(5)])
    async with broker.consume(GUARD, prefetch=32) as consumer:
        first = await take_tickets(consumer, 3)
        await consumer.let_go()
        assert not consumer.attached
        await eventually(lambda: _has_ready(broker, 5))
        await acknowledge(first)  # too late, and no error
        again = await take_tickets(consumer, 5)
        assert consumer.attached
        assert {*ids_of(first)} <= {*ids_of(again)}
        assert all(delivery.redelivered for delivery in again if {*delivery.packet.ids} <= {*ids_of(first)})


async def test_letting_go_again_and_again_loses_nothing(broker: Broker) -> None:
    sent = [packet() for _ in range(20)]
    await broker.publish(GUARD, sent)
    async with broker.consume(GUARD, prefetch=3) as consumer:
        for _ in range(8):
            await take_tickets(consumer, 1)
            await consumer.let_go()
        arrived = []
        while len(arrived) < 20:
            taken = await take_tickets(consumer, 1)
            arrived += ids_of(taken)
            await acknowledge(taken)
    assert sorted(arrived) == sorted(each for one in sent for each in one.ids)


async def test_prefetch_bounds_what_is_in_hand(broker: Broker) -> None:
    await broker.publish(GUARD, [packet() for _ in range(10)])
    async with broker.consume(GUARD, prefetch=4) as consumer:
        taken = await take_tickets(consumer, 4)
        assert await takes_nothing(consumer)
        await taken[0].ack()
        assert len(await take_tickets(consumer, 1)) == 1
        assert await takes_nothing(consumer)


async def test_take_returns_at_most_so_many_tickets_and_always_a_packet(broker: Broker) -> None:
    sizes = (3, 3, 3, 20, 1)
    await broker.publish(GUARD, [packet(tickets=tickets) for tickets in sizes])
    async with broker.consume(GUARD, prefetch=32) as consumer:
        got: list[int] = []
        while len(got) < len(sizes):
            taken = await consumer.take(most=6)
            assert len(taken) == 1 or len(ids_of(taken)) <= 6
            got += [len(delivery.packet.ids) for delivery in taken]
    assert sorted(got) == sorted(sizes)


async def test_two_consumers_share_without_overlap(broker: Broker) -> None:
    sent = [packet() for _ in range(40)]
    await broker.publish(GUARD, sent)
    async with (
        broker.consume(GUARD, prefetch=20) as one,
        broker.consume(GUARD, prefetch=20) as other,
    ):
        mine, theirs = await take_tickets(one, 20), await take_tickets(other, 20)
        assert sorted(ids_of(mine) + ids_of(theirs)) == sorted(each for one in sent for each in one.ids)


async def test_what_one_consumer_gives_back_goes_to_the_other(broker: Broker) -> None:
    await broker.publish(GUARD, [packet() for _ in range(3)])
    async with broker.consume(GUARD, prefetch=32) as other:
        async with broker.consume(GUARD, prefetch=32) as one:
            await eventually(lambda: one.attached)
            await broker.publish(GUARD, [packet() for _ in range(7)])
        assert len(await take_tickets(other, 10)) == 10


async def test_a_cancelled_take_loses_no_packet(broker: Broker) -> None:
    """Cancelled at every moment around the arrival: what was not returned is still there."""
    sent = [packet() for _ in range(60)]
    arrived = []
    async with broker.consume(GUARD, prefetch=64) as consumer:
        await eventually(lambda: consumer.attached)
        for turns, one in enumerate(sent):
            taking = asyncio.create_task(consumer.take(most=1))
            await broker.publish(GUARD, [one])
            for _ in range(turns % 6):
                await asyncio.sleep(0)
            taking.cancel()
            await asyncio.wait([taking])
            if not taking.cancelled():
                arrived += ids_of(taking.result())
        arrived += ids_of(await take_tickets(consumer, len(sent) - len(arrived)))
        assert await takes_nothing(consumer)
    assert sorted(arrived) == sorted(each for one in sent for each in one.ids)


async def test_unreadable_messages_are_moved_to_the_dead_and_the_rest_keeps_flowing(subject: Subject) -> None:
    good = [packet() for _ in range(10)]
    await subject.raw.put(GUARD, [encode(one) for one in good[:5]])
    await subject.raw.put(GUARD, [*UNREADABLE.values()])
    await subject.raw.put(GUARD, [encode(one) for one in good[5:]])
    async with subject.broker.consume(GUARD, prefetch=4) as consumer:
        arrived = []
        async with asyncio.timeout(30):
            while len(arrived) < len(good):
                taken = await consumer.take(most=1)
                arrived += ids_of(taken)
                await acknowledge(taken)
        await eventually(lambda: _has_dead(subject.broker, len(UNREADABLE)))
        assert await takes_nothing(consumer)
    assert sorted(arrived) == sorted(each for one in good for each in one.ids)
    assert await subject.broker.ready(GUARD) == 0
    letters = await subject.broker.dead_letters(GUARD, most=100)
    assert sorted(letter.body for letter in letters) == sorted(UNREADABLE.values())
    assert all(letter.reason and letter.stage is GUARD for letter in letters)


async def test_the_reason_says_what_was_wrong(subject: Subject) -> None:
    await subject.raw.put(GUARD, [UNREADABLE["another version"]])
    async with subject.broker.consume(GUARD, prefetch=4):
        await eventually(lambda: _has_dead(subject.broker, 1))
    (letter,) = await subject.broker.dead_letters(GUARD, most=10)
    assert "version 999" in letter.reason


async def test_listing_the_dead_leaves_them_and_dropping_counts_them(subject: Subject) -> None:
    await subject.raw.put(GUARD, [b"one", b"two", b"three"])
    await subject.raw.put(Stage.AGENT, [b"another stage's"])
    async with (
        subject.broker.consume(GUARD, prefetch=4),
        subject.broker.consume(Stage.AGENT, prefetch=4),
    ):
        await eventually(lambda: _has_dead(subject.broker, 3))
        await eventually(lambda: _has_dead(subject.broker, 1, stage=Stage.AGENT))
    assert len(await subject.broker.dead_letters(GUARD, most=2)) == 2
    await eventually(lambda: _has_dead(subject.broker, 3))
    assert await subject.broker.drop_dead_letters(GUARD) == 3
    assert await subject.broker.dead_letters(GUARD, most=10) == []
    assert await subject.broker.drop_dead_letters(GUARD) == 0
    assert len(await subject.broker.dead_letters(Stage.AGENT, most=10)) == 1


async def test_the_dead_may_be_listed_more_often_than_a_queue_delivers(subject: Subject) -> None:
    await subject.raw.put(GUARD, [b"one"])
    async with subject.broker.consume(GUARD, prefetch=4):
        await eventually(lambda: _has_dead(subject.broker, 1))
    for _ in range(25):
        await eventually(lambda: _has_dead(subject.broker, 1))


async def test_ready_counts_what_nobody_has(broker: Broker) -> None:
    assert await broker.ready(GUARD) == 0
    await broker.publish(GUARD, [packet() for _ in range(7)])
    await eventually(lambda: _has_ready(broker, 7))
    async with broker.consume(GUARD, prefetch=2) as consumer:
        await take_tickets(consumer, 2)
        await eventually(lambda: _has_ready(broker, 5))
    await eventually(lambda: _has_ready(broker, 7))


async def test_rebuilding_empties_the_work_and_keeps_the_dead(subject: Subject) -> None:
    await subject.raw.put(GUARD, [b"unreadable"])
    async with subject.broker.consume(GUARD, prefetch=4):
        await eventually(lambda: _has_dead(subject.broker, 1))
    await subject.broker.publish(GUARD, [packet() for _ in range(3)])
    await subject.broker.rebuild()
    assert await subject.broker.ready(GUARD) == 0
    assert await _has_dead(subject.broker, 1)
    await subject.broker.publish(GUARD, [packet()])
    await eventually(lambda: _has_ready(subject.broker, 1))


async def test_a_consumer_goes_on_after_a_rebuild(broker: Broker) -> None:
    async with broker.consume(GUARD, prefetch=4) as consumer:
        await eventually(lambda: consumer.attached)
        await broker.rebuild()
        sent = packet()
        await eventually(lambda: _publishes(broker, sent))
        assert {*ids_of(await take_tickets(consumer, 1))} == {*sent.ids}


async def test_closing_leaves_no_task_behind_and_ends_publishing(broker: Broker) -> None:
    async with asyncio.timeout(10):
        await broker.publish(GUARD, [packet()])
        async with broker.consume(GUARD, prefetch=4) as consumer:
            await take_tickets(consumer, 1)
        await broker.close()
    ours = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert [task for task in ours if "Connection" in repr(task) or "broker" in repr(task)] == []
    with pytest.raises(NotPublished):
        await broker.publish(GUARD, [packet()])
    await broker.close()  # again, and no error


async def test_ids_travel_in_packets_of_the_stages_size(broker: Broker) -> None:
    ids = [new_id() for _ in range(40)]
    await broker.publish(Stage.AGENT, [*packets(Stage.AGENT, ids)])
    async with broker.consume(Stage.AGENT, prefetch=32) as consumer:
        taken = await take_tickets(consumer, 40)
    assert [len(delivery.packet.ids) for delivery in taken] == [16, 16, 8]


async def _has_ready(broker: Broker, count: int) -> bool:
    return await broker.ready(GUARD) == count


async def _has_dead(broker: Broker, count: int, *, stage: Stage = GUARD) -> bool:
    return len(await broker.dead_letters(stage, most=100)) == count


async def _publishes(broker: Broker, sent: Packet) -> bool:
    try:
        await broker.publish(GUARD, [sent])
    except NotPublished:
        return False
    return True


async def _fail_while_consuming(consuming: AbstractAsyncContextManager[object]) -> None:
    async with consuming as consumer:
        await take_tickets(consumer, 1)  # type: ignore[arg-type]  # the context is passed on as it is
        raise ZeroDivisionError
