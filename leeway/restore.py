"""`leeway restore`: a back-up into an empty database, and what becomes of replies that it knows as not sent."""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Annotated, Final

import typer

from leeway.backup import STANDARD_STREAM, server_of
from leeway.installation import DIRECTORY, Data
from leeway.operators import By, actor
from leeway.postgres_programs import program, run
from leeway.reached import reached
from leeway.terminal import console, shown
from services.console.adapters.postgres_audit import append
from shared.audit import Note
from shared.database import Database, load_queries, open_pool
from shared.database.connected import connected
from shared.database.migrate import emptied, is_migrated, migrate
from shared.database.pool import OWNER
from shared.database.restoring import MARK, closed, end
from shared.digest import canonical
from shared.errors import LeewayError, Misconfigured
from shared.ids import BusinessId
from shared.packs import load_packs, migrations_of
from shared.settings import Timeouts
from shared.telemetry.logs import configure_logs

QUERIES = load_queries(Path(__file__).with_suffix(".sql"))
WHOLE: Final = ("--single-transaction", "--exit-on-error", "--no-owner")
UNSETTLED: Final = (
    "The rows are there, and replies in them are not decided about: put that right, then run leeway restore --loaded, "
    "before any service starts."
)
NO_ROWS: Final = (
    "No business is there, so no back-up's rows: run leeway restore FILE, or pg_restore, first. To begin anew without them: "
    f"remove the schema {MARK}."
)
PATIENT: Final = Timeouts(lock=60, statement=600)  # nobody else is there, and a back-up may be large

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(
    epilog="[bold]Examples[/]\n\nleeway restore /srv/backups/leeway-2026-12-01.dump — services stopped, database empty\n\n"
    "leeway restore leeway.dump --data /srv/leeway — for a `leeway up`; put its secret.key there too\n\n"
    "By hand, where the programs are elsewhere: leeway restore --prepare, then pg_restore, then leeway restore --loaded"
)
def restore(
    file: Annotated[
        Path | None, typer.Argument(help="What `leeway backup` wrote, or - for standard input.")
    ] = None,
    *,
    prepare: Annotated[
        bool, typer.Option("--prepare", help="Only make the two roles, for who runs pg_restore.")
    ] = False,
    loaded: Annotated[
        bool, typer.Option("--loaded", help="The rows are there: bring them up to date, see to replies.")
    ] = False,
    send: Annotated[
        bool,
        typer.Option(
            "--send",
            help="Send the replies that wait in it, though they may have gone out since it was made.",
        ),
    ] = False,
    by: By = None,
    data: Data = DIRECTORY,
) -> None:
    """Fill an empty database from a back-up. Replies that it knows as not sent become drafts: they may have been sent since."""
    configure_logs(level="warning", service="restore")
    if [file is not None, prepare, loaded].count(True) != 1:
        raise typer.BadParameter("name a file, or say --prepare or --loaded")
    if file is not None and file != STANDARD_STREAM and not file.is_file():
        raise Misconfigured(f"There is no file {file}.")
    who = actor(by)
    with reached(data, new=not loaded) as place, _closed(place.url):
        asyncio.run(_refuse_company(place.url))
        if not loaded:
            asyncio.run(_made_ready(place.url))
        if prepare:
            console.print(
                "The roles are there, and nothing else; now: pg_restore --single-transaction --no-owner …"
            )
            return
        if file is not None:
            _read(file, place.url)
        elif not asyncio.run(_came(place.url)):
            raise Misconfigured(NO_ROWS)
        try:
            held = asyncio.run(_settled(place.url, by=who, send=send))
        except LeewayError as error:
            raise Misconfigured(f"{error} {UNSETTLED}") from error
    _tell(held, key=place.key, send=send)


@contextmanager
def _closed(url: str) -> Iterator[None]:
    """Services that wait for the database go on waiting, until replies were decided about."""
    with asyncio.Runner() as runner:
        opened = closed(url)
        runner.run(opened.__aenter__())
        try:
            yield
        finally:
            runner.run(opened.__aexit__(None, None, None))


@asynccontextmanager
async def _owned(url: str) -> AsyncIterator[Database]:
    database = await open_pool(url, size=1, timeouts=PATIENT, role=OWNER)
    try:
        yield database
    finally:
        await database.close()


async def _made_ready(url: str) -> None:
    """Our roles are there, and nothing else of ours. Raises Misconfigured where businesses are: nothing is written over."""
    await migrate(url, packs=migrations_of(load_packs()))
    if not await emptied(url):
        raise Misconfigured(
            "There is an installation in that database already; restore into a new one (createdb), never over another."
        )


def _read(file: Path, url: str) -> None:
    try:
        with console.status("Reading the back-up…"):
            _load(file, url)
        if not asyncio.run(is_migrated(url)):
            raise Misconfigured(
                "That held no installation, so it was no back-up of one; drop what is in that database now."
            )
    except Misconfigured:
        with suppress(LeewayError):  # what failed is told, not that the server is gone by now
            asyncio.run(_reopened(url))
        raise


async def _came(url: str) -> bool:
    """Whether rows of a back-up are there, and not only what migrations make."""
    if not await is_migrated(url):
        return False
    async with _owned(url) as database:
        return bool(await database.fetch(QUERIES["businesses"]))


async def _reopened(url: str) -> None:
    """Where no row came, services may start again, as on a new database."""
    if not await is_migrated(url):
        async with connected(url) as connection:
            await end(connection)


def _load(file: Path, url: str) -> None:
    major, _ = asyncio.run(server_of(url))
    command = [str(program("pg_restore", server=major)), *WHOLE]
    if file == STANDARD_STREAM:
        run(command, url, reads=sys.stdin.buffer, writes=None)
        return
    with file.open("rb") as reads:
        run(command, url, reads=reads, writes=None)


async def _settled(url: str, *, by: str, send: bool) -> Counter[str]:
    """Brought up to date, replies decided about, written down; how many are held of each business."""
    await migrate(url, packs=migrations_of(load_packs()))
    async with _owned(url) as database:
        return await _decided(database, by=by, send=send)


async def _refuse_company(url: str) -> None:
    """Services would send what waits in a back-up before it was decided about."""
    async with _owned(url) as database:
        others = (await database.fetch(QUERIES["others"]))[0]["n"]
    if others:
        raise Misconfigured(
            f"Leeway works on that database just now, over {others} connections; stop its services first."
        )


async def _decided(database: Database, *, by: str, send: bool) -> Counter[str]:
    async with database.transaction() as transaction:
        rows = [] if send else await transaction.fetch(QUERIES["hold"])
        held = Counter({row["slug"]: row["n"] for row in rows})
        for business in await transaction.fetch(QUERIES["businesses"]):
            detail = canonical({"held": held[business["slug"]], "sent": send})
            note = Note(actor=by, action="business.restore", subject=business["slug"], detail=detail)
            await append(transaction, BusinessId(business["id"]), note)
        await end(transaction)
    return held


def _tell(held: Counter[str], *, key: str, send: bool) -> None:
    console.print("Restored, and up to date.")
    if send:
        console.print("Replies that waited in it are sent when the services start.")
    for slug, n in sorted(held.items()):
        console.print(
            f"Replies of {shown(slug)} that are drafts now, as they may have been sent since the back-up: {n}; "
            f"see: leeway drafts list --business {slug}",
            markup=False,
            soft_wrap=True,
        )
    console.print(f"Put the installation's own key into {key} before you start it; then: leeway doctor")
