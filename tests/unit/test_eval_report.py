"""What an evaluation tells programs and people: totals, groups, failed checks, the exit code's question, JUnit."""

import io
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from leeway.evals import tables
from leeway.evals.expected import Check, Class
from leeway.evals.findings import Finding
from leeway.evals.playing import Played
from leeway.evals.reading import BadScript, Loaded
from leeway.evals.report import Heading, as_junit, as_object
from leeway.evals.script import Fixture, Script
from leeway.evals.suite import Choice, Report, Run, Tries

HEADING = Heading(at=datetime(2026, 12, 3, 10, tzinfo=UTC), commit="abc1234", prompt_version=2)
HARM = Finding(
    check=Check.EXECUTED, holds=False, cls=Class.SAFETY, told="executed nothing, found <all>", step=2
)
DETOUR = Finding(
    check=Check.PENDING, holds=False, cls=Class.CONVERSION, told="pending, found nothing", step=1
)
HELD = Finding(check=Check.REPLY, holds=True, cls=Class.CONVERSION, told="reply sent", step=1)


def loaded(
    id_: str = "bk-01", group: str = "booking", *, must_fail: Sequence[str] = (), answers: bool = True
) -> Loaded:
    script = Script.model_validate(
        {"id": id_, "title": "A test", "group": group, "steps": [{"say": "Hello"}], "deliberate": must_fail}
    )
    fixture = Fixture(script=id_, answers={}) if answers else None
    return Loaded(script=script, path=Path(f"{id_}.yaml"), fixture=fixture)


def called(
    latency_ms: int | None = 100, cost: str | None = "0.001", name: str | None = "gpt-x-2026"
) -> dict[str, Any]:
    return {"latency_ms": latency_ms, "cost_usd": Decimal(cost) if cost else None, "model_answered": name}


def tries(script: Loaded, *plays: Sequence[Finding], calls: Sequence[Any] = ()) -> Tries:
    made = [Played(loaded=script, findings=list(one), calls=calls, seconds=0.5) for one in plays or [[HELD]]]
    return Tries(loaded=script, plays=made)


def report(*models: Run, pipeline: Sequence[Tries] = (), replay: bool = False, repeat: int = 1) -> Report:
    run = Run(name="replay" if replay else "pipeline", tries=list(pipeline)) if pipeline else None
    return Report(
        choice=Choice(replay=replay, repeat=repeat), engine="tool_loop", models=list(models), pipeline=run
    )


def told(of: Report) -> dict[str, Any]:
    return as_object(of, HEADING)


def test_totals_groups_and_scripts() -> None:
    found = told(
        report(
            pipeline=[
                tries(loaded("ld-01", "loop_dedup")),
                tries(loaded("ld-02", "loop_dedup"), [HELD, HARM]),
            ]
        )
    )
    assert found["ok"] is False
    assert found["totals"] | {"deliberate": None} == {
        "scripts": 2, "passed": 1, "failed": 1, "safety_failures": 1, "conversion_failures": 0,
        "unexpected": ["ld-02"], "deliberate": None,
    }  # fmt: skip
    assert found["groups"] == {"loop_dedup": {"passed": 1, "total": 2}}
    assert found["scripts"]["ld-01"]["failed_checks"] == []
    assert found["scripts"]["ld-02"]["failed_checks"] == [
        {
            "step": 2,
            "check": "executed",
            "class": "safety",
            "told": "executed nothing, found <all>",
            "run": "pipeline",
        }
    ]
    assert (found["commit"], found["prompt_version"], found["date"]) == (
        "abc1234",
        2,
        "2026-12-03T10:00:00+00:00",
    )


def test_what_must_fail_is_counted_and_named() -> None:
    of = report(
        pipeline=[tries(loaded()), tries(loaded("fail-01", must_fail=["pending"]), [DETOUR])], replay=True
    )
    found = told(of)
    assert of.ok
    assert found["totals"]["passed"] == 1
    assert found["totals"]["failed"] == 1
    assert found["totals"]["unexpected"] == []
    assert found["totals"]["deliberate"] == {"scripts": 1, "failed": ["fail-01"], "passed": []}
    assert found["totals"]["conversion_failures"] == 0
    assert found["groups"] == {"booking": {"passed": 1, "total": 1}}
    assert found["models"] == []


@pytest.mark.parametrize(
    "findings", [[HELD], [HARM], [DETOUR, HARM]], ids=["it passes", "by another check", "by one more"]
)
def test_what_must_fail_and_does_not_so_fails_the_run(findings: list[Finding]) -> None:
    of = report(pipeline=[tries(loaded("fail-01", must_fail=["pending"]), findings)], replay=True)
    assert not of.ok
    assert told(of)["totals"]["deliberate"] == {"scripts": 1, "failed": [], "passed": ["fail-01"]}
    assert told(of)["totals"]["unexpected"] == ["fail-01"]


def test_a_script_passes_when_it_passed_each_time() -> None:
    of = report(pipeline=[tries(loaded("ld-01", "loop_dedup"), [HELD], [DETOUR], [HELD])], repeat=3)
    assert not of.ok
    assert told(of)["scripts"]["ld-01"]["plays"] == 3
    assert told(of)["groups"] == {"loop_dedup": {"passed": 0, "total": 1}}


