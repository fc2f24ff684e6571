"""What the record promises of questions, on Postgres: steps, repeats, operators, decisions, and how calls end."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from services.agent.adapters.postgres_turns import PostgresTurns
from services.agent.core.gate import Dials, LevelSet
from services.agent.core.heard import Part
from services.agent.core.turn import Decided, Decision, PromptState, Turn, WaitsFor
from services.agent.ports import AsksAgain, TurnState
from services.dispatch.core.delivery import part_key
from shared.autonomy import Asked, Mode
from shared.ids import ActionId, CallId, ConversationId, OutboundId, new_id
from shared.messages import PartKind
from tests.support.factories import NOON, Ground
from tests.support.turns_on_postgres import (
    ANYONE,
    call,
    claim_one,
    new_action,
    record_of,
    reply,
    self_asked,
    turns_of,
)

pytestmark = pytest.mark.postgres


async def asked_and_sent(
    place: Ground, turns: PostgresTurns, conversation: ConversationId, **fields: Any
) -> ActionId:
    """An action whose prompt the customer has."""
    action = await self_asked(place, turns, conversation, **fields)
    prompt = await place.row("outbound", action=action)
    await place.set("outbound", {"id": prompt["id"]}, state="sent")
    await place.attempt(prompt["id"], at_send_seq=1, state="sent", provider_id=f"p-{prompt['id'].hex}")
    return action


async def answered(
    place: Ground, turns: PostgresTurns, conversation: ConversationId, text: str = "Yes"
) -> Turn:
    await place.said(conversation, text)
    return await claim_one(turns, conversation)


async def action_row(place: Ground, action: ActionId) -> Any:
    return await place.row("pending_action", id=action)


# What a turn is told


async def test_a_claim_brings_both_dials(place: Ground, turns: PostgresTurns) -> None:
    business = await place.business(mode="suggest")
    conversation = await place.conversation(await place.account(business), mode="auto")
    await place.insert("tool_level", business=business, tool="book_appointment", level=3, set_by="test")
    await place.insert(
        "tool_level", business=business, tool="cancel_appointment", level=2, asked="both", set_by="test"
    )
    other = await place.business()
    await place.insert("tool_level", business=other, tool="book_appointment", level=0, set_by="test")
    await place.said(conversation)
    assert (await claim_one(turns, conversation)).dials == Dials(
        mode=Mode.SUGGEST,
        levels={
            "book_appointment": LevelSet(level=3),
            "cancel_appointment": LevelSet(level=2, asked=Asked.BOTH),
        },
    )


async def test_a_claim_brings_the_action_with_its_steps_and_clock(
    place: Ground, turns: PostgresTurns
) -> None:
    conversation = await place.conversation()
    action = await asked_and_sent(
        place, turns, conversation, confirmations_needed=2, asked=Asked.BOTH, summary="Cancel: cleaning."
    )
    since = await place.now()
    await place.set("pending_action", {"id": action}, step=2, repeats=1, clock_from=since)
    turn = await answered(place, turns, conversation)
    found = turn.pending
    assert found is not None
    assert found.prompt is not None
    assert (found.id, found.step, found.repeats, found.clock_from) == (action, 2, 1, since)
    assert (found.confirmations_needed, found.asked, found.waits_for) == (2, Asked.BOTH, WaitsFor.CUSTOMER)
    assert (found.summary, found.decision, found.executing) == ("Cancel: cleaning.", None, False)
    assert (found.prompt.state, found.prompt.at_send_seq) == (PromptState.SENT, 1)
    outbound = found.prompt.outbound
    assert found.prompt.provider_ids == {f"p-{outbound.hex}", part_key(outbound, 1, 1)}


async def test_a_claim_brings_what_became_of_the_last_day_s_actions(
    place: Ground, turns: PostgresTurns
) -> None:
    conversation = await place.conversation()
    first = await self_asked(place, turns, conversation)
    await place.set("pending_action", {"id": first}, state="declined", reason="declined_by_operator")
    second = await self_asked(place, turns, conversation, tool="cancel_appointment")
    await place.set("pending_action", {"id": second}, state="executed")
    old = await self_asked(place, turns, conversation, tool="old")
    await place.owner.execute(
        "update pending_action set state = 'cleared', created_at = now() - interval '25 hours' where id = $1",
        old,
    )
    turn = await answered(place, turns, conversation, "Hello")
    assert [(one.tool, one.state, one.reason) for one in turn.earlier] == [
        ("book_appointment", "declined", "declined_by_operator"),
        ("cancel_appointment", "executed", None),
    ]


async def test_a_claim_brings_when_the_channel_took_the_prompt(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    action = await asked_and_sent(place, turns, conversation)
    turn = await answered(place, turns, conversation)
    assert turn.pending is not None
    assert turn.pending.prompt is not None
    assert turn.pending.prompt.taken_at is None
    await turns.release(turn, timedelta())
    taken = (await place.now()) - timedelta(seconds=7)
    await place.owner.execute("update send_attempt set taken_at = $1", taken)
    turn = await claim_one(turns, conversation)
    assert turn.pending is not None
    assert turn.pending.id == action
    assert turn.pending.prompt is not None
    assert turn.pending.prompt.taken_at == taken


async def test_a_claim_brings_when_an_action_ended(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    action = await self_asked(place, turns, conversation)
    ended = (await place.now()) - timedelta(seconds=9)
    await place.set("pending_action", {"id": action}, state="cleared", reason="edited", ended_at=ended)
    turn = await answered(place, turns, conversation)
    assert [(one.reason, one.ended_at) for one in turn.earlier] == [("edited", ended)]


@pytest.mark.parametrize(
    ("amended", "drops"),
    [
        ({"edited_at": NOON, "edited_to": "at 11"}, True),
        ({"deleted_at": NOON, "body": ""}, True),
        ({"edited_at": NOON}, False),  # before its turn: the action is about the new words
        ({"edited_at": NOON, "edited_to": "at 11", "verdict": "stored"}, False),
    ],
    ids=["edited meanwhile", "deleted meanwhile", "edited before", "not what it came from"],
)
@pytest.mark.parametrize("waits_for", ["customer", "operator"])
async def test_an_action_is_dropped_whose_message_was_amended_while_its_turn_was_under_way(
    place: Ground, turns: PostgresTurns, amended: dict[str, Any], waits_for: str, *, drops: bool
) -> None:
    conversation = await place.conversation()
    action = await asked_and_sent(place, turns, conversation)
    await place.set("pending_action", {"id": action}, state=waits_for)
    (original,) = await place.rows("inbound_message")
    await place.set("inbound_message", {"id": original["id"]}, **amended)
    turn = await answered(place, turns, conversation)
    assert turn.dropped == (action if drops else None)
    assert (turn.pending is None) == drops
    if drops:
        dropping = reply(turn, ends=action, ends_as="cleared", ends_because="edited")
        await turns.commit(dropping)
        row = await action_row(place, action)
        assert (row["state"], row["reason"]) == ("cleared", "edited")


async def test_an_effect_that_was_called_for_is_not_dropped(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    action = await asked_and_sent(place, turns, conversation)
    await place.set("pending_action", {"id": action}, executing_since=await place.now())
    await place.owner.execute("update inbound_message set edited_at = now(), edited_to = 'at 11'")
    turn = await answered(place, turns, conversation)
    assert turn.dropped is None
    assert turn.pending is not None
    assert turn.pending.executing


# Messages that are not only text


async def test_a_claim_brings_what_became_of_a_message(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    at = await place.now()
    await place.said(conversation, "at 10", edited_at=at, edited_to="at 11")
    await place.said(conversation, "", deleted_at=at)
    await place.set_state(conversation, handled_seq=2)
    await place.said(conversation, "Look at this", forwarded=True)
    await place.said(conversation, "at 12", edited_at=at, edited_to="at 13")
    one, two, three, four = (await claim_one(turns, conversation)).messages
    assert (one.text, one.edited, one.edited_to, one.deleted) == ("at 10", True, "at 11", False)
    assert (two.text, two.deleted) == ("", True)
    assert (three.forwarded, three.edited) == (True, False)
    assert (four.text, four.edited, four.edited_to) == ("at 13", True, None), "what no turn has answered yet"


async def test_a_claim_brings_the_parts_of_media_in_order(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    message = await place.said(conversation, "", kind="media", reason="unsupported")
    business = (await place.state(conversation))["business"]
    for n, kind, words in ((2, "image", None), (1, "location", "44.43, 26.1")):
        await place.insert("media_part", message=message, business=business, n=n, kind=kind, words=words)
    (one,) = (await claim_one(turns, conversation)).messages
    assert one.parts == (
        Part(n=1, kind=PartKind.LOCATION, words="44.43, 26.1"),
        Part(n=2, kind=PartKind.IMAGE),
    )
    assert one.is_readable


# Asked again: the next step, or the same once more


async def asked_again(
    place: Ground, turns: PostgresTurns, conversation: ConversationId, action: ActionId, **fields: Any
) -> OutboundId:
    """The question by a new message; its id."""
    plain = {"action": action, "step": 1, "repeats": 1, "clock_from": None}
    turn = await answered(place, turns, conversation, "ok")
    commit = reply(turn, "Again?", asks_again=AsksAgain(**(plain | fields)), buttons="[]")
    assert (await turns.commit(commit)).live
    assert commit.outbound is not None
    return commit.outbound


async def test_a_question_asked_again_moves_to_its_new_message(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    action = await asked_and_sent(place, turns, conversation)
    before, since = await action_row(place, action), await place.now()
    again = await asked_again(place, turns, conversation, action, clock_from=since)
    after = await action_row(place, action)
    assert (after["prompt"], after["first_prompt"]) == (again, before["prompt"])
    assert (after["step"], after["repeats"], after["clock_from"]) == (1, 1, since)
    assert (after["state"], after["at_seq"]) == ("customer", 2)
    assert (await place.row("outbound", id=before["prompt"]))["state"] == "sent"
    assert (await place.row("outbound", id=again))["action"] == action


async def test_its_first_asking_is_remembered_however_often_it_is_repeated(
    place: Ground, turns: PostgresTurns
) -> None:
    conversation = await place.conversation()
    action = await asked_and_sent(place, turns, conversation)
    first = (await action_row(place, action))["prompt"]
    for _ in range(2):
        again = await asked_again(place, turns, conversation, action)
    assert (await action_row(place, action))["first_prompt"] == first
    await place.attempt(again, at_send_seq=3, state="sent", provider_id="p-again")
    await place.set("outbound", {"id": again}, state="sent")
    turn = await answered(place, turns, conversation)
    assert turn.pending is not None
    assert turn.pending.prompt is not None
    ours = {part_key(first, 1, 1), part_key(again, 1, 1)}
    assert turn.pending.prompt.provider_ids == {f"p-{first.hex}", "p-again"} | ours, (
        "a quote of either names it"
    )


async def test_a_prompt_that_a_person_sent_again_is_named_by_each_of_its_rounds(
    place: Ground, turns: PostgresTurns
) -> None:
    """The signed webhook takes our name for a message, which dispatch makes anew for every decision to send it."""
    conversation = await place.conversation()
    action = await asked_and_sent(place, turns, conversation)
    prompt = (await action_row(place, action))["prompt"]
    await place.set("outbound", {"id": prompt}, round=2)
    turn = await answered(place, turns, conversation)
    assert turn.pending is not None
    assert turn.pending.prompt is not None
    assert {part_key(prompt, 1, 1), part_key(prompt, 2, 1)} <= turn.pending.prompt.provider_ids


async def test_the_next_step_has_a_first_asking_and_a_clock_of_its_own(
    place: Ground, turns: PostgresTurns
) -> None:
    conversation = await place.conversation()
    action = await asked_and_sent(place, turns, conversation, confirmations_needed=2)
    await asked_again(place, turns, conversation, action, clock_from=await place.now())
    await asked_again(place, turns, conversation, action, step=2, repeats=0)
    after = await action_row(place, action)
    assert (after["step"], after["repeats"], after["first_prompt"], after["clock_from"]) == (2, 0, None, None)


@pytest.mark.parametrize("state", ["queued", "draft"])
async def test_a_question_that_had_not_left_is_superseded_by_its_repetition(
    place: Ground, turns: PostgresTurns, state: str
) -> None:
    conversation = await place.conversation()
    action = await self_asked(place, turns, conversation)
    before = (await action_row(place, action))["prompt"]
    await place.set("outbound", {"id": before}, state=state)
    await asked_again(place, turns, conversation, action)
    assert (await place.row("outbound", id=before))["state"] == "superseded"
    assert (await action_row(place, action))["state"] == "customer"


async def test_a_question_of_a_turn_that_was_cut_off_stays_where_it_was(
    place: Ground, turns: PostgresTurns
) -> None:
    conversation = await place.conversation()
    action = await asked_and_sent(place, turns, conversation)
    before = await action_row(place, action)
    turn = await answered(place, turns, conversation, "ok")
    await place.set_state(conversation, state="handoff", handoff_epoch=1)
    again = AsksAgain(action=action, step=2, repeats=0, clock_from=None)
    assert not (await turns.commit(reply(turn, "Again?", asks_again=again))).live
    assert await action_row(place, action) == before
    assert len(await place.rows("outbound")) == 1


async def test_an_action_that_ended_is_not_asked_again(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    action = await asked_and_sent(place, turns, conversation)
    turn = await answered(place, turns, conversation, "ok")
    await place.set("pending_action", {"id": action}, state="cleared")
    await turns.commit(
        reply(turn, "Again?", asks_again=AsksAgain(action=action, step=1, repeats=1, clock_from=None))
    )
    assert (await action_row(place, action))["state"] == "cleared"
    assert (await action_row(place, action))["repeats"] == 0


# Operators


async def test_what_the_customer_confirmed_waits_for_an_operator_as_long_as_the_business_says(
    place: Ground, turns: PostgresTurns
) -> None:
    business = await place.business(approval_hours=2)
    conversation = await place.conversation(await place.account(business))
    action = await asked_and_sent(place, turns, conversation, asked=Asked.BOTH)
    turn = await answered(place, turns, conversation)
    commit = reply(turn, "A colleague has to approve this first.", to_operator=action)
    await turns.commit(commit)
    row = await action_row(place, action)
    assert row["state"] == "operator"
    assert timedelta(minutes=119) < row["waits_until"] - await place.now() <= timedelta(hours=2)
    assert (await place.row("outbound", id=commit.outbound))["action"] == action
    following = await answered(place, turns, conversation, "And?")
    assert following.pending is not None
    assert (following.pending.id, following.pending.waits_for) == (action, WaitsFor.OPERATOR)
    assert following.open_call is None, "whether the model is asked is not known yet"


async def test_what_asks_an_operator_alone_waits_for_them_from_the_start(
    place: Ground, turns: PostgresTurns
) -> None:
    conversation = await place.conversation()
    action = await self_asked(place, turns, conversation, asked=Asked.OPERATOR, confirmations_needed=0)
    row = await action_row(place, action)
    assert (row["state"], row["asked"], row["confirmations_needed"]) == ("operator", "operator", 0)
    assert timedelta(hours=23) < row["waits_until"] - await place.now() <= timedelta(hours=24)


async def test_what_waits_for_the_customer_has_no_time_at_which_it_ends(
    place: Ground, turns: PostgresTurns
) -> None:
    """Nothing closes an action by the clock; expiry is judged when a message meets it."""
    conversation = await place.conversation()
    action = await self_asked(place, turns, conversation, asked=Asked.BOTH)
    assert (await action_row(place, action))["waits_until"] is None


@pytest.mark.parametrize("ended", ["discarded", "superseded"])
async def test_what_waits_for_an_operator_waits_on_when_its_notice_is_not_sent(
    place: Ground, turns: PostgresTurns, ended: str
) -> None:
    conversation = await place.conversation()
    action = await self_asked(place, turns, conversation, asked=Asked.OPERATOR, confirmations_needed=0)
    await place.owner.execute("update outbound set state = $1", ended)
    turn = await answered(place, turns, conversation, "Hello?")
    assert turn.pending is not None
    assert (turn.pending.id, turn.pending.prompt) == (action, None)


async def test_a_conversation_has_one_action_that_waits(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    first = await self_asked(place, turns, conversation)
    turn = await answered(place, turns, conversation, "Or Tuesday")
    await turns.commit(reply(turn, "Tuesday?", asks=new_action(), ends=first, ends_as="replaced"))
    states = [row["state"] for row in await place.rows("pending_action", order="created_at")]
    assert states == ["replaced", "customer"]


async def test_a_handoff_that_ends_nothing_leaves_what_waits_for_an_operator(
    place: Ground, turns: PostgresTurns
) -> None:
    conversation = await place.conversation()
    action = await self_asked(place, turns, conversation, asked=Asked.OPERATOR, confirmations_needed=0)
    turn = await answered(place, turns, conversation, "This is no use")
    await turns.commit(reply(turn, "A colleague will answer.", handoff="model"))
    assert (await action_row(place, action))["state"] == "operator"


# How the call that asked ends


async def test_what_became_of_an_action_is_the_result_of_the_call_that_asked(
    place: Ground, turns: PostgresTurns
) -> None:
    conversation = await place.conversation()
    await place.said(conversation, "On Monday")
    turn = await claim_one(turns, conversation)
    records = (record_of(), record_of(position=1, call_id="c2", tool="book_appointment", decision="ask"))
    action = new_action(call_n=1, call_position=1)
    await turns.commit(reply(turn, "Monday?", asks=action, tools=records))
    following = await answered(place, turns, conversation, "No")
    declined = '{"error":"declined_by_customer"}'
    await turns.commit(
        reply(
            following, "All right.", ends=action.id, ends_as="declined",
            ends_because="declined_by_customer", ends_result=declined,
        )
    )  # fmt: skip
    results = [row["result"] for row in await place.rows("tool_call", order="position", turn=turn.id)]
    assert results == ["{}", declined]
    row = await action_row(place, action.id)
    assert (row["state"], row["reason"], row["ended_at"] is not None) == (
        "declined", "declined_by_customer", True,
    )  # fmt: skip


async def test_an_action_that_ended_already_gives_its_call_no_other_result(
    place: Ground, turns: PostgresTurns
) -> None:
    conversation = await place.conversation()
    await place.said(conversation, "On Monday")
    turn = await claim_one(turns, conversation)
    record = record_of(tool="book_appointment", result='{"status":"waiting"}')
    action = new_action(call_n=1, call_position=0)
    await turns.commit(reply(turn, "Monday?", asks=action, tools=(record,)))
    following = await answered(place, turns, conversation, "No")
    await place.set("pending_action", {"id": action.id}, state="executed")
    await turns.commit(reply(following, "Fine.", ends=action.id, ends_as="declined", ends_result="{}"))
    assert (await place.row("tool_call"))["result"] == '{"status":"waiting"}'


async def test_a_flag_stands_on_the_turn_s_last_message(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    await place.said(conversation, "Hi")
    last = await place.said(conversation, "Book me")
    turn = await claim_one(turns, conversation)
    await place.said(conversation, "Still there?")
    await turns.commit(reply(turn, "I've booked it.", held="unbacked_claim", flag="unbacked_claim"))
    flag = await place.row("flag")
    assert (flag["message"], flag["reason"]) == (last, "unbacked_claim")
    assert (await place.row("outbound"))["held"] == "unbacked_claim"


# Decisions


async def decided(
    place: Ground,
    conversation: ConversationId,
    action: ActionId,
    how: str = "approved",
    why: str | None = None,
) -> UUID:
    """As the console, or the clock, records it."""
    decision = new_id()
    await place.set(
        "pending_action", {"id": action}, decision=decision, decided=how, decided_why=why, decided_by="ioana"
    )
    await place.owner.execute(
        "update conversation_state set decision_owed = $2, due_at = least(coalesce(due_at, now()), now()), "
        "version = version + 1 where conversation = $1",
        conversation,
        decision,
    )
    return decision


async def waiting(
    place: Ground, turns: PostgresTurns, conversation: ConversationId, **fields: Any
) -> ActionId:
    return await self_asked(
        place, turns, conversation, **({"asked": Asked.OPERATOR, "confirmations_needed": 0} | fields)
    )


async def test_a_decision_is_a_turn_of_its_own_that_comes_first_and_takes_no_message(
    place: Ground, turns: PostgresTurns
) -> None:
    conversation = await place.conversation()
    action = await waiting(place, turns, conversation)
    await place.said(conversation, "Are you there?")
    decision = await decided(place, conversation, action, "declined", "full")
    assert list(await turns.due(ANYONE, most=10)) == [conversation]
    turn = await claim_one(turns, conversation)
    assert turn.decides
    assert (turn.taken.messages, turn.taken.seq_to) == ((), 1)
    assert turn.pending is not None
    assert turn.pending.decision == Decision(decided=Decided.DECLINED, reason="full", by="ioana")
    assert turn.open_call is None
    row = await place.row("turn", id=turn.id)
    assert (row["cause"], row["cause_kind"]) == (decision, "decision")
    committed = await turns.commit(
        reply(turn, "It can't be done.", ends=action, ends_as="declined", ends_because="declined_by_operator")
    )
    assert (committed.live, committed.again) == (True, True), "the message waits for its turn"
    assert (await place.state(conversation))["decision_owed"] is None
    assert (await action_row(place, action))["state"] == "declined"
    following = await claim_one(turns, conversation)
    assert not following.decides
    assert [one.text for one in following.taken.messages] == ["Are you there?"]


async def test_a_decision_with_nothing_else_owed_leaves_nothing_due(
    place: Ground, turns: PostgresTurns
) -> None:
    conversation = await place.conversation()
    action = await waiting(place, turns, conversation)
    await decided(place, conversation, action)
    turn = await claim_one(turns, conversation)
    assert not (await turns.commit(reply(turn, "Booked.", ends=action, ends_as="executed"))).again
    state = await place.state(conversation)
    assert (state["due_at"], state["decision_owed"], state["handled_seq"]) == (None, None, 1)


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "full"])
async def test_a_decision_made_while_a_turn_runs_is_owed_after_it(
    place: Ground, turns: PostgresTurns, plain: bool
) -> None:
    conversation = await place.conversation()
    action = await waiting(place, turns, conversation)
    turn = await answered(place, turns, conversation, "Hello?")
    await decided(place, conversation, action)
    commit = reply(turn, last_call=call(CallId(new_id())) if plain else None)
    assert commit.plain is plain
    assert (await turns.commit(commit)).again
    assert (await claim_one(turns, conversation)).decides


async def test_a_decision_on_what_has_ended_is_owed_a_turn_all_the_same(
    place: Ground, turns: PostgresTurns
) -> None:
    conversation = await place.conversation()
    action = await waiting(place, turns, conversation)
    await decided(place, conversation, action)
    await place.set("pending_action", {"id": action}, state="declined")
    turn = await claim_one(turns, conversation)
    assert (turn.decides, turn.pending) == (True, None)
    await turns.commit(reply(turn, outbound=None, text=None, outcome="decided_too_late"))
    assert (await place.state(conversation))["decision_owed"] is None
    assert not await turns.claim([conversation], ANYONE)


@pytest.mark.parametrize("how", ["release", "give_back", "void"])
async def test_a_decision_is_owed_whatever_becomes_of_its_worker(
    place: Ground, turns: PostgresTurns, how: str
) -> None:
    conversation = await place.conversation()
    action = await waiting(place, turns, conversation)
    decision = await decided(place, conversation, action)
    turn = await claim_one(turns_of(place, worker=7), conversation)
    if how == "void":
        assert list(await turns.void_leases(7)) == [conversation]
    else:
        await getattr(turns, how)(turn, timedelta())
    assert (await place.state(conversation))["decision_owed"] == decision
    again = await claim_one(turns, conversation)
    assert (again.id, again.decides, again.attempt) == (turn.id, True, 2)


async def test_a_decision_s_turn_that_is_cut_off_stays_owed_and_its_action_open(
    place: Ground, turns: PostgresTurns
) -> None:
    conversation = await place.conversation()
    action = await waiting(place, turns, conversation)
    decision = await decided(place, conversation, action)
    turn = await claim_one(turns, conversation)
    await place.set_state(conversation, state="handoff", handoff_epoch=1)
    committed = await turns.commit(reply(turn, "No.", ends=action, ends_as="declined", ends_result="{}"))
    assert (committed.written, committed.live) == (True, False)
    state = await place.state(conversation)
    assert (state["decision_owed"], state["due_at"]) == (decision, None)
    assert (await action_row(place, action))["state"] == "operator"
    assert (await place.row("turn", id=turn.id))["state"] == "cut_off"
    await place.owner.execute(
        "update conversation_state set state = 'bot', handoff_epoch = 2, due_at = now()"
    )
    again = await claim_one(turns, conversation)
    assert (again.id, again.decides) == (turn.id, True)
    assert (await turns.commit(reply(again, "No.", ends=action, ends_as="declined"))).live
    assert (await action_row(place, action))["state"] == "declined"


BARRED = {
    "people have it": {"state": "handoff"},
    "a message is not judged": {"unguarded": 1},
    "another has the lease": {"lease_token": new_id(), "lease_worker": 2},
}


@pytest.mark.parametrize("change", BARRED.values(), ids=BARRED)
async def test_a_decision_is_not_claimed_while(
    place: Ground, turns: PostgresTurns, change: dict[str, Any]
) -> None:
    conversation = await place.conversation()
    action = await waiting(place, turns, conversation)
    await decided(place, conversation, action)
    until = {"lease_until": await place.now() + timedelta(seconds=9)} if "lease_token" in change else {}
    await place.set_state(conversation, **change, **until)
    assert not await turns.claim([conversation], ANYONE)
    assert (await place.state(conversation))["decision_owed"] is not None


async def test_two_workers_at_once_claim_a_decision_once(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    action = await waiting(place, turns, conversation)
    await decided(place, conversation, action)
    one, other = (
        await turns.claim([conversation], ANYONE),
        await turns_of(place, worker=2).claim([conversation], ANYONE),
    )
    assert (len(one), len(other)) == (1, 0)


async def test_an_approved_action_is_locked_with_its_decision(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    action = await waiting(place, turns, conversation)
    await decided(place, conversation, action)
    turn = await claim_one(turns, conversation)
    async with turns.execution(turn) as execution:
        locked = await execution.lock(action)
        assert locked is not None
        assert locked.pending is not None
        assert locked.pending.decision == Decision(decided=Decided.APPROVED, reason=None, by="ioana")


async def test_a_turn_superseded_counts_in_the_row(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    turn = await answered(place, turns, conversation, "Hello")
    await place.said(conversation, "Wait")
    await turns.commit(reply(turn, state=TurnState.SUPERSEDED, outcome="overtaken", outbound=None, text=None))
    state = await place.state(conversation)
    assert (state["superseded_in_row"], state["unanswered_since"] is not None) == (1, True)


async def states(place: Ground) -> Sequence[str]:
    return [row["state"] for row in await place.rows("pending_action")]


async def test_what_the_words_did_not_confirm_ends_also_when_the_turn_is_overtaken(
    place: Ground, turns: PostgresTurns
) -> None:
    conversation = await place.conversation()
    action = await asked_and_sent(place, turns, conversation)
    turn = await answered(place, turns, conversation, "but at three?")
    await place.said(conversation, "Yes")
    await turns.commit(
        reply(turn, state=TurnState.SUPERSEDED, outbound=None, text=None, ends=action, ends_as="cleared")
    )
    assert await states(place) == ["cleared"]
    assert (await claim_one(turns, conversation)).pending is None
