"""What an engine's outcome comes to, without a database or a model: one commit, said honestly, and people where it must be."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from services.agent.commits import new_action
from services.agent.core.gate import Ask
from services.agent.core.heard import Heard
from services.agent.core.pending import Button, Press
from services.agent.core.turn import PromptState, Reply, WaitsFor
from services.agent.engines.outcome import (
    Asks,
    FallbackReason,
    Falls,
    HandsOver,
    Outcome,
    Overtaken,
    Said,
    SoFar,
    Stopped,
)
from services.agent.ports import Committed, NewAction, Receipt, ToolRecord, Trace, TurnState
from services.agent.questions import PAGE_CACHED_S
from shared.autonomy import Asked, Mode
from shared.digest import digest, text_digest
from shared.ids import ActionId, new_id
from shared.locales import load
from shared.messages import PROMPT_CHARS_MAX, MessageKind
from shared.packs import Proposal
from tests.support.eventually import eventually
from tests.support.factories import heard, prompt, turn
from tests.support.kiosk import SOON, Kiosk, asked, decides, dials, presses, ringing, says

EN = load("en")


@pytest.fixture
def kiosk() -> Kiosk:
    return Kiosk()


@pytest.fixture
async def ringer(kiosk: Kiosk) -> AsyncIterator[Kiosk]:
    async with ringing(kiosk):
        yield kiosk


def proposed(kiosk: Kiosk, *, asked: Asked = Asked.CUSTOMER, start: str = "10:00") -> NewAction:
    """A booking as the engine proposes it."""
    tool = next(tool for tool in kiosk.pack.tools if tool.name == "book_appointment")
    proposal = Proposal(arguments={"start": start}, shown={"start": start, "price": "100"})
    confirmations = 0 if asked is Asked.OPERATOR else 1
    return new_action(tool, proposal, Ask(confirmations, asked), locale="en")


def receipt(result: str = '{"start":"10:00"}', tool: str = "book_appointment") -> Receipt:
    return Receipt(action=ActionId(new_id()), tool=tool, digest=b"d", result=result)


def done(*receipts: Receipt, **fields: Any) -> SoFar:
    return SoFar(trace=Trace(receipts=receipts), **fields)


# The engine's outcomes


async def test_a_reply_is_committed_and_rung(ringer: Kiosk) -> None:
    commit = await ringer.answer(says("Hello"))
    assert (commit.text, commit.outcome, commit.state) == ("Hello!", "reply", TurnState.DONE)
    assert commit.seq_to == 2
    assert (commit.handoff, commit.ends, commit.held, commit.flag) == (None, None, None, None)
    await eventually(lambda: ringer.rung() == [commit.outbound])


async def test_an_action_waits_for_the_customer_with_the_system_s_words_and_buttons(kiosk: Kiosk) -> None:
    action = proposed(kiosk)
    kiosk.engine.outcome = Asks(action=action, so_far=SoFar())
    commit = await kiosk.answer(says("Ten o'clock"))
    assert commit.asks == action
    assert action.waits_for is WaitsFor.CUSTOMER
    assert commit.text == f"Book 10:00 for 100. {EN.notice('prompt_suffix_yes_no')}"
    assert commit.buttons is not None
    assert Button(action=action.id, step=1, press=Press.CONFIRM).encode() in commit.buttons


async def test_the_digest_covers_tool_arguments_and_all_that_is_shown(kiosk: Kiosk) -> None:
    action = proposed(kiosk)
    assert action.digest == digest("book_appointment", '{"start":"10:00"}', '{"price":"100","start":"10:00"}')


async def test_an_action_that_waits_for_an_operator_alone_is_a_notice_without_buttons(kiosk: Kiosk) -> None:
    action = proposed(kiosk, asked=Asked.OPERATOR)
    kiosk.engine.outcome = Asks(action=action, so_far=SoFar())
    commit = await kiosk.answer(says("Ten o'clock"))
    assert action.waits_for is WaitsFor.OPERATOR
    assert (commit.asks, commit.buttons) == (action, None)
    assert commit.text == EN.notice("approval_asked", summary="Book 10:00 for 100.")


async def test_what_was_done_before_is_said_before_the_question(kiosk: Kiosk) -> None:
    kiosk.engine.outcome = Asks(action=proposed(kiosk, start="11:00"), so_far=done(receipt(tool="note_wish")))
    commit = await kiosk.answer(says("Note ten, and book eleven"))
    assert commit.text is not None
    assert commit.text.startswith("Noteed 10:00. Book 11:00 for 100. ")
    assert commit.receipt


async def test_a_prompt_too_long_for_one_message_goes_to_people(kiosk: Kiosk) -> None:
    action = replace(proposed(kiosk), summary="x" * PROMPT_CHARS_MAX)
    kiosk.engine.outcome = Asks(action=action, so_far=SoFar())
    commit = await kiosk.answer(says("Ten o'clock"))
    assert commit.asks is None
    assert commit.handoff == "prompt_too_long"


async def test_a_hand_over_says_so_once(kiosk: Kiosk) -> None:
    kiosk.engine.outcome = HandsOver(so_far=SoFar())
    commit = await kiosk.answer(says("This is no use", action=asked()))
    assert (commit.handoff, commit.text) == ("model", EN.notice("handoff_requested"))
    assert commit.ends_as == "cleared"


@pytest.mark.parametrize("reason", FallbackReason)
async def test_no_usable_answer_is_an_honest_reply_and_people(kiosk: Kiosk, reason: FallbackReason) -> None:
    kiosk.engine.outcome = Falls(reason=reason)
    commit = await kiosk.answer(says("Hello", action=asked()))
    assert commit.handoff == reason.value
    assert commit.text == EN.notice("budget" if reason is FallbackReason.BUDGET else "fallback")
    assert commit.ends_as == "cleared", "what the customer had not confirmed is cleared in a handoff"


@pytest.mark.parametrize(
    "outcome",
    [
        HandsOver(so_far=done(receipt())),
        Falls(reason=FallbackReason.CALLS_USED, so_far=done(receipt())),
    ],
    ids=["a hand-over", "no usable answer"],
)
async def test_a_fixed_reply_names_what_was_done(kiosk: Kiosk, outcome: Any) -> None:
    (one,) = outcome.so_far.trace.receipts
    kiosk.turns.receipts[one.action] = one
    kiosk.engine.outcome = outcome
    commit = await kiosk.answer(says("Book ten, and dance"))
    assert commit.text == EN.notice("fallback_done", done="Booked 10:00")
    assert commit.receipt, "what carries a receipt is never superseded"


async def test_a_late_turn_s_reply_is_held(kiosk: Kiosk) -> None:
    late = replace(says("Hello"), now=SOON + timedelta(hours=2))
    assert (await kiosk.answer(late)).held == "late"


async def test_in_mode_off_no_model_is_asked(kiosk: Kiosk) -> None:
    commit = await kiosk.answer(says("Hello", dials=dials(Mode.OFF)))
    assert commit.text is None
    assert kiosk.engine.questions == 0


async def test_a_pack_that_is_not_installed_is_no_silence(kiosk: Kiosk) -> None:
    one = says("Hello")
    commit = await kiosk.answer(replace(one, business=replace(one.business, pack="other")))
    assert commit.handoff == "no_pack"


async def test_a_commit_that_was_not_written_is_not_rung(ringer: Kiosk) -> None:
    ringer.turns.answer = Committed(written=False, live=False, again=False)
    await ringer.answer(says("Hello"))
    await asyncio.sleep(0)
    assert not ringer.rung()


# What clears the action that waited

NEITHER: list[tuple[str, Outcome]] = [
    ("said", Said(text="A hundred.", so_far=SoFar(), last_call=None)),
    ("handed over", HandsOver(so_far=SoFar())),
    ("no usable answer", Falls(reason=FallbackReason.REFUSED)),
    ("overtaken", Overtaken()),
    ("stopped", Stopped()),
]


@pytest.mark.parametrize("outcome", [one for _, one in NEITHER], ids=[name for name, _ in NEITHER])
async def test_words_that_do_not_confirm_clear_the_action_whatever_comes_of_them(
    kiosk: Kiosk, outcome: Outcome
) -> None:
    """Else "but at three?", overtaken by "yes", would leave ten o'clock for the yes to confirm."""
    action = asked()
    kiosk.engine.outcome = outcome
    commit = await kiosk.answer(says("but can I come at three?", action=action))
    assert (commit.ends, commit.ends_as) == (action.id, "cleared")


