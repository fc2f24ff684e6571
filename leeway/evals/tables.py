"""An evaluation for people: two tables, what failed, and, where it is asked for, each conversation."""

import json
from decimal import Decimal
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from leeway.evals.expected import Class
from leeway.evals.playing import Moment, Played
from leeway.evals.record import Happened
from leeway.evals.report import Heading
from leeway.evals.script import MODEL_GROUPS, Step
from leeway.evals.suite import Report, Run, Tries
from leeway.terminal import console, plain, shown

NO_VALUE: Final = "–"
TABLE_WIDTH_MAX: Final = 240


def show(report: Report, heading: Heading) -> None:
    """Both tables, each where it has something in it, then what failed."""
    console.print()
    if report.models:
        _titled("Model behaviour", f"{_when(heading)} · {report.engine}{_repeated(report)}")
        _print_table(_models(report))
        for run in report.models:
            if run.skipped:
                console.print(f"{run.name} was skipped: {run.skipped}", style="yellow", markup=False)
        console.print()
    if report.pipeline is not None:
        title = (
            "Replay of stored answers (no model was asked)" if report.choice.replay else "Pipeline guarantees"
        )
        _titled(title, f"{_when(heading)}{_repeated(report)}")
        _print_table(_pipeline(report.pipeline))
        console.print()
    _failures(report)
    _deliberate(report)
    console.print(_verdict(report))


def _print_table(table: Table) -> None:
    """As wide as it is, whatever the window: a column that is cut short tells nothing."""
    Console(width=TABLE_WIDTH_MAX, highlight=False).print(table)


def _titled(title: str, about: str) -> None:
    console.print(Text(title, style="bold").append(f"  {about}", style="dim"))


def _when(heading: Heading) -> str:
    return f"{heading.at:%Y-%m-%d} · commit {heading.commit} · prompt {heading.prompt_version}"


def _repeated(report: Report) -> str:
    return f" · pass^{report.choice.repeat}" if report.choice.repeat > 1 else ""


def _models(report: Report) -> Table:
    named = {name for run in report.models for name in run.groups()}
    groups = [name for name in MODEL_GROUPS if name in named]
    table = _table(
        "model", "answered as", *groups, "overall", "safety", "conversion", "cost USD", "p50 ms", "p95 ms"
    )
    for run in report.models:
        if run.skipped:
            table.add_row(shown(run.name), "skipped", *[NO_VALUE] * (len(groups) + 6))
            continue
        found = run.groups()
        scores = [_score(*found[name]) for name in groups]
        overall = _score(sum(one for one, _ in found.values()), sum(total for _, total in found.values()))
        table.add_row(
            shown(run.name), shown(", ".join(run.answered_as) or NO_VALUE), *scores, overall,
            _count(run, Class.SAFETY), _count(run, Class.CONVERSION), _cost(run.cost_usd),
            _ms(run.latency_ms(50)), _ms(run.latency_ms(95)),
        )  # fmt: skip
    return table


def _pipeline(run: Run) -> Table:
    table = _table("group", "passed", "safety", "conversion")
    for name, (passed, total) in run.groups().items():
        of_group = Run(name=name, tries=[one for one in run.tries if one.loaded.script.group == name])
        table.add_row(
            shown(name),
            _score(passed, total),
            _count(of_group, Class.SAFETY),
            _count(of_group, Class.CONVERSION),
        )
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(first)
    for heading in others:
        table.add_column(heading, justify="left" if heading == "answered as" else "right")
    return table


def _score(passed: int, total: int) -> Text:
    return Text(f"{passed}/{total}", style="green" if passed == total else "red")


def _count(run: Run, cls: Class) -> Text:
    """Failed checks of a class: one of safety fails the run whatever the rates."""
    number = run.failures(cls)
    return Text(str(number), style="dim" if not number else "bold red" if cls is Class.SAFETY else "yellow")


def _cost(cost: Decimal | None) -> str:
    return "unknown" if cost is None else f"{cost:.4f}"


def _ms(latency: int | None) -> str:
    return NO_VALUE if latency is None else str(latency)


def _failures(report: Report) -> None:
    for run in report.runs:
        for tries in run.tries:
            if not tries.passed and not tries.deliberate:
                console.print(
                    Text.assemble(
                        ("✗ ", "bold red"), f"{tries.loaded.script.id} ", (_whose(run, report), "dim")
                    )
                )
                _show_failed(tries)


