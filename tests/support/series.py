"""What a process shows at /metrics, read as Prometheus would, and held against the catalogue."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from shared.telemetry.metrics import catalogue
from shared.telemetry.metrics.declared import Declared

DECLARED: Final[Mapping[str, Declared]] = {metric.name: metric for metric in catalogue()}
SUFFIXES: Final = ("_bucket", "_count", "_sum")
PERSONAL: Final = re.compile(r"\d{5}|[0-9a-f]{8}-[0-9a-f]{4}|@|\s")  # numbers, ids, addresses, words


@dataclass(frozen=True, slots=True)
class Series:
    """One sample: its name, its labels, its value."""

    name: str
    labels: frozenset[tuple[str, str]]
    value: float

    @property
    def metric(self) -> str:
        """The name of the metric that it is of."""
        for suffix in SUFFIXES:
            plain = self.name.removesuffix(suffix)
            if plain != self.name and plain in DECLARED:
                return plain
        return self.name

    @property
    def only_grows(self) -> bool:
        metric = DECLARED.get(self.metric)
        return metric is not None and metric.kind != "gauge"


def series_of(shown: str) -> list[Series]:
    """All of a text in Prometheus's format."""
    return [
        Series(sample.name, frozenset(sample.labels.items()), sample.value)
        for family in text_string_to_metric_families(shown)
        for sample in family.samples
    ]


def total(series: Iterable[Series], name: str, **labels: str) -> float:
    """The sum over all that have these labels."""
    wanted = set(labels.items())
    return sum(one.value for one in series if one.name == name and wanted <= one.labels)


def strays(series: Iterable[Series], *, slugs: Iterable[str], models: Iterable[str]) -> list[str]:
    """What is not as the catalogue says: of ours undeclared, with other labels, with a value that no list has or that looks
    like somebody's. `slugs` of the businesses and `models` (providers too) are the values that no list can have."""
    open_ended = {"business": {*slugs, "other"}, "provider": {*models}, "model": {*models}}
    return [
        problem for one in series if one.name.startswith("leeway_") for problem in _strays(one, open_ended)
    ]


def _strays(one: Series, open_ended: Mapping[str, set[str]]) -> Iterator[str]:
    metric = DECLARED.get(one.metric)
    if metric is None:
        yield f"{one.name} is not declared"
        return
    labels = {name: value for name, value in one.labels if name != "le"}
    if set(labels) != set(metric.label_names):
        yield f"{one.name} has the labels {sorted(labels)}"
        return
    for label in metric.labels:
        value = labels[label.name]
        listed = open_ended.get(label.name, set()) if label.values is None else set(label.values)
        if label.name == "version":
            continue
        if value not in listed:
            yield f"{one.name} has {label.name}={value!r}"
        elif PERSONAL.search(value):
            yield f"{one.name} has {label.name}={value!r}, which looks like somebody's"
