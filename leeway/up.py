"""`leeway up`: everything in this process, data kept; with --stack, the services as processes."""

import asyncio
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
import uvloop
from rich.markup import escape

from leeway.installation import DIRECTORY, Note, noted
from leeway.one_process import OneProcess, one_process
from leeway.stack import run_stack
from leeway.terminal import console, program
from leeway.twins.played import Played, played
from leeway.twins.telephones import TwinName
from shared.settings import Settings, load_settings
from shared.telemetry.health import Server, refuse_taken, server
from shared.telemetry.logs import configure_logs, secrets_of
from shared.work.asking import until
from shared.work.process import run_until

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(
    epilog="[bold]Examples[/]\n\nleeway up — then, in another terminal: leeway say Hello\n\n"
    "leeway up --data /srv/leeway --port 8001\n\n"
    "leeway up --twin whatsapp — with a page in the browser to chat on\n\n"
    "leeway up --stack --agents 4 — against LEEWAY_DATABASE_URL and LEEWAY_AMQP_URL"
)
def up(
    *,
    data: Annotated[Path, typer.Option(help="Where the data are kept.", file_okay=False)] = DIRECTORY,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Of the webhooks (else LEEWAY_PORT, 8000).")
    ] = None,
    stack: Annotated[
        bool, typer.Option("--stack", help="Processes on your PostgreSQL and RabbitMQ.")
    ] = False,
    agents: Annotated[int, typer.Option(min=1, max=100, help="With --stack: how many agents.")] = 1,
    twin: Annotated[
        TwinName | None, typer.Option(help="Play this provider, with a page to chat on.", show_default=False)
    ] = None,
) -> None:
    """Run all services until Ctrl-C or SIGTERM, with a PostgreSQL of their own. A kill loses nothing."""
    settings = load_settings(**({"port": port} if port is not None else {}))
    if stack and twin:
        raise typer.BadParameter("--twin plays a provider to one process; leave --stack away")
    if stack:
        raise typer.Exit(asyncio.run(run_stack(settings, agents=agents)))
    quiet = "log_level" not in settings.model_fields_set
    configure_logs(
        level="warning" if quiet else settings.log_level, service="up", secrets=secrets_of(settings)
    )
    uvloop.run(_up(settings, data, twin))


async def _up(settings: Settings, data: Path, name: TwinName | None) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    refuse_taken(settings.host, settings.port, choose="--port")
    starting = console.status("Starting PostgreSQL and the services…")
    starting.start()
    try:
        async with (
            played(settings, name) as twin,
            one_process(twin.settings, data) as installation,
            asyncio.TaskGroup() as tasks,
        ):
            http = server(installation.app, host=settings.host, port=settings.port)
            telling = tasks.create_task(_tell(installation, http, data, twin, starting.stop))
            await run_until(
                stopping,
                installation.services,
                http,
                metrics=installation.parts.metrics,
                drain_s=settings.timeouts.drain,
            )
            telling.cancel()
    finally:
        starting.stop()
    console.print(f"Stopped. The data stay in {data}.", markup=False)


async def _tell(
    installation: OneProcess, http: Server, data: Path, twin: Played, ready: Callable[[], None]
) -> None:
    """Say where everything is once it works, to people and to other commands."""
    await until(lambda: http.started and installation.why_not() is None)
    await twin.connect(installation, http.address)
    ready()
    database_url = installation.parts.settings.database_url.get_secret_value()
    note = Note(url=http.address, database_url=database_url, sim_address=installation.sim_address)
    with noted(data, note):
        _print_addresses(note, data)
        if twin.page:
            console.print(f"Or chat in a browser, as a customer: {twin.page}", markup=False, soft_wrap=True)
        console.print("Stop with Ctrl-C.")
        await asyncio.Event().wait()


def _print_addresses(note: Note, data: Path) -> None:
    console.print(f"[bold]Leeway is running[/] with a demo clinic; data in {escape(str(data))}")
    for name, path, what in (
        ("webhook", f"/hooks/sim/{note.sim_address}", "signed; a simulated telephone line"),
        ("health", "/readyz", "and /healthz"),
        ("metrics", "/metrics", "for Prometheus"),
        ("API", "/openapi.json", "the webhooks as OpenAPI"),
        (
            "feeds",
            "/feeds/…",
            f"calendars for staff; their addresses: {program()} feeds list {note.sim_address}",
        ),
    ):
        console.print(f"  {name:<8} {note.url}{path}  [dim]{what}[/]", soft_wrap=True)
    console.print("Write to it as a customer, in another terminal:")
    where = "" if data == DIRECTORY else f" --data {shlex.quote(str(data))}"
    console.print(f"  {program()} say{where} 'Is a cleaning free tomorrow?'", markup=False, soft_wrap=True)
    console.print("Your own business beside the demo's: leeway business create --help")
