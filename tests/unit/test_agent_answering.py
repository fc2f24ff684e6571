"""What a turn comes to, without a database or a model: one commit, and only a confirmed action writes."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict

from services.agent.answering import Answering
from services.agent.core.digest import canonical, digest
from services.agent.core.pending import Button, Press
from services.agent.core.turn import Heard, Pending, PromptState, Reply, Turn
from services.agent.core.wording import PROMPT_CHARS_MAX
from services.agent.engines.outcome import (
    Asks,
    FallbackReason,
    Falls,
    HandsOver,
    Outcome,
    Overtaken,
    Said,
    Stopped,
)
from services.agent.execution import Executor
from services.agent.ports import Commit, Committed, NewAction, TurnState
from services.agent.questions import PAGE_CACHED_S, Questions
from shared.autonomy import Mode, Risk
from shared.broker.memory import MemoryBroker
from shared.errors import Conflict, Unavailable
from shared.ids import ActionId, BusinessId, new_id
from shared.llm.port import Answer, Request
from shared.locales import load
from shared.messages import MessageKind
from shared.packs import Done, Proposal, Refusal, Sql, Tool, ToolContext, ToolKind
from shared.telemetry.metrics import Metrics
from shared.tickets import Stage
from tests.support.eventually import eventually
from tests.support.factories import NOON, SetClock, heard, pending, turn
from tests.support.faulty_broker import FaultyBroker
from tests.support.memory_turns import MemoryTurns

EN = load("en")
SOON = NOON + timedelta(minutes=1)


class Booking(BaseModel):
    model_config = ConfigDict(extra="forbid")

    start: str = "10:00"


class Diary:
    """One hour of one dentist: what a check shows, and what an execution books."""

    def __init__(self) -> None:
        self.price = "100"
        self.taken = False
        self.booked: list[str] = []

    async def check(self, _: ToolContext, arguments: Booking) -> Proposal | Refusal:
        if self.taken:
            return Refusal(code="taken")
        return Proposal(
            arguments={"start": arguments.start}, shown={"start": arguments.start, "price": self.price}
        )

    async def execute(self, _: ToolContext, proposal: Proposal, key: str) -> Done | Refusal:
        if key not in self.booked:
            self.booked.append(key)
        return Done(result={"start": proposal.arguments["start"]})


class KioskPack:
    """A domain with one action."""

    def __init__(self, diary: Diary) -> None:
        self.pages = 0
        self.tools: Sequence[Tool] = (
            Tool(
                name="book_appointment",
                description="Book.",
                arguments=Booking,
                kind=ToolKind.ACTION,
                risk=Risk.WRITE,
                wrong_call_costs="An hour.",
                floor=1,
                check=diary.check,
                execute=diary.execute,
                word_prompt=lambda shown, _: f"Book {shown['start']} for {shown['price']}?",
                word_done=lambda result, _: f"Booked {result['start']}.",
                word_refusal=lambda refusal, _: f"Not possible: {refusal.code}.",
            ),
        )

    name = "clinic"
    queries: Sequence[Path] = ()
    migrations = Path()

    async def prompt_facts(self, context: ToolContext) -> str:
        self.pages += 1
        return "Open."

    def mock_answer(self, request: Request) -> Answer:
        raise NotImplementedError

    async def seed(self, sql: Sql, business: BusinessId, *, now: datetime) -> None:
        raise NotImplementedError


class ScriptedEngine:
    """Comes to what the test says, and counts how often a model would have been asked."""

    def __init__(self, diary: Diary) -> None:
        self.outcome: Outcome = Said(text="Hello!", last_call=None)
        self.questions = 0
        self._diary = diary

    async def run(self, question: Any) -> Outcome:
        self.questions += 1
        return self.outcome

    async def dry_run(self, question: Any, tool: Tool, arguments: Any) -> Proposal | Refusal:
        return await self._diary.check(question.context, arguments)


class Desk:
    def __init__(self) -> None:
        self.turns = MemoryTurns()
        self.diary = Diary()
        self.pack = KioskPack(self.diary)
        self.engine = ScriptedEngine(self.diary)
        self.broker = FaultyBroker(MemoryBroker())
        self.clock = SetClock()
        self.metrics = Metrics(process=False)
        self.answering = Answering(
            turns=self.turns,
            questions=Questions(turns=self.turns, clock=self.clock),
            engine=self.engine,  # type: ignore[arg-type]  # stands for a ToolLoop
            executor=Executor(self.turns),
            packs={"clinic": self.pack},
            broker=self.broker,
            metrics=self.metrics,
        )

    async def answer(self, one: Turn) -> Commit:
        """The one commit of the turn."""
        self.turns.stored = one.pending
        await self.answering.answer(one)
        (commit,) = self.turns.commits
        return commit

    def rung(self) -> list[UUID]:
        return [
            ticket
            for stage, packet in self.broker.published
            if stage is Stage.DISPATCH
            for ticket in packet.ids
        ]


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    made = Desk()
    async with asyncio.TaskGroup() as group:
        job = group.create_task(made.answering.run())
        yield made
        job.cancel()


def asked(**fields: Any) -> Pending:
    """A booking of ten o'clock for 100, whose prompt was sent at noon."""
    arguments, shown = canonical({"start": "10:00"}), canonical({"start": "10:00", "price": "100"})
    plain = {"arguments": arguments, "shown": shown, "digest": digest("book_appointment", arguments, shown)}
    return pending(**(plain | fields))


