"""`.ci/run` in a repository of stand-ins: whatever fails, it fails, and runs the rest all the same."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STEPS = ["make check", "make test", "make adversarial", "pytest"]
BUILD = "docker build"


class Ci:
    """A copy of it, whose programs only note that they were called, and fail where the test says."""

    def __init__(self, directory: Path) -> None:
        self._home = directory / "main"
        self._programs = directory / "programs"
        self._called = directory / "called"
        (self._home / ".ci").mkdir(parents=True)
        shutil.copy(ROOT / ".ci" / "run", self._home / ".ci" / "run")
        for program in ("make", "docker"):
            self.program(self._programs / program)
        self.program(self._home / ".venv" / "bin" / "pytest")

    def program(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f'#!/bin/sh\necho "{path.name} $*" >> {self._called}\n'
            f'case "{path.name} $*" in "${{FAILS:-nothing}}"*) exit 1 ;; esac\n'
        )
        path.chmod(0o755)

    def engine(self) -> None:
        self.program(self._home.parent / "shared" / "containers" / "setup")

    def run(self, *, fails: str = "") -> tuple[int, str, list[str]]:
        """Exit code, what it said, what it called."""
        ended = subprocess.run(
            [str(self._home / ".ci" / "run")],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": f"{self._programs}:{os.environ['PATH']}", "FAILS": fails},  # noqa: TID251  a child's, not ours
        )
        return ended.returncode, ended.stdout, self._called.read_text().splitlines()


@pytest.fixture
def ci(tmp_path: Path) -> Ci:
    return Ci(tmp_path)


@pytest.mark.parametrize("fails", STEPS)
def test_a_step_that_fails_fails_it_and_the_rest_runs(fails: str, ci: Ci) -> None:
    code, said, called = ci.run(fails=fails)
    assert code == 1
    assert "=== FAILED: " in said
    assert [one for step in STEPS for one in called if one.startswith(step)] == called


def test_without_an_engine_it_says_so_and_nothing_asks_for_containers(ci: Ci) -> None:
    code, said, called = ci.run()
    assert code == 0
    assert "=== NO CONTAINERS: " in said
    assert not [one for one in called if one.startswith("docker")]


def test_with_an_engine_an_image_that_can_not_be_built_is_a_failure(ci: Ci) -> None:
    ci.engine()
    assert ci.run()[0] == 0
    code, said, _ = ci.run(fails=BUILD)
    assert code == 1
    assert f"=== FAILED: {BUILD}" in said
    assert "NO CONTAINERS" not in said
