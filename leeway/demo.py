"""`leeway demo`: a scripted conversation through all services, explained and checked against the record."""

import asyncio
import signal
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer
import uvloop
from rich.text import Text

from leeway.business_settings import business_settings
from leeway.businesses import NewBusiness
from leeway.one_process import DEMO, one_process, running
from leeway.screenplay import Stage
from leeway.screenplay_clinic import ClinicPlay, whole_day
from leeway.screenplay_expenses import play_expenses
from leeway.screenplay_model import LyingModel
from leeway.terminal import console, lasting, paragraph, program
from shared.clock import Shift
from shared.llm.mock import MockModel
from shared.packs import load_packs
from shared.settings import Settings, load_settings
from shared.telemetry.logs import configure_logs

WINDOW_MS: Final = 50  # usually 2 s, in which a customer's fragments are gathered

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


class Plays(StrEnum):
    """Packs with a script for the demo."""

    CLINIC = "clinic"
    EXPENSES = "expenses"


@app.command(
    epilog="[bold]Examples[/]\n\n"
    "leeway demo — nothing is kept, or sent anywhere; exit code 1 if a step went wrong\n\n"
    "leeway demo --pack expenses — one sentence at levels 1 to 4, side by side"
)
def play(pack: Annotated[Plays, typer.Option(help="Which story.")] = Plays.CLINIC) -> None:
    """A scripted conversation, explained step by step and checked (no keys, no Docker, no server)."""
    settings = load_settings(llm="mock")
    configure_logs(level="error", service="demo")
    try:
        held = uvloop.run(_play(settings, pack))
    except asyncio.CancelledError:
        raise typer.Exit(128 + signal.SIGTERM) from None
    raise typer.Exit(0 if held else 1)


async def _play(settings: Settings, pack: Plays) -> bool:
    began = time.monotonic()
    this = asyncio.current_task()
    assert this is not None, "uvloop.run makes one"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)  # Postgres is stopped then too
    match pack:
        case Plays.CLINIC:
            held = await _clinic(settings)
        case Plays.EXPENSES:
            held = await _expenses(settings)
    console.print(f"{lasting(time.monotonic() - began)}; nothing was kept.", style="dim")
    console.print()
    console.print("Talk to it yourself; /help says what you can turn and look at:")
    console.print(
        f"  {program()} sim{'' if pack is Plays.CLINIC else f' --pack {pack}'}", markup=False, soft_wrap=True
    )
    return held


async def _clinic(settings: Settings) -> bool:
    _opening("Leeway answers a dental clinic's customers.")
    async with _stage(settings, DEMO, name="Clinic") as stage:
        await ClinicPlay(stage, day=await whole_day(stage)).play()
    return stage.checks.verdict()


async def _expenses(settings: Settings) -> bool:
    _opening("Leeway keeps a customer's expenses.")
    business = replace(DEMO, slug="demo-expenses", name="Demo Expenses", pack="expenses")
    async with _stage(settings, business, name="Bot") as stage:
        await play_expenses(stage, replace(business, window_ms=WINDOW_MS))
    return stage.checks.verdict()


def _opening(what: str) -> None:
    paragraph(
        Text()
        .append("Leeway", style="bold")
        .append(what.removeprefix("Leeway"))
        .append(
            " What follows really happens, in this one process, on a PostgreSQL of its own; "
            "✓ marks what was read back from it. Only the language model is a rule-based stand-in, so that nothing "
            "costs money or leaves this machine."
        )
    )


@asynccontextmanager
async def _stage(settings: Settings, business: NewBusiness, *, name: str) -> AsyncIterator[Stage]:
    shift, packs = Shift(), load_packs()
    starting = console.status("Starting PostgreSQL and the services…")
    starting.start()
    try:
        with tempfile.TemporaryDirectory(prefix="leeway-demo-") as directory:
            async with (
                one_process(
                    settings,
                    Path(directory),
                    demo=replace(business, window_ms=WINDOW_MS),
                    keeps=False,
                    shift=shift,
                    model=LyingModel(MockModel(packs)),
                ) as installation,
                running(installation),
                business_settings(installation.parts.settings) as dials,
            ):
                starting.stop()
                stage = Stage(installation, packs=packs, shift=shift, dials=dials, name=name)
                try:
                    yield stage
                finally:
                    await stage.close()
    finally:
        starting.stop()
