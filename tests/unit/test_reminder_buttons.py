"""A press on a reminder's button: thanks, or the tool by way of the gate, and never a model."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict

from services.agent.checks import Checks
from services.agent.committing import Committer
from services.agent.core.gate import Dials, LevelSet
from services.agent.core.reminder import Button, Press, Sent
from services.agent.core.turn import Pending, PromptState, Turn, WaitsFor
from services.agent.evidence import Sealing
from services.agent.ports import Commit
from services.agent.reminded import Reminded
from shared.autonomy import Asked, Mode, Risk
from shared.broker.memory import MemoryBroker
from shared.digest import canonical
from shared.ids import ConversationId, new_id
from shared.locales import load
from shared.messages import PROMPT_CHARS_MAX, MessageKind
from shared.packs import Done, Pack, Proposal, Refusal, Tool, ToolContext, ToolKind
from shared.telemetry.metrics import Metrics
from tests.support.factories import NOON, heard, pending, prompt, turn
from tests.support.memory_turns import MemoryTurns

EN = load("en")
THEIRS = new_id()
ARGUMENTS = canonical({"visit": "v-1"})
SENT = Sent(tool="cancel_visit", arguments=ARGUMENTS, thanks="See you!")


class Visit(BaseModel):
    model_config = ConfigDict(extra="forbid")

    visit: str


class Visits:
    """A domain in which a visit can be cancelled, with two confirmations."""

    name = "clinic"
    queries: Sequence[Path] = ()
    migrations = Path()

    def __init__(self) -> None:
        self.refusal: Refusal | None = None
        self.summary = "Cancel: the visit."
        self.floor = 2
        self.checked: list[ToolContext] = []

    @property
    def tools(self) -> Sequence[Tool]:
        return (
            Tool(
                name="cancel_visit", description="Cancel.", arguments=Visit, kind=ToolKind.ACTION, risk=Risk.IRREVERSIBLE,
                wrong_call_costs="A visit.", floor=self.floor, check=self.check, execute=self.execute,
                word_prompt=lambda shown, _: self.summary, word_done=lambda result, _: "Cancelled.",
                word_refusal=lambda refusal, _: f"Not possible: {refusal.code}.",
            ),
        )  # fmt: skip

    async def check(self, context: ToolContext, asked: Visit) -> Proposal | Refusal:
        self.checked.append(context)
        return self.refusal or Proposal(arguments={"visit": asked.visit}, shown={"visit": asked.visit})

    async def execute(self, _: ToolContext, proposal: Proposal, key: str) -> Done | Refusal:
        raise AssertionError("a press alone carries nothing out")


@dataclass
class Kept:
    """services.agent.clock_ports.SentReminders in memory, by conversation and key."""

    sent: dict[tuple[ConversationId, UUID], Sent] = field(default_factory=dict)

    async def reminder(self, conversation: ConversationId, key: UUID) -> Sent | None:
        return self.sent.get((conversation, key))


class Desk:
    def __init__(self) -> None:
        self.turns, self.pack, self.kept = MemoryTurns(), Visits(), Kept()

    async def commit(self, one: Turn, *, sent: Sent | None = SENT, packs: bool = True) -> Commit:
        """The one commit of the press, of a reminder that went to the turn's conversation."""
        if sent is not None:
            self.kept.sent[one.conversation, THEIRS] = sent
        pack: Any = self.pack
        installed: dict[str, Pack] = {"clinic": pack} if packs else {}
        committer = Committer(
            turns=self.turns,
            sealing=Sealing(installed),
            broker=MemoryBroker(),
            metrics=Metrics(process=False),
        )
        reminded = Reminded(
            reminders=self.kept, checks=Checks(self.turns), committer=committer, packs=installed
        )
        assert reminded.is_answered_by(one)
        await reminded.conclude(one)
        (commit,) = self.turns.commits
        return commit


@pytest.fixture
def desk() -> Desk:
    return Desk()


def presses(press: Press, *, button: str | None = None, again: bool = False, **fields: Any) -> Turn:
    """A turn that is a press, newer than any prompt; `again`: after the same press."""
    carries = button or Button(reminder=THEIRS, press=press).encode()
    messages = [
        heard(seq, "I can't come", kind=MessageKind.BUTTON, button=carries)
        for seq in ((2, 3) if again else (3,))
    ]
    return turn(*messages, handled_seq=2, **fields)


def waiting(**fields: Any) -> Pending:
    """An action that was asked about before."""
    return pending(**({"tool": "book_visit", "prompt": prompt(state=PromptState.SENT)} | fields))


def level(number: object, asked: Asked | None = None) -> Dials:
    return Dials(mode=Mode.AUTO, levels={"cancel_visit": LevelSet(level=number, asked=asked)})


# Keep


