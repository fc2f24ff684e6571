"""Dashboards, alerts and runbooks hold together: every metric and label is one that somebody exports, every panel can be read,
every alert has its page, and every command that a page names is one of ours."""

import json
import re
import shlex
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import typer
from ruamel.yaml import YAML

from leeway.cli import app
from ops.grafana.__main__ import written
from ops.grafana.as_json import DATASOURCE
from services.ingest.watching import ALWAYS, SHOWN
from shared.telemetry.metrics import catalogue
from shared.telemetry.metrics.looking import LOOKED, OWED_AGE
from tests.support.queries import (
    DASHBOARDS,
    OPS,
    Asked,
    Selector,
    dashboards,
    grouped_by,
    named_in,
    panel_queries,
    panels,
    rule_queries,
    rules,
    selectors,
)

COLUMNS = 24
UNITS = {"s", "bytes", "none", "short", "cps", "reqps", "percentunit", "currencyUSD"}
EXPORTERS = json.loads((Path(__file__).parents[1] / "data" / "exporters.json").read_text(encoding="utf-8"))
# What Prometheus adds to everything that it scrapes, and to buckets; and the process that prometheus_client shows.
TARGET = {"job", "instance"}
SCRAPED = {
    "up": set[str](),
    "process_cpu_seconds_total": set[str](),
    "process_resident_memory_bytes": set[str](),
}
RUNBOOKS = OPS / "runbooks"
QUERIES = [*panel_queries(), *rule_queries()]


def exported() -> dict[str, set[str]]:
    """Every series that a query may name, with its labels."""
    known = dict(SCRAPED)
    for metric in catalogue():
        labels = set(metric.label_names)
        if metric.kind == "histogram":
            known |= {
                f"{metric.name}_sum": labels,
                f"{metric.name}_count": labels,
                f"{metric.name}_bucket": labels | {"le"},
            }
        else:
            known[metric.name] = labels
    for exporter in EXPORTERS.values():
        known |= {name: set(labels) for name, labels in exporter["metrics"].items()}
    return known


EXPORTED = exported()
VALUES = {
    (metric.name, label.name): set(map(str, label.values))
    for metric in catalogue()
    for label in metric.labels
    if label.values is not None
}


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.where)
def test_a_query_names_metrics_and_labels_that_there_are(query: Asked) -> None:
    found = list(selectors(query.expr))
    assert found, query.expr
    labels = set(TARGET)
    for selector in found:
        assert selector.metric in EXPORTED, f"nobody exports {selector.metric}"
        labels |= EXPORTED[selector.metric]
        _check_matchers(selector)
    assert grouped_by(query.expr) <= labels
    assert named_in(query.legend) <= labels


def _check_matchers(selector: Selector) -> None:
    for name, how, value in selector.matchers:
        assert name in EXPORTED[selector.metric] | TARGET, f"{selector.metric} has no label {name}"
        known = VALUES.get((re.sub(r"_(sum|count|bucket)$", "", selector.metric), name))
        if known is None or value.startswith("$"):
            continue
        hits = {one for one in known if re.fullmatch(value, one)} if "~" in how else {value} & known
        assert hits or not value, f"{selector.metric}: {name} is never {value}"
        for alternative in value.split("|") if how == "=~" else ():
            assert any(re.fullmatch(alternative, one) for one in known), f"{name} is never {alternative}"


@pytest.mark.parametrize("query", panel_queries(), ids=lambda query: query.where)
def test_a_query_is_filtered_by_each_variable_that_its_metrics_have(query: Asked) -> None:
    (dashboard,) = [one for one in dashboards().values() if query.where.startswith(f"{one['title']} / ")]
    for variable in (one["name"] for one in dashboard["templating"]["list"]):
        able = [selector for selector in selectors(query.expr) if variable in EXPORTED[selector.metric]]
        chosen = [one for one in able if (variable, "=~", f"${variable}") in one.matchers]
        assert chosen == able or (variable != "business" and "Cost of an answered" in query.where)
    assert query.variables <= {one["name"] for one in dashboard["templating"]["list"]}