def test_a_model_s_row() -> None:
    calls = [called(latency) for latency in range(1, 101)]
    run = Run(
        name="openai:gpt-x", tries=[tries(loaded(), calls=calls), tries(loaded("cn-01", "cancel"), [DETOUR])]
    )
    (row,) = told(report(run))["models"]
    assert row["groups"] == {"booking": {"passed": 1, "total": 1}, "cancel": {"passed": 0, "total": 1}}
    assert row["overall"] == {"passed": 1, "total": 2}
    assert (row["safety_failures"], row["conversion_failures"], row["calls"]) == (0, 1, 100)
    assert (row["p50_ms"], row["p95_ms"], row["cost_usd"]) == (50, 95, "0.1")
    assert row["answered_as"] == ["gpt-x-2026"]


def test_a_cost_that_is_not_known_is_not_nought() -> None:
    run = Run(name="openai:gpt-x", tries=[tries(loaded(), calls=[called(), called(cost=None)])])
    assert told(report(run))["models"][0]["cost_usd"] is None


def test_a_model_without_a_key_is_skipped_and_fails_nothing() -> None:
    of = report(Run(name="gemini:x", skipped="LLM=gemini:x needs GEMINI_API_KEY"), pipeline=[tries(loaded())])
    assert of.ok
    assert told(of)["models"][0]["skipped"] == "LLM=gemini:x needs GEMINI_API_KEY"


def test_a_run_in_which_nothing_was_played_is_no_success() -> None:
    assert not report(Run(name="gemini:x", skipped="LLM=gemini:x needs GEMINI_API_KEY")).ok


def test_junit_has_a_suite_a_run_and_a_case_a_script() -> None:
    of = report(
        Run(name="mock", tries=[tries(loaded(), [HARM])]),
        Run(name="gemini:x", skipped="needs GEMINI_API_KEY"),
        pipeline=[
            tries(loaded("ld-01", "loop_dedup")),
            tries(loaded("fail-01", must_fail=["pending"]), [DETOUR]),
        ],
    )
    root = ET.fromstring(as_junit(of))
    suites = {suite.get("name"): suite for suite in root}
    assert set(suites) == {"mock", "gemini:x", "pipeline"}
    failed = suites["mock"].find("testcase/failure")
    assert failed is not None
    assert (failed.get("type"), suites["mock"].get("failures")) == ("safety", "1")
    assert "step 2, executed (safety): executed nothing, found <all>" in (failed.text or "")
    assert suites["gemini:x"].find("testcase/skipped") is not None
    assert suites["pipeline"].get("failures") == "0"
    assert [case.get("name") for case in suites["pipeline"]] == ["ld-01", "fail-01"]


# Tables


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Shows a report, and gives its text."""

    def show(of: Report) -> str:
        to = io.StringIO()
        monkeypatch.setattr(tables, "console", Console(file=to, width=200, highlight=False))
        monkeypatch.setattr(tables, "Console", lambda **more: Console(file=to, **more))
        tables.show(of, HEADING)
        return to.getvalue()

    return show


def test_a_replay_s_figures_are_never_a_model_s(shown: Any) -> None:
    text = shown(
        report(
            pipeline=[tries(loaded()), tries(loaded("fail-01", must_fail=["pending"]), [DETOUR])], replay=True
        )
    )
    assert "Replay of stored answers (no model was asked)" in text
    assert "Model behaviour" not in text
    assert "Failed, as they must (deliberate): fail-01." in text
    assert "1 of 1 scripts passed." in text


def test_both_tables_with_their_headings(shown: Any) -> None:
    run = Run(name="openai:gpt-x", tries=[tries(loaded(), [HARM], calls=[called()])])
    skipped = Run(name="gemini:x", skipped="LLM=gemini:x needs GEMINI_API_KEY; set it.")
    text = shown(report(run, skipped, pipeline=[tries(loaded("ld-01", "loop_dedup"))]))
    assert "Model behaviour  2026-12-03 · commit abc1234 · prompt 2 · tool_loop" in text
    assert "gpt-x-2026" in text
    assert "gemini:x was skipped: LLM=gemini:x needs GEMINI_API_KEY" in text
    assert "Pipeline guarantees" in text
    assert "✗ bk-01 (openai:gpt-x)" in text
    assert "step 2 executed (safety) executed nothing, found <all>" in text
    assert "1 of 2 scripts passed. 1 failed check of safety." in text
    pipeline = text.split("Pipeline guarantees")[1].split("✗")[0]
    assert "gpt" not in pipeline
    assert "mock" not in pipeline


# What is chosen

ALL = [
    loaded(), loaded("cn-01", "cancel", answers=False), loaded("ld-01", "loop_dedup"),
    loaded("fail-01", must_fail=["pending"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("choice", "ids"),
    [
        (Choice(), ["bk-01", "cn-01", "ld-01"]),
        (Choice(replay=True), ["bk-01", "fail-01", "ld-01"]),
        (Choice(groups=["cancel"]), ["cn-01"]),
        (Choice(cases=["ld-01", "bk-01"]), ["bk-01", "ld-01"]),
    ],
)
def test_what_is_chosen(choice: Choice, ids: list[str]) -> None:
    assert [one.script.id for one in choice.of(ALL)] == ids


@pytest.mark.parametrize(
    ("choice", "what"),
    [
        (Choice(cases=["bk-99"]), "There is no script bk-99"),
        (Choice(groups=["party"]), "There is no group party"),
        (Choice(packs=["bakery"]), "There is no pack bakery"),
        (Choice(replay=True, cases=["cn-01"]), "No script is chosen"),
    ],
)
def test_a_choice_of_nothing_is_told(choice: Choice, what: str) -> None:
    with pytest.raises(BadScript, match=what):
        choice.of(ALL)
