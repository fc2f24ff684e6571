"""`leeway migrate`: bring the database up to date; make the broker's work queues anew."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer

from leeway.installation import DIRECTORY, Data, the_one_meant
from leeway.terminal import console
from shared.broker import rebuild
from shared.database.migrate import Migration, migrate, pending
from shared.errors import Misconfigured
from shared.packs import load_packs, migrations_of
from shared.settings import Settings, load_settings
from shared.telemetry.logs import configure_logs

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(
    name="migrate",
    epilog="[bold]Examples[/]\n\nleeway migrate — safe to run by several at once\n\n"
    "leeway migrate --check — exit code 1 when something is pending\n\n"
    "leeway migrate --rebuild-broker — for queues that exist with other arguments; no message is lost",
)
def command(
    *,
    check: Annotated[bool, typer.Option("--check", help="Only list what is pending.")] = False,
    rebuild_broker: Annotated[
        bool,
        typer.Option(
            "--rebuild-broker", help="Delete and declare the broker's work queues; leave the database."
        ),
    ] = False,
    data: Data = DIRECTORY,
) -> None:
    """Bring the schema of the pipeline and of every pack up to date."""
    if rebuild_broker:
        asyncio.run(_rebuild(load_settings()))
    elif check:
        asyncio.run(_check(the_one_meant(data).database_url))
    else:
        configure_logs(level="warning", service="migrate")
        asyncio.run(_migrate(the_one_meant(data).database_url))


async def _migrate(url: str) -> None:
    applied = await migrate(url, packs=migrations_of(load_packs()))
    for one in applied:
        console.print(f"applied {one.label}")
    if not applied:
        console.print("Nothing to do: the database is up to date.")


async def _check(url: str) -> None:
    missing: Sequence[Migration] = await pending(url, packs=migrations_of(load_packs()))
    for one in missing:
        console.print(f"pending {one.label}")
    if missing:
        raise typer.Exit(1)
    console.print("The database is up to date.")


async def _rebuild(settings: Settings) -> None:
    if "amqp_url" not in settings.model_fields_set:
        raise Misconfigured("LEEWAY_AMQP_URL is not set: there is no broker to rebuild.")
    await rebuild(settings)
    console.print("The work queues are made anew; the services' sweepers fill them from the database.")