def says(text: str, *, action: Pending | None = None, at: datetime = SOON, **fields: Any) -> Turn:
    """A turn of one message that is newer than any prompt."""
    one = heard(2, text, channel_at=at, received_at=at)
    return turn(one, pending=action, handled_seq=1, now=at, **fields)


def presses(action: Pending, press: Press = Press.CONFIRM) -> Turn:
    button = Button(action=action.id, step=1, press=press).encode()
    one = heard(2, "Confirm", kind=MessageKind.BUTTON, button=button, channel_at=SOON, received_at=SOON)
    return turn(one, pending=action, handled_seq=1, now=SOON)


def new_action() -> NewAction:
    return NewAction(
        id=ActionId(new_id()),
        tool="book_appointment",
        arguments="{}",
        shown="{}",
        digest=b"d",
        confirmations_needed=1,
    )


# The engine's outcomes


async def test_a_reply_is_committed_and_rung(desk: Desk) -> None:
    commit = await desk.answer(says("Hello"))
    assert (commit.text, commit.outcome, commit.state, commit.seq_to) == (
        "Hello!",
        "reply",
        TurnState.DONE,
        2,
    )
    assert (commit.handoff, commit.ends, commit.held) == (None, None, None)
    await eventually(lambda: desk.rung() == [commit.outbound])


async def test_an_action_waits_for_the_customer_with_the_system_s_words_and_buttons(desk: Desk) -> None:
    action = new_action()
    desk.engine.outcome = Asks(action=action, prompt="Book 10:00 for 100?", tools=())
    commit = await desk.answer(says("Ten o'clock"))
    assert commit.asks == action
    assert commit.text == f"Book 10:00 for 100? {EN.notice('prompt_suffix_yes_no')}"
    assert commit.buttons is not None
    assert action.id.hex in commit.buttons


async def test_a_prompt_too_long_for_one_message_goes_to_people(desk: Desk) -> None:
    desk.engine.outcome = Asks(action=new_action(), prompt="x" * (PROMPT_CHARS_MAX + 1), tools=())
    commit = await desk.answer(says("Ten o'clock"))
    assert commit.asks is None
    assert commit.handoff == "prompt_too_long"


async def test_a_hand_over_says_so_once(desk: Desk) -> None:
    desk.engine.outcome = HandsOver(tools=())
    commit = await desk.answer(says("This is no use"))
    assert (commit.handoff, commit.text) == ("model", EN.notice("handoff_requested"))


@pytest.mark.parametrize("reason", FallbackReason)
async def test_no_usable_answer_is_an_honest_reply_and_people(desk: Desk, reason: FallbackReason) -> None:
    desk.engine.outcome = Falls(reason=reason)
    commit = await desk.answer(says("Hello", action=asked()))
    assert commit.handoff == reason.value
    assert commit.text == EN.notice("budget" if reason is FallbackReason.BUDGET else "fallback")
    assert commit.ends_as == "cleared", "what the customer had not confirmed is cleared in a handoff"


