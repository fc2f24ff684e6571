"""The ratios of performance.md, as data: which sample over which, and what is to be reached in the end."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from tests.bench.model import Report, Sample

FLOOR = "bare floor"
PEERS = ("FastStream", "Celery", "Dramatiq")
LEEWAY = "Leeway"
WEB_BARE = "FastAPI, no body"
WEB_USUAL = "FastAPI + pydantic + INSERT"
WEB_LEEWAY = "Leeway webhook"


@dataclass(frozen=True)
class Ratio:
    """`value` of `what`; `goal` is the ratio to reach in the end, and `sign` on which side of it."""

    number: str
    what: str
    value: float
    sign: Literal["≥", "≤"]
    goal: float | None


@dataclass(frozen=True)
class Rule:
    """One line of the table of ratios: `field` of `over` divided by `field` of `under`."""

    number: str
    what: str
    over: str
    under: str
    field: Callable[[Sample], float | None]
    sign: Literal["≥", "≤"] = "≥"
    goal: float | None = None


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
RULES = (
    Rule("–", "floor ÷ best peer, rate", FLOOR, BEST_PEER, _rate),
    Rule("P1", "Leeway ÷ floor, rate", LEEWAY, FLOOR, _rate, "≥", 0.25),
    Rule("P2", "Leeway ÷ best peer, rate", LEEWAY, BEST_PEER, _rate, "≥", 5),
    Rule("P3", "Leeway ÷ best peer, CPU a message", LEEWAY, BEST_PEER, _cpu, "≤", 0.2),
    Rule("P4", "Leeway ÷ floor, p95 at 20/s", LEEWAY, FLOOR, _p95_at("20/s"), "≤", 1.8),
    Rule("P4", "Leeway ÷ floor, p95 at 200/s", LEEWAY, FLOOR, _p95_at("200/s"), "≤", 3),
    Rule("P6", "webhook ÷ bare FastAPI, rate", WEB_LEEWAY, WEB_BARE, _rate, "≥", 1.0),
    Rule("P6", "webhook ÷ usual FastAPI, rate", WEB_LEEWAY, WEB_USUAL, _rate, "≥", 4),
)


def ratios(report: Report) -> Iterator[Ratio]:
    """Every rule that both of its samples took part in; rules without them are left out."""
    best = best_peer(report)
    for rule in RULES:
        over = report.get(rule.over)
        under = best if rule.under == BEST_PEER else report.get(rule.under)
        if over is None or under is None:
            continue
        above, below = rule.field(over), rule.field(under)
        if above is not None and below:
            yield Ratio(rule.number, rule.what, above / below, rule.sign, rule.goal)


def best_peer(report: Report) -> Sample | None:
    """The peer with the highest rate in this run: it is also the one whose CPU counts."""
    peers = [sample for sample in map(report.get, PEERS) if sample is not None]
    return max(peers, key=_rate, default=None)