async def test_who_keeps_it_is_thanked_in_the_reminder_s_own_words(desk: Desk) -> None:
    commit = await desk.commit(presses(Press.KEEP))
    assert (commit.text, commit.outcome, commit.held) == ("See you!", "reminder_kept", None)
    assert (commit.asks, commit.ends, commit.handoff, commit.tools) == (None, None, None, ())
    assert desk.pack.checked == []


@pytest.mark.parametrize("waits_for", list(WaitsFor))
async def test_another_request_stays_open_beside_it(desk: Desk, waits_for: WaitsFor) -> None:
    commit = await desk.commit(presses(Press.KEEP, pending=waiting(waits_for=waits_for)))
    assert (commit.text, commit.ends) == ("See you!", None)


@pytest.mark.parametrize("waits_for", list(WaitsFor))
async def test_who_keeps_it_after_all_takes_back_that_it_be_cancelled(
    desk: Desk, waits_for: WaitsFor
) -> None:
    action = waiting(tool="cancel_visit", arguments=ARGUMENTS, waits_for=waits_for)
    commit = await desk.commit(presses(Press.KEEP, pending=action))
    assert (commit.ends, commit.ends_as, commit.ends_because) == (
        action.id,
        "declined",
        "declined_by_customer",
    )
    assert commit.text == "See you!"


# Cancel


async def test_who_can_t_come_is_asked_for_the_first_of_two_confirmations(desk: Desk) -> None:
    commit = await desk.commit(presses(Press.CANCEL))
    assert commit.asks is not None
    assert (commit.asks.tool, commit.asks.arguments) == ("cancel_visit", ARGUMENTS)
    assert (commit.asks.confirmations_needed, commit.asks.asked) == (2, Asked.CUSTOMER)
    assert (commit.asks.call_n, commit.asks.call_position) == (0, 0)
    assert commit.text == f"Cancel: the visit. {EN.notice('prompt_suffix_yes_no')}"
    assert commit.buttons is not None
    assert commit.receipt is False
    (record,) = commit.tools
    assert (record.tool, record.decision, record.n) == ("cancel_visit", "ask", 0)
    assert '"floor":2' in record.why
    assert commit.trace.tools == commit.tools


async def test_it_is_asked_for_the_customer_of_the_turn(desk: Desk) -> None:
    one = presses(Press.CANCEL)
    await desk.commit(one)
    (context,) = desk.pack.checked
    assert (context.customer, context.business) == (one.customer, one.business.id)


async def test_what_waited_for_the_customer_is_replaced(desk: Desk) -> None:
    action = waiting()
    commit = await desk.commit(presses(Press.CANCEL, pending=action))
    assert commit.asks is not None
    assert (commit.ends, commit.ends_as) == (action.id, "replaced")


async def test_what_waits_for_an_operator_stands_in_its_way(desk: Desk) -> None:
    commit = await desk.commit(presses(Press.CANCEL, pending=waiting(waits_for=WaitsFor.OPERATOR)))
    assert (commit.text, commit.outcome) == (EN.notice("still_waiting"), "still_waiting")
    assert (commit.asks, commit.ends) == (None, None)
    assert desk.pack.checked == []


async def test_what_can_t_be_cancelled_is_said_in_the_pack_s_words(desk: Desk) -> None:
    desk.pack.refusal = Refusal(code="over", detail={"since": "noon"})
    commit = await desk.commit(presses(Press.CANCEL, pending=waiting()))
    assert (commit.text, commit.outcome) == ("Not possible: over.", "refused")
    assert (commit.asks, commit.ends, commit.handoff) == (None, None, None)
    (record,) = commit.tools
    assert (record.decision, record.reason, record.result) == (
        "refuse",
        "over",
        '{"error":"over","since":"noon"}',
    )


@pytest.mark.parametrize(
    ("number", "floor", "asked", "confirmations", "whom"),
    [
        pytest.param(2, 0, None, 1, Asked.CUSTOMER, id="asked without a floor"),
        pytest.param(4, 2, None, 2, Asked.CUSTOMER, id="the floor holds at every level"),
        pytest.param(4, 0, None, 1, Asked.CUSTOMER, id="one touch of an old message is no clear wish"),
        pytest.param(2, 0, Asked.OPERATOR, 0, Asked.OPERATOR, id="an operator alone"),
        pytest.param(2, 2, Asked.BOTH, 2, Asked.BOTH, id="both"),
    ],
)
async def test_the_gate_says_who_is_asked(
    desk: Desk, number: int, floor: int, asked: Asked | None, confirmations: int, whom: Asked
) -> None:
    desk.pack.floor = floor
    commit = await desk.commit(presses(Press.CANCEL, dials=level(number, asked)))
    assert commit.asks is not None
    assert (commit.asks.confirmations_needed, commit.asks.asked) == (confirmations, whom)


