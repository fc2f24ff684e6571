"""`leeway eval`: what is wrong on its line, or in a script, ends it with one sentence and 2, before anything is started."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from leeway.cli import app

RUNNER = CliRunner(env={"COLUMNS": "200", "LLM": "mock", "EVAL_CASES": "", "EVAL_TRACE": ""})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--engine", "planner"], "only tool_loop can be evaluated so far"),
        (["--models", "nobody:x"], "LLM accepts mock"),
        (["--models", "mock", "--replay"], "a replay asks no model"),
        (["--case", "bk-99"], "There is no script bk-99; there are"),
        (["--group", "party"], "There is no group party"),
        (["--pack", "bakery"], "There is no pack bakery"),
        (["--repeat", "0"], "repeat"),
        (["--dir", "/nowhere"], "/nowhere is no folder"),
    ],
)
def test_a_wrong_line_is_told(words: list[str], said: str) -> None:
    ended = RUNNER.invoke(app, ["eval", *words])
    assert ended.exit_code == 2
    assert said in " ".join(ended.output.split())


def test_a_wrong_script_is_told_by_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "t-01.yaml").write_text("id: t-01\ntitle: x\ngroup: test\nsteps:\n  - shout: Hello\n")
    ended = RUNNER.invoke(app, ["eval", "--dir", str(tmp_path)])
    assert ended.exit_code == 2
    assert f"{tmp_path}/t-01.yaml:5: steps.0.shout: Extra inputs are not permitted." in ended.output
    assert len(ended.output.strip().splitlines()) == 1


def test_cases_may_come_from_the_environment() -> None:
    ended = RUNNER.invoke(app, ["eval"], env={"EVAL_CASES": "bk-99"})
    assert ended.exit_code == 2
    assert "There is no script bk-99" in ended.output
