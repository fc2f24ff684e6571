"""How long people and work waited, as the record tells it by one clock: Postgres's."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from services.agent.adapters.postgres_turns import PostgresTurns
from services.dispatch.adapters.postgres_outbox import PostgresOutbox
from services.dispatch.core.delivery import Send
from services.dispatch.core.outcome import Accepted, NoAnswer, Outcome, Refused, settle
from services.dispatch.ports import Claimed, Decided, Settlement
from services.guard.adapters.postgres_conversations import PostgresConversations
from services.guard.core.guards import judge
from services.guard.core.record import record
from shared.ids import AttemptId, ConversationId, OutboundId, new_id
from shared.locales import load
from tests.behaviour.test_outbox import outbox_of
from tests.support.factories import Ground
from tests.support.turns_on_postgres import call, claim_one, reply

pytestmark = pytest.mark.postgres

SLACK = timedelta(seconds=5)  # of a busy machine
ACCEPTED = Accepted(provider_id="p1")


@pytest.fixture
def outbox(place: Ground) -> PostgresOutbox:
    return outbox_of(place)


def about(measured: timedelta | None, seconds: float) -> bool:
    return measured is not None and timedelta() <= measured - timedelta(seconds=seconds) <= SLACK


async def ago(place: Ground, seconds: float) -> Any:
    return await place.now() - timedelta(seconds=seconds)


async def replied(place: Ground, **columns: Any) -> tuple[ConversationId, OutboundId]:
    conversation = await place.conversation()
    await place.said(conversation, due=False)
    await place.set_state(conversation, handled_seq=1)
    return conversation, await place.outbound(conversation, **columns)


async def settled(outbox: PostgresOutbox, claimed: Claimed, outcome: Outcome = ACCEPTED) -> timedelta | None:
    return await settled_with(outbox, claimed, outcome, next_attempt=None)


async def settled_with(
    outbox: PostgresOutbox, claimed: Claimed, outcome: Outcome, *, next_attempt: AttemptId | None
) -> timedelta | None:
    """What the record says of the customer's waiting, once the outcome is stored."""
    how = settle(outcome, last_part=claimed.last_part, idempotent=True, backoff=timedelta())
    stored = await outbox.settle([Settlement(claimed=claimed, settled=how, next_attempt=next_attempt)])
    return stored[claimed.attempt].answered_after


# Waiting for a stage


async def test_a_case_tells_how_long_its_oldest_message_has_waited(place: Ground) -> None:
    conversations = PostgresConversations(place.database)
    conversation = await place.conversation()
    await place.wrote(conversation, received_at=await ago(place, 40))
    await place.wrote(conversation, received_at=await ago(place, 9))
    (case,) = await conversations.gather([conversation])
    assert about(case.waited, 40)