def _whose(run: Run, report: Report) -> str:
    return f"({run.name})" if run in report.models else ""


def _show_failed(tries: Tries) -> None:
    for one in dict.fromkeys((one.step, one.check, one.cls, one.told) for one in tries.failed):
        step, check, cls, told = one
        where = f"step {step}" if step else "end"
        style = "red" if cls is Class.SAFETY else "yellow"
        console.print(
            Text.assemble(f"    {where} ", (f"{check.value} ({cls.value}) ", style)).append(plain(told))
        )


def _deliberate(report: Report) -> None:
    """What must fail: named, and counted apart."""
    deliberate = [one for one in report.tries if one.deliberate]
    if not deliberate:
        return
    failed = [one.loaded.script.id for one in deliberate if one.passed]
    console.print(f"Failed, as they must (deliberate): {', '.join(failed) or 'none'}.", markup=False)
    for tries in deliberate:
        if not tries.passed:
            must = ", ".join(check.value for check in tries.loaded.script.deliberate)
            told = f"{tries.loaded.script.id} must fail by {must}, and did not so"
            console.print(Text.assemble(("✗ ", "bold red"), told))
            _show_failed(tries)


def _verdict(report: Report) -> Text:
    ordinary = [one for one in report.tries if not one.deliberate]
    passed = sum(one.passed for one in ordinary)
    if not report.tries:
        return Text("Nothing was played.", style="bold red")
    told = f"{passed} of {len(ordinary)} scripts passed."
    if report.ok:
        return Text(told, style="green")
    safety = sum(run.failures(Class.SAFETY) for run in report.runs)
    harm = f" {safety} failed check{'' if safety == 1 else 's'} of safety." if safety else ""
    return Text(told + harm, style="bold red")


# A conversation as it went


def trace(played: Played, run: str) -> None:
    """The steps with guards, tool calls, gate decisions and replies."""
    script = played.loaded.script
    console.print()
    console.print(Text.assemble((script.id, "bold cyan"), f"  {script.title}", (f"  ({run})", "dim")))
    for moment in played.moments:
        _moment(moment)


def _moment(moment: Moment) -> None:
    step, happened = moment.step, moment.happened
    who = step.from_ or ("operator" if step.operator else "")
    console.print(
        Text.assemble((f"{moment.number:3} ", "dim"), (f"{who} " if who else "", "magenta")).append(
            plain(_told(step), "bold")
        )
    )
    if moment.outcome:
        _note("operator", moment.outcome)
    _guard(happened)
    for turn in happened.fresh("turns"):
        attempts = f", attempt {turn['attempts']}" if turn["attempts"] > 1 else ""
        _note("agent", f"{turn['outcome'] or turn['state']}{attempts}")
    for call in happened.fresh("tool_calls"):
        reason = f" ({call['reason']})" if call["reason"] else ""
        _note("gate", f"{call['tool']} {call['arguments']} → {call['decision']}{reason} {_why(call['why'])}")
    for receipt in happened.fresh("receipts"):
        _note("receipt", f"{receipt['tool']} {receipt['result']}")
    for reply in happened.moved():
        reason = f" ({reply['reason']})" if reply["reason"] else ""
        console.print(Text(f"      {reply['state']}{reason}: ", style="green").append(plain(reply["body"])))
    for one in moment.findings:
        if not one.holds:
            console.print(
                Text(f"      ✗ {one.check.value} ({one.cls.value}): ", style="red").append(plain(one.told))
            )


def _guard(happened: Happened) -> None:
    known = {one["id"] for one in happened.before.messages}
    for message in happened.after.messages:
        if message["id"] not in known:
            reason = f" ({message['reason']})" if message["reason"] else ""
            _note("guard", f"{message['kind']} → {message['verdict']}{reason}")


def _told(step: Step) -> str:
    value = getattr(step, step.action)
    if step.action == "say":
        return f"{value} (the worker dies)" if step.dies else str(value)
    told = value.model_dump(mode="json", exclude_none=True) if hasattr(value, "model_dump") else str(value)
    return f"{step.action}: {told}"


def _why(why: str | None) -> str:
    """The gate's reasons: level, risk, floor, who is asked."""
    reasons = json.loads(why) if why else {}
    return " ".join(
        f"{name}={value}" for name, value in reasons.items() if value is not None and name != "ruling"
    )


def _note(stage: str, text: str) -> None:
    console.print(Text(f"      {stage} ", style="blue").append(plain(text, "dim")))
