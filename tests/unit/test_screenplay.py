"""The demo's own parts: what fails is said and counted, the lie is told to one message alone, the day is an open one."""

from datetime import date, datetime

import pytest

from leeway.screenplay import Checks
from leeway.screenplay_clinic import ZONE, _opens
from leeway.screenplay_model import LIE, LIED_TO, LyingModel
from shared.llm.port import Answer, Finish, Request, ToolCall, UserText
from shared.llm.scripted import ScriptedModel

CALL = Answer(text=None, calls=(ToolCall(id="1", name="find_slots", arguments="{}"),), finish=Finish.TOOLS)


def request(*texts: str) -> Request:
    return Request(system="", messages=tuple(UserText(text=text) for text in texts), tools=())


def test_a_check_that_does_not_hold_is_said_and_fails_the_demo(capsys: pytest.CaptureFixture[str]) -> None:
    checks = Checks()
    checks.expect("one appointment", holds=True, found=[])
    assert checks.verdict()
    checks.expect("no appointment", holds=False, found="[red]\x1b[2J[/red]")
    assert not checks.verdict()
    said = capsys.readouterr().out
    assert "✓ one appointment" in said
    assert "✗ no appointment (found: [red]\\u001b[2J[/red])" in said
    assert "These checks did not hold: no appointment." in said


async def test_the_model_lies_to_one_message_alone_and_again_when_corrected() -> None:
    model = LyingModel(ScriptedModel(lambda _: CALL))
    honest = await model.complete(request("Hello"), timeout_s=1)
    assert honest.calls
    for texts in ((LIED_TO,), (LIED_TO, "(Note of the system: nothing was done.)")):
        answer = await model.complete(request(*texts), timeout_s=1)
        assert (answer.text, answer.calls, answer.finish) == (LIE, (), Finish.END)


def at(hour: int, day: int = 3) -> datetime:
    return datetime(2026, 12, day, hour, tzinfo=ZONE)


@pytest.mark.parametrize(
    ("spans", "whole"),
    [
        ([(at(9), at(13)), (at(14), at(18))], True),
        ([(at(8), at(20))], True),
        ([(at(9), at(13)), (at(14), at(17))], False),
        ([(at(9, 4), at(18, 4))], False),
        ([], False),
    ],
)
def test_a_whole_day_is_open_from_nine_to_six(spans: list[tuple[datetime, datetime]], whole: bool) -> None:
    assert _opens(spans, date(2026, 12, 3)) is whole
