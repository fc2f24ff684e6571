"""What becomes of a pending action, without a database: only what was confirmed, and approved where asked, writes; once."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from services.agent.core.pending import Press
from services.agent.core.turn import Decided, Decision, Pending, PromptState, Turn, WaitsFor
from services.agent.core.wording import buttons_json, last_step
from services.agent.ports import AsksAgain, Receipt
from shared.autonomy import Asked, Mode
from shared.digest import canonical, digest
from shared.errors import Conflict, Unavailable
from shared.ids import ActionId, MessageId, new_id
from shared.locales import load
from shared.packs import Refusal
from tests.support.eventually import eventually
from tests.support.factories import NOON, prompt
from tests.support.kiosk import SOON, Kiosk, asked, decides, dials, presses, ringing, says

EN = load("en")
HOW_TO_ANSWER = EN.notice("prompt_suffix_yes_no")


@pytest.fixture
def kiosk() -> Kiosk:
    return Kiosk()


def by(state: PromptState = PromptState.SENT, **fields: Any) -> dict[str, Any]:
    """A prompt in that state."""
    return {"prompt": prompt(state=state, **fields)}


# A yes, and a no


async def test_a_yes_executes_once_with_receipt_and_the_system_s_words(kiosk: Kiosk) -> None:
    action = asked()
    async with ringing(kiosk):
        commit = await kiosk.answer(says("Yes, please", action=action))
        await eventually(lambda: kiosk.rung() == [commit.outbound])
    assert kiosk.diary.booked == [str(action.id)], "under the action's id as its key"
    (receipt,) = kiosk.turns.receipts.values()
    assert (receipt.action, receipt.tool, receipt.digest, receipt.result) == (
        action.id, "book_appointment", action.digest, '{"start":"10:00"}',
    )  # fmt: skip
    assert (commit.text, commit.receipt, commit.ends, commit.ends_as) == (
        "Booked 10:00.",
        True,
        action.id,
        "executed",
    )
    assert commit.trace.receipts == (receipt,)
    assert kiosk.engine.questions == 0


async def test_what_was_done_is_the_result_of_the_call_that_asked(kiosk: Kiosk) -> None:
    commit = await kiosk.answer(says("Yes", action=asked()))
    assert json.loads(commit.ends_result or "") == {"done": {"start": "10:00"}, "said": "Booked 10:00."}


@pytest.mark.parametrize("state", [PromptState.UNKNOWN, PromptState.SENDING, PromptState.SENT])
async def test_a_press_executes_and_settles_its_prompt(kiosk: Kiosk, state: PromptState) -> None:
    action = asked(**by(state))
    await kiosk.answer(presses(action))
    assert kiosk.diary.booked == [str(action.id)]
    assert action.prompt is not None
    assert kiosk.turns.settled_prompts == [action.prompt.outbound]


async def test_a_plain_yes_settles_nothing(kiosk: Kiosk) -> None:
    await kiosk.answer(says("Yes", action=asked()))
    assert kiosk.turns.settled_prompts == []


@pytest.mark.parametrize("how", ["a no", "the cancel button"])
async def test_a_no_writes_nothing_and_is_acknowledged(kiosk: Kiosk, how: str) -> None:
    action = asked()
    one = says("No, thanks", action=action) if how == "a no" else presses(action, Press.CANCEL)
    commit = await kiosk.answer(one)
    assert not kiosk.diary.booked
    assert (commit.ends, commit.ends_as, commit.ends_because) == (
        action.id,
        "declined",
        "declined_by_customer",
    )
    assert commit.text == EN.notice("declined_by_customer")
    assert kiosk.engine.questions == 0


async def test_a_decline_is_the_result_of_the_call_that_asked(kiosk: Kiosk) -> None:
    commit = await kiosk.answer(says("No", action=asked()))
    assert commit.ends_result == '{"error":"declined_by_customer"}'


@pytest.mark.parametrize("text", ["yes but at 3pm", "What does it cost?", "yes?", "Yes, on Tuesday"])
async def test_anything_else_is_a_new_request_and_clears_the_action(kiosk: Kiosk, text: str) -> None:
    action = asked()
    commit = await kiosk.answer(says(text, action=action))
    assert not kiosk.diary.booked
    assert (commit.ends, commit.ends_as) == (action.id, "cleared")
    assert kiosk.engine.questions == 1


@pytest.mark.parametrize("texts", [("Yes", "but at 3pm"), ("Yes", "No"), ("No", "Yes")])
async def test_only_the_turn_s_whole_text_counts(kiosk: Kiosk, texts: tuple[str, ...]) -> None:
    commit = await kiosk.answer(says(*texts, action=asked()))
    assert (kiosk.diary.booked, commit.ends_as, kiosk.engine.questions) == ([], "cleared", 1)


@pytest.mark.parametrize("texts", [("Yes", "yes please"), ("Da", "Yes")])
async def test_fragments_that_are_each_a_yes_are_one(kiosk: Kiosk, texts: tuple[str, ...]) -> None:
    action = asked()
    await kiosk.answer(says(*texts, action=action))
    assert kiosk.diary.booked == [str(action.id)]
    assert len(kiosk.turns.confirmations[action.id]) == 1


async def test_a_button_of_another_action_changes_nothing(kiosk: Kiosk) -> None:
    action = asked()
    other = replace(action, id=ActionId(new_id()))
    commit = await kiosk.answer(replace(presses(other), pending=action))
    assert (commit.text, commit.ends) == (EN.notice("no_longer_open"), None)
    assert not kiosk.diary.booked


async def test_while_the_prompt_is_being_sent_the_turn_waits(kiosk: Kiosk) -> None:
    await kiosk.answering.answer(says("Yes", action=asked(**by(PromptState.SENDING))))
    assert kiosk.turns.released == [timedelta(seconds=1)]
    assert not kiosk.turns.commits


async def test_a_yes_older_than_the_prompt_says_nothing_more(kiosk: Kiosk) -> None:
    commit = await kiosk.answer(says("Yes", action=asked(**by(at_send_seq=2))))
    assert (commit.text, commit.ends, kiosk.diary.booked) == (None, None, [])


async def test_it_speaks_the_conversation_s_language(kiosk: Kiosk) -> None:
    commit = await kiosk.answer(says("Nu, mulțumesc", action=asked(), locale="ro"))
    assert commit.text == load("ro").notice("declined_by_customer")


# The question once more


async def test_a_soft_yes_repeats_the_question_once_and_keeps_its_clock(kiosk: Kiosk) -> None:
    action = asked()
    commit = await kiosk.answer(says("ok", action=action))
    assert commit.asks_again == AsksAgain(action=action.id, step=1, repeats=1, clock_from=NOON)
    assert commit.text == f"{EN.notice('prompt_repeated')} Book 10:00 for 100."
    assert commit.buttons == buttons_json(action.id, 1, EN)
    assert (commit.ends, kiosk.diary.booked, kiosk.engine.questions) == (None, [], 0)


async def test_a_clock_that_was_kept_is_kept_again(kiosk: Kiosk) -> None:
    earlier = NOON - timedelta(minutes=5)
    commit = await kiosk.answer(says("ok", action=asked(clock_from=earlier)))
    assert commit.asks_again is not None
    assert commit.asks_again.clock_from == earlier


async def test_a_second_soft_yes_is_a_new_request(kiosk: Kiosk) -> None:
    commit = await kiosk.answer(says("sure", action=asked(repeats=1)))
    assert (commit.ends_as, kiosk.engine.questions) == ("cleared", 1)


async def test_a_prompt_of_unknown_outcome_is_asked_again_with_a_clock_of_its_own(kiosk: Kiosk) -> None:
    action = asked(**by(PromptState.UNKNOWN))
    commit = await kiosk.answer(says("Yes", action=action))
    assert commit.asks_again == AsksAgain(action=action.id, step=1, repeats=1, clock_from=None)
    assert (commit.ends, kiosk.diary.booked) == (None, [])


async def test_a_yes_aimed_at_another_message_repeats_it_without_counting(kiosk: Kiosk) -> None:
    action = asked(repeats=1)
    one = says("Yes", action=action)
    quoting = replace(one, messages=(replace(one.messages[0], quoted="another"),))
    commit = await kiosk.answer(quoting)
    assert commit.asks_again == AsksAgain(action=action.id, step=1, repeats=1, clock_from=NOON)
    assert not kiosk.diary.booked


async def test_the_last_step_repeated_says_that_it_is_the_last(kiosk: Kiosk) -> None:
    commit = await kiosk.answer(says("ok", action=asked("cancel_appointment", step=2)))
    assert commit.text == (
        f"{EN.notice('prompt_repeated')} Cancel 10:00 for 100. {EN.notice('prompt_last_step')}"
    )
    assert commit.asks_again is not None
    assert commit.asks_again.step == 2


# Too late


def late(action: Pending, *, minutes: int = 16, **fields: Any) -> Turn:
    return says("Yes", action=action, at=NOON + timedelta(minutes=minutes), **fields)


async def test_a_yes_too_late_is_checked_and_asked_again_without_a_model(kiosk: Kiosk) -> None:
    action = asked()
    kiosk.diary.price = "120"
    commit = await kiosk.answer(late(action))
    assert not kiosk.diary.booked
    assert commit.asks is not None
    assert commit.asks.id != action.id
    assert commit.text == f"{EN.notice('expired')} Book 10:00 for 120. {HOW_TO_ANSWER}"
    assert (commit.ends, commit.ends_as) == (action.id, "replaced")
    assert kiosk.engine.questions == 0


async def test_a_yes_too_late_for_what_is_gone_is_told_so(kiosk: Kiosk) -> None:
    kiosk.diary.taken = True
    commit = await kiosk.answer(late(asked()))
    assert (commit.text, commit.ends_as, commit.asks) == ("Not possible: taken.", "refused", None)
    assert json.loads(commit.ends_result or "") == {"error": "taken", "free": ["11:00"]}


async def test_too_late_at_the_second_step_begins_with_the_first(kiosk: Kiosk) -> None:
    commit = await kiosk.answer(late(asked("cancel_appointment", step=2)))
    assert commit.asks is not None
    assert commit.asks.confirmations_needed == 2
    assert commit.buttons == buttons_json(commit.asks.id, 1, EN)


async def test_too_late_and_a_day_gone_is_a_new_request(kiosk: Kiosk) -> None:
    commit = await kiosk.answer(late(asked(), minutes=24 * 60 + 1))
    assert (commit.ends_as, kiosk.engine.questions) == ("cleared", 1)


async def test_too_late_and_something_was_said_since_is_a_new_request(kiosk: Kiosk) -> None:
    one = late(asked(), seq=3)
    said = says("What does it cost?").messages
    commit = await kiosk.answer(replace(one, messages=(*said, *one.messages)))
    assert (commit.ends_as, kiosk.engine.questions) == ("cleared", 1)


async def test_too_late_and_raised_to_run_freely_is_asked_all_the_same(kiosk: Kiosk) -> None:
    action = asked("note_wish", summary="Note 10:00 for 100.")
    commit = await kiosk.answer(late(action, dials=dials(note_wish=4)))
    assert commit.asks is not None
    assert (commit.asks.confirmations_needed, kiosk.diary.booked) == (1, [])


@pytest.mark.parametrize(
    ("action", "set_"),
    [
        (asked(), dials(book_appointment=1)),
        (asked("forgotten_tool"), dials()),
        (asked(arguments="[]"), dials()),
        (asked(arguments="no JSON"), dials()),
    ],
    ids=["lowered meanwhile", "a tool that is gone", "arguments of another form", "arguments that are none"],
)
async def test_too_late_for_what_can_t_be_asked_any_more_is_no_longer_open(
    kiosk: Kiosk, action: Pending, set_: Any
) -> None:
    commit = await kiosk.answer(late(action, dials=set_))
    assert (commit.text, commit.ends_as, commit.asks) == (EN.notice("no_longer_open"), "cleared", None)


# Two steps


async def test_two_confirmations_and_then_the_execution(kiosk: Kiosk) -> None:
    action = asked("cancel_appointment")
    first = await kiosk.answer(says("Yes", action=action))
    assert first.asks_again == AsksAgain(action=action.id, step=2, repeats=0, clock_from=None)
    assert first.text == last_step("Cancel 10:00 for 100.", EN), "it says that it is the last step"
    assert first.buttons == buttons_json(action.id, 2, EN)
    assert (first.ends, first.receipt, kiosk.diary.cancelled) == (None, False, [])
    kiosk.turns.commits.clear()
    second = await kiosk.answer(says("Yes", action=replace(action, step=2), seq=3))
    assert kiosk.diary.cancelled == [str(action.id)]
    assert (second.ends_as, second.receipt) == ("executed", True)


async def test_a_button_of_each_step_confirms_it(kiosk: Kiosk) -> None:
    action = asked("cancel_appointment")
    await kiosk.answer(presses(action))
    kiosk.turns.commits.clear()
    await kiosk.answer(presses(replace(action, step=2), step=2, seq=3))
    assert kiosk.diary.cancelled == [str(action.id)]


async def test_one_message_is_one_confirmation_however_often_it_comes(kiosk: Kiosk) -> None:
    one = says("Yes", action=asked("cancel_appointment"))
    for _ in range(3):
        kiosk.turns.commits.clear()
        commit = await kiosk.answer(one)
        assert commit.asks_again is not None
        assert commit.asks_again.step == 2
    assert not kiosk.diary.cancelled


async def test_two_messages_of_one_burst_are_one_confirmation(kiosk: Kiosk) -> None:
    commit = await kiosk.answer(says("Yes", "Yes", action=asked("cancel_appointment")))
    assert commit.asks_again is not None
    assert not kiosk.diary.cancelled


async def test_the_first_step_s_button_never_confirms_the_second(kiosk: Kiosk) -> None:
    action = asked("cancel_appointment", step=2)
    kiosk.turns.confirmations[action.id] = {MessageId(new_id())}
    commit = await kiosk.answer(presses(action, step=1))
    assert commit.outcome == "repeated"
    assert not kiosk.diary.cancelled


@pytest.mark.parametrize("step", [1, 2])
async def test_a_check_that_no_longer_holds_ends_it_at_either_step(kiosk: Kiosk, step: int) -> None:
    action = asked("cancel_appointment", step=step)
    kiosk.turns.confirmations[action.id] = {MessageId(new_id())} if step == 2 else set()
    kiosk.diary.taken = True
    commit = await kiosk.answer(says("Yes", action=action))
    assert (commit.text, commit.ends_as, commit.ends_because) == ("Not possible: taken.", "refused", "taken")
    assert not kiosk.diary.cancelled


@pytest.mark.parametrize("step", [1, 2])
async def test_what_changed_is_asked_anew_from_the_first_step(kiosk: Kiosk, step: int) -> None:
    action = asked("cancel_appointment", step=step)
    kiosk.turns.confirmations[action.id] = {MessageId(new_id())} if step == 2 else set()
    kiosk.diary.price = "120"
    commit = await kiosk.answer(says("Yes", action=action))
    assert commit.asks is not None
    assert commit.asks.confirmations_needed == 2
    assert commit.text == f"{EN.notice('changed')} Cancel 10:00 for 120. {HOW_TO_ANSWER}"
    assert commit.buttons == buttons_json(commit.asks.id, 1, EN)
    assert (commit.ends_as, kiosk.diary.cancelled) == ("replaced", [])


async def test_a_floor_counts_even_where_the_row_says_one(kiosk: Kiosk) -> None:
    commit = await kiosk.answer(says("Yes", action=asked("cancel_appointment", confirmations_needed=1)))
    assert commit.asks_again is not None
    assert not kiosk.diary.cancelled


# Executing: everything as it is now


async def test_what_the_prompt_showed_and_is_no_longer_so_is_asked_again(kiosk: Kiosk) -> None:
    """The digest: nothing is written for another price than the one that was confirmed."""
    kiosk.diary.price = "120"
    commit = await kiosk.answer(says("Yes", action=asked()))
    assert (kiosk.diary.booked, kiosk.turns.receipts) == ([], {})
    assert commit.text == f"{EN.notice('changed')} Book 10:00 for 120. {HOW_TO_ANSWER}"
    assert commit.asks is not None
    assert (commit.ends_as, commit.receipt) == ("replaced", False)


async def test_a_check_that_no_longer_holds_is_told_to_the_customer(kiosk: Kiosk) -> None:
    kiosk.diary.taken = True
    commit = await kiosk.answer(says("Yes", action=asked()))
    assert not kiosk.diary.booked
    assert (commit.text, commit.ends_as, commit.ends_because) == ("Not possible: taken.", "refused", "taken")
    assert json.loads(commit.ends_result or "") == {"error": "taken", "free": ["11:00"]}


NO_LONGER = {
    "level 0": dials(book_appointment=0),
    "level 1": dials(book_appointment=1),
    "a level that can't be read": dials(book_appointment=None),
    "mode off": dials(Mode.OFF),
}


@pytest.mark.parametrize("now", NO_LONGER.values(), ids=NO_LONGER)
async def test_lowered_between_prompt_and_yes_nothing_is_written_and_people_take_over(
    kiosk: Kiosk, now: Any
) -> None:
    one = says("Yes", action=asked())
    kiosk.turns.stored, kiosk.turns.dials = one.pending, now
    commit = await kiosk.goes_on(one)
    assert (kiosk.diary.booked, kiosk.turns.receipts, kiosk.diary.checks) == ([], {}, 0)
    assert (commit.ends_as, commit.ends_because, commit.handoff) == (
        "refused",
        "not_permitted",
        "not_permitted",
    )
    assert commit.text == EN.notice("fallback")
    assert commit.ends_result == '{"error":"not_permitted_at_level"}'


@pytest.mark.parametrize("level", [3, 4])
async def test_raised_between_prompt_and_yes_the_confirmations_asked_are_still_needed(
    kiosk: Kiosk, level: int
) -> None:
    action = asked("note_wish", confirmations_needed=2)
    first = await kiosk.answer(says("Yes", action=action, dials=dials(note_wish=level)))
    assert (first.outcome, kiosk.diary.booked) == ("next_step", [])
    kiosk.turns.commits.clear()
    await kiosk.answer(says("Yes", action=replace(action, step=2), seq=3, dials=dials(note_wish=level)))
    assert kiosk.diary.booked == [str(action.id)]


TAMPERED: dict[str, dict[str, Any]] = {
    "the arguments": {"arguments": canonical({"start": "11:00"})},
    "the shown values": {"shown": canonical({"start": "10:00", "price": "1"})},
    "the tool": {"tool": "note_wish"},
    "the digest": {"digest": b"x" * 32},
    "a tool that is not there": {"tool": "no_such_tool"},
}


@pytest.mark.parametrize("change", TAMPERED.values(), ids=TAMPERED)
async def test_an_action_whose_row_was_changed_is_not_executed(kiosk: Kiosk, change: dict[str, Any]) -> None:
    one = says("Yes", action=asked())
    assert one.pending is not None
    kiosk.turns.stored = replace(one.pending, **change)
    commit = await kiosk.goes_on(one)
    assert not kiosk.diary.booked
    assert (commit.ends_as, commit.handoff) == ("refused", "not_permitted")


async def test_an_action_tampered_with_whole_is_asked_about_as_it_is_now(kiosk: Kiosk) -> None:
    """With a digest that fits: its price is no longer what the check finds."""
    arguments, shown = canonical({"start": "10:00"}), canonical({"start": "10:00", "price": "1"})
    one = says("Yes", action=asked())
    assert one.pending is not None
    forged = {"shown": shown, "digest": digest("book_appointment", arguments, shown)}
    kiosk.turns.stored = replace(one.pending, **forged)  # type: ignore[arg-type]
    commit = await kiosk.goes_on(one)
    assert (kiosk.diary.booked, commit.outcome) == ([], "changed")


async def test_an_action_that_ended_meanwhile_is_not_executed(kiosk: Kiosk) -> None:
    commit = await kiosk.goes_on(says("Yes", action=asked()))
    assert (kiosk.diary.booked, commit.text, commit.outcome) == ([], None, "stopped")


async def test_a_turn_that_is_another_s_executes_nothing(kiosk: Kiosk) -> None:
    kiosk.turns.ours = False
    commit = await kiosk.answer(says("Yes", action=asked()))
    assert (kiosk.diary.booked, kiosk.turns.confirmations, commit.outcome) == ([], {}, "stopped")


async def test_an_execution_that_met_another_is_done_again_whole(kiosk: Kiosk) -> None:
    kiosk.turns.conflicts = 2
    await kiosk.answer(says("Yes", action=asked()))
    assert (kiosk.turns.executions, len(kiosk.diary.booked)) == (3, 1)


async def test_after_three_conflicts_the_turn_is_tried_again_later(kiosk: Kiosk) -> None:
    kiosk.turns.conflicts = 3
    with pytest.raises(Conflict):
        await kiosk.answer(says("Yes", action=asked()))
    assert not kiosk.turns.commits


async def test_a_connection_lost_at_commit_asks_for_the_receipt(kiosk: Kiosk) -> None:
    kiosk.turns.lost_at_commit = True
    action = asked()
    await kiosk.answer(says("Yes", action=action))
    assert kiosk.turns.executions == 1, "it did commit: not again"
    assert action.id in kiosk.turns.receipts


@asynccontextmanager
async def away(_: Turn) -> AsyncIterator[Any]:
    raise Unavailable("the database is away")
    yield


async def test_a_connection_lost_before_it_is_nobody_s_attempt(kiosk: Kiosk) -> None:
    kiosk.turns.execution = away  # type: ignore[method-assign, assignment]  # a fake's own door, shut
    with pytest.raises(Unavailable):
        await kiosk.answering.answer(says("Yes", action=asked()))
    assert not kiosk.diary.booked


async def test_a_pack_that_is_gone_executes_nothing(kiosk: Kiosk) -> None:
    one = says("Yes", action=asked())
    commit = await kiosk.answer(replace(one, business=replace(one.business, pack="gone")))
    assert (commit.text, commit.ends_as) == (EN.notice("no_longer_open"), "cleared")


async def test_a_late_turn_s_yes_executes_and_its_receipt_is_held(kiosk: Kiosk) -> None:
    """A backlog of ours expires no timely yes; and nobody is told at night what they wanted at noon."""
    one = replace(says("Yes", action=asked()), now=SOON + timedelta(hours=2))
    commit = await kiosk.answer(one)
    assert (len(kiosk.diary.booked), commit.held) == (1, "late")


# An operator is asked, too


def waiting(
    *, asked_: Asked = Asked.BOTH, decided: Decided | None = None, reason: str | None = None, **fields: Any
) -> Pending:
    """A booking that waits for an operator, or that they decided about."""
    decision = Decision(decided=decided, reason=reason, by="Ioana") if decided else None
    plain = {"waits_for": WaitsFor.OPERATOR, "asked": asked_, "decision": decision}
    return asked(**(plain | fields))


def confirmed_by_the_customer(kiosk: Kiosk, action: Pending, times: int = 1) -> None:
    kiosk.turns.confirmations[action.id] = {MessageId(new_id()) for _ in range(times)}


async def test_after_the_customer_an_operator_is_asked(kiosk: Kiosk) -> None:
    action = asked(asked=Asked.BOTH)
    commit = await kiosk.answer(says("Yes", action=action))
    assert (commit.to_operator, commit.text) == (action.id, EN.notice("waiting_for_operator"))
    assert (commit.ends, commit.receipt, kiosk.diary.booked) == (None, False, [])


async def test_both_steps_come_before_the_operator(kiosk: Kiosk) -> None:
    action = asked("cancel_appointment", asked=Asked.BOTH)
    first = await kiosk.answer(says("Yes", action=action))
    assert (first.outcome, first.to_operator) == ("next_step", None)
    kiosk.turns.commits.clear()
    second = await kiosk.answer(says("Yes", action=replace(action, step=2), seq=3))
    assert (second.to_operator, kiosk.diary.cancelled) == (action.id, [])


async def test_an_operator_that_is_asked_for_by_now_is_asked(kiosk: Kiosk) -> None:
    one = says("Yes", action=asked())
    kiosk.turns.stored = one.pending
    kiosk.turns.dials = dials(asked=Asked.BOTH, book_appointment=2)
    commit = await kiosk.goes_on(one)
    assert commit.to_operator is not None
    assert not kiosk.diary.booked


async def test_what_no_longer_holds_is_not_put_to_an_operator(kiosk: Kiosk) -> None:
    kiosk.diary.taken = True
    commit = await kiosk.answer(says("Yes", action=asked(asked=Asked.BOTH)))
    assert (commit.to_operator, commit.ends_as) == (None, "refused")


async def test_an_approval_executes_with_every_check_again(kiosk: Kiosk) -> None:
    action = waiting(decided=Decided.APPROVED)
    confirmed_by_the_customer(kiosk, action)
    one = decides(action)
    commit = await kiosk.answer(one)
    assert (kiosk.diary.booked, kiosk.diary.checks) == ([str(action.id)], 1)
    assert (commit.text, commit.receipt, commit.ends_as) == ("Booked 10:00.", True, "executed")
    assert commit.turn.decides
    assert commit.seq_to == one.handled_seq, "the message that waits is not taken"


async def test_an_operator_s_approval_alone_executes_where_only_they_are_asked(kiosk: Kiosk) -> None:
    action = waiting(
        asked_=Asked.OPERATOR, decided=Decided.APPROVED, confirmations_needed=0, tool="note_wish"
    )
    await kiosk.answer(decides(action, dials=dials(asked=Asked.OPERATOR, note_wish=2)))
    assert kiosk.diary.booked == [str(action.id)]


async def test_no_approval_stands_for_a_customer_s_yes(kiosk: Kiosk) -> None:
    commit = await kiosk.answer(decides(waiting(decided=Decided.APPROVED)))
    assert (kiosk.diary.booked, commit.ends_because, commit.handoff) == ([], "not_permitted", "not_permitted")


async def test_a_decision_that_the_row_does_not_have_executes_nothing(kiosk: Kiosk) -> None:
    one = decides(waiting(decided=Decided.APPROVED))
    assert one.pending is not None
    kiosk.turns.stored = replace(one.pending, decision=None)
    confirmed_by_the_customer(kiosk, one.pending)
    commit = await kiosk.goes_on(one)
    assert (kiosk.diary.booked, commit.handoff) == ([], "not_permitted")


async def test_an_approval_of_what_no_longer_holds_is_told_to_the_customer(kiosk: Kiosk) -> None:
    action = waiting(decided=Decided.APPROVED)
    confirmed_by_the_customer(kiosk, action)
    kiosk.diary.taken = True
    commit = await kiosk.answer(decides(action))
    assert (commit.text, commit.ends_as, kiosk.diary.booked) == ("Not possible: taken.", "refused", [])


async def test_an_approval_of_what_has_changed_asks_anew(kiosk: Kiosk) -> None:
    action = waiting(decided=Decided.APPROVED)
    confirmed_by_the_customer(kiosk, action)
    kiosk.diary.price = "120"
    commit = await kiosk.answer(decides(action, dials=dials(asked=Asked.BOTH, book_appointment=2)))
    assert commit.asks is not None
    assert (commit.asks.asked, commit.asks.waits_for) == (Asked.BOTH, WaitsFor.CUSTOMER)
    assert (commit.ends, commit.ends_as, kiosk.diary.booked) == (action.id, "replaced", [])


async def test_an_approval_at_a_level_that_was_lowered_writes_nothing(kiosk: Kiosk) -> None:
    action = waiting(decided=Decided.APPROVED)
    confirmed_by_the_customer(kiosk, action)
    commit = await kiosk.answer(decides(action, dials=dials(book_appointment=1)))
    assert (kiosk.diary.booked, commit.handoff) == ([], "not_permitted")


DECLINES = [
    (Decided.DECLINED, None, EN.notice("declined_by_operator"), "declined_by_operator", "declined_by_operator"),
    (Decided.DECLINED, " \n ", EN.notice("declined_by_operator"), "declined_by_operator", "declined_by_operator"),
    (Decided.DECLINED, "we are\nfull", EN.notice("declined_by_operator_because", reason="we are full."),
     "declined_by_operator", "we are full"),
    (Decided.DECLINED, "Full!", EN.notice("declined_by_operator_because", reason="Full!"), "declined_by_operator", "Full!"),
    (Decided.EXPIRED, None, EN.notice("approval_expired"), "approval_expired", "approval_expired"),
]  # fmt: skip


@pytest.mark.parametrize(("decided", "reason", "text", "because", "told"), DECLINES)
async def test_a_decline_by_operator_or_clock_is_the_system_s_words_and_the_call_s_result(
    kiosk: Kiosk, decided: Decided, reason: str | None, text: str, because: str, told: str
) -> None:
    action = waiting(decided=decided, reason=reason)
    confirmed_by_the_customer(kiosk, action)
    commit = await kiosk.answer(decides(action))
    assert commit.text == text
    assert (commit.ends, commit.ends_as, commit.ends_because) == (action.id, "declined", because)
    assert json.loads(commit.ends_result or "") == {"error": "declined_by_operator", "reason": told}
    assert (kiosk.diary.booked, kiosk.engine.questions) == ([], 0)


async def test_an_operator_s_reason_is_no_longer_than_a_message_bears(kiosk: Kiosk) -> None:
    commit = await kiosk.answer(decides(waiting(decided=Decided.DECLINED, reason="x" * 5_000)))
    assert len(commit.text or "") < 500


@pytest.mark.parametrize("action", [None, waiting()], ids=["it ended", "it was not decided"])
async def test_a_decision_that_comes_too_late_says_nothing(kiosk: Kiosk, action: Pending | None) -> None:
    commit = await kiosk.answer(decides(action))
    assert (commit.text, commit.ends, commit.outcome) == (None, None, "decided_too_late")
    assert kiosk.engine.questions == 0


async def test_while_it_waits_a_no_withdraws_it(kiosk: Kiosk) -> None:
    action = waiting()
    commit = await kiosk.answer(says("No", action=action))
    assert (commit.text, commit.ends, commit.ends_as) == (EN.notice("withdrawn"), action.id, "declined")
    assert commit.ends_result == '{"error":"declined_by_customer"}'


@pytest.mark.parametrize("text", ["Yes", "ok"])
async def test_while_it_waits_a_yes_is_told_so(kiosk: Kiosk, text: str) -> None:
    commit = await kiosk.answer(says(text, action=waiting()))
    assert (commit.text, commit.ends, kiosk.diary.booked) == (EN.notice("still_waiting"), None, [])
    assert kiosk.engine.questions == 0


async def test_while_it_waits_anything_else_leaves_it(kiosk: Kiosk) -> None:
    commit = await kiosk.answer(says("Where are you?", action=waiting()))
    assert (commit.ends, kiosk.engine.questions) == (None, 1)


async def test_words_while_a_decision_has_been_made_but_not_run_leave_it(kiosk: Kiosk) -> None:
    """Its own turn comes first; until then a yes of the customer's executes nothing."""
    action = waiting(decided=Decided.APPROVED)
    confirmed_by_the_customer(kiosk, action)
    await kiosk.answer(says("Yes", action=action))
    assert not kiosk.diary.booked