async def test_in_mode_off_they_clear_it_too(kiosk: Kiosk) -> None:
    commit = await kiosk.answer(says("but at three?", action=asked(), dials=dials(Mode.OFF)))
    assert (commit.text, commit.ends_as) == (None, "cleared")


@pytest.mark.parametrize("outcome", [one for _, one in NEITHER], ids=[name for name, _ in NEITHER])
async def test_what_waits_for_an_operator_stays(kiosk: Kiosk, outcome: Outcome) -> None:
    kiosk.engine.outcome = outcome
    commit = await kiosk.answer(says("And what does it cost?", action=asked(waits_for=WaitsFor.OPERATOR)))
    assert commit.ends is None


async def test_a_new_action_replaces_the_one_that_waited(kiosk: Kiosk) -> None:
    action = asked()
    kiosk.engine.outcome = Asks(action=proposed(kiosk, start="11:00"), so_far=SoFar())
    commit = await kiosk.answer(says("Rather at eleven", action=action))
    assert (commit.ends, commit.ends_as) == (action.id, "replaced")


# Level 0, and claims that nothing backs


@pytest.mark.parametrize(
    "outcome",
    [
        Said(text="Hello!", so_far=SoFar(level_0=True), last_call=None),
        HandsOver(so_far=SoFar(level_0=True)),
        Falls(reason=FallbackReason.CALLS_USED, so_far=SoFar(level_0=True)),
    ],
    ids=["said", "handed over", "no usable answer"],
)
async def test_a_turn_in_which_a_tool_at_level_0_was_called_is_held(kiosk: Kiosk, outcome: Outcome) -> None:
    kiosk.engine.outcome = outcome
    assert (await kiosk.answer(says("Hello"))).held == "level_0"


