"""What a dashboard is made of, and the queries that come again and again."""

from dataclasses import dataclass
from typing import Literal

ROW_PANELS_MAX = 3  # what a laptop shows side by side and a person can still read

# The variables at the top of a dashboard, as the label they choose by.
BUSINESS = 'business=~"$business"'
MODEL = 'model=~"$model"'
ENGINE = 'engine=~"$engine"'


@dataclass(frozen=True, slots=True)
class Query:
    """One line, or one a value of its labels. `legend` names it: {{label}} stands for a label's value."""

    expr: str
    legend: str


@dataclass(frozen=True, slots=True)
class Step:
    """From this value on, the colour."""

    value: float
    colour: Literal["yellow", "red"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One picture. `unit` is one of Grafana's; `empty` is shown while there is nothing; a stat is one number, now or of the
    whole range; a gap in a step's line means that nobody measured."""

    title: str
    says: str
    unit: str
    queries: tuple[Query, ...]
    kind: Literal["timeseries", "stat"] = "timeseries"
    steps: tuple[Step, ...] = ()
    stacked: bool = False
    decimals: int | None = None
    empty: str = "none yet"


@dataclass(frozen=True, slots=True)
class Row:
    """Panels side by side, under a heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A choice at the top: the values of a label, so long as a metric has them in the range shown."""

    name: str
    label: str
    metric: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """A page. `uid` is its address and stays for ever."""

    uid: str
    title: str
    says: str
    rows: tuple[Row, ...]
    variables: tuple[Variable, ...] = ()


BUSINESSES = Variable(name="business", label="Business", metric="leeway_messages_judged_total")
MODELS = Variable(name="model", label="Model", metric="leeway_llm_latency_seconds_count")
ENGINES = Variable(name="engine", label="Engine", metric="leeway_turn_seconds_count")


def rate(counter: str, *, by: str, legend: str = "", where: str = "", times: str = "") -> Query:
    """How often a second, by labels; `times` makes another unit of it."""
    return Query(
        f"sum by ({by}) (rate({counter}{{{where}}}[$__rate_interval])){times}", legend or f"{{{{{by}}}}}"
    )


def seldom(counter: str, *, by: str, legend: str = "", where: str = "") -> Query:
    """The same of what mostly does not happen: only while it does, since a line at zero for each value hides the others."""
    return rate(counter, by=by, legend=legend, where=where, times=" > 0")


def total(counter: str, *, where: str = "") -> str:
    """How many in the range shown."""
    return f"sum(increase({counter}{{{where}}}[$__range]))"


def quantile(q: float, histogram: str, *, by: str = "", legend: str, where: str = "") -> Query:
    """The value that the share `q` of all measurements stays below."""
    labels = f"le, {by}" if by else "le"
    rates = f"rate({histogram}_bucket{{{where}}}[$__rate_interval])"
    return Query(f"histogram_quantile({q}, sum by ({labels}) ({rates}))", legend)


def quantiles(histogram: str, *, where: str = "") -> tuple[Query, ...]:
    """The usual three."""
    return tuple(quantile(q, histogram, where=where, legend=f"p{q * 100:.0f}") for q in (0.5, 0.95, 0.99))


def newest(gauge: str, *, by: str, legend: str = "", where: str = "") -> Query:
    """A gauge that every process of a service reads from the same record: they agree, so any of them will do."""
    return Query(f"max by ({by}) ({gauge}{{{where}}})", legend or f"{{{{{by}}}}}")


def summed(gauge: str, *, where: str = "") -> str:
    """The same over all values of its labels: of each process by itself, since which businesses are `other` is its own."""
    return f"max(sum by (instance) ({gauge}{{{where}}}))"