async def test_a_turn_the_customer_wrote_past_says_nothing(desk: Desk) -> None:
    desk.engine.outcome = Overtaken()
    commit = await desk.answer(says("Hello"))
    assert (commit.text, commit.state) == (None, TurnState.SUPERSEDED)
    assert not desk.rung()


async def test_a_turn_that_is_stopped_says_nothing(desk: Desk) -> None:
    desk.engine.outcome = Stopped()
    commit = await desk.answer(says("Hello"))
    assert (commit.text, commit.outcome) == (None, "stopped")


async def test_a_late_turn_s_reply_is_held(desk: Desk) -> None:
    late = replace(says("Hello"), now=SOON + timedelta(hours=2))
    assert (await desk.answer(late)).held == "late"


async def test_in_mode_off_no_model_is_asked(desk: Desk) -> None:
    commit = await desk.answer(says("Hello", mode=Mode.OFF))
    assert commit.text is None
    assert desk.engine.questions == 0


async def test_a_pack_that_is_not_installed_is_no_silence(desk: Desk) -> None:
    one = says("Hello")
    commit = await desk.answer(replace(one, business=replace(one.business, pack="other")))
    assert commit.handoff == "model_failed"


async def test_a_commit_that_was_not_written_is_not_rung(desk: Desk) -> None:
    desk.turns.answer = Committed(written=False, live=False, again=False)
    await desk.answer(says("Hello"))
    await asyncio.sleep(0)
    assert not desk.rung()


async def test_the_pack_s_page_is_looked_up_every_few_seconds(desk: Desk) -> None:
    for _ in range(3):
        await desk.answering.answer(says("Hello"))
    assert desk.pack.pages == 1
    desk.clock.pass_(PAGE_CACHED_S + 1)
    await desk.answering.answer(says("Hello"))
    assert desk.pack.pages == 2


# What can't be read


def sticker() -> Heard:
    return heard(2, "", kind=MessageKind.UNSUPPORTED, unsupported=True)


async def test_a_sticker_gets_one_fixed_reply_without_a_model(desk: Desk) -> None:
    commit = await desk.answer(turn(sticker(), handled_seq=1, pending=asked()))
    assert commit.text == EN.notice("unsupported")
    assert commit.ends is None, "a pending action is left alone"
    assert desk.engine.questions == 0


@pytest.mark.parametrize(("minutes", "again"), [(9, False), (10, True)])
async def test_it_is_said_at_most_once_in_ten_minutes(desk: Desk, minutes: int, *, again: bool) -> None:
    said = Reply(
        state="sent", text=EN.notice("unsupported"), basis_seq=1, created_at=SOON - timedelta(minutes=minutes)
    )
    commit = await desk.answer(turn(sticker(), handled_seq=1, now=SOON, replies=(said,)))
    assert (commit.text is not None) is again


# Pending actions


async def test_a_yes_executes_once_with_receipt_and_the_system_s_words(desk: Desk) -> None:
    action = asked()
    commit = await desk.answer(says("Yes, please", action=action))
    assert desk.diary.booked == [str(action.id)], "under the action's id as its key"
    assert desk.turns.receipts == {action.id: '{"start":"10:00"}'}
    assert (commit.text, commit.receipt, commit.ends, commit.ends_as) == (
        "Booked 10:00.",
        True,
        action.id,
        "executed",
    )
    assert desk.engine.questions == 0
    await eventually(lambda: desk.rung() == [commit.outbound])


async def test_a_press_executes_and_settles_its_prompt(desk: Desk) -> None:
    action = asked(prompt_state=PromptState.UNKNOWN)
    await desk.answer(presses(action))
    assert desk.diary.booked == [str(action.id)]
    assert desk.turns.settled_prompts == [action.prompt]


@pytest.mark.parametrize("how", ["a no", "the cancel button"])
async def test_a_no_writes_nothing_and_is_acknowledged(desk: Desk, how: str) -> None:
    action = asked()
    commit = await desk.answer(
        says("No, thanks", action=action) if how == "a no" else presses(action, Press.CANCEL)
    )
    assert not desk.diary.booked
    assert (commit.ends, commit.ends_as, commit.text) == (
        action.id,
        "declined",
        EN.notice("declined_by_customer"),
    )
    assert desk.engine.questions == 0


