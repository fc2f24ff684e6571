"""The report as a person reads it: one table, then the ratios of performance.md that this run can tell."""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from tests.bench.model import Pace, Report, Sample
from tests.bench.ratios import ratios

NOTES = """\
Floor: the full job (deduplication row, state row, outbox row) over durable quorum queues, packets of up to 100
tickets, also from the loader; four processes. Peers: the light job (deduplication row) over durable classic
queues, their default; one ticket a message, also from the loader, in the library's own wire form.
All: fsync on, persistent, confirmed, some 500 bytes a ticket; CPU of the loader and HTTP driver not counted.
max/3: a third of the rate just reached. Ratios: the median of each round's."""


def show(report: Report, console: Console) -> None:
    """Prints medians side by side, then ratios, then what failed."""
    for unit in ("messages", "requests"):
        if any(result.unit == unit for result in report.results):
            console.print(_table(report, unit))
    console.print(NOTES, highlight=False)
    lines = list(_ratio_lines(report))
    if lines:
        console.print("\n".join(lines), highlight=False)
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


def _ratio_lines(report: Report) -> Iterator[str]:
    for ratio in ratios(report):
        goal = "" if ratio.goal is None else f"   (to reach: {ratio.sign} {ratio.goal:g})"
        yield f"{ratio.number:3} {ratio.what}: {ratio.value:.3g}{goal}"
