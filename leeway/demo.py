"""`leeway demo`: a scripted conversation through all services, explained and checked against the record."""

import asyncio
import signal
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import typer
import uvloop
from rich.text import Text

from leeway.one_process import DEMO, one_process, running
from leeway.screenplay import Screenplay
from leeway.terminal import console, lasting, paragraph, program
from shared.settings import Settings, load_settings
from shared.telemetry.logs import configure_logs

WINDOW_MS: Final = 200

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(
    epilog="[bold]Example[/]\n\n"
    "leeway demo — nothing is kept, or sent anywhere; exit code 1 if a step went wrong"
)
def play() -> None:
    """A scripted conversation with a demo clinic, explained step by step (no keys, no Docker, no server)."""
    settings = load_settings(llm="mock")
    configure_logs(level="error", service="demo")
    try:
        held = uvloop.run(_play(settings))
    except asyncio.CancelledError:
        raise typer.Exit(128 + signal.SIGTERM) from None
    raise typer.Exit(0 if held else 1)


async def _play(settings: Settings) -> bool:
    began = time.monotonic()
    this = asyncio.current_task()
    assert this is not None, "uvloop.run makes one"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)  # Postgres is stopped then too
    paragraph(
        Text()
        .append("Leeway", style="bold")
        .append(
            " answers a dental clinic's customers. Its four services, ingest → guard → agent → dispatch, run in "
            "this one process on a real PostgreSQL in a temporary directory.",
        )
    )
    paragraph(
        Text(
            "The language model is a rule-based stand-in: nothing costs money or leaves this machine. "
            f"The pause that gathers a customer's fragments into one turn is {WINDOW_MS} ms here, usually 2 s.",
            style="dim",
        )
    )
    demo = replace(DEMO, window_ms=WINDOW_MS)
    starting = console.status("Starting PostgreSQL and the services…")
    starting.start()
    try:
        with tempfile.TemporaryDirectory(prefix="leeway-demo-") as directory:
            async with (
                one_process(settings, Path(directory), demo=demo, keeps=False) as installation,
                running(installation),
            ):
                starting.stop()
                held = await Screenplay(installation).play()
    finally:
        starting.stop()
    console.print(f"{lasting(time.monotonic() - began)}; nothing was kept.", style="dim")
    console.print()
    console.print("Keep it running, and write to it yourself:")
    console.print(f"  {program()} up", markup=False, soft_wrap=True)
    return held