@pytest.mark.parametrize("text", ["yes but at 3pm", "ok", "What does it cost?", "YES NO"])
async def test_anything_else_is_a_new_request_and_clears_the_action(desk: Desk, text: str) -> None:
    action = asked()
    commit = await desk.answer(says(text, action=action))
    assert not desk.diary.booked
    assert (commit.ends, commit.ends_as) == (action.id, "cleared")
    assert desk.engine.questions == 1


async def test_a_new_action_replaces_the_one_that_waited(desk: Desk) -> None:
    action = asked()
    desk.engine.outcome = Asks(action=new_action(), prompt="Book 11:00?", tools=())
    commit = await desk.answer(says("Rather at eleven", action=action))
    assert (commit.ends, commit.ends_as) == (action.id, "replaced")


async def test_a_button_of_another_action_changes_nothing(desk: Desk) -> None:
    action = asked()
    other = replace(action, id=ActionId(new_id()))
    one = replace(presses(other), pending=action)
    commit = await desk.answer(one)
    assert (commit.text, commit.ends) == (EN.notice("no_longer_open"), None)
    assert not desk.diary.booked


async def test_the_same_button_pressed_twice_is_once(desk: Desk) -> None:
    """The first press booked; "nothing was changed" would be the last thing its customer reads."""
    one = presses(asked())
    (press,) = one.messages
    again = replace(press, seq=press.seq + 1)
    commit = await desk.answer(replace(one, pending=None, messages=(press, again), handled_seq=press.seq))
    assert (commit.text, commit.outcome) == (None, "pressed_again")


async def test_while_the_prompt_is_being_sent_the_turn_waits(desk: Desk) -> None:
    action = asked(prompt_state=PromptState.SENDING)
    await desk.answering.answer(says("Yes", action=action))
    assert desk.turns.released == [timedelta(seconds=1)]
    assert not desk.turns.commits


async def test_a_yes_older_than_the_prompt_says_nothing_more(desk: Desk) -> None:
    commit = await desk.answer(says("Yes", action=asked(at_send_seq=2)))
    assert (commit.text, commit.ends) == (None, None)
    assert not desk.diary.booked


async def test_a_prompt_of_unknown_outcome_is_asked_again_as_the_same_action(desk: Desk) -> None:
    action = asked(prompt_state=PromptState.UNKNOWN)
    commit = await desk.answer(says("Yes", action=action))
    assert (commit.asks_again, commit.text, commit.ends) == (action.id, action.prompt_text, None)
    assert commit.buttons is not None
    assert action.id.hex in commit.buttons


async def test_a_yes_too_late_is_checked_and_asked_again_without_a_model(desk: Desk) -> None:
    action = asked()
    desk.diary.price = "120"
    commit = await desk.answer(says("Yes", action=action, at=NOON + timedelta(minutes=16)))
    assert not desk.diary.booked
    assert commit.asks is not None
    assert commit.asks.id != action.id
    assert commit.text is not None
    assert commit.text.startswith(f"{EN.notice('expired')} Book 10:00 for 120?")
    assert (commit.ends, commit.ends_as) == (action.id, "replaced")
    assert desk.engine.questions == 0


async def test_a_yes_too_late_for_what_is_gone_is_told_so(desk: Desk) -> None:
    desk.diary.taken = True
    commit = await desk.answer(says("Yes", action=asked(), at=NOON + timedelta(minutes=16)))
    assert (commit.text, commit.ends_as, commit.asks) == ("Not possible: taken.", "cleared", None)


# Executing


async def test_what_the_prompt_showed_and_is_no_longer_so_is_asked_again(desk: Desk) -> None:
    """The digest: nothing is written for another price than the one that was confirmed."""
    action = asked()
    desk.diary.price = "120"
    commit = await desk.answer(says("Yes", action=action))
    assert not desk.diary.booked
    assert not desk.turns.receipts
    assert commit.text is not None
    assert commit.text.startswith(f"{EN.notice('changed')} Book 10:00 for 120?")
    assert commit.asks is not None
    assert (commit.ends_as, commit.receipt) == ("replaced", False)