# An effect outside the record

ORDER = {"tool": "order_outside", "summary": "Order 10:00 for 100."}


async def test_an_effect_outside_is_marked_called_for_once_and_has_its_receipt(kiosk: Kiosk) -> None:
    action = asked(**ORDER)
    marked: list[bool] = []
    kiosk.diary.at_order = lambda: marked.append(action.id in kiosk.turns.executing)
    commit = await kiosk.answer(says("Yes", action=action))
    assert (kiosk.diary.ordered, marked) == ([str(action.id)], [True]), "committed before the call"
    assert (commit.ends_as, commit.receipt) == ("executed", True)
    assert action.id in kiosk.turns.receipts


async def test_an_effect_outside_that_is_refused_is_told(kiosk: Kiosk) -> None:
    kiosk.diary.outside = Refusal(code="sold_out")
    commit = await kiosk.answer(says("Yes", action=asked(**ORDER)))
    assert (commit.text, commit.ends_as, commit.receipt) == ("Not possible: sold_out.", "refused", False)


async def test_an_effect_outside_without_an_answer_is_a_person_s_task(kiosk: Kiosk) -> None:
    kiosk.diary.outside = TimeoutError()
    commit = await kiosk.answer(says("Yes", action=asked(**ORDER)))
    assert (commit.ends_as, commit.handoff, commit.flag) == ("unknown", "action_unknown", "action_unknown")
    assert commit.text == EN.notice("action_unknown", summary="Order 10:00 for 100.")
    assert not kiosk.turns.receipts


@pytest.mark.parametrize("text", ["Yes", "No", "Hello?"])
async def test_one_found_under_way_is_never_repeated(kiosk: Kiosk, text: str) -> None:
    commit = await kiosk.answer(says(text, action=asked(**ORDER, executing=True)))
    assert kiosk.diary.ordered == []
    assert (commit.ends_as, commit.handoff) == ("unknown", "action_unknown")


async def test_a_turn_that_became_another_s_meanwhile_stores_what_was_done(kiosk: Kiosk) -> None:
    action = asked(**ORDER)
    kiosk.diary.at_order = lambda: setattr(kiosk.turns, "ours", False)
    await kiosk.answer(says("Yes", action=action))
    assert action.id in kiosk.turns.receipts


async def test_one_found_under_way_whose_receipt_is_stored_was_done(kiosk: Kiosk) -> None:
    action = asked(**ORDER, executing=True)
    done = Receipt(action=action.id, tool=action.tool, digest=action.digest, result='{"start":"10:00"}')
    kiosk.turns.receipts[action.id] = done
    commit = await kiosk.answer(says("yes", action=action))
    assert kiosk.diary.ordered == []
    assert (commit.ends_as, commit.handoff, commit.receipt) == ("executed", None, True)
