"""Every query that a dashboard or a rule asks Prometheus, and what it is made of."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

OPS: Final = Path(__file__).parents[2] / "ops"
DASHBOARDS: Final = OPS / "grafana" / "dashboards"
RULES: Final = OPS / "prometheus" / "rules"
EVERYTHING: Final = ".*"  # what Grafana puts in a variable's place for All, by the variable's allValue

# A name with or without its matchers; what follows `by`, `on` and a bracket of a function is none of these.
_SELECTOR: Final = re.compile(r"\b(up|(?:leeway|rabbitmq|pg|process)_\w+)(\{[^}]*\})?")
_MATCHER: Final = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')
_GROUPING: Final = re.compile(r"\b(?:by|on|without)\s*\(([^)]*)\)")
_LEGEND: Final = re.compile(r"\{\{\s*(\w+)\s*\}\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One query, and where it stands."""

    where: str
    expr: str
    legend: str = ""
    at_once: bool = False  # a number, asked at the end of the range; else a line over it

    @property
    def variables(self) -> set[str]:
        return set(re.findall(r"\$(\w+)", self.expr)) - {"__rate_interval", "__range"}

    def filled(self, *, rates_over: str, whole: str, **values: str) -> str:
        """As Grafana sends it; a variable that is not named is All."""
        text = self.expr.replace("$__rate_interval", rates_over).replace("$__range", whole)
        for variable in self.variables:
            text = text.replace(f"${variable}", values.get(variable, EVERYTHING))
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """A metric as a query picks it out."""

    text: str
    metric: str
    matchers: tuple[tuple[str, str, str], ...]


def dashboards() -> dict[str, dict[str, Any]]:
    """By file name."""
    return {
        path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(DASHBOARDS.glob("*.json"))
    }


def panels(dashboard: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Without the headings."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def panel_queries() -> list[Asked]:
    return [
        Asked(
            where=f"{dashboard['title']} / {panel['title']} / {target['refId']}",
            expr=target["expr"],
            legend=target["legendFormat"],
            at_once=target["instant"],
        )
        for dashboard in dashboards().values()
        for panel in panels(dashboard)
        for target in panel["targets"]
    ]


def rules() -> list[dict[str, Any]]:
    """Every alert of every file."""
    reader = YAML(typ="safe")
    return [
        rule
        for path in sorted(RULES.glob("*.yml"))
        for group in reader.load(path.read_text(encoding="utf-8"))["groups"]
        for rule in group["rules"]
    ]


def rule_queries() -> list[Asked]:
    return [Asked(where=rule["alert"], expr=rule["expr"], at_once=True) for rule in rules()]


def selectors(expr: str) -> Iterator[Selector]:
    for found in _SELECTOR.finditer(_GROUPING.sub("", expr)):
        yield Selector(
            text=found[0],
            metric=found[1],
            matchers=tuple((name, how, value) for name, how, value in _MATCHER.findall(found[2] or "")),
        )


def grouped_by(expr: str) -> set[str]:
    return {label.strip() for group in _GROUPING.findall(expr) for label in group.split(",")}


def named_in(legend: str) -> set[str]:
    return set(_LEGEND.findall(legend))
