"""docs/field-cases.md: every case of its areas has a line, and every test named there exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
LATER = re.compile(r"^(next issue|market): \S.+$")
LINES = (ROOT / "docs" / "field-cases.md").read_text(encoding="utf-8").splitlines()
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in LINES if re.match(r"\| [A-Z]{3}-\d", line)]  # fmt: skip
CASES = {
    "DUP": [1, 3, 4, 7, 9, 11, 12, 13, 14],
    "SHP": [1, 3, 5, 6, 8, 10, 11, 12, 14, 16, 17, 18, 19, 20],
    "SIG": [1, 2, 4, 5, 8, 9],
    "CNF": [1, 2, 3, 4, 5, 6, 9, 11, 13, 15, 17, 18, 21, 24, 25],
    "BUR": [1, 3, 5, 7, 8],
    "IDN": [1, 2, 5, 7, 8, 9],
    "LLM": [1, 3, 4, 5, 7, 10, 13, 14, 15, 17, 18, 20, 21, 23, 25, 26, 27, 28],
    "TIM": [1, 3, 6, 8, 9, 10, 11, 12, 13, 17],
    "PCK": [1, 4, 5, 6, 8],
    "ECH": [1, 3, 4, 5, 8, 10],
    "OPT": [1, 3, 4, 5, 8, 9],
    "SND": [1, 3, 4, 6, 7, 8, 9, 11, 12, 13, 17, 19, 20, 23],
    "OPS": [1, 3, 5, 6, 7, 10],
}


def test_every_case_has_one_line() -> None:
    assert [row[0] for row in ROWS] == [f"{area}-{n:02}" for area, numbers in CASES.items() for n in numbers]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_case_names_tests_that_exist_or_says_what_it_waits_for(row: list[str]) -> None:
    case, about, where = row
    assert about, f"{case} does not say what it is about"
    named = NAMED.findall(where)
    assert named or LATER.match(where), f"{case} has no test, and says not why"
    for file, test in named:
        path = ROOT / file
        assert path.is_file(), f"{file} is not there"
        found = re.search(rf"^\s*(async )?def {test}\b", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert found, f"{file} has no {test}"
