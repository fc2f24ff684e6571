"""The gate over every combination of its dials: shut by default, and no action runs unasked."""

from itertools import product
from typing import Any

import pytest
from pydantic import BaseModel

from services.agent.core.gate import Allow, Ask, Code, Deny, Passage, rule
from shared.autonomy import Mode, Risk
from shared.packs import Tool, ToolKind

LEVELS: tuple[Any, ...] = (0, 1, 2, 3, 4, 5, -1, None, True, "2", 2.0)


class Nothing(BaseModel):
    """No arguments."""


def tool(*, kind: ToolKind = ToolKind.ACTION, **fields: Any) -> Tool:
    plain = {
        "name": "book",
        "description": "",
        "arguments": Nothing,
        "risk": Risk.WRITE,
        "wrong_call_costs": "x",
    }
    return Tool(kind=kind, **(plain | fields))


def expected(kind: ToolKind, risk: Risk | None, level: Any, mode: Mode, floor: int) -> Passage:
    """The specification in its own words: reads and allowed levels pass, an action is asked in any case."""
    if mode is Mode.OFF:
        return Deny(Code.AUTONOMY_OFF)
    if type(level) is not int or level not in range(5):
        return Deny(Code.NOT_PERMITTED_AT_LEVEL)
    if risk is not Risk.READ and level < 2:
        return Deny(Code.NOT_PERMITTED_AT_LEVEL)
    allowed = risk is Risk.READ or level == 4 or (risk is Risk.WRITE and level == 3)
    return Allow() if kind is ToolKind.READ and allowed else Ask(floor or 1)


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("kind", ToolKind)
def test_every_combination(kind: ToolKind, mode: Mode) -> None:
    for risk, level, floor in product((*Risk, None), LEVELS, (0, 1, 2)):
        one = tool(kind=kind, risk=risk, level=level, floor=floor)
        assert rule(one, mode=mode) == expected(kind, risk, level, mode, floor), (risk, level, floor)


@pytest.mark.parametrize("mode", Mode)
def test_an_unknown_tool_is_refused(mode: Mode) -> None:
    assert rule(None, mode=mode) == Deny(Code.UNKNOWN_TOOL)


def test_no_action_passes_unasked_whatever_the_dials_say() -> None:
    for risk, level, mode in product((*Risk, None), LEVELS, Mode):
        assert not isinstance(rule(tool(risk=risk, level=level), mode=mode), Allow)


def test_a_floor_holds_at_every_level() -> None:
    for level in (2, 3, 4):
        assert rule(tool(level=level, floor=2), mode=Mode.AUTO) == Ask(2)
