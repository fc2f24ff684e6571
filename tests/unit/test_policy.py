"""`leeway policy show` says what the gate does: the same function, over every level, with every floor and whoever is asked."""

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from leeway.cli import app
from leeway.policy import LEVELS, policy
from leeway.setting_values import dollars, quiet_hours, seconds
from services.agent.core.gate import Allow, Ask, Deny, Dials, LevelSet, rule
from shared.autonomy import Asked, Mode, Risk, decide
from shared.packs import load_packs

CLINIC = load_packs()["clinic"]
RUNNER = CliRunner(env={"COLUMNS": "120"})
NAMES = {Allow: "allow", Ask: "ask", Deny: "deny"}


def setting(tool: str, level: object, asked: str | None = None) -> dict[str, Any]:
    return {"tool": tool, "level": level, "asked": asked, "set_by": "ana", "set_at": None}


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("level", [*LEVELS, 7])
@pytest.mark.parametrize("asked", [None, *Asked])
def test_every_tool_comes_to_what_the_gate_says(mode: Mode, level: int, asked: Asked | None) -> None:
    rows = [setting(tool.name, level, asked.value if asked else None) for tool in CLINIC.tools]
    found = policy(CLINIC, mode=mode, levels=rows)
    levels = {tool.name: LevelSet(level=level, asked=asked) for tool in CLINIC.tools}
    for tool, shown in zip(CLINIC.tools, found["tools"], strict=True):
        passage = rule(tool, Dials(mode=mode, levels=levels))
        assert shown["results"] == NAMES[type(passage)]
        assert shown["asked"] == (passage.asked.value if isinstance(passage, Ask) else None)
        assert shown["confirmations"] == (passage.confirmations if isinstance(passage, Ask) else 0)
        assert (shown["level"], shown["level_from"], shown["set_by"]) == (level, "business", "ana")
        assert shown["why"]


def test_the_matrix_is_the_one_that_decides() -> None:
    matrix = policy(CLINIC, mode=Mode.AUTO)["matrix"]
    assert set(matrix) == {risk.value for risk in Risk}
    for risk, level in itertools.product(Risk, LEVELS):
        assert matrix[risk.value][str(level)] == decide(level, risk).value


def test_a_tool_without_a_class_counts_as_irreversible() -> None:
    tool = replace(next(one for one in CLINIC.tools if one.name == "book_appointment"), risk=None)

    class Pack:
        name, tools = "made up", (tool,)

    found = policy(Pack(), mode=Mode.AUTO, levels=[setting(tool.name, 3)])["tools"][0]  # type: ignore[arg-type]
    assert (found["risk"], found["results"]) == ("irreversible", "ask")
    assert "it has no class" in found["why"]


def test_levels_say_where_they_come_from() -> None:
    found = {
        one["name"]: one
        for one in policy(CLINIC, mode=Mode.AUTO, levels=[setting("book_appointment", 4)])["tools"]
    }
    assert found["book_appointment"]["level_from"] == "business"
    assert found["book_appointment"]["results"] == "ask", "its floor holds at every level"
    assert found["find_slots"]["level_from"] == "pack"
    assert found["find_slots"]["set_by"] is None


def test_a_pack_is_shown_without_a_business() -> None:
    ended = RUNNER.invoke(app, ["policy", "show", "--pack", "clinic", "--json"])
    assert ended.exit_code == 0
    found = json.loads(ended.stdout)
    assert found["business"] is None
    assert {"allow", "ask"} <= {one["results"] for one in found["tools"]}
    for name in (
        "name",
        "risk",
        "level",
        "level_from",
        "floor",
        "asked",
        "results",
        "why",
        "wrong_call_costs",
        "who_may",
    ):
        assert all(name in one for one in found["tools"])


def test_it_is_read_by_people_too() -> None:
    ended = RUNNER.invoke(app, ["policy", "show"])
    assert ended.exit_code == 0
    for tool in CLINIC.tools:
        assert tool.name in ended.stdout
        assert tool.wrong_call_costs in ended.stdout
        assert tool.who_may in ended.stdout
    assert "irreversible" in ended.stdout


@pytest.mark.parametrize(
    "words",
    [["policy", "set", "x", "book", "5"], ["policy", "set", "x", "book", "-1"], ["policy", "set", "x", "book", "2", "--asked", "me"]],
    ids=" ".join,
)  # fmt: skip
def test_a_level_that_can_not_be_is_a_wrong_command_line(words: list[str]) -> None:
    assert RUNNER.invoke(app, words).exit_code == 2


# What people type for settings


@pytest.mark.parametrize(
    ("text", "read"), [("90s", 90), ("30m", 1800), ("1h", 3600), ("3600", 3600), (" 2H ", 7200), (None, None)]
)
def test_spans_are_read(text: str | None, read: int | None) -> None:
    assert seconds(text) == read


@pytest.mark.parametrize("text", ["", "0", "0s", "-1", "1d", "1.5h", "h", "٣", "99999999", "721h"])
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        seconds(text)


@pytest.mark.parametrize(
    ("text", "read"),
    [("2.50", "2.50"), ("0", "0"), ("none", None), (" NONE ", None), ("0.000001", "0.000001")],
)
def test_amounts_are_read(text: str, read: str | None) -> None:
    assert dollars(text) == read


@pytest.mark.parametrize(
    "text", ["", "-1", "1e3", "NaN", "inf", "1,50", "$2", "0.0000001", "100001", "1_000"]
)
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        dollars(text)


def test_quiet_hours_are_read() -> None:
    assert quiet_hours("21:00-08:00") == {"quiet_from": "21:00:00", "quiet_to": "08:00:00"}
    assert quiet_hours("none") == {"quiet_from": "00:00:00", "quiet_to": "00:00:00"}
    assert quiet_hours(None) == {}


@pytest.mark.parametrize("text", ["", "21-8", "24:00-08:00", "21:60-08:00", "21:00", "9:00-10:00"])
def test_what_are_no_hours_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        quiet_hours(text)
