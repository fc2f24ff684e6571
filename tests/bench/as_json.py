"""The report as plain values: medians, spread, every repeat, and what is to be reached."""

from dataclasses import asdict
from typing import Any

from tests.bench.model import Report
from tests.bench.ratios import Goal, Line, lines


def as_json(report: Report) -> dict[str, Any]:
    """What `--json` writes."""
    return {
        "seconds": round(report.seconds, 1),
        "servers": report.servers,
        "results": [
            {
                "name": result.name,
                "unit": result.unit,
                "spread": result.spread,
                "median": asdict(result.median),
                "repeats": [asdict(sample) for sample in result.repeats],
            }
            for result in report.results
        ],
        "ratios": [_line(line) for line in lines(report)],
        "failures": [{"name": name, "error": error} for name, error in report.failures],
    }


def _line(line: Line) -> dict[str, Any]:
    return {
        "number": line.number,
        "what": line.what,
        "value": line.value,
        "unit": line.unit,
        "pipeline_issue": _goal(line, line.issue),
        "in_the_end": _goal(line, line.end),
    }


def _goal(line: Line, goal: Goal | None) -> dict[str, Any] | None:
    return None if goal is None else {"sign": goal.sign, "value": goal.value, "met": goal.met(line.value)}