async def test_a_check_that_no_longer_holds_is_told_to_the_customer(desk: Desk) -> None:
    desk.diary.taken = True
    commit = await desk.answer(says("Yes", action=asked()))
    assert not desk.diary.booked
    assert (commit.text, commit.ends_as, commit.ends_because) == ("Not possible: taken.", "refused", "taken")


TAMPERED = {
    "the arguments": {"arguments": canonical({"start": "11:00"})},
    "the shown values": {"shown": canonical({"start": "10:00", "price": "1"})},
    "the tool": {"tool": "get_clinic_info"},
    "the digest": {"digest": b"x" * 32},
}


@pytest.mark.parametrize("change", TAMPERED.values(), ids=TAMPERED)
async def test_an_action_whose_row_was_changed_is_not_executed(desk: Desk, change: dict[str, Any]) -> None:
    action = asked()
    desk.turns.stored = replace(action, **change)
    await desk.answering.answer(says("Yes", action=action))
    (commit,) = desk.turns.commits
    assert not desk.diary.booked
    assert (commit.ends_as, commit.ends_because, commit.handoff) == (
        "refused",
        "not_permitted",
        "not_permitted",
    )


async def test_an_action_that_ended_meanwhile_is_not_executed(desk: Desk) -> None:
    await desk.answering.answer(says("Yes", action=asked()))
    (commit,) = desk.turns.commits
    assert not desk.diary.booked
    assert (commit.text, commit.outcome) == (None, "stopped")


async def test_an_action_that_needs_two_confirmations_is_not_executed_by_one(desk: Desk) -> None:
    action = asked(confirmations_needed=2)
    await desk.answer(says("Yes", action=action))
    assert not desk.diary.booked


async def test_an_execution_that_met_another_is_done_again_whole(desk: Desk) -> None:
    desk.turns.conflicts = 2
    await desk.answer(says("Yes", action=asked()))
    assert desk.turns.executions == 3
    assert len(desk.diary.booked) == 1


async def test_after_three_conflicts_the_turn_is_tried_again_later(desk: Desk) -> None:
    desk.turns.conflicts = 3
    desk.turns.stored = asked()
    with pytest.raises(Conflict):
        await desk.answering.answer(says("Yes", action=asked()))
    assert not desk.turns.commits


async def test_a_connection_lost_at_commit_asks_for_the_receipt(desk: Desk) -> None:
    desk.turns.lost_at_commit = True
    action = asked()
    await desk.answer(says("Yes", action=action))
    assert desk.turns.executions == 1, "it did commit: not again"
    assert action.id in desk.turns.receipts


@asynccontextmanager
async def away(_: Turn) -> AsyncIterator[Any]:
    raise Unavailable("the database is away")
    yield


async def test_a_connection_lost_before_it_is_nobody_s_attempt(desk: Desk) -> None:
    desk.turns.execution = away  # type: ignore[method-assign, assignment]  # a fake's own door, shut
    with pytest.raises(Unavailable):
        await desk.answering.answer(says("Yes", action=asked()))
    assert not desk.diary.booked


# Ends of turns


async def test_a_turn_out_of_time_says_so_and_goes_to_people(desk: Desk) -> None:
    await desk.answering.out_of_time(says("Hello"))
    (commit,) = desk.turns.commits
    assert (commit.handoff, commit.text) == ("out_of_time", EN.notice("fallback"))


async def test_a_turn_given_up_is_among_the_dead_with_one_message(desk: Desk) -> None:
    action = asked()
    await desk.answering.give_up(says("Boom", action=action))
    (commit,) = desk.turns.commits
    assert (commit.state, commit.handoff, commit.dead) == (TurnState.FAILED, "processing_failed", True)
    assert (commit.text, commit.ends_as) == (EN.notice("processing_failed"), "cleared")


async def test_it_speaks_the_conversation_s_language(desk: Desk) -> None:
    commit = await desk.answer(says("Nu, mulțumesc", action=asked(), locale="ro"))
    assert commit.text == load("ro").notice("declined_by_customer")
