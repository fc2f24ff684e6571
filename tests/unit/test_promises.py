"""Every promise in docs/promises.md names tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`")
ROWS = [line for line in TABLE.splitlines() if line.startswith("| ") and not line.startswith("| promise")]


def test_there_are_promises() -> None:
    assert len(ROWS) > 50


@pytest.mark.parametrize("row", ROWS, ids=[row.split("|")[1].strip()[:60] for row in ROWS])
def test_a_promise_names_tests_that_exist(row: str) -> None:
    named = NAMED.findall(row)
    assert named, "a promise without a test"
    for file, test in named:
        path = ROOT / file
        assert path.is_file(), f"{file} is not there"
        if test:
            assert re.search(rf"^\s*(async )?def {test}\b", path.read_text(encoding="utf-8"), re.MULTILINE), (
                f"{file} has no {test}"
            )