@pytest.mark.parametrize(("number", "held"), [(0, "level_0"), (1, None), ("?", None)])
async def test_where_the_level_denies_it_people_take_over(
    desk: Desk, number: object, held: str | None
) -> None:
    action = waiting()
    commit = await desk.commit(presses(Press.CANCEL, dials=level(number), pending=action))
    assert (commit.text, commit.handoff, commit.held) == (EN.notice("fallback"), "not_permitted", held)
    assert (commit.ends, commit.ends_as, commit.asks) == (action.id, "cleared", None)
    (record,) = commit.tools
    assert (record.decision, record.reason) == ("deny", "not_permitted_at_level")
    assert desk.pack.checked == []


@pytest.mark.parametrize(
    ("sent", "packs", "reason"),
    [
        pytest.param(SENT, False, "unknown_tool", id="no pack"),
        pytest.param(Sent(tool="gone", arguments="{}", thanks=""), True, "unknown_tool", id="no tool"),
        pytest.param(Sent(tool="cancel_visit", arguments='{"x":1}', thanks=""), True, "bad_arguments", id="no arguments"),
    ],
)  # fmt: skip
async def test_what_is_gone_since_is_for_people(desk: Desk, sent: Sent, packs: bool, reason: str) -> None:
    commit = await desk.commit(presses(Press.CANCEL), sent=sent, packs=packs)
    assert (commit.text, commit.handoff, commit.asks) == (EN.notice("fallback"), "not_permitted", None)
    assert commit.tools[0].reason == reason


async def test_a_question_that_fits_into_no_message_is_for_people(desk: Desk) -> None:
    desk.pack.summary = "x" * PROMPT_CHARS_MAX
    commit = await desk.commit(presses(Press.CANCEL))
    assert (commit.asks, commit.buttons, commit.handoff) == (None, None, "not_permitted")


# Neither


@pytest.mark.parametrize("press", list(Press))
async def test_another_s_reminder_and_an_unknown_one_are_met_alike(desk: Desk, press: Press) -> None:
    desk.kept.sent[ConversationId(new_id()), THEIRS] = SENT
    commit = await desk.commit(presses(press, pending=waiting()), sent=None)
    assert (commit.text, commit.outcome) == (EN.notice("reminder_not_open"), "no_longer_open")
    assert (commit.asks, commit.ends, commit.tools) == (None, None, ())
    assert desk.pack.checked == []


async def test_a_button_out_of_form_is_nobody_s(desk: Desk) -> None:
    commit = await desk.commit(presses(Press.CANCEL, button=f"rm:{THEIRS.hex}:cancel:1"))
    assert commit.outcome == "no_longer_open"


@pytest.mark.parametrize("press", list(Press))
async def test_pressed_twice_is_once(desk: Desk, press: Press) -> None:
    commit = await desk.commit(presses(press, again=True))
    assert (commit.text, commit.outcome, commit.asks) == (None, "pressed_again", None)


@pytest.mark.parametrize("press", list(Press))
async def test_in_mode_off_nothing_is_generated(desk: Desk, press: Press) -> None:
    commit = await desk.commit(presses(press, dials=Dials(mode=Mode.OFF)))
    assert (commit.text, commit.outcome, commit.asks) == (None, "autonomy_off", None)


@pytest.mark.parametrize("press", list(Press))
async def test_an_answer_that_comes_too_late_is_a_draft(desk: Desk, press: Press) -> None:
    commit = await desk.commit(presses(press, now=NOON.replace(hour=23)))
    assert commit.held == "late"


def test_another_button_or_a_text_is_not_a_reminder_s() -> None:
    reminded = Reminded(reminders=Kept(), checks=None, committer=None, packs={})  # type: ignore[arg-type]
    assert not reminded.is_answered_by(presses(Press.KEEP, button=f"pa:{THEIRS.hex}:1:confirm"))
    assert not reminded.is_answered_by(turn(heard(1, f"rm:{THEIRS.hex}:keep")))


# Buttons


@pytest.mark.parametrize("press", list(Press))
def test_a_button_reads_as_it_was_written(press: Press) -> None:
    button = Button(reminder=new_id(), press=press)
    assert Button.decode(button.encode()) == button


ID = UUID(int=7).hex


@pytest.mark.parametrize(
    "text",
    ["", "rm", "rm:", f"rm:{ID}", f"rm:{ID}:", f"rm:{ID}:yes", f"rm:{ID}:keep:1", f"pa:{ID}:keep", "rm:x:keep",
     f"RM:{ID}:keep", f"rm:{ID.upper()}:keep".replace("0", "A"), f"rm:{{{ID}}}:keep", f"rm:{ID}:KEEP", f"rm:{UUID(int=7)}:keep",
     f"rm:urn:uuid:{ID}:keep", "rm:\x00:keep", f"rm:{ID} :keep", "rm:" + "9" * 10_000 + ":keep"],
)  # fmt: skip
def test_what_only_looks_like_a_button_is_none(text: str) -> None:
    assert Button.decode(text) is None
