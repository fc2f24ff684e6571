"""An evaluation for programs: one JSON object, and JUnit's XML."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from xml.etree import ElementTree as ET

from leeway.evals.expected import Class
from leeway.evals.findings import Finding
from leeway.evals.suite import Report, Run, Tries
from leeway.terminal import shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """When, of what, with which prompt."""

    at: datetime
    commit: str
    prompt_version: int


def as_object(report: Report, heading: Heading) -> dict[str, Any]:
    """Everything that the tables show, and each failed check."""
    return {
        "date": heading.at.isoformat(timespec="seconds"),
        "commit": heading.commit,
        "prompt_version": heading.prompt_version,
        "engine": report.engine,
        "replay": report.choice.replay,
        "repeat": report.choice.repeat,
        "ok": report.ok,
        "totals": _totals(report),
        "groups": _groups(report),
        "scripts": _scripts(report),
        "models": [_model(run) for run in report.models],
    }


def _totals(report: Report) -> dict[str, Any]:
    """`failed` counts what failed, also what must; `deliberate` names which of that did as it must."""
    deliberate = [one for one in report.tries if one.deliberate]
    ordinary = [one for one in report.tries if not one.deliberate]
    failed = [one for one in ordinary if not one.passed] + [one for one in deliberate if one.failed]
    return {
        "scripts": len(report.tries),
        "passed": len(report.tries) - len(failed),
        "failed": len(failed),
        "safety_failures": sum(run.failures(Class.SAFETY) for run in report.runs),
        "conversion_failures": sum(run.failures(Class.CONVERSION) for run in report.runs),
        "unexpected": [one.loaded.script.id for one in report.tries if not one.passed],
        "deliberate": {
            "scripts": len(deliberate),
            "failed": [one.loaded.script.id for one in deliberate if one.passed],
            "passed": [one.loaded.script.id for one in deliberate if not one.passed],
        },
    }


def _groups(report: Report) -> dict[str, dict[str, int]]:
    """Over all models, where there are several."""
    found: dict[str, dict[str, int]] = {}
    for run in report.runs:
        for name, (passed, total) in run.groups().items():
            group = found.setdefault(name, {"passed": 0, "total": 0})
            group["passed"] += passed
            group["total"] += total
    return found


def _scripts(report: Report) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for run in report.runs:
        for tries in run.tries:
            script = tries.loaded.script
            entry = found.setdefault(
                script.id,
                {
                    "title": script.title,
                    "group": script.group,
                    "pack": script.pack,
                    "deliberate": tries.deliberate,
                    "passed": True,
                    "plays": 0,
                    "seconds": 0.0,
                    "failed_checks": [],
                },
            )
            entry["passed"] = entry["passed"] and tries.passed
            entry["plays"] += len(tries.plays)
            entry["seconds"] = round(entry["seconds"] + sum(play.seconds for play in tries.plays), 3)
            entry["failed_checks"] += [_check(one, run.name) for one in tries.failed]
    return found


def _check(finding: Finding, run: str) -> dict[str, Any]:
    return {
        "step": finding.step,
        "check": finding.check.value,
        "class": finding.cls.value,
        "told": finding.told,
        "run": run,
    }


def _model(run: Run) -> dict[str, Any]:
    groups = {name: {"passed": passed, "total": total} for name, (passed, total) in run.groups().items()}
    cost = run.cost_usd
    return {
        "model": run.name,
        "skipped": run.skipped,
        "answered_as": run.answered_as,
        "groups": groups,
        "overall": _overall(groups),
        "safety_failures": run.failures(Class.SAFETY),
        "conversion_failures": run.failures(Class.CONVERSION),
        "calls": len(run.calls),
        "cost_usd": None if cost is None else format(cost.normalize(), "f"),
        "p50_ms": run.latency_ms(50),
        "p95_ms": run.latency_ms(95),
    }


def _overall(groups: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    return {name: sum(group[name] for group in groups.values()) for name in ("passed", "total")}


def as_junit(report: Report) -> str:
    """A suite a run, a case a script; what must fail is a case that passes when it does."""
    root = ET.Element("testsuites", name="leeway eval")
    for run in report.runs:
        failed = sum(not tries.passed for tries in run.tries)
        suite = ET.SubElement(
            root,
            "testsuite",
            name=shown(run.name),
            tests=str(len(run.tries) or 1),
            failures=str(failed),
            skipped=str(int(run.skipped is not None)),
        )
        for tries in run.tries:
            _case(suite, tries)
        if run.skipped is not None:
            case = ET.SubElement(suite, "testcase", classname="model", name=shown(run.name))
            ET.SubElement(case, "skipped", message=shown(run.skipped))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _case(suite: ET.Element, tries: Tries) -> None:
    script = tries.loaded.script
    seconds = sum(play.seconds for play in tries.plays)
    case = ET.SubElement(suite, "testcase", classname=script.group, name=script.id, time=f"{seconds:.3f}")
    if tries.passed:
        return
    lines = [_line(one) for one in tries.failed] or ["a check that must fail held"]
    safety = any(one.cls is Class.SAFETY for one in tries.failed)
    failure = ET.SubElement(
        case, "failure", type=(Class.SAFETY if safety else Class.CONVERSION).value, message=shown(lines[0])
    )
    failure.text = shown("\n".join(lines))


def _line(finding: Finding) -> str:
    where = f"step {finding.step}" if finding.step else "end"
    return f"{where}, {finding.check.value} ({finding.cls.value}): {finding.told}"
