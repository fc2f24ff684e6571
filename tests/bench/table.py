"""The report as a person reads it: two tables, then what performance.md asks for beside what was reached."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from tests.bench.model import Pace, Report, Sample
from tests.bench.ratios import Goal, Line, lines

NOTES = """\
Leeway: four processes, full behaviour, a model that answers at once; messages of some 70 characters, webhooks of 20
of them for the rate, of one when paced. "Leeway webhook": ingest alone, one message of some 500 bytes a request.
Floor: the full job (deduplication row, state row, outbox row) over durable quorum queues, packets of up to 100
tickets, also from the loader; four processes. Peers: the light job (deduplication row) over durable classic
queues, their default; one ticket a message, also from the loader, in the library's own wire form.
All: persistent, confirmed; some 500 bytes a ticket of floor and peers; CPU of the loader and HTTP driver not
counted. max/3: a third of the rate just reached. Ratios: the median of each round's."""


def show(report: Report, console: Console) -> None:
    """Prints medians side by side, then ratios, then what failed."""
    for unit in ("messages", "requests"):
        if any(result.unit == unit for result in report.results):
            console.print(_table(report, unit))
    console.print(f"{report.servers}\n{NOTES}", highlight=False)
    told = list(lines(report))
    if told:
        console.print(_goals(told))
    for name, error in report.failures:
        console.print(f"{name} failed: {error}", style="red", markup=False)


def _table(report: Report, unit: str) -> Table:
    results = [result for result in report.results if result.unit == unit]
    labels = list(dict.fromkeys(pace.label for result in results for pace in result.median.paces))
    table = Table(title=f"{unit}: medians of {len(results[0].repeats)}, {report.seconds:.0f} s in all")
    table.add_column("")
    for heading in (f"{unit}/s", "spread", "CPU µs each", "client + broker + Postgres"):
        table.add_column(heading, justify="right")
    for label in labels:
        table.add_column(f"p50 / p95 ms\n{label}", justify="right")
    for result in results:
        median = result.median
        table.add_row(
            result.name,
            f"{median.messages_per_s:,.0f}",
            f"{result.spread:.0%}",
            f"{median.cpu_us_per_message:,.0f}",
            _split(median),
            *(_latency(median.pace(label)) for label in labels),
        )
    return table


def _split(sample: Sample) -> str:
    return f"{sample.cpu_us_client:,.0f} + {sample.cpu_us_broker:,.0f} + {sample.cpu_us_database:,.0f}"


def _latency(pace: Pace | None) -> str:
    return "–" if pace is None else f"{pace.p50_ms:.1f} / {pace.p95_ms:.1f}"


def _goals(told: Sequence[Line]) -> Table:
    table = Table(title="What performance.md asks for")
    table.add_column("")
    table.add_column("")
    table.add_column("reached", justify="right")
    table.add_column("pipeline issue")
    table.add_column("in the end")
    for line in told:
        value = f"{line.value:.3g}{' ' if line.unit else ''}{line.unit}"
        table.add_row(line.number, line.what, value, _goal(line, line.issue), _goal(line, line.end))
    return table


def _goal(line: Line, goal: Goal | None) -> str:
    if goal is None:
        return "–"
    return f"{goal.sign} {goal.value:.3g}  {'met' if goal.met(line.value) else 'not met'}"
