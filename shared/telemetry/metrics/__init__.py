"""Every metric of the product, declared once: what it counts, in which unit, by which bounded labels, of which services.

`labels` holds every label's values, `pipeline`, `models` and `running` what a process counts, `looking` what is read from
the record. docs/metrics.md is made of these declarations.
"""

import re
from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics
from prometheus_client.platform_collector import PlatformCollector

from shared.channels.traits import ChannelName
from shared.telemetry.metrics.declared import Declared, Label, Metric
from shared.telemetry.metrics.labels import (
    ALONE,
    BATCH,
    BUSINESS,
    BUSINESSES_MAX,
    GATE_CODES,
    ITERATIONS,
    OTHER,
    REFUSED_BY_TOOL,
    UNKNOWN,
)
from shared.telemetry.metrics.looking import LOOKED
from shared.telemetry.metrics.models import Models
from shared.telemetry.metrics.pipeline import Pipeline
from shared.telemetry.metrics.running import Carrying, Running

__all__ = [
    "BATCH",
    "BUSINESSES_MAX",
    "UNKNOWN",
    "Metrics",
    "catalogue",
    "channel_of",
    "iteration_of",
    "kind_of",
    "refusal_of",
]

_INNER_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")
_CHANNELS = frozenset(ChannelName)
ZEROS_MAX = 100  # series of one counter that are shown before they count anything
ZEROS_OF_A_BUSINESS_MAX = 4  # of which there may be many

disable_created_metrics()  # type: ignore[no-untyped-call]  # a series more for each, which nobody asks for


class Metrics(Pipeline, Models, Running, Carrying):
    """The metrics of one process, on a registry of its own."""

    def __init__(self, *, process: bool = True) -> None:
        self.registry = CollectorRegistry()
        if process:
            ProcessCollector(registry=self.registry)
            PlatformCollector(registry=self.registry)
        self._businesses: set[str] = set()
        self._service = ""
        for name, metric in _metrics():
            vars(self)[name] = metric.make(self.registry)

    def begin(self, service: str) -> None:
        """Show at 0 what the service may count: of a series that is there only from its first event on, nobody sees that
        event as a rise. Of businesses and models it is shown when they are known."""
        self._service = service
        self._at_zero(service=service, most=ZEROS_MAX)

    def asks(self, provider: str, model: str) -> None:
        """An agent's word on the model that it asks, also before `begin`."""
        self._at_zero(service="agent", most=ZEROS_MAX, provider=provider, model=model)

    def tally(self, stage: str, seen: str, packets: int) -> None:
        """Packets, as a broker tells of them."""
        self.packets.labels(stage, seen).inc(packets)

    def bounded(self, label: Label, value: str) -> str:
        """Whatever the record holds as a value of this label."""
        if label is BUSINESS:
            return self.business(value)
        return value if value in (label.values or ()) else UNKNOWN

    def business(self, slug: str) -> str:
        """The slug as a label: bounded, so that a thousand tenants do not make a million series."""
        if slug in self._businesses:
            return slug
        if len(self._businesses) < BUSINESSES_MAX:
            self._businesses.add(slug)
            self._at_zero(service=self._service, most=ZEROS_OF_A_BUSINESS_MAX, business=slug)
            return slug
        return OTHER

    def _at_zero(self, *, service: str, most: int, **known: str) -> None:
        """Of the service's counters those that have these labels and else only such whose values are listed, unless they
        would be more than `most` each."""
        for name, metric in _metrics():
            declared = metric.declared
            unlisted = {label.name for label in declared.labels if label.values is None}
            counts = declared.kind == "counter" and service in (*declared.of, ALONE)
            if not declared.labels or unlisted != set(known) or not counts:
                continue
            values = [label.values or (known[label.name],) for label in declared.labels]
            if prod(map(len, values)) <= most:
                for combination in product(*values):
                    vars(self)[name].labels(*combination)


def catalogue() -> list[Declared]:
    """All that a process may show, in the order in which it is declared."""
    return [*(metric.declared for _, metric in _metrics()), *LOOKED]


def kind_of(value: object) -> str:
    """The name of a value's class as a label: of a closed union, which member it is."""
    return _INNER_CAPITAL.sub("_", type(value).__name__).lower()


def channel_of(name: str) -> str:
    """A channel as a label: one that this version has not got is `unknown`, whatever it is called."""
    return name if name in _CHANNELS else UNKNOWN


def iteration_of(n: int) -> str:
    """A model call of a turn as a label. One before the first, to hear a recording, counts with the first."""
    return ITERATIONS[min(max(n, 1), len(ITERATIONS)) - 1]


def refusal_of(code: str | None) -> str:
    """Why a call was refused, as a label: the gate's own codes; a tool's are as many as packs make."""
    if code is None:
        return ""
    return code if code in GATE_CODES else REFUSED_BY_TOOL


def _metrics() -> Iterator[tuple[str, Metric[Any]]]:
    for owner in Metrics.__mro__:
        for name, value in vars(owner).items():
            if isinstance(value, Metric):
                yield name, value
