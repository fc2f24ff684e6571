"""`leeway report`: what models were asked, how long they took, and what it cost."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from leeway.installation import DIRECTORY, Data
from leeway.operators import AsJson, OfBusiness, Office, jsonable, one_line, run
from leeway.terminal import console, plain, raw_line
from services.console.core.waiting import short
from shared.clock import SystemClock
from shared.database import load_queries
from shared.errors import Misconfigured

QUERIES = load_queries(Path(__file__).with_suffix(".sql"))
DEAREST: Final = 10
SUMMED: Final = (
    "calls", "errors", "under_way", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "calls_of_unknown_cost",
)  # fmt: skip
# Heading, width; the widest line has 78 characters.
COLUMNS: Final = (
    ("engine", 10), ("call", 5), ("calls", 7), ("errors", 7), ("in", 8), ("cached", 8), ("out", 8),
    ("USD", 11), ("p50 ms", 7), ("p95 ms", 7),
)  # fmt: skip
_SPAN: Final = re.compile(r"([1-9][0-9]{0,3})([hd])")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

Row = Mapping[str, Any]

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(
    epilog="[bold]Examples[/]\n\nleeway report --since 7d\n\nleeway report --business corner-clinic --since 2026-11-01\n\n"
    "leeway report --json — docs/report.md says what is in it"
)
def report(
    *,
    business: OfBusiness = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="7d|24h|DATE", help="The last days or hours, or from a day on (UTC)."),
    ] = None,
    as_json: AsJson = False,
    data: Data = DIRECTORY,
) -> None:
    """Tokens, cost, errors and latency of model calls, by model, engine and iteration; what conversations cost."""
    begins = _begins(since, now=SystemClock().now())

    async def work(here: Office) -> dict[str, Any]:
        if business is not None and not await here.audit.businesses(business):
            raise Misconfigured(f"There is no business {business}.")
        return await _found(here, business, begins)

    found = run(data, work)
    if as_json:
        raw_line(json.dumps(found, default=jsonable))
    else:
        _print(found)


def _begins(since: str | None, *, now: datetime) -> datetime | None:
    """From when on. Raises BadParameter for what is no span and no day."""
    if since is None:
        return None
    text = since.strip().lower()
    if read := _SPAN.fullmatch(text):
        return now - int(read[1]) * (timedelta(days=1) if read[2] == "d" else timedelta(hours=1))
    try:
        day = date.fromisoformat(text) if _DATE.fullmatch(text) else None
    except ValueError:
        day = None
    if day is None:
        raise typer.BadParameter(
            f"--since takes a span like 7d or 24h, or a day like 2026-11-01, not {since[:40]!r}"
        )
    return datetime.combine(day, time(), UTC)


async def _found(here: Office, business: str | None, begins: datetime | None) -> dict[str, Any]:
    """All of it, as `--json` has it."""

    async def rows(name: str, *more: object) -> list[dict[str, Any]]:
        return [dict(row) for row in await here.database.fetch(QUERIES[name], business, begins, *more)]

    models = await rows("models")
    (conversations,) = await rows("conversations")
    costs = [row["cost_usd"] for row in models if row["cost_usd"] is not None]
    total: dict[str, Any] = {name: sum(row[name] for row in models) for name in SUMMED}
    return {
        "business": business,
        "since": begins,
        "total": total | {"cost_usd": sum(costs, Decimal(0)) if costs else None},
        "models": models,
        "conversations": conversations | {"dearest": await rows("dearest", DEAREST)},
    }


def _print(found: Mapping[str, Any]) -> None:
    total = found["total"]
    since = f" since {found['since']:%Y-%m-%d %H:%M} UTC" if found["since"] else ""
    whose = f" of {found['business']}" if found["business"] else ""
    if not total["calls"] and not total["under_way"]:
        _line(f"There are no model calls{whose}{since}.")
        return
    _line(f"Model calls{whose}{since}", style="bold")
    for (provider, model), rows in groupby(found["models"], key=lambda row: (row["provider"], row["model"])):
        _line("")
        _line(one_line(f"{provider} {model}", most=78), style="cyan")
        _line(_cells([heading for heading, _ in COLUMNS]), style="dim")
        for row in rows:
            _line(_cells(_values(row)))
    _line("")
    _line(_total(total))
    for told in _apart(total):
        _line(told)
    _print_conversations(found["conversations"])


def _print_conversations(found: Mapping[str, Any]) -> None:
    known, unknown = found["of_known_cost"], found["count"] - found["of_known_cost"]
    if found["mean_usd"] is not None:
        _line(f"A conversation cost ${_usd(found['mean_usd'])} on average, of {known:,}.")
        if unknown:
            _line(f"{_counted(unknown, 'conversation')} with calls of unknown cost: not in the average.")
    dearest = [row for row in found["dearest"] if row["cost_usd"]]
    if not dearest:
        return
    _line("")
    _line("The dearest conversations (leeway conversation show ID):", style="bold")
    ids = [row["conversation"] for row in dearest]
    for row in dearest:
        apart = f", {row['calls_of_unknown_cost']} of unknown cost" if row["calls_of_unknown_cost"] else ""
        told = f"{'$' + _usd(row['cost_usd']):>11}  {_counted(row['calls'], 'call')}{apart}"
        _line(f"  {short(row['conversation'], ids)}  {row['business'][:20]:<20}{told}")


def _total(total: Mapping[str, Any]) -> str:
    tokens = f"{total['input_tokens']:,} tokens in, {total['output_tokens']:,} out"
    cost = "cost unknown" if total["cost_usd"] is None else f"${_usd(total['cost_usd'])}"
    return f"In all {_counted(total['calls'], 'call')}, {tokens}, {cost}."


def _apart(total: Mapping[str, Any]) -> Sequence[str]:
    """What the sum does not hold."""
    unknown, under_way = total["calls_of_unknown_cost"], total["under_way"]
    told = [f"{_counted(unknown, 'call')} of unknown cost: not in the sum; see * above."] if unknown else []
    return told + ([f"{_counted(under_way, 'call')} under way: counted when over."] if under_way else [])


def _values(row: Row) -> Sequence[str]:
    cost = "unknown" if row["cost_usd"] is None else _usd(row["cost_usd"])
    times = ("–" if row[name] is None else f"{row[name]:,}" for name in ("latency_ms_p50", "latency_ms_p95"))
    tokens = (_tokens(row[name]) for name in ("input_tokens", "cached_tokens", "output_tokens"))
    marked = "*" if row["calls_of_unknown_cost"] else ""
    return (
        row["engine"],
        str(row["iteration"]),
        f"{row['calls']:,}",
        f"{row['errors']:,}",
        *tokens,
        f"{cost}{marked}",
        *times,
    )


def _cells(cells: Sequence[str]) -> str:
    (first, *others), (left, *widths) = cells, [width for _, width in COLUMNS]
    return first.ljust(left) + "".join(cell.rjust(width) for cell, width in zip(others, widths, strict=True))


def _tokens(count: int) -> str:
    """At most seven characters."""
    if count < 100_000:
        return f"{count:,}"
    return f"{count / 1_000:,.0f}k" if count < 10_000_000 else f"{count / 1_000_000:,.1f}M"


def _usd(cost: Decimal) -> str:
    return f"{cost:,.2f}" if cost >= 100 else f"{cost:.4f}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _line(text: str, *, style: str = "") -> None:
    console.print(plain(text.rstrip(), style), soft_wrap=True)