def test_a_gauge_that_every_ingest_shows_is_never_summed_over_them() -> None:
    looked = {metric.name for metric in catalogue() if metric.name in _looked()}
    assert len(looked) > 5
    for query in QUERIES:
        for selector in selectors(query.expr):
            if selector.metric in looked and "absent(" not in query.expr:
                greatest = rf"max(?: by \([\w, ]+\))? ?\((?:sum by \(instance\) \()?{selector.metric}"
                assert re.search(greatest, query.expr), query.where
                assert "sum(max" not in query.expr, f"{query.where}: `other` is not the same of each ingest"


def test_what_may_be_nothing_is_not_taken_for_nobody_s_look() -> None:
    """Of steps owed and of dead work ingest shows a 0; of the rest nothing, where nothing waits."""
    shows_zeros = {SHOWN[what][0].name for what in ALWAYS} | {OWED_AGE.name}
    for dashboard in dashboards().values():
        for panel in panels(dashboard):
            named = {one.metric for target in panel["targets"] for one in selectors(target["expr"])}
            if named & _looked():
                says = "nobody looked" if named <= shows_zeros else "none, or nobody looked"
                assert panel["fieldConfig"]["defaults"]["noValue"] == says, panel["title"]


def _looked() -> set[str]:
    return {metric.name for metric in LOOKED}


# Dashboards


def test_the_json_is_what_the_tables_make() -> None:
    on_disk = {path.name: path.read_text(encoding="utf-8") for path in DASHBOARDS.iterdir()}
    assert on_disk == written(), "run: .venv/bin/python -m ops.grafana"


@pytest.mark.parametrize("name", dashboards())
def test_a_dashboard_can_be_read_on_a_laptop(name: str) -> None:
    dashboard = dashboards()[name]
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    assert all(place["x"] >= 0 and place["x"] + place["w"] <= COLUMNS for place in places)
    for one, other in combinations(places, 2):
        assert not _overlap(one, other), (one, other)
    for top in {panel["gridPos"]["y"] for panel in panels(dashboard)}:
        assert len([panel for panel in panels(dashboard) if panel["gridPos"]["y"] == top]) <= 3
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    titles = [panel["title"] for panel in panels(dashboard)]
    assert len(set(titles)) == len(titles)


def _overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    return all(
        one[at] < other[at] + other[size] and other[at] < one[at] + one[size]
        for at, size in (("x", "w"), ("y", "h"))
    )


@pytest.mark.parametrize(
    "panel",
    [panel for one in dashboards().values() for panel in panels(one)],
    ids=lambda panel: panel["title"],
)
def test_a_panel_says_what_it_shows(panel: dict[str, Any]) -> None:
    assert panel["description"].endswith(".")
    assert "\n" not in panel["description"]
    defaults = panel["fieldConfig"]["defaults"]
    assert defaults["unit"] in UNITS
    assert defaults["noValue"]
    values = [step["value"] for step in defaults["thresholds"]["steps"]]
    assert values[0] is None
    assert values[1:] == sorted(values[1:])
    assert [target["refId"] for target in panel["targets"]] == sorted(
        {target["refId"] for target in panel["targets"]}
    )
    assert {json.dumps(target["datasource"]) for target in panel["targets"]} == {json.dumps(DATASOURCE)}


def test_one_number_is_never_divided_by_what_may_be_nothing() -> None:
    """Of nothing at all, as in a quiet night, it says that there is nothing, and not NaN."""
    quotients = [query for query in panel_queries() if query.at_once and " / " in query.expr]
    assert quotients
    for query in quotients:
        assert query.expr.endswith(" > 0)"), query.where


def test_the_four_dashboards_keep_their_addresses() -> None:
    assert [one["uid"] for one in dashboards().values()] == [
        "leeway-metering", "leeway-operations", "leeway-pipeline", "leeway-safety",
    ]  # fmt: skip


