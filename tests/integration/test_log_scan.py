"""The scan of a whole run's logs, tried on runs that log what they must not."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.log_scan import TEXT_CHARS_MIN, Leak, _forms, report, scan

ROOT = Path(__file__).parents[2]
TEXT = "a table for seven, please"

# Runs of their own below ours: what they log is planted, and must not be found in ours.
LOGGED = """structlog.get_logger().info("heard", said="A TABLE FOR SEVEN")"""
TOLD = """told("heard: a table for seven, please")"""
NUMBERED = """told("asked by +40700000001")"""
ESCAPED = """told(json.dumps({"said": "o masă de șapte persoane"}))"""
HARMLESS = """told("7 tickets for 019ae2c8-1234-7abc-8def-001122334455")"""
PROGRAM = """
import json
from pathlib import Path
import pytest, structlog
from tests.support.log_scan import keep, learn

def told(line):
    log = Path(__file__).with_name("guard0.log")
    with log.open("a") as file:
        file.write(line + "\\n")
    keep(log)

def test_it():
    learn(["a table for seven, please", "A TABLE FOR SEVEN", "o masă de șapte persoane"])
"""


def run(directory: Path, *does: str, workers: int = 0) -> subprocess.CompletedProcess[str]:
    test = directory / "test_planted.py"
    test.write_text(PROGRAM + "".join(f"    {one}\n" for one in does), encoding="utf-8")
    own = ("PYTEST_", "LEEWAY_TEST_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(own)}  # noqa: TID251  for a child
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-c", ROOT / "pyproject.toml", "-n", str(workers), test],
        cwd=ROOT, env=environment | {"LEEWAY_TEST_SERVERS": "local", "TMPDIR": str(directory)}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_run_fails_for_what_its_tests_and_its_services_log_in_whatever_form(tmp_path: Path) -> None:
    done = run(tmp_path, LOGGED, TOLD, NUMBERED, ESCAPED, workers=1)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert "logs of this run hold what people said or who they are, 4 times" in done.stdout
    assert len(re.findall(r"^tests-\d+\.log, line 1: A TA", done.stdout, re.MULTILINE)) == 1
    assert set(re.findall(r"^guard0-\d+\.log, line (\d): ", done.stdout, re.MULTILINE)) == {"1", "2", "3"}


def test_it_does_not_repeat_what_it_found_and_keeps_the_logs_to_look_at(tmp_path: Path) -> None:
    done = run(tmp_path, TOLD)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    assert TEXT not in done.stdout
    assert [TEXT in log.read_text() for log in tmp_path.glob("leeway-test-logs-*/guard0-*.log")] == [True]


def test_a_run_that_logs_ids_and_counts_passes_and_leaves_nothing_behind(tmp_path: Path) -> None:
    done = run(tmp_path, HARMLESS)
    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
    assert not list(tmp_path.glob("leeway-test-logs-*"))


def test_what_is_too_ordinary_to_tell_is_not_looked_for() -> None:
    assert not list(_forms("yes"))
    assert not list(_forms("m-0123"))
    assert not list(_forms("demo-clinic"))
    assert list(_forms("Ana")) == ["Ana", "Ana"]
    assert len(TEXT) >= TEXT_CHARS_MIN
    assert set(_forms(f"{TEXT}\nyes\nși apoi încă o masă")) == {
        TEXT,
        "și apoi încă o masă",
        r"\u0219i apoi \u00eenc\u0103 o mas\u0103",
    }


def test_a_finding_names_the_place_and_not_the_words(tmp_path: Path) -> None:
    (tmp_path / "tests-1.words").write_text(f"{TEXT}\n")
    (tmp_path / "guard0-7.log").write_text(f'first line\n{{"event": "x", "said": "{TEXT}"}}\n')
    assert scan(tmp_path) == [Leak(file="guard0-7.log", line=2, what=TEXT)]
    assert report(scan(tmp_path))[1] == "guard0-7.log, line 2: a ta… (25 characters)"
