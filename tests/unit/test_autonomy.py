"""The two dials as tables: what a level says to a risk, and which of several modes holds."""

from itertools import product
from typing import Any

import pytest

from shared.autonomy import DEFAULT_LEVEL, Mode, Risk, Ruling, decide, strictest

TABLE = """
risk          0     1     2     3     4
read          allow allow allow allow allow
write         deny  deny  ask   allow allow
irreversible  deny  deny  ask   ask   allow
"""  # as it stands in the specification

CELLS = [
    (Risk(risk), level, Ruling(says))
    for risk, *row in (line.split() for line in TABLE.split("\n")[2:-1])
    for level, says in enumerate(row)
]


@pytest.mark.parametrize(("risk", "level", "says"), CELLS)
def test_a_level_says_to_a_risk(risk: Risk, level: int, says: Ruling) -> None:
    assert decide(level, risk) is says


def test_the_table_has_every_risk_and_level() -> None:
    assert {(risk, level) for risk, level, _ in CELLS} == set(product(Risk, range(5)))


@pytest.mark.parametrize("level", range(5))
def test_a_tool_without_a_class_is_irreversible(level: int) -> None:
    assert decide(level, None) is decide(level, Risk.IRREVERSIBLE)


@pytest.mark.parametrize("level", [5, -1, 99, None, True, False, "2", "", 2.0, b"2", [2], object()])
def test_a_level_that_can_t_be_read_is_shut_even_for_reads(level: Any) -> None:
    for risk in (*Risk, None):
        assert decide(level, risk) is Ruling.DENY


def test_who_says_nothing_is_at_2_and_is_asked() -> None:
    assert decide(DEFAULT_LEVEL, Risk.WRITE) is Ruling.ASK
    assert decide(DEFAULT_LEVEL, None) is Ruling.ASK


STRICTNESS = (Mode.OFF, Mode.SUGGEST, Mode.AUTO)


def test_the_strictest_mode_that_is_set_wins() -> None:
    for modes in product((*Mode, None), repeat=3):
        set_ = [mode for mode in modes if mode is not None]
        expected = next((mode for mode in STRICTNESS if mode in set_), Mode.SUGGEST)
        assert strictest(*modes) is expected, modes


def test_where_no_mode_is_set_a_person_looks() -> None:
    assert strictest() is Mode.SUGGEST
    assert strictest(None, None) is Mode.SUGGEST
