"""Grafana's own model of a dashboard keeps all that ours say: no field is misspelt, misplaced or of another kind."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from tests.oracles.asking import Judge
from tests.support.queries import dashboards


def lost(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Where what we wrote is not what was read."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            yield from lost(value, theirs[key], f"{path}/{key}") if key in theirs else [f"{path}/{key}"]
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for n, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from lost(one, other, f"{path}/{n}")
    elif ours != theirs:
        yield path


@pytest.mark.parametrize("name", dashboards())
def test_grafana_reads_all_of_a_dashboard(judge: Judge, name: str) -> None:
    dashboard = dashboards()[name]
    assert list(lost(dashboard, judge.ask("grafana_dashboard", dashboard=dashboard))) == []


@pytest.mark.parametrize(
    ("place", "key"),
    [
        ("", "schemaVersoin"),
        ("gridPos", "hight"),
        ("fieldConfig/defaults", "units"),
        ("options/legend", "place"),
        ("targets/0", "exprs"),
    ],
)
def test_a_field_that_grafana_does_not_know_is_noticed(judge: Judge, place: str, key: str) -> None:
    dashboard = copy.deepcopy(dashboards()["leeway-pipeline.json"])
    (at,) = [
        n for n, panel in enumerate(dashboard["panels"]) if panel["title"] == "Messages, turns and sends"
    ]
    found: Any = dashboard["panels"][at]
    for step in place.split("/") if place else ():
        found = found[int(step)] if isinstance(found, list) else found[step]
    found[key] = "x"
    read = judge.ask("grafana_dashboard", dashboard=dashboard)
    assert f"{f'/panels/{at}/{place}'.rstrip('/')}/{key}" in list(lost(dashboard, read))
