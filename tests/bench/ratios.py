"""The ratios of performance.md, as data: which sample over which, and what is to be reached in the end."""

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
"""Of a round, in the very number compared: the highest rate, or the least CPU."""
RULES = (
    Rule("–", "floor ÷ best peer, rate", FLOOR, BEST_PEER, _rate),
    Rule("–", "floor ÷ best peer, CPU a message", FLOOR, BEST_PEER, _cpu, "≤"),
    Rule("P1", "Leeway ÷ floor, rate", LEEWAY, FLOOR, _rate, "≥", 0.25),
    Rule("P2", "Leeway ÷ best peer, rate", LEEWAY, BEST_PEER, _rate, "≥", 5),
    Rule("P3", "Leeway ÷ best peer, CPU a message", LEEWAY, BEST_PEER, _cpu, "≤", 0.2),
    Rule("P4", "Leeway ÷ floor, p95 at 20/s", LEEWAY, FLOOR, _p95_at("20/s"), "≤", 1.8),
    Rule("P4", "Leeway ÷ floor, p95 at 200/s", LEEWAY, FLOOR, _p95_at("200/s"), "≤", 3),
    Rule("P6", "webhook ÷ bare FastAPI, rate", WEB_LEEWAY, WEB_BARE, _rate, "≥", 1.0),
    Rule("P6", "webhook ÷ usual FastAPI, rate", WEB_LEEWAY, WEB_USUAL, _rate, "≥", 4),
)


def ratios(report: Report) -> Iterator[Ratio]:
    """Every rule that both of its samples took part in: the median of the ratios of single rounds.

    A slow minute of the machine hits both sides of a round's ratio, so these agree better than medians do.
    """
    rounds = report.rounds()
    for rule in RULES:
        values = [value for samples in rounds if (value := _ratio(samples, rule)) is not None]
        if values:
            yield Ratio(rule.number, rule.what, statistics.median(values), rule.sign, rule.goal)


def _ratio(samples: Mapping[str, Sample], rule: Rule) -> float | None:
    over = _values(samples, (rule.over,), rule)
    under = _values(samples, PEERS if rule.under == BEST_PEER else (rule.under,), rule)
    if not over or not under:
        return None
    best = max(under) if rule.sign == "≥" else min(under)
    return over[0] / best if best else None


def _values(samples: Mapping[str, Sample], names: Sequence[str], rule: Rule) -> list[float]:
    present = [samples[name] for name in names if name in samples]
    return [value for sample in present if (value := rule.field(sample)) is not None]