async def test_a_prompt_of_such_a_turn_is_held_too(kiosk: Kiosk) -> None:
    kiosk.engine.outcome = Asks(action=proposed(kiosk), so_far=SoFar(level_0=True))
    assert (await kiosk.answer(says("Hello"))).held == "level_0"


async def test_a_turn_that_says_nothing_holds_nothing(kiosk: Kiosk) -> None:
    kiosk.engine.outcome = Overtaken(so_far=SoFar(level_0=True))
    assert (await kiosk.answer(says("Hello"))).held is None


async def test_an_unbacked_claim_is_a_draft_with_a_flag(kiosk: Kiosk) -> None:
    kiosk.engine.outcome = Said(text="I've booked it.", so_far=SoFar(), last_call=None, unbacked=True)
    commit = await kiosk.answer(says("Book"))
    assert (commit.held, commit.flag, commit.handoff) == ("unbacked_claim", "unbacked_claim", None)


# The evidence


async def test_every_commit_is_sealed_behind_the_one_before(kiosk: Kiosk) -> None:
    commit = await kiosk.answer(says("Hello"))
    assert commit.sealed is not None
    assert commit.sealed.n == commit.turn.chain.length + 1


async def test_tool_calls_and_receipts_are_in_the_commit_and_its_trace(kiosk: Kiosk) -> None:
    record = ToolRecord(
        n=1, position=0, call_id="c", tool="find_slots", arguments="{}", decision="allow", reason=None, result="{}",
    )  # fmt: skip
    one = receipt()
    so_far = SoFar(unstored=(record,), trace=Trace(tools=(record,), receipts=(one,)))
    kiosk.engine.outcome = Said(text="Hello!", so_far=so_far, last_call=None)
    commit = await kiosk.answer(says("Hello"))
    assert (commit.tools, commit.trace, commit.receipt) == ((record,), so_far.trace, True)


# The pack's page


async def test_the_pack_s_page_is_looked_up_every_few_seconds(kiosk: Kiosk) -> None:
    for _ in range(3):
        await kiosk.answering.answer(says("Hello"))
    assert kiosk.pack.pages == 1
    kiosk.clock.pass_(PAGE_CACHED_S + 1)
    await kiosk.answering.answer(says("Hello"))
    assert kiosk.pack.pages == 2


async def test_the_first_turn_after_midnight_has_a_page_of_its_own_day(kiosk: Kiosk) -> None:
    await kiosk.answering.answer(says("Hello"))
    await kiosk.answering.answer(says("Hello", now=SOON + timedelta(days=1)))
    assert kiosk.pack.pages == 2


async def test_the_page_is_kept_once_for_the_evidence(kiosk: Kiosk) -> None:
    for _ in range(2):
        await kiosk.answering.answer(says("Hello"))
    assert kiosk.turns.pages == {(says("x").business.id, text_digest("Open."))}


# What can't be read


def sticker() -> Heard:
    return heard(2, "", kind=MessageKind.UNSUPPORTED, unsupported=True)


