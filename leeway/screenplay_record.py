"""The demo's last scenes: what the record says of model calls, decisions and people."""

from dataclasses import replace
from decimal import Decimal
from typing import Final

from rich.text import Text

from leeway.evidence import Metered
from leeway.screenplay import Stage
from leeway.terminal import console
from services.console.adapters.postgres_audit import PostgresAudit
from shared.audit import Intact
from shared.evidence import Envelope, Found, check

HEADINGS: Final = ("call", "calls", "tokens in", "out", "cost USD", "ms median", "ms max")


async def metering(stage: Stage) -> None:
    """Every model call is on the record, with its cost."""
    stage.scene("What the model was asked, and what it cost")
    metered = await stage.evidence.metering()
    rows = [HEADINGS, *(_cells(one) for one in metered)]
    widths = [max(len(cells[at]) for cells in rows) + 2 for at in range(len(HEADINGS))]
    for cells in rows:
        line = "".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        console.print(Text(f"{'':<12}{line}", style="dim" if cells is HEADINGS else ""), soft_wrap=True)
    complete = all(one.input > 0 and one.output > 0 and one.cost_usd is not None for one in metered)
    stage.check(
        "tokens, cost and time of every call (the stand-in is free)",
        holds=bool(metered) and complete,
        found=metered,
    )


async def sealed(stage: Stage) -> None:
    """Each decision is sealed to the one before; what people changed is chained as well."""
    stage.scene("Every decision can be held against its seal")
    chains = await stage.evidence.decisions()
    found = {state for chain in chains for state in check(chain)}
    decisions = sum(len(chain) for chain in chains)
    stage.check(
        f"{decisions} decisions in {len(chains)} conversations, each sealed to the one before it",
        holds=found == {Found.WHOLE},
        found=found,
    )
    noticed = [check(_forged(chain))[0] for chain in chains]
    stage.check(
        "one word changed in a copy of any of them: the seal no longer fits",
        holds=set(noticed) == {Found.TAMPERED},
        found=noticed,
    )
    log = await PostgresAudit(stage.database).verified(stage.business)
    entries = log.head.n if isinstance(log, Intact) else 0
    stage.check(
        f"the log of what people decided and changed: {entries} entries, unbroken",
        holds=entries > 0,
        found=log,
    )


def _forged(chain: list[Envelope]) -> list[Envelope]:
    """A copy of the chain with another outcome in its first decision."""
    first = chain[0]
    return [replace(first, parts=first.parts.replace("outcome", "0utcome")), *chain[1:]]


def _cells(one: Metered) -> tuple[str, ...]:
    cost = "unknown" if one.cost_usd is None else f"{one.cost_usd or Decimal(0):.4f}"
    numbers = (one.calls, one.input, one.output)
    times = (one.latency_ms_p50, one.latency_ms_max)
    return (_nth(one.iteration), *(f"{n:,}" for n in numbers), cost, *(f"{n:,}" for n in times))


def _nth(number: int) -> str:
    return {1: "1st", 2: "2nd", 3: "3rd"}.get(number, f"{number}th")
