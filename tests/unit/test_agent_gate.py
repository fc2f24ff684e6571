"""The gate over every combination of its dials: shut by default, floors at every level, and only who is named is asked."""

from itertools import product
from typing import Any

import pytest
from pydantic import BaseModel

from services.agent.core.gate import (
    Allow,
    Ask,
    Code,
    Deny,
    Dials,
    LevelSet,
    Passage,
    holds_the_reply,
    rule,
    why,
)
from shared.autonomy import Asked, Mode, Risk
from shared.packs import Tool, ToolKind

UNREADABLE: tuple[Any, ...] = (5, -1, None, True, False, "2", 2.0, b"4", [], 10**30)
LEVELS: tuple[Any, ...] = (0, 1, 2, 3, 4, *UNREADABLE)
RISKS = (*Risk, None)
FLOORS = (0, 1, 2)

# behaviour.md §5, column by column from level 0 to level 4
SAYS = {
    Risk.READ: ("allow", "allow", "allow", "allow", "allow"),
    Risk.WRITE: ("deny", "deny", "ask", "allow", "allow"),
    Risk.IRREVERSIBLE: ("deny", "deny", "ask", "ask", "allow"),
}


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


def dials(mode: Mode = Mode.AUTO, **levels: Any) -> Dials:
    """The dials with these levels that the business set, by tool."""
    return Dials(mode=mode, levels={name: LevelSet(level=level) for name, level in levels.items()})


def expected(kind: ToolKind, risk: Risk | None, level: Any, floor: int, asked: Asked, mode: Mode) -> Passage:
    """The specification in its own words."""
    if mode is Mode.OFF:
        return Deny(Code.AUTONOMY_OFF)
    readable = type(level) is int and 0 <= level <= 4
    says = SAYS[risk or Risk.IRREVERSIBLE][level] if readable else "deny"  # without a class: irreversible
    if says == "deny":
        return Deny(Code.NOT_PERMITTED_AT_LEVEL)
    if kind is ToolKind.READ:  # nobody is ever asked about a read: it runs, or it is shut
        return Allow() if says == "allow" and floor == 0 else Deny(Code.NOT_PERMITTED_AT_LEVEL)
    if says == "allow":
        return Allow() if floor == 0 else Ask(floor, Asked.CUSTOMER)
    if asked is Asked.OPERATOR and floor == 0:
        return Ask(0, Asked.OPERATOR)
    return Ask(max(floor, 1), Asked.CUSTOMER if asked is Asked.CUSTOMER else Asked.BOTH)


@pytest.mark.parametrize("asked", Asked)
@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("kind", ToolKind)
@pytest.mark.parametrize("set_by", ["the pack", "the business"])
def test_every_combination(set_by: str, kind: ToolKind, mode: Mode, asked: Asked) -> None:
    for risk, level, floor in product(RISKS, LEVELS, FLOORS):
        if set_by == "the pack":
            one, set_ = tool(kind=kind, risk=risk, floor=floor, level=level, asked=asked), dials(mode)
        else:
            one = tool(kind=kind, risk=risk, floor=floor, level=2, asked=Asked.CUSTOMER)
            set_ = Dials(mode=mode, levels={"book": LevelSet(level=level, asked=asked)})
        assert rule(one, set_) == expected(kind, risk, level, floor, asked, mode), (risk, level, floor)


@pytest.mark.parametrize("mode", Mode)
def test_an_unknown_tool_is_refused(mode: Mode) -> None:
    assert rule(None, dials(mode, book=4)) == Deny(Code.UNKNOWN_TOOL)


def test_a_level_is_of_one_tool_alone() -> None:
    assert rule(tool(level=1), dials(cancel=4)) == Deny(Code.NOT_PERMITTED_AT_LEVEL)
    assert rule(tool(level=1), dials(book=4)) == Allow()


def test_the_business_s_level_counts_even_where_it_is_unreadable() -> None:
    for level in UNREADABLE:
        assert rule(tool(level=4), dials(book=level)) == Deny(Code.NOT_PERMITTED_AT_LEVEL), level


def test_a_business_that_says_nothing_of_who_is_asked_leaves_it_to_the_pack() -> None:
    both = tool(asked=Asked.BOTH)
    assert rule(both, Dials(mode=Mode.AUTO, levels={"book": LevelSet(level=2)})) == Ask(1, Asked.BOTH)


def test_a_tool_without_a_level_of_its_own_is_at_2() -> None:
    assert tool().level == 2


def test_a_floor_holds_at_every_level() -> None:
    for level, floor in product((2, 3, 4), (1, 2)):
        passage = rule(tool(level=level, floor=floor), dials())
        assert isinstance(passage, Ask)
        assert passage.confirmations == floor


def test_no_action_passes_unasked_below_level_3() -> None:
    risks = (Risk.WRITE, Risk.IRREVERSIBLE, None)
    for risk, level, floor, asked in product(risks, (0, 1, 2, *UNREADABLE), FLOORS, Asked):
        one = tool(risk=risk, level=level, floor=floor, asked=asked)
        assert not isinstance(rule(one, dials()), Allow)


# Level 0


@pytest.mark.parametrize("mode", Mode)
def test_level_0_holds_the_reply_whatever_the_mode(mode: Mode) -> None:
    for kind, risk in product(ToolKind, RISKS):
        assert holds_the_reply(tool(kind=kind, risk=risk, level=0), dials(mode))
        assert holds_the_reply(tool(kind=kind, risk=risk, level=4), dials(mode, book=0))


def test_no_other_level_holds_it() -> None:
    for level in (1, 2, 3, 4, None, False, "0", 0.5):
        assert not holds_the_reply(tool(level=level), dials())
        assert not holds_the_reply(tool(level=0), dials(book=level))


def test_an_unknown_tool_holds_nothing() -> None:
    assert not holds_the_reply(None, dials())


# What it says for the record


def reasons(one: Tool | None, set_: Dials) -> dict[str, object]:
    return why(one, set_, rule(one, set_))


def test_the_record_says_by_what_it_was_decided() -> None:
    assert reasons(tool(floor=2, level=3), dials()) == {
        "mode": "auto", "level": 3, "level_from": "pack", "risk": "write", "floor": 2,
        "ruling": "ask", "confirmations": 2, "asked": "customer",
    }  # fmt: skip
    assert reasons(tool(), dials(book=4)) == {
        "mode": "auto", "level": 4, "level_from": "business", "risk": "write", "floor": 0, "ruling": "allow",
    }  # fmt: skip
    assert reasons(tool(risk=None), dials(Mode.OFF)) == {
        "mode": "off", "level": 2, "level_from": "pack", "risk": None, "floor": 0,
        "ruling": "deny", "code": "autonomy_off",
    }  # fmt: skip


def test_the_record_of_an_unknown_tool_names_no_level() -> None:
    assert reasons(None, dials()) == {"mode": "auto", "ruling": "deny", "code": "unknown_tool"}


def test_a_level_that_can_t_be_read_is_none_in_the_record() -> None:
    assert reasons(tool(level="2"), dials())["level"] is None
