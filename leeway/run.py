"""`leeway run SERVICE`: one service in this process, against the URLs of the environment."""

from enum import StrEnum
from importlib import import_module
from typing import Annotated

import typer

from shared.settings import load_settings
from shared.work.process import run as run_service

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


class ServiceName(StrEnum):
    INGEST = "ingest"
    GUARD = "guard"
    AGENT = "agent"
    DISPATCH = "dispatch"
    CONSOLE = "console"


@app.command(
    epilog="[bold]Examples[/]\n\nleeway run ingest — webhooks on LEEWAY_HOST and LEEWAY_PORT\n\n"
    "LEEWAY_METRICS_PORT=9102 leeway run agent — one agent worker; start as many as you like\n\n"
    "LEEWAY_PORT=8001 leeway run console — feeds for staff's calendars"
)
def run(service: Annotated[ServiceName, typer.Argument(help="Which one.", show_default=False)]) -> None:
    """Run one service here until SIGTERM or Ctrl-C, which drain it (LEEWAY_DATABASE_URL, LEEWAY_AMQP_URL)."""
    run_service(service.value, load_settings(), import_module(f"services.{service}.__main__").wired)