@pytest.mark.parametrize("waits_for", WaitsFor)
async def test_a_sticker_gets_one_fixed_reply_without_a_model(kiosk: Kiosk, waits_for: WaitsFor) -> None:
    commit = await kiosk.answer(turn(sticker(), handled_seq=1, pending=asked(waits_for=waits_for)))
    assert commit.text == EN.notice("unsupported")
    assert (commit.ends, commit.asks_again) == (None, None), "a pending action is left alone"
    assert kiosk.engine.questions == 0


@pytest.mark.parametrize(("minutes", "again"), [(9, False), (10, True)])
async def test_it_is_said_at_most_once_in_ten_minutes(kiosk: Kiosk, minutes: int, *, again: bool) -> None:
    said = Reply(
        state="sent", text=EN.notice("unsupported"), basis_seq=1, created_at=SOON - timedelta(minutes=minutes)
    )
    commit = await kiosk.answer(turn(sticker(), handled_seq=1, now=SOON, replies=(said,)))
    assert (commit.text is not None) is again


# Pressed twice is once


async def test_the_same_button_pressed_twice_is_once(kiosk: Kiosk) -> None:
    """The first press booked; "nothing was changed" would be the last thing its customer reads."""
    one = presses(asked())
    (press,) = one.messages
    again = replace(press, seq=press.seq + 1)
    commit = await kiosk.answer(replace(one, pending=None, messages=(press, again), handled_seq=press.seq))
    assert (commit.text, commit.outcome) == (None, "pressed_again")


async def test_the_first_step_s_button_pressed_twice_repeats_nothing(kiosk: Kiosk) -> None:
    action = asked("cancel_appointment", step=2, prompt=prompt(state=PromptState.QUEUED))
    one = presses(action)
    (press,) = one.messages
    again = replace(press, seq=press.seq + 1)
    commit = await kiosk.answer(replace(one, messages=(press, again), handled_seq=press.seq))
    assert (commit.text, commit.outcome, commit.asks_again) == (None, "pressed_again", None)


async def test_a_press_after_something_was_said_is_a_press_of_its_own(kiosk: Kiosk) -> None:
    one = presses(asked())
    (press,) = one.messages
    messages = (press, heard(3, "Hello?"), replace(press, seq=4))
    commit = await kiosk.answer(replace(one, pending=None, messages=messages, handled_seq=3))
    assert commit.text == EN.notice("no_longer_open")


# Ends of turns


async def test_a_turn_out_of_time_says_so_and_goes_to_people(kiosk: Kiosk) -> None:
    await kiosk.answering.out_of_time(says("Hello"))
    (commit,) = kiosk.turns.commits
    assert (commit.handoff, commit.text) == ("out_of_time", EN.notice("fallback"))


@pytest.mark.parametrize("end", ["out_of_time", "give_up"])
async def test_a_turn_that_ends_so_names_its_receipts(kiosk: Kiosk, end: str) -> None:
    one = receipt()
    kiosk.turns.receipts[one.action] = one
    await getattr(kiosk.answering, end)(says("Book ten, and dance"))
    (commit,) = kiosk.turns.commits
    assert commit.text == EN.notice("fallback_done", done="Booked 10:00")
    assert commit.receipt


async def test_a_turn_given_up_is_among_the_dead_with_one_message(kiosk: Kiosk) -> None:
    await kiosk.answering.give_up(says("Boom", action=asked()))
    (commit,) = kiosk.turns.commits
    assert (commit.state, commit.handoff, commit.dead) == (TurnState.FAILED, "processing_failed", True)
    assert (commit.text, commit.ends_as) == (EN.notice("processing_failed"), "cleared")


async def test_a_decision_s_turn_given_up_leaves_what_waits_for_the_operator(kiosk: Kiosk) -> None:
    await kiosk.answering.give_up(decides(asked(waits_for=WaitsFor.OPERATOR)))
    (commit,) = kiosk.turns.commits
    assert (commit.dead, commit.ends) == (True, None)


@pytest.mark.parametrize("end", ["out_of_time", "give_up"])
async def test_a_turn_that_ends_so_is_held_when_a_tool_at_level_0_was_called(kiosk: Kiosk, end: str) -> None:
    kiosk.turns.stored_tools.append(
        ToolRecord(n=1, position=0, call_id="c", tool="book_appointment", arguments="{}", decision="deny", reason=None, result="{}")
    )  # fmt: skip
    await getattr(kiosk.answering, end)(says("Book ten", dials=dials(book_appointment=0)))
    await getattr(kiosk.answering, end)(says("Book ten"))
    assert [commit.held for commit in kiosk.turns.commits] == ["level_0", None]
