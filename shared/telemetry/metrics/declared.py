"""How a metric is declared: its name, what it says, in which unit, by which labels, and which services show it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Generic, Literal, Self, TypeVar, overload

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

Kind = Literal["counter", "gauge", "histogram"]

# The services' names, as in `leeway run`.
INGEST: Final = ("ingest",)
GUARD: Final = ("guard",)
AGENT: Final = ("agent",)
DISPATCH: Final = ("dispatch",)
FED: Final = (*GUARD, *AGENT, *DISPATCH)  # by a queue
WORKERS: Final = (*AGENT, *DISPATCH)
STAGES: Final = (*INGEST, *FED)
ALL: Final = (*STAGES, "console")


@dataclass(frozen=True, slots=True)
class Label:
    """A label and the values it may have. `values` None: not known beforehand, and `bound` says why there are few."""

    name: str
    values: tuple[str, ...] | None = None
    bound: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """One metric, whichever process makes it."""

    kind: Kind
    name: str
    meaning: str
    unit: str
    labels: tuple[Label, ...]
    of: tuple[str, ...]
    buckets: tuple[float, ...] = ()

    @property
    def label_names(self) -> list[str]:
        return [label.name for label in self.labels]


Made = TypeVar("Made", Counter, Gauge, Histogram)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric(Generic[Made]):
    """A declaration as an attribute of `Metrics`. Of an instance it is the metric itself, which the instance made."""

    declared: Declared
    make: Callable[[CollectorRegistry], Made] = field(repr=False)

    @overload
    def __get__(self, metrics: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, metrics: object, owner: type[Any]) -> Made: ...
    def __get__(self, metrics: object | None, owner: type[Any]) -> Any:
        """Of an instance only until it has made its own, which is found first."""
        return self


def counter(name: str, meaning: str, *labels: Label, unit: str, of: tuple[str, ...]) -> Metric[Counter]:
    """Something that happened, counted. The name ends in `_total`."""
    declared = Declared(kind="counter", name=name, meaning=meaning, unit=unit, labels=labels, of=of)
    return Metric(
        declared=declared,
        make=lambda registry: _labelled(Counter(name, meaning, declared.label_names, registry=registry)),
    )


def gauge(name: str, meaning: str, *labels: Label, unit: str, of: tuple[str, ...]) -> Metric[Gauge]:
    """Something as it is now."""
    declared = Declared(kind="gauge", name=name, meaning=meaning, unit=unit, labels=labels, of=of)
    return Metric(
        declared=declared,
        make=lambda registry: _labelled(Gauge(name, meaning, declared.label_names, registry=registry)),
    )


def histogram(
    name: str, meaning: str, *labels: Label, unit: str, of: tuple[str, ...], buckets: tuple[float, ...]
) -> Metric[Histogram]:
    """Something measured again and again, sorted into `buckets`."""
    declared = Declared(
        kind="histogram", name=name, meaning=meaning, unit=unit, labels=labels, of=of, buckets=buckets
    )
    return Metric(
        declared=declared,
        make=lambda registry: _labelled(
            Histogram(name, meaning, declared.label_names, buckets=buckets, registry=registry)
        ),
    )


def looked(name: str, meaning: str, *labels: Label, unit: str) -> Declared:
    """What is read from the record now and then, by ingest alone: see `shared.telemetry.metrics.looking`."""
    return Declared(kind="gauge", name=name, meaning=meaning, unit=unit, labels=labels, of=INGEST)


def _labelled(metric: Made) -> Made:
    """Labels are bounded, and looking one up takes a lock: each is looked up once."""
    vars(metric)["labels"] = cache(metric.labels)
    return metric
