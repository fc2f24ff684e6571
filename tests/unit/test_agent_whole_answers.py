"""Only a call that is whole, and of the declared types, runs: nothing of an answer that broke off, nothing repaired. And only
an answer that can be seen is one."""

from typing import Annotated

import msgspec
import pytest
from pydantic import BaseModel, ConfigDict, Field

from packs.expenses.arguments import DeleteExpense
from services.agent.checks import read_arguments
from services.agent.engines.outcome import FallbackReason
from shared.autonomy import Risk
from shared.llm.port import Answer, Finish, ToolCall
from shared.packs import Tool, ToolKind
from tests.support.kiosk import Kiosk, dials, says


class Loose(BaseModel):
    """Arguments whose author forgot strictness."""

    model_config = ConfigDict(extra="forbid")

    id: Annotated[int, Field(ge=1)]


def takes(arguments: type[BaseModel]) -> Tool:
    return Tool(
        name="delete_expense", description="", arguments=arguments, kind=ToolKind.ACTION, risk=Risk.IRREVERSIBLE, wrong_call_costs="an expense",
    )  # fmt: skip


@pytest.mark.parametrize("arguments", [DeleteExpense, Loose])
@pytest.mark.parametrize("text", ['{"id": true}', '{"id": "1"}', '{"id": 1.0}', '{"id": [1]}', '{"id": 1e0}'])
def test_a_value_of_another_type_is_refused_and_not_converted(arguments: type[BaseModel], text: str) -> None:
    assert "id" in read_arguments(takes(arguments), text)


@pytest.mark.parametrize("arguments", [DeleteExpense, Loose])
def test_a_value_of_its_type_is_taken(arguments: type[BaseModel]) -> None:
    assert read_arguments(takes(arguments), '{"id": 1}').id == 1


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        (Finish.LENGTH, FallbackReason.CUT_OFF),
        (Finish.FILTER, FallbackReason.CUT_OFF),
        (Finish.REFUSAL, FallbackReason.REFUSED),
    ],
)
async def test_no_call_of_an_answer_that_broke_off_runs(finish: Finish, reason: FallbackReason) -> None:
    """Whoever handed it on: here it is an answer that an earlier attempt stored."""
    call = ToolCall(id="c", name="note_wish", arguments='{"start": "10:00"}')
    stored = msgspec.json.encode(Answer(text=None, calls=(call,), finish=finish)).decode()
    kiosk = Kiosk({"text": "Is that all?"})
    turn = says("Note ten o'clock", attempt=2, stored_answers=(stored,), dials=dials(note_wish=4))
    commit = await kiosk.answer(turn)
    assert (kiosk.diary.booked, kiosk.diary.checks) == ([], 0)
    assert (commit.outcome, commit.handoff) == (reason.value, reason.value)


@pytest.mark.parametrize(
    "text", ["\u202e", "\u200b\u200b", "\u2060 \n\u00ad", "\ufe0f", "\u200e\u200f", "\U000e0001"], ids=ascii
)
async def test_an_answer_that_nobody_can_see_is_an_empty_one(text: str) -> None:
    commit = await Kiosk({"text": text}).answer(says("Hello?"))
    assert (commit.outcome, commit.handoff) == ("empty_answer", "empty_answer")


async def test_an_answer_in_letters_of_any_script_is_one() -> None:
    for text in ("\u202eשלום", "👍🏽", "👩\u200d⚕️", "é\n", "."):
        commit = await Kiosk({"text": text}).answer(says("Hello?"))
        assert commit.outcome == "reply", ascii(text)
