"""`leeway backup`: the whole database in one file, as it is at one moment, while everything runs on."""

import asyncio
import fcntl
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Annotated, Final

import typer

from leeway.installation import DIRECTORY, Data
from leeway.postgres_programs import program, run
from leeway.reached import reached
from leeway.terminal import console, errors
from shared.database import load_queries, open_pool
from shared.database.migrate import is_migrated
from shared.database.pool import OWNER
from shared.database.restoring import MARK
from shared.errors import Misconfigured
from shared.settings import Timeouts
from shared.telemetry.logs import configure_logs

QUERIES = load_queries(Path(__file__).with_suffix(".sql"))
STANDARD_STREAM: Final = Path("-")  # standard output, or input where it is read
DUMP_OPTIONS: Final = ("--format=custom", f"--exclude-schema={MARK}")
THERE: Final = "{} is there already; name another: a back-up is never written over."

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(
    epilog="[bold]Examples[/]\n\nleeway backup /srv/backups/leeway-$(date +%F).dump\n\n"
    "leeway backup - | age -r … > leeway.dump.age — to a pipe, which encrypts it\n\n"
    "What it holds are your customers' words: keep it as you keep the database. Get it back with: leeway restore"
)
def backup(
    file: Annotated[Path, typer.Argument(help="A new file, or - for standard output.", show_default=False)],
    *,
    data: Data = DIRECTORY,
) -> None:
    """Write the database to a file, by pg_dump. The broker needs no back-up; the secret key is not in it: keep that apart."""
    configure_logs(level="warning", service="backup")
    if file != STANDARD_STREAM and file.exists():
        raise Misconfigured(THERE.format(file))
    with reached(data) as place:
        major, sees_all = asyncio.run(server_of(place.url))
        if not sees_all:
            raise Misconfigured(
                "LEEWAY_DATABASE_URL's user is subject to row-level security, so pg_dump would leave rows out; run it as a "
                "superuser, or give it bypassrls"
            )
        if not asyncio.run(is_migrated(place.url)):
            raise Misconfigured("There is no installation in that database; is LEEWAY_DATABASE_URL right?")
        command = [str(program("pg_dump", server=major)), *DUMP_OPTIONS]
        if file == STANDARD_STREAM:
            run(command, place.url, reads=None, writes=sys.stdout.buffer)
        else:
            with console.status("Writing the back-up…"):
                _written(command, place.url, file)
    errors.print(f"Back-up written{'' if file == STANDARD_STREAM else f' to {file}'}.", markup=False)
    errors.print(f"Keep {place.key} apart from it: without it the channels' secrets stay shut.", markup=False)


async def server_of(url: str) -> tuple[int, bool]:
    """The server's major version, and whether its user sees all rows."""
    database = await open_pool(url, size=1, timeouts=Timeouts(), role=OWNER)
    try:
        row = (await database.fetch(QUERIES["server"]))[0]
    finally:
        await database.close()
    return row["major"], row["sees_all"]


def _written(command: Sequence[str], url: str, file: Path) -> None:
    """Under another name until it is whole, for its owner alone. One that a killed process left there is written over."""
    unfinished = file.with_name(f"{file.name}.unfinished")
    try:
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600), "wb") as writes:
            _lock(writes, file)
            try:
                if file.exists():  # finished by another since we looked
                    raise Misconfigured(THERE.format(file))
                writes.truncate()
                run(command, url, reads=None, writes=writes)
                os.fsync(writes.fileno())
                unfinished.rename(file)
            finally:
                unfinished.unlink(missing_ok=True)
    except OSError as error:
        raise Misconfigured(f"{file} can't be written: {error.strerror}") from error


def _lock(writes: IO[bytes], file: Path) -> None:
    """Nobody else writes this back-up. Raises Misconfigured."""
    try:
        fcntl.flock(writes, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Misconfigured(f"Another leeway writes {file} just now; name another.") from None
