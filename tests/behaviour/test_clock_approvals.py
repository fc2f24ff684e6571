"""An approval that nobody gave in time is a decline, once, whoever looks."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from services.agent.adapters.postgres_turns import PostgresTurns
from services.agent.core.turn import Decided
from services.agent.ports import Share
from shared.ids import WorkerNumber, new_id
from tests.support.clocks import RACES, Hand, another, at_once, hand_on
from tests.support.factories import Ground, Worker

pytestmark = pytest.mark.postgres


@pytest.fixture
async def hand(place: Ground) -> AsyncIterator[Hand]:
    async with hand_on(place) as made:
        yield made


async def test_a_day_later_it_is_decided_by_the_clock_and_a_turn_is_owed(hand: Hand) -> None:
    conversation, action = await hand.waits_for_operator()
    before = await hand.place.state(conversation)
    hand.pass_(hours=23, minutes=59)
    await hand.clocks.expire_approvals()
    assert await hand.place.state(conversation) == before

    hand.pass_(minutes=2)
    await hand.clocks.expire_approvals()
    row = await hand.place.row("pending_action", id=action)
    state = await hand.place.state(conversation)
    assert (row["state"], row["decided"], row["decided_by"]) == ("operator", "expired", "clock")
    assert row["decided_at"] > row["waits_until"]
    assert state["decision_owed"] == row["decision"]
    assert state["due_at"] <= await hand.place.now()
    assert state["version"] == before["version"] + 1


async def test_it_is_decided_once(hand: Hand) -> None:
    conversation, action = await hand.waits_for_operator()
    hand.pass_(hours=25)
    await hand.clocks.expire_approvals()
    before = await hand.place.row("pending_action", id=action), await hand.place.state(conversation)
    await hand.clocks.expire_approvals()
    assert (await hand.place.row("pending_action", id=action), await hand.place.state(conversation)) == before


async def test_the_agent_s_turn_hears_that_it_expired(hand: Hand) -> None:
    conversation, _ = await hand.waits_for_operator()
    hand.pass_(hours=25)
    await hand.clocks.expire_approvals()
    turns = PostgresTurns(
        hand.database,
        presence=Worker(WorkerNumber(1)),  # type: ignore[arg-type]  # only its number is asked
        pack_queries={},
        provider="mock",
        model="mock",
        lease=timedelta(seconds=30),
    )
    (turn,) = await turns.claim([conversation], Share(most=100))
    assert turn.decides
    assert turn.pending is not None
    assert turn.pending.decision is not None
    assert (turn.pending.decision.decided, turn.pending.decision.by) == (Decided.EXPIRED, "clock")


async def test_what_somebody_decided_or_the_customer_is_asked_is_left_alone(hand: Hand) -> None:
    decided = {"decision": new_id(), "decided": "approved", "decided_by": "ana"}
    conversations = [
        (await hand.waits_for_operator(**decided))[0],
        (await hand.waits_for_operator(state="customer"))[0],
        (await hand.waits_for_operator(state="executed"))[0],
    ]
    before = [await hand.place.state(one) for one in conversations]
    hand.pass_(hours=25)
    await hand.clocks.expire_approvals()
    assert [await hand.place.state(one) for one in conversations] == before


async def test_a_sooner_due_time_stays(hand: Hand) -> None:
    conversation, _ = await hand.waits_for_operator()
    sooner = await hand.place.now() - timedelta(minutes=1)
    await hand.place.set_state(conversation, due_at=sooner)
    hand.pass_(hours=25)
    await hand.clocks.expire_approvals()
    assert (await hand.place.state(conversation))["due_at"] == sooner


async def test_a_look_is_bounded_and_takes_who_waits_longest(hand: Hand) -> None:
    until = await hand.now()
    late = [
        await hand.waits_for_operator(waits_until=until - timedelta(minutes=3 - number))
        for number in range(3)
    ]
    assert set(await hand.record.expire_approvals(most=2)) == {late[0][0], late[1][0]}
    assert set(await hand.record.expire_approvals(most=2)) == {late[2][0]}
    decisions = {row["decision"] for row in await hand.place.rows("pending_action")}
    assert len(decisions) == 3


async def test_a_row_that_somebody_holds_holds_up_no_other(hand: Hand) -> None:
    held, free = (await hand.waits_for_operator())[0], (await hand.waits_for_operator())[0]
    hand.pass_(hours=25)
    async with hand.place.held("conversation_state", "conversation", [held]):
        assert list(await hand.record.expire_approvals(most=10)) == [free]
    assert list(await hand.record.expire_approvals(most=10)) == [held]


async def test_of_two_agents_at_the_same_moment_one_decides(hand: Hand) -> None:
    async with another(hand) as other:
        for _ in range(RACES):
            conversation, action = await hand.waits_for_operator()
            before = (await hand.place.state(conversation))["version"]
            await hand.place.set(
                "pending_action", {"id": action}, waits_until=await hand.now() - timedelta(1)
            )
            await at_once(hand.clocks.expire_approvals, other.clocks.expire_approvals)
            state = await hand.place.state(conversation)
            assert state["version"] == before + 1
            assert state["decision_owed"] == (await hand.place.row("pending_action", id=action))["decision"]