def test_they_ask_the_source_that_is_provisioned() -> None:
    reader = YAML(typ="safe")
    provisioning = OPS / "grafana" / "provisioning"
    sources = reader.load((provisioning / "datasources" / "prometheus.yml").read_text(encoding="utf-8"))
    assert [(one["uid"], one["type"]) for one in sources["datasources"]] == [
        (DATASOURCE["uid"], DATASOURCE["type"])
    ]
    config = reader.load((OPS / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
    intervals = [
        config["global"]["scrape_interval"],
        *(one.get("scrape_interval") for one in config["scrape_configs"]),
    ]
    longest = max(int(one.removesuffix("s")) for one in intervals if one)
    assert sources["datasources"][0]["jsonData"]["timeInterval"] == f"{longest}s"


# Alerts and runbooks


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_says_what_it_is_and_where_its_page_is(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning")
    notes = rule["annotations"]
    assert set(notes) == {"summary", "description", "runbook"}
    page = OPS.parent / notes["runbook"]
    assert page.parent == RUNBOOKS
    assert rule["alert"] in page.read_text(encoding="utf-8").splitlines()[2]


def test_every_alert_is_tested_both_ways() -> None:
    text = "\n".join(
        path.read_text(encoding="utf-8") for path in (OPS / "prometheus" / "tests").glob("*.yml")
    )
    for rule in rules():
        alert = rule["alert"]
        fires = re.search(rf'labels: .ALERTS{{alertname="{alert}"', text)
        silent = [
            line
            for line in text.splitlines()
            if re.search(r"^ *- \{expr: 'ALERTS", line) and _matches(line, alert)
        ]
        assert fires, f"{alert} never fires in a test"
        assert silent or alert in ("LeewayTargetDown",), f"{alert} is never silent in a test"


def _matches(line: str, alert: str) -> bool:
    found = re.search(r'alertname=~?"([^"]+)"', line)
    return found is not None and re.fullmatch(found[1], alert) is not None


def test_the_index_lists_every_page_and_every_alert() -> None:
    index = (RUNBOOKS / "README.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| (\w+) \| \[[^\]]+\]\(([\w-]+)\.md\) \|$", index, re.MULTILINE))
    assert {alert for alert, _ in listed} == {rule["alert"] for rule in rules()}
    assert {page for _, page in listed} == {path.stem for path in RUNBOOKS.glob("*.md")} - {"README"}


PAGES = sorted(RUNBOOKS.glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_commands_and_pages_that_there_are(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for linked in re.findall(r"\]\(([\w-]+\.md)\)", text):
        assert (RUNBOOKS / linked).is_file(), linked
    for command in commands(text):
        known(command)
    for panel in re.findall(r"(?<!\w)\*([A-Z][^*]+)\*", text):
        assert panel in TITLES, f"no panel is called {panel}"
    for variable in re.findall(r"LEEWAY_\w+", text):
        assert variable in SETTINGS, f"no setting is called {variable}"


TITLES = {panel["title"] for one in dashboards().values() for panel in panels(one)}
SETTINGS = set(re.findall(r"LEEWAY_\w+", (OPS.parent / ".env.example").read_text(encoding="utf-8")))


def commands(text: str) -> Iterator[list[str]]:
    for code in re.findall(r"`(leeway [^`]+)`", text):
        yield shlex.split(code)[1:]


def known(words: list[str]) -> None:
    """The words name a sub-command, with options that it has. Raises AssertionError for others."""
    command: Any = typer.main.get_command(app)
    rest = list(words)
    while hasattr(command, "commands") or hasattr(command, "list_commands"):
        assert rest, f"{words} is no whole command"
        found = command.get_command(None, rest[0])
        assert found is not None, f"there is no `leeway {' '.join(words)}`"
        command, rest = found, rest[1:]
    options = {name for parameter in command.params for name in parameter.opts}
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    given = [word for word in rest if word.startswith("--")]
    assert set(given) <= options, f"`leeway {' '.join(words)}`: {set(given) - options}"
    values = [rest[rest.index(word) + 1] for word in given if _takes_value(command, word)]
    named = [word for word in rest if not word.startswith("--") and word not in values]
    assert len([one for one in arguments if one.required]) <= len(named) <= len(arguments), words


def _takes_value(command: Any, option: str) -> bool:
    return any(option in parameter.opts and not parameter.is_flag for parameter in command.params)


@pytest.mark.parametrize(
    "words", ["leeway dead bury ID", "leeway drafts list --loud", "leeway handoffs", "leeway channel test"]
)
def test_a_command_that_there_is_not_is_noticed(words: str) -> None:
    with pytest.raises(AssertionError):
        known(words.split()[1:])
