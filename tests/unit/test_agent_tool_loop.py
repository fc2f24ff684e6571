"""The engine `tool_loop` on a scripted model: what runs, what asks, what is refused, and what a customer may be told."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from services.agent.core.gate import Code
from services.agent.core.turn import Caps, StoredCall, Turn, WaitsFor
from services.agent.engines.calling import RESERVED_USD
from services.agent.engines.tool_loop import CALLS_MAX, NOTHING_ASKED, NOTHING_DONE, REPLY_CHARS_MAX
from services.agent.ports import Cap, Going, Receipt, TurnState
from services.agent.records import Place
from shared.autonomy import Asked
from shared.errors import Conflict, Unavailable
from shared.ids import ActionId, new_id
from shared.llm.port import Answer, Finish, ToolCall, UserText
from shared.locales import load
from tests.support.factories import NOON
from tests.support.kiosk import SOON, Kiosk, asked, dials, says

EN = load("en")
HELLO = {"text": "Hello!"}
FIND = {"name": "find_slots"}
BOOK = {"name": "book_appointment", "arguments": {"start": "10:00"}}
NOTE = {"name": "note_wish", "arguments": {"start": "10:00"}}
CANCEL = {"name": "cancel_appointment", "arguments": {"start": "10:00"}}
HAND_OVER = {"name": "hand_over", "arguments": {"reason": "upset"}}


def calls(*one: dict[str, Any]) -> dict[str, Any]:
    return {"calls": list(one)}


def told(kiosk: Kiosk) -> list[Any]:
    """What the model was told that its last calls came to."""
    return [json.loads(result) for result in kiosk.results()]


def freely(**levels: object) -> dict[str, Any]:
    """With `note_wish` at a level that lets it run."""
    return {"dials": dials(**({"note_wish": 3} | levels))}


# What runs goes back to the model


async def test_reads_run_and_their_results_go_back() -> None:
    kiosk = Kiosk(calls(FIND), {"text": "At ten or eleven."})
    commit = await kiosk.answer(says("When?"))
    assert commit.text == "At ten or eleven."
    assert told(kiosk) == [{"free": ["10:00", "11:00"]}]
    (record,) = commit.trace.tools
    assert (record.tool, record.decision, json.loads(record.why)["ruling"]) == (
        "find_slots",
        "allow",
        "allow",
    )
    assert len(commit.trace.answers) == 2


async def test_what_a_read_returned_is_stored_before_the_next_call() -> None:
    kiosk = Kiosk(calls(FIND), HELLO)
    commit = await kiosk.answer(says("When?"))
    assert [one.tool for one in kiosk.turns.stored_tools] == ["find_slots"]
    assert commit.tools == (), "and not again with the commit"


async def test_an_allowed_call_runs_with_its_receipt_and_the_loop_goes_on() -> None:
    kiosk = Kiosk(calls(NOTE), {"text": "I've booked it for ten."})
    one = says("Note ten", **freely())
    commit = await kiosk.answer(one)
    (receipt,) = kiosk.turns.receipts.values()
    assert kiosk.diary.booked == [str(receipt.action)]
    assert told(kiosk) == [{"done": {"start": "10:00"}, "said": "Noteed 10:00."}]
    assert (commit.text, commit.receipt, commit.held) == ("I've booked it for ten.", True, None)
    assert commit.trace.receipts == (receipt,)


async def test_its_key_is_the_turn_and_the_call() -> None:
    kiosk = Kiosk(calls(NOTE, NOTE), HELLO)
    one = says("Note ten twice", **freely())
    await kiosk.answer(one)
    assert len(set(kiosk.diary.booked)) == 2, "two calls are two writes"
    again = Kiosk(calls(NOTE, NOTE), HELLO)
    await again.answer(one)
    assert again.diary.booked == kiosk.diary.booked, "the same calls of the same turn are the same"
    other = Kiosk(calls(NOTE, NOTE), HELLO)
    await other.answer(replace(one, id=new_id()))  # type: ignore[arg-type]
    assert not set(other.diary.booked) & set(kiosk.diary.booked)


async def test_an_allowed_call_is_checked_twice() -> None:
    kiosk = Kiosk(calls(NOTE), HELLO)
    await kiosk.answer(says("Note ten", **freely()))
    assert kiosk.diary.checks == 2


async def test_what_is_gone_between_the_two_checks_is_not_written() -> None:
    kiosk = Kiosk(calls(NOTE), HELLO)
    kiosk.diary.taken_from_check = 2
    commit = await kiosk.answer(says("Note ten", **freely()))
    assert (kiosk.diary.booked, kiosk.turns.receipts) == ([], {})
    assert told(kiosk) == [{"error": "taken", "free": ["11:00"]}]
    assert not commit.receipt


async def test_a_level_lowered_since_the_claim_denies() -> None:
    kiosk = Kiosk(calls(NOTE), HELLO)
    one = says("Note ten", **freely())
    kiosk.turns.dials = dials(note_wish=2)
    await kiosk.goes_on(one)
    assert not kiosk.diary.booked
    assert told(kiosk) == [{"error": "not_permitted_at_level"}]


async def test_a_turn_that_is_another_s_by_then_writes_nothing() -> None:
    kiosk = Kiosk(calls(NOTE), HELLO)
    kiosk.turns.ours = False
    commit = await kiosk.answer(says("Note ten", **freely()))
    assert (kiosk.diary.booked, commit.outcome, commit.text) == ([], "stopped", None)


async def test_an_allowed_call_that_met_another_is_done_again_whole() -> None:
    kiosk = Kiosk(calls(NOTE), HELLO)
    kiosk.turns.conflicts = 2
    await kiosk.answer(says("Note ten", **freely()))
    assert (kiosk.turns.executions, len(kiosk.diary.booked)) == (3, 1)


async def test_after_three_conflicts_it_is_tried_again_later() -> None:
    kiosk = Kiosk(calls(NOTE), HELLO)
    kiosk.turns.conflicts = 3
    with pytest.raises(Conflict):
        await kiosk.answer(says("Note ten", **freely()))
    assert not kiosk.turns.commits


async def test_a_connection_lost_at_its_commit_asks_for_the_receipt() -> None:
    kiosk = Kiosk(calls(NOTE), {"text": "I've booked it."})
    kiosk.turns.lost_at_commit = True
    commit = await kiosk.answer(says("Note ten", **freely()))
    assert (kiosk.turns.executions, len(kiosk.diary.booked)) == (1, 1)
    assert told(kiosk) == [{"done": {"start": "10:00"}, "said": "Noteed 10:00."}]
    assert (commit.receipt, commit.held) == (True, None)


@asynccontextmanager
async def away(_: Turn) -> AsyncIterator[Any]:
    raise Unavailable("the database is away")
    yield


async def test_a_connection_lost_before_it_is_nobody_s_attempt() -> None:
    kiosk = Kiosk(calls(NOTE), HELLO)
    kiosk.turns.execution = away  # type: ignore[method-assign, assignment]  # a fake's own door, shut
    with pytest.raises(Unavailable):
        await kiosk.answer(says("Note ten", **freely()))
    assert not kiosk.turns.commits


# A turn that is worked again


def begun(one: Turn, *answers: Answer, stored: tuple[StoredCall, ...] = ()) -> Turn:
    """The same turn, of which an earlier attempt stored these answers and calls."""
    texts = tuple(msgspec.json.encode(answer).decode() for answer in answers)
    return replace(one, attempt=2, stored_answers=texts, stored_calls=stored)


def answer_with(*names: str) -> Answer:
    made = tuple(ToolCall(id=f"c{at}", name=name, arguments="{}") for at, name in enumerate(names))
    return Answer(text=None, calls=made, finish=Finish.TOOLS)


def stored_call(tool: str, result: str, *, position: int = 0) -> StoredCall:
    return StoredCall(
        n=1,
        position=position,
        call_id=f"c{position}",
        tool=tool,
        decision="allow",
        reason=None,
        result=result,
    )


async def test_a_turn_worked_again_finds_its_receipt_and_writes_nothing_twice() -> None:
    kiosk = Kiosk({"text": "I've booked it."})
    result = '{"done":{"start":"10:00"}}'
    one = begun(
        says("Note ten", **freely()), answer_with("note_wish"), stored=(stored_call("note_wish", result),)
    )
    key = Place(n=1, position=0, call=answer_with("note_wish").calls[0]).key(one)
    kiosk.turns.receipts[key] = Receipt(action=key, tool="note_wish", digest=b"d", result='{"start":"10:00"}')
    commit = await kiosk.answer(one)
    assert not kiosk.diary.booked
    assert kiosk.results() == [result]
    assert len(kiosk.asked) == 1, "the stored answer is not paid for again"
    assert (commit.text, commit.receipt, commit.held) == ("I've booked it.", True, None)


async def test_what_was_read_before_is_not_read_again() -> None:
    kiosk = Kiosk(HELLO)
    one = begun(says("When?"), answer_with("find_slots"), stored=(stored_call("find_slots", '{"free":[]}'),))
    await kiosk.answer(one)
    assert kiosk.results() == ['{"free":[]}']


async def test_a_call_that_was_not_stored_runs_now() -> None:
    kiosk = Kiosk(HELLO)
    one = begun(
        says("Note ten", **freely()),
        answer_with("find_slots", "note_wish"),
        stored=(stored_call("find_slots", "{}"),),
    )
    await kiosk.answer(one)
    assert len(kiosk.diary.booked) == 1


async def test_a_stored_answer_of_another_version_is_asked_for_anew() -> None:
    kiosk = Kiosk(HELLO)
    one = replace(says("Hello"), attempt=2, stored_answers=('{"text": 1}', '{"text":"late"}'))
    commit = await kiosk.answer(one)
    assert commit.text == "Hello!"


async def test_a_turn_begun_by_another_model_is_told_what_was_done() -> None:
    kiosk = Kiosk({"text": "It is booked."})
    one = replace(says("Note ten", **freely()), attempt=2)
    key = ActionId(new_id())
    kiosk.turns.receipts[key] = Receipt(action=key, tool="note_wish", digest=b"d", result='{"start":"10:00"}')
    commit = await kiosk.answer(one)
    assert "Noteed 10:00." in str(kiosk.asked[0].messages[-1])
    assert (commit.receipt, commit.held) == (True, None)


# What asks


async def test_a_call_that_asks_creates_the_action_and_ends_the_loop() -> None:
    kiosk = Kiosk(calls(BOOK))
    commit = await kiosk.answer(says("Book ten"))
    assert commit.asks is not None
    assert (commit.asks.tool, commit.asks.confirmations_needed, commit.asks.asked) == (
        "book_appointment",
        1,
        Asked.CUSTOMER,
    )
    assert (commit.asks.call_n, commit.asks.call_position) == (1, 0)
    assert commit.text == f"Book 10:00 for 100. {EN.notice('prompt_suffix_yes_no')}", "no word is the model's"
    assert not kiosk.diary.booked
    (record,) = commit.tools
    assert (record.decision, json.loads(record.result)) == ("ask", {"status": "waiting_for_the_customer"})
    assert json.loads(record.why) | {"ruling": "ask", "confirmations": 1} == json.loads(record.why)


@pytest.mark.parametrize(
    ("asked_", "tool", "confirmations", "who"),
    [
        (Asked.CUSTOMER, "cancel_appointment", 2, Asked.CUSTOMER),
        (Asked.BOTH, "book_appointment", 1, Asked.BOTH),
        (Asked.OPERATOR, "book_appointment", 1, Asked.BOTH),
        (Asked.OPERATOR, "note_wish", 0, Asked.OPERATOR),
    ],
)
async def test_the_action_asks_whom_the_gate_names(
    asked_: Asked, tool: str, confirmations: int, who: Asked
) -> None:
    kiosk = Kiosk(calls({"name": tool}))
    commit = await kiosk.answer(says("Please", dials=dials(asked=asked_, **{tool: 2})))
    assert commit.asks is not None
    assert (commit.asks.confirmations_needed, commit.asks.asked) == (confirmations, who)


async def test_a_second_call_that_would_ask_is_refused_and_the_others_run() -> None:
    kiosk = Kiosk(calls(BOOK, CANCEL, FIND, NOTE))
    commit = await kiosk.answer(says("Everything", **freely()))
    assert commit.asks is not None
    assert commit.asks.tool == "book_appointment"
    assert [(one.tool, one.decision, one.reason) for one in commit.trace.tools] == [
        ("book_appointment", "ask", None),
        ("cancel_appointment", "refuse", "one_action_at_a_time"),
        ("find_slots", "allow", None),
        ("note_wish", "allow", None),
    ]
    assert len(kiosk.diary.booked) == 1, "what the level allows runs after a call that asks, too"
    assert commit.receipt


async def test_a_refused_proposal_leaves_room_for_another() -> None:
    kiosk = Kiosk(calls({"name": "book_appointment", "arguments": "no JSON"}, CANCEL))
    commit = await kiosk.answer(says("Cancel"))
    assert commit.asks is not None
    assert commit.asks.tool == "cancel_appointment"


async def test_while_one_waits_for_an_operator_nothing_more_can_be_asked() -> None:
    kiosk = Kiosk(calls(BOOK, FIND, NOTE), HELLO)
    action = asked(waits_for=WaitsFor.OPERATOR)
    commit = await kiosk.answer(says("And book eleven", action=action, **freely()))
    assert told(kiosk)[0] == {"error": "waiting_for_operator"}
    assert told(kiosk)[1] == {"free": ["10:00", "11:00"]}
    assert len(kiosk.diary.booked) == 1, "what asks nobody runs"
    assert (commit.asks, commit.ends) == (None, None)
    assert 'nothing else can be asked for: "Book 10:00 for 100."' in kiosk.asked[0].system


# What is refused


async def test_an_unknown_tool_is_refused_and_told_which_there_are() -> None:
    kiosk = Kiosk(calls({"name": "drop_tables"}), HELLO)
    await kiosk.answer(says("Hello"))
    assert told(kiosk) == [
        {"error": "unknown_tool", "tools": [tool.name for tool in kiosk.pack.tools]},
    ]


BAD = {
    "no JSON": "{",
    "no object": "[]",
    "a wrong type": '{"start": 10}',
    "an unknown field": '{"start": "10:00", "customer": "another"}',
    "an absurd size": json.dumps({"start": "x" * 8_192}),
    "deeply nested": '{"start":' + "[" * 4_000 + "]" * 4_000 + "}",
    "not a number": '{"start": NaN}',
}


@pytest.mark.parametrize("arguments", BAD.values(), ids=BAD)
@pytest.mark.parametrize("tool", ["book_appointment", "note_wish"])
async def test_bad_arguments_are_an_error_for_the_model(tool: str, arguments: str) -> None:
    kiosk = Kiosk(calls({"name": tool, "arguments": arguments}), HELLO)
    commit = await kiosk.answer(says("Book", **freely()))
    (result,) = told(kiosk)
    assert result["error"] == "bad_arguments"
    assert result["detail"]
    assert kiosk.diary.checks == 0, "never a repaired guess"
    assert commit.text == "Hello!"


@pytest.mark.parametrize("tool", ["book_appointment", "note_wish"])
async def test_a_failed_check_is_an_error_with_what_helps(tool: str) -> None:
    kiosk = Kiosk(calls({"name": tool}), {"text": "Ten is taken; eleven is free."})
    kiosk.diary.taken = True
    commit = await kiosk.answer(says("Book ten", **freely()))
    assert told(kiosk) == [{"error": "taken", "free": ["11:00"]}]
    assert (commit.asks, kiosk.diary.booked) == (None, [])


@pytest.mark.parametrize("tool", ["find_slots", "book_appointment", "note_wish"])
async def test_a_tool_that_raises_is_an_error_and_no_end_of_the_turn(tool: str) -> None:
    kiosk = Kiosk(calls({"name": tool}), HELLO)
    kiosk.diary.fails = ZeroDivisionError()
    commit = await kiosk.answer(says("Hello", **freely()))
    assert told(kiosk) == [{"error": "check_failed"}]
    assert commit.text == "Hello!"


async def test_a_database_that_is_away_is_no_result() -> None:
    kiosk = Kiosk(calls(FIND), HELLO)
    kiosk.diary.fails = Unavailable("away")
    with pytest.raises(Unavailable):
        await kiosk.answer(says("Hello"))


async def test_a_denied_call_is_a_result_in_the_same_turn() -> None:
    kiosk = Kiosk(calls(BOOK), {"text": "I can't do that here."})
    commit = await kiosk.answer(says("Book", dials=dials(book_appointment=1)))
    assert told(kiosk) == [{"error": "not_permitted_at_level"}]
    (record,) = commit.trace.tools
    assert (record.decision, record.reason) == ("deny", Code.NOT_PERMITTED_AT_LEVEL)
    assert json.loads(record.why) == {
        "mode": "auto", "level": 1, "level_from": "business", "risk": "write", "floor": 1,
        "ruling": "deny", "code": "not_permitted_at_level",
    }  # fmt: skip
    assert (commit.text, commit.held) == ("I can't do that here.", None)


@pytest.mark.parametrize("tool", ["find_slots", "book_appointment"], ids=["run", "denied"])
async def test_a_call_of_a_tool_at_level_0_holds_the_reply(tool: str) -> None:
    kiosk = Kiosk(calls({"name": tool}), HELLO)
    commit = await kiosk.answer(says("Hello", dials=dials(**{tool: 0})))
    assert commit.held == "level_0"


async def test_another_tool_at_level_0_holds_nothing() -> None:
    kiosk = Kiosk(calls(FIND), HELLO)
    commit = await kiosk.answer(says("Hello", dials=dials(book_appointment=0)))
    assert commit.held is None


async def test_a_level_0_call_of_an_earlier_attempt_holds_the_reply_too() -> None:
    kiosk = Kiosk(HELLO)
    one = begun(
        says("When?", dials=dials(find_slots=0)),
        answer_with("find_slots"),
        stored=(stored_call("find_slots", "{}"),),
    )
    assert (await kiosk.answer(one)).held == "level_0"


# Handing over, and no usable answer


async def test_a_hand_over_is_allowed_at_every_level_and_ends_the_loop() -> None:
    kiosk = Kiosk(calls(HAND_OVER, BOOK))
    commit = await kiosk.answer(says("A person!", dials=dials(hand_over=0)))
    assert (commit.handoff, commit.text, commit.asks) == ("model", EN.notice("handoff_requested"), None)
    assert commit.held is None


UNUSABLE = [
    ("empty", {"text": " \n"}, "empty_answer"),
    ("nothing", {"text": None}, "empty_answer"),
    ("too long", {"text": "x" * (REPLY_CHARS_MAX + 1)}, "empty_answer"),
    ("cut off", {"text": "Half an", "finish": "length"}, "cut_off"),
    ("filtered", {"text": "Half an", "finish": "filter"}, "cut_off"),
    ("refused", {"text": "I can't help", "finish": "refusal"}, "refused"),
    ("gone", {"failure": "gone"}, "model_failed"),
    ("shut out", {"failure": "auth"}, "model_failed"),
]


@pytest.mark.parametrize(
    ("answer", "reason"), [row[1:] for row in UNUSABLE], ids=[row[0] for row in UNUSABLE]
)
async def test_no_usable_answer_is_the_fixed_reply_and_people(answer: dict[str, Any], reason: str) -> None:
    kiosk = Kiosk(answer, HELLO)
    commit = await kiosk.answer(says("Hello"))
    assert (commit.handoff, commit.text) == (reason, EN.notice("fallback"))
    assert len(kiosk.asked) == 1


async def test_four_calls_are_the_most() -> None:
    kiosk = Kiosk(*[calls(FIND)] * 9)
    commit = await kiosk.answer(says("When?"))
    assert (len(kiosk.asked), commit.handoff) == (CALLS_MAX, "calls_used")
    assert CALLS_MAX == 4


async def test_a_fallback_names_what_was_done() -> None:
    kiosk = Kiosk(calls(NOTE), {"finish": "refusal", "text": "No."})
    commit = await kiosk.answer(says("Note ten, and dance", **freely()))
    assert commit.text == EN.notice("fallback_done", done="Noteed 10:00")
    assert (commit.receipt, commit.handoff) == (True, "refused")


@pytest.mark.parametrize("kind", ["rate", "timeout", "connection", "server", "bad_answer"])
async def test_a_failure_that_may_pass_is_tried_once_more_and_metered(kind: str) -> None:
    kiosk = Kiosk({"failure": kind}, HELLO)
    commit = await kiosk.answer(says("Hello"))
    assert commit.text == "Hello!"
    assert [one.error for one in kiosk.turns.ended_calls] == [kind]
    assert commit.last_call is not None, "the second is closed with the commit"


async def test_after_a_second_failure_there_is_no_third_try() -> None:
    kiosk = Kiosk({"failure": "server"}, {"failure": "server"}, HELLO)
    commit = await kiosk.answer(says("Hello"))
    assert (commit.handoff, len(kiosk.asked), len(kiosk.turns.ended_calls)) == ("model_failed", 2, 2)


async def test_a_call_that_is_cut_off_is_closed_all_the_same() -> None:
    kiosk = Kiosk(HELLO)
    begun_ = asyncio.Event()

    async def never(*_: Any, **__: Any) -> Answer:
        begun_.set()
        return await asyncio.get_running_loop().create_future()

    model = kiosk.answering._engine._calling.model
    model.complete = never  # type: ignore[method-assign]  # a fake's own door
    task = asyncio.create_task(kiosk.answering.answer(says("Hello")))
    await begun_.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [one.error for one in kiosk.turns.ended_calls] == ["cut off"]


# Claims that nothing backs

CLAIM, ASKS = {"text": "I've booked it for you."}, {"text": "Reply YES to confirm."}


@pytest.mark.parametrize("said", [CLAIM, ASKS], ids=["claims that it is done", "asks for a yes"])
async def test_an_unbacked_reply_is_corrected_once(said: dict[str, Any]) -> None:
    kiosk = Kiosk(said, {"text": "What day would you like?"})
    commit = await kiosk.answer(says("Book"))
    assert (commit.text, commit.held, commit.flag) == ("What day would you like?", None, None)
    assert kiosk.asked[-1].messages[-1] == UserText(text=NOTHING_DONE)
    assert len(kiosk.turns.ended_calls) == 1, "the corrected answer is metered"


@pytest.mark.parametrize("said", [CLAIM, ASKS], ids=["claims that it is done", "asks for a yes"])
async def test_what_stays_unbacked_is_a_draft_with_a_flag(said: dict[str, Any]) -> None:
    kiosk = Kiosk(said, said, HELLO)
    commit = await kiosk.answer(says("Book"))
    assert (commit.text, commit.held, commit.flag) == (said["text"], "unbacked_claim", "unbacked_claim")
    assert len(kiosk.asked) == 2
    assert commit.handoff is None


async def test_a_correction_may_bring_the_call() -> None:
    kiosk = Kiosk(CLAIM, calls(BOOK))
    commit = await kiosk.answer(says("Book ten"))
    assert commit.asks is not None


async def test_the_corrective_call_is_one_of_the_four() -> None:
    kiosk = Kiosk(calls(FIND), calls(FIND), calls(FIND), CLAIM, HELLO)
    commit = await kiosk.answer(says("Book"))
    assert (len(kiosk.asked), commit.held) == (4, "unbacked_claim")


async def test_there_is_one_corrective_call_in_a_turn() -> None:
    kiosk = Kiosk(CLAIM, calls(FIND), CLAIM, HELLO)
    commit = await kiosk.answer(says("Book"))
    assert (len(kiosk.asked), commit.held) == (3, "unbacked_claim")


async def test_a_receipt_backs_a_claim_but_no_question() -> None:
    kiosk = Kiosk(calls(NOTE), ASKS, {"text": "I've booked it."})
    commit = await kiosk.answer(says("Note ten", **freely()))
    assert (commit.text, commit.held) == ("I've booked it.", None)
    assert kiosk.asked[-1].messages[-1] == UserText(text=NOTHING_ASKED), (
        "a note that nothing was done would have it done again"
    )


async def test_the_model_may_say_what_waits_for_a_colleague_but_not_that_it_is_done() -> None:
    kiosk = Kiosk(CLAIM, CLAIM)
    commit = await kiosk.answer(says("Is it done?", action=asked(waits_for=WaitsFor.OPERATOR)))
    assert commit.held == "unbacked_claim"


# Caps


def capped(one: Turn, **caps: Decimal) -> Turn:
    made = Caps(**({"day_usd": Decimal(1)} | caps))
    return replace(one, business=replace(one.business, caps=made))


async def test_a_call_that_does_not_fit_is_not_made() -> None:
    kiosk = Kiosk(HELLO)
    kiosk.turns.barred_by = Cap.DAY
    commit = await kiosk.answer(capped(says("Hello")))
    assert (commit.handoff, commit.text) == ("budget", EN.notice("budget"))
    assert not kiosk.asked


async def test_every_call_and_every_try_is_reserved_before_it_is_made() -> None:
    kiosk = Kiosk({"failure": "server"}, calls(FIND), HELLO)
    await kiosk.answer(capped(says("When?")))
    assert len(kiosk.turns.reserved) == len(kiosk.asked) == 3


async def test_an_unknown_price_reserves_a_fixed_sum() -> None:
    kiosk = Kiosk(HELLO)
    kiosk.answering._engine._calling.model.price = lambda *_, **__: None  # type: ignore[method-assign]
    await kiosk.answer(capped(says("Hello")))
    assert kiosk.turns.reserved == [RESERVED_USD]


async def test_without_a_cap_nothing_is_reserved() -> None:
    kiosk = Kiosk(HELLO)
    await kiosk.answer(says("Hello"))
    assert kiosk.turns.reserved == []


async def test_a_capped_turn_s_last_call_is_settled_by_itself() -> None:
    kiosk = Kiosk(HELLO)
    assert not (await kiosk.answer(capped(says("Hello")))).plain
    assert (await Kiosk(HELLO).answer(says("Hello"))).plain


# While the customer goes on writing


def going(seq: int, **fields: Any) -> Going:
    plain = {"customer_seq": seq, "superseded_in_row": 0, "unanswered_since": SOON, "now": SOON}
    return Going(**(plain | fields))


async def test_a_turn_the_customer_wrote_past_saves_its_call() -> None:
    kiosk = Kiosk(HELLO)
    kiosk.turns.going = going(3)
    commit = await kiosk.answer(says("Hello"))
    assert (commit.text, commit.state, kiosk.asked) == (None, TurnState.SUPERSEDED, [])
    assert [one.cost_usd for one in kiosk.turns.ended_calls] == [Decimal(0)]


@pytest.mark.parametrize(
    "row",
    [going(2), going(3, superseded_in_row=2), going(3, unanswered_since=NOON - timedelta(minutes=1))],
    ids=["nothing newer", "twice in a row", "30 seconds without an answer"],
)
async def test_a_turn_goes_on(row: Going) -> None:
    kiosk = Kiosk(HELLO)
    kiosk.turns.going = row
    assert (await kiosk.answer(says("Hello"))).text == "Hello!"


async def test_a_turn_with_a_receipt_gives_way_to_nobody() -> None:
    kiosk = Kiosk(calls(NOTE), HELLO)
    begin = kiosk.turns.begin_call

    async def begin_call(*arguments: Any, n: int, **more: Any) -> Going | None:
        kiosk.turns.going = going(2 if n == 1 else 3)
        return await begin(*arguments, n=n, **more)

    kiosk.turns.begin_call = begin_call  # type: ignore[method-assign, assignment]
    commit = await kiosk.answer(says("Note ten", **freely()))
    assert (commit.text, commit.receipt) == ("Hello!", True)


async def test_a_turn_without_one_gives_way_after_a_read() -> None:
    kiosk = Kiosk(calls(FIND), HELLO)
    begin = kiosk.turns.begin_call

    async def begin_call(*arguments: Any, n: int, **more: Any) -> Going | None:
        kiosk.turns.going = going(2 if n == 1 else 3)
        return await begin(*arguments, n=n, **more)

    kiosk.turns.begin_call = begin_call  # type: ignore[method-assign, assignment]
    assert (await kiosk.answer(says("When?"))).state is TurnState.SUPERSEDED


async def test_a_turn_that_is_stopped_says_nothing_and_its_reservation_is_given_back() -> None:
    kiosk = Kiosk(HELLO)
    kiosk.turns.stops = True
    commit = await kiosk.answer(capped(says("Hello")))
    assert (commit.text, commit.outcome) == (None, "stopped")
    assert [one.cost_usd for one in kiosk.turns.ended_calls] == [Decimal(0)]


# An effect outside the record

ORDER = {"name": "order_outside", "arguments": {"start": "10:00"}}


def ordering(**levels: object) -> dict[str, Any]:
    return {"dials": dials(**({"order_outside": 3} | levels))}


async def test_an_allowed_effect_outside_is_marked_before_it_is_called_for() -> None:
    kiosk = Kiosk(calls(ORDER), {"text": "I've booked it."})
    marked: list[str] = []
    kiosk.diary.at_order = lambda: marked.extend(one.result for one in kiosk.turns.stored_tools)
    commit = await kiosk.answer(says("Order ten", **ordering()))
    assert marked == ['{"status":"executing"}']
    assert told(kiosk) == [{"done": {"start": "10:00"}, "said": "Ordered 10:00."}]
    assert (len(kiosk.diary.ordered), commit.receipt, commit.held) == (1, True, None)


async def test_an_allowed_effect_outside_without_an_answer_is_a_person_s_task() -> None:
    kiosk = Kiosk(calls(ORDER, FIND), HELLO)
    kiosk.diary.outside = TimeoutError()
    commit = await kiosk.answer(says("Order ten", **ordering()))
    assert (commit.handoff, commit.receipt, len(kiosk.asked)) == ("action_unknown", False, 1)


async def test_one_found_under_way_is_not_called_for_again() -> None:
    kiosk = Kiosk(HELLO)
    stored = stored_call("order_outside", '{"status":"executing"}')
    commit = await kiosk.answer(
        begun(says("Order ten", **ordering()), answer_with("order_outside"), stored=(stored,))
    )
    assert (kiosk.diary.ordered, commit.handoff) == ([], "action_unknown")


async def test_one_whose_level_was_lowered_is_denied_and_stored_so() -> None:
    kiosk = Kiosk(calls(ORDER), HELLO)
    one = says("Order ten", **ordering())
    kiosk.turns.dials = dials(order_outside=2)
    commit = await kiosk.goes_on(one)
    assert kiosk.diary.ordered == []
    (stored,) = kiosk.turns.stored_tools
    assert (stored.decision, json.loads(stored.why)["level"]) == ("deny", 2)
    assert commit.text == "Hello!"


@pytest.mark.parametrize("call", [{"name": "note_wish"}, ORDER], ids=["in the record", "outside"])
async def test_what_the_gate_said_to_an_allowed_call_is_stored_with_it(call: dict[str, Any]) -> None:
    kiosk = Kiosk(calls(call), HELLO)
    await kiosk.answer(says("Please do", dials=dials(note_wish=3, order_outside=3)))
    first = kiosk.turns.stored_tools[0]
    assert (first.decision, json.loads(first.why)["ruling"], json.loads(first.why)["level"]) == (
        "allow",
        "allow",
        3,
    )
