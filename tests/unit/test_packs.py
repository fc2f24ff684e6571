"""A registry that could not be decided safely is refused at start, with what is wrong with it."""

from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from shared.autonomy import Risk
from shared.errors import Misconfigured
from shared.packs import (
    Done,
    Established,
    Proposal,
    Refusal,
    Tool,
    ToolContext,
    ToolKind,
    load_packs,
    wrongly_declared,
)


class Nothing(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Anything(BaseModel):
    """Takes fields that nobody declared."""


async def reads(_: ToolContext, __: Any) -> Established:
    return Established(data={})


async def checks(_: ToolContext, __: Any) -> Proposal | Refusal:
    return Proposal(arguments={}, shown={})


async def executes(_: ToolContext, __: Proposal, ___: str) -> Done | Refusal:
    return Done(result={})


def a_read(**fields: Any) -> Tool:
    plain = {"name": "look", "description": "", "arguments": Nothing, "kind": ToolKind.READ, "risk": Risk.READ, "wrong_call_costs": "x", "read": reads}  # fmt: skip
    return Tool(**(plain | fields))


def an_action(**fields: Any) -> Tool:
    plain = {
        "name": "act",
        "description": "",
        "arguments": Nothing,
        "kind": ToolKind.ACTION,
        "risk": Risk.WRITE,
        "wrong_call_costs": "x",
        "check": checks,
        "execute": executes,
        "word_prompt": lambda *_: "",
        "word_done": lambda *_: "",
        "word_refusal": lambda *_: "",
    }
    return Tool(**(plain | fields))


def test_what_is_declared_rightly_passes() -> None:
    assert (
        wrongly_declared([a_read(), an_action(), an_action(name="other", risk=None, needs=("look",))]) == []
    )


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        pytest.param([a_read(), a_read()], "two tools are called look", id="two of one name"),
        pytest.param([a_read(name="hand_over")], "name that no tool may have", id="a name that is built in"),
        pytest.param([a_read(name="Look up")], "name that no tool may have", id="a name out of form"),
        pytest.param([an_action(level=5)], "no level from 0 to 4", id="a level too high"),
        pytest.param([an_action(level=-1)], "no level from 0 to 4", id="a level below nought"),
        pytest.param([an_action(level=True)], "no level from 0 to 4", id="a level that is a truth"),
        pytest.param([an_action(level="2")], "no level from 0 to 4", id="a level that is a text"),
        pytest.param([an_action(floor=-1)], "floor below nought", id="a floor below nought"),
        pytest.param([an_action(wrong_call_costs=" ")], "what a wrong call costs", id="a class without its cost"),
        pytest.param([an_action(arguments=Anything)], "takes unknown arguments", id="arguments that are not closed"),
        pytest.param([a_read(read=None)], "a read without a way to read", id="a read that can't"),
        pytest.param([a_read(risk=Risk.WRITE)], "of another risk", id="a read that writes"),
        pytest.param([a_read(risk=None)], "of another risk", id="a read without a class"),
        pytest.param([an_action(check=None)], "without check, execution and wording", id="no dry run"),
        pytest.param([an_action(execute=None)], "without check, execution and wording", id="no execution"),
        pytest.param([an_action(word_prompt=None)], "without check, execution and wording", id="no question"),
        pytest.param([an_action(risk=Risk.READ)], "an action of risk read", id="an action that passes for a read"),
        pytest.param([an_action(needs=("look",))], "needs a tool that is not there", id="a need that is not there"),
    ],
)  # fmt: skip
def test_what_could_not_be_decided_safely_is_told(tools: Sequence[Tool], said: str) -> None:
    wrong = wrongly_declared(tools)
    assert len(wrong) == 1
    assert said in wrong[0]


class Installed:
    """An entry point of a pack whose tools are wrong."""

    def load(self) -> Any:
        return type("Shop", (), {"name": "shop", "tools": (an_action(level=9),)})()


def test_the_installation_does_not_start_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.packs.entry_points", lambda **_: [Installed()])
    with pytest.raises(Misconfigured, match="Pack shop: act is at no level from 0 to 4"):
        load_packs()


@pytest.mark.parametrize("name", ["clinic", "expenses"])
def test_our_own_packs_pass(name: str) -> None:
    assert wrongly_declared(load_packs()[name].tools) == []