async def test_a_turn_tells_how_long_it_was_due(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    await place.said(conversation)
    await place.set_state(conversation, due_at=await ago(place, 7))
    assert about((await claim_one(turns, conversation)).waited, 7)


async def test_a_reply_tells_how_long_it_was_queued(place: Ground, outbox: PostgresOutbox) -> None:
    _, outbound = await replied(place, created_at=await ago(place, 6))
    (claimed,) = await outbox.claim_plain([outbound])
    assert about(claimed.waited, 6)


@pytest.mark.parametrize(
    ("columns", "seconds"),
    [
        pytest.param({"created_at": 60, "not_before": 8}, 8, id="one that was to wait, since then"),
        pytest.param({"created_at": 60}, 60, id="one that was not, since it was made"),
    ],
)
async def test_so_does_one_that_is_decided_on(
    place: Ground, outbox: PostgresOutbox, columns: dict[str, float], seconds: float
) -> None:
    times = {name: await ago(place, before) for name, before in columns.items()}
    _, outbound = await replied(place, body="x" * 60, **times)
    (seen,) = await outbox.gather([outbound])
    assert about(seen.waited, seconds)
    claimed, _ = await outbox.record([Decided(reply=seen, decision=Send(), parts=("x" * 50, "x" * 10))])
    assert [one.waited for one in claimed] == [seen.waited]


async def test_of_a_draft_that_a_person_sent_nobody_knows_since_when_it_was_due(
    place: Ground, outbox: PostgresOutbox
) -> None:
    _, outbound = await replied(place, round=2, created_at=await ago(place, 3600))
    (seen,) = await outbox.gather([outbound])
    assert seen.waited is None


# Since when the customer waits


@pytest.mark.parametrize("form", ["plain", "full"])
async def test_a_reply_is_kept_with_when_its_oldest_message_was_received(
    place: Ground, turns: PostgresTurns, form: str
) -> None:
    conversation = await place.conversation()
    first = await ago(place, 12)
    await place.said(conversation, "A place on Monday?", received_at=first)
    await place.said(conversation, "Or Tuesday", received_at=await ago(place, 4))
    turn = await claim_one(turns, conversation)
    assert turn.open_call is not None
    commit = reply(turn) if form == "full" else reply(turn, last_call=call(turn.open_call))
    assert commit.plain == (form == "plain")
    await turns.commit(commit)
    assert (await place.row("outbound"))["asked_at"] == first


async def test_what_a_superseded_reply_answered_is_answered_by_the_next(
    place: Ground, turns: PostgresTurns
) -> None:
    conversation = await place.conversation()
    first = await ago(place, 12)
    await place.said(conversation, "A place on Monday?", received_at=first)
    await turns.commit(reply(await claim_one(turns, conversation)))
    await place.set("outbound", {"conversation": conversation}, state="superseded")
    await place.said(conversation, "Tuesday, rather")
    turn = await claim_one(turns, conversation)
    assert turn.asked_at == first
    answer = reply(turn)
    await turns.commit(answer)
    assert (await place.row("outbound", id=answer.outbound))["asked_at"] == first


async def test_what_was_said_is_not_answered_again(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    await place.said(conversation, received_at=await ago(place, 99))
    await turns.commit(reply(await claim_one(turns, conversation)))
    await place.set("outbound", {"conversation": conversation}, state="sent")
    second = await ago(place, 3)
    await place.said(conversation, received_at=second)
    assert (await claim_one(turns, conversation)).asked_at == second


async def test_a_notice_of_the_guard_answers_the_message_that_it_is_for(place: Ground) -> None:
    conversations = PostgresConversations(place.database)
    conversation = await place.conversation()
    received = await ago(place, 20)
    await place.wrote(conversation, "I want a human", received_at=received)
    (case,) = await conversations.gather([conversation])
    one = record(case, judge(case.messages, case.facts, [load("en")]))
    texts = {(conversation, message): "A colleague answers." for message, _ in one.notices}
    await conversations.record([one], texts)
    notice = await place.row("outbound")
    assert (notice["origin_kind"], notice["asked_at"]) == ("notice", received)


# Until the provider took it


async def test_the_first_part_that_is_taken_tells_how_long_the_customer_waited(
    place: Ground, outbox: PostgresOutbox
) -> None:
    _, outbound = await replied(place, asked_at=await ago(place, 30), body="x" * 60)
    (seen,) = await outbox.gather([outbound])
    (claimed,), _ = await outbox.record([Decided(reply=seen, decision=Send(), parts=("x" * 50, "x" * 10))])
    second = AttemptId(new_id())
    assert about(await settled_with(outbox, claimed, ACCEPTED, next_attempt=second), 30)
    following = replace(claimed, attempt=second, part=2)
    assert await settled(outbox, following, Accepted(provider_id="p2")) is None, "it was answered already"


UNTOLD: dict[str, tuple[dict[str, Any], Outcome]] = {
    "that answers nothing": ({"asked_at": None}, ACCEPTED),
    "that was refused": ({}, Refused(reason="no such number")),
    "of which nobody knows": ({}, NoAnswer(reason="it took too long")),
    "that a person sent": ({"round": 2}, ACCEPTED),
}


@pytest.mark.parametrize(("columns", "outcome"), UNTOLD.values(), ids=UNTOLD)
async def test_nothing_is_told_of_a_reply(
    place: Ground, outbox: PostgresOutbox, columns: dict[str, Any], outcome: Outcome
) -> None:
    _, outbound = await replied(place, **({"asked_at": await ago(place, 30)} | columns))
    (seen,) = await outbox.gather([outbound])
    (claimed,), _ = await outbox.record([Decided(reply=seen, decision=Send(), parts=(seen.body,))])
    assert await settled(outbox, claimed, outcome) is None


async def test_one_that_was_tried_twice_is_told_of_once(place: Ground, outbox: PostgresOutbox) -> None:
    _, outbound = await replied(place, asked_at=await ago(place, 30))
    (claimed,) = await outbox.claim_plain([outbound])
    assert await settled(outbox, claimed, NoAnswer(reason="it took too long")) is None
    (seen,) = await outbox.gather([outbound])
    (again,), _ = await outbox.record([Decided(reply=seen, decision=Send(), parts=(seen.body,))])
    assert about(await settled(outbox, again), 30)
    assert await settled(outbox, claimed, Accepted(provider_id="p9")) is None, "its answer came after all"
