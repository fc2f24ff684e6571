"""What performance.md asks for, as data: which sample over which, which figure, and the goals of both columns."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tests.bench.model import Report, Sample

FLOOR = "bare floor"
PEERS = ("FastStream", "Celery", "Dramatiq")
LEEWAY = "Leeway"
WEB_BARE = "FastAPI, no body"
WEB_USUAL = "FastAPI + pydantic + INSERT"
WEB_LEEWAY = "Leeway webhook"
WEB_SIGNED = "FastAPI + Meta's signature + INSERT"
WEB_WHATSAPP = "Leeway WhatsApp webhook"

# Names of figures that trials measure.
OVERHEAD_MS = "overhead"
TURNS_RATE = "turns rate"
VIOLATIONS = "violations"
STALL_S = "stall"
AGENTS_RATE = "turns a second, agents: {}"
GROWTH = "growth"
GROWTH_SPREAD = "spread of growth"
HALF_LOAD_MS = "overhead at half load"
REST_PSS = "PSS at rest: {}"
REST_RSS = "RSS at rest: {}"
REST_CPU = "CPU at rest: {}"

SERVICES = ("ingest", "guard", "agent", "dispatch")


@dataclass(frozen=True)
class Goal:
    """A number to reach, from one side."""

    sign: Literal["≥", "≤"]
    value: float

    def met(self, value: float) -> bool:
        """Whether a value is on the right side."""
        return value >= self.value if self.sign == "≥" else value <= self.value


def at_least(value: float) -> Goal:
    """A goal from below."""
    return Goal("≥", value)


def at_most(value: float) -> Goal:
    """A goal from above."""
    return Goal("≤", value)


@dataclass(frozen=True)
class Line:
    """A line of the table: what was reached, beside what is asked now and in the end."""

    number: str
    what: str
    value: float
    unit: str
    issue: Goal | None
    end: Goal | None


@dataclass(frozen=True)
class Rule:
    """`field` of the sample `over`, divided by `field` of the sample `under`."""

    number: str
    what: str
    over: str
    under: str
    field: Callable[[Sample], float | None]
    issue: Goal | None = None
    end: Goal | None = None
    least: bool = False
    """Of several peers the one with the least counts, not the one with the most."""


@dataclass(frozen=True)
class FigureRule:
    """A figure as a trial measured it."""

    number: str
    what: str
    figure: str
    unit: str = ""
    issue: Goal | None = None
    end: Goal | None = None


def _rate(sample: Sample) -> float:
    return sample.messages_per_s


def _cpu(sample: Sample) -> float:
    return sample.cpu_us_per_message


def _p95_at(label: str) -> Callable[[Sample], float | None]:
    def field(sample: Sample) -> float | None:
        pace = sample.pace(label)
        return None if pace is None else pace.p95_ms

    return field


BEST_PEER = "best peer"
"""Of a round, in the very number compared: the highest rate, or the least CPU."""
# fmt: off
RULES = (
    Rule("–", "floor ÷ best peer, rate", FLOOR, BEST_PEER, _rate),
    Rule("–", "floor ÷ best peer, CPU a message", FLOOR, BEST_PEER, _cpu, least=True),
    Rule("P1", "Leeway ÷ floor, rate", LEEWAY, FLOOR, _rate, at_least(0.15), at_least(0.25)),
    Rule("P2", "Leeway ÷ best peer, rate", LEEWAY, BEST_PEER, _rate, at_least(3), at_least(5)),
    Rule("P3", "Leeway ÷ best peer, CPU a message", LEEWAY, BEST_PEER, _cpu, at_most(1 / 3), at_most(1 / 5), least=True),
    Rule("P4", "Leeway ÷ floor, p95 at 20/s", LEEWAY, FLOOR, _p95_at("20/s"), at_most(3), at_most(1.8)),
    Rule("P4", "Leeway ÷ floor, p95 at 200/s", LEEWAY, FLOOR, _p95_at("200/s"), at_most(4), at_most(3)),
    Rule("P6", "webhook ÷ bare FastAPI, rate", WEB_LEEWAY, WEB_BARE, _rate, at_least(0.5), at_least(1)),
    Rule("P6", "webhook ÷ usual FastAPI, rate", WEB_LEEWAY, WEB_USUAL, _rate, at_least(2), at_least(4)),
    Rule("P6", "WhatsApp webhook ÷ bare FastAPI that does the same, rate", WEB_WHATSAPP, WEB_SIGNED, _rate, at_least(0.8), at_least(0.8)),
)
FIGURES = (
    FigureRule("P5", "added to a model of 1.0 s, p95 at 80/s", OVERHEAD_MS, "ms", at_most(60), at_most(25)),
    FigureRule("P7", "turns of 0.1 s by two agents ÷ ideal, rate", TURNS_RATE, "", at_least(0.6), at_least(0.85)),
    FigureRule("P7", "violations of order, of one at a time, of once", VIOLATIONS, "", at_most(0), at_most(0)),
    FigureRule("P7", "SIGKILL of one agent to the last of its turns answered", STALL_S, "s", at_most(5), at_most(1)),
    *(FigureRule("–", f"turns of a model of 1.0 s, 25 at once an agent, agents: {agents}", AGENTS_RATE.format(agents), "/s") for agents in (1, 2, 4)),
    FigureRule("–", "4 agents ÷ 1 agent, rate", GROWTH, "", end=at_least(3.6)),
    FigureRule("–", "spread of that over its rounds", GROWTH_SPREAD, "%"),
    FigureRule("–", "added to a model of 1.0 s, p95 at half of 4 agents' rate", HALF_LOAD_MS, "ms", end=at_most(150)),
    *(FigureRule("P9", f"memory (PSS) at rest: {name}", REST_PSS.format(name), "MiB", at_most(120), at_most(100)) for name in SERVICES),
    *(FigureRule("–", f"memory (RSS) at rest: {name}", REST_RSS.format(name), "MiB") for name in SERVICES),
    *(FigureRule("–", f"CPU at rest, of a core: {name}", REST_CPU.format(name), "%", at_most(2), at_most(2)) for name in SERVICES),
)
# fmt: on


def lines(report: Report) -> Iterator[Line]:
    """What this run can tell, in the order of performance.md.

    A ratio is the median of the ratios of single rounds: a slow minute of the machine hits both sides of a round's
    ratio, so these agree better than medians do.
    """
    rounds = report.rounds()
    told = []
    for rule in RULES:
        values = [value for samples in rounds if (value := _ratio(samples, rule)) is not None]
        if values:
            told.append(Line(rule.number, rule.what, statistics.median(values), "", rule.issue, rule.end))
    told += [
        Line(rule.number, rule.what, report.figures[rule.figure], rule.unit, rule.issue, rule.end)
        for rule in FIGURES
        if rule.figure in report.figures
    ]
    yield from sorted(told, key=lambda line: line.number if line.number != "–" else "Q")


def _ratio(samples: Mapping[str, Sample], rule: Rule) -> float | None:
    over = _values(samples, (rule.over,), rule)
    under = _values(samples, PEERS if rule.under == BEST_PEER else (rule.under,), rule)
    if not over or not under:
        return None
    best = min(under) if rule.least else max(under)
    return over[0] / best if best else None


def _values(samples: Mapping[str, Sample], names: Sequence[str], rule: Rule) -> list[float]:
    present = [samples[name] for name in names if name in samples]
    return [value for sample in present if (value := rule.field(sample)) is not None]
