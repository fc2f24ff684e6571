"""Numbered SQL migrations, forward only, one transaction each, safe to run by two processes at once."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from shared.errors import Misconfigured, Unavailable

PIPELINE = Path(__file__).parent / "migrations"
_LOCK = 4_711_926_001  # any number that is ours alone
_FILE = re.compile(r"^(\d{4})_([a-z0-9_]+)\.sql$")
_LEDGER = """
create schema if not exists leeway;
create table if not exists leeway.schema_migration (
  schema text not null, number int not null, name text not null, digest text not null,
  applied_at timestamptz not null default now(),
  primary key (schema, number));
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One file: its schema, number, name and text."""

    schema: str
    number: int
    name: str
    text: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


def read_migrations(schema: str, folder: Path) -> Sequence[Migration]:
    """The folder's migrations in order. Raises Misconfigured for a file name out of form or a gap in the numbers."""
    found = []
    for path in sorted(folder.glob("*.sql")):
        match = _FILE.match(path.name)
        if not match:
            raise Misconfigured(f"{path.name} is not called NNNN_some_name.sql")
        text = path.read_text(encoding="utf-8")
        found.append(Migration(schema=schema, number=int(match[1]), name=match[2], text=text))
    if [migration.number for migration in found] != list(range(1, len(found) + 1)):
        raise Misconfigured(f"The migrations of {schema} must be numbered 0001, 0002, … without a gap.")
    return found


async def migrate(url: str, *, packs: Mapping[str, Path] | None = None) -> Sequence[Migration]:
    """Bring the database up to date: the pipeline's schema, then each pack's. Returns what was applied just now.

    Runs as the URL's user, who becomes the owner. Raises Misconfigured when an applied file was changed afterwards or
    the database is newer than this code; Unavailable when it can't be reached.
    """
    plan = _plan(packs or {})
    connection = await _connect(url)
    try:
        await connection.execute("select pg_advisory_lock($1)", _LOCK)
        await connection.execute(_LEDGER)
        await _refuse_newer(connection, plan)
        return [migration for migration in plan if await _apply(connection, migration)]
    finally:
        await connection.close()


async def pending(url: str, *, packs: Mapping[str, Path] | None = None) -> Sequence[Migration]:
    """What `migrate` would apply. Raises Unavailable when the database can't be reached."""
    plan = _plan(packs or {})
    connection = await _connect(url)
    try:
        if not await connection.fetchval("select to_regclass('leeway.schema_migration') is not null"):
            return plan
        rows = await connection.fetch("select schema, number from leeway.schema_migration")
    finally:
        await connection.close()
    applied = {(row["schema"], row["number"]) for row in rows}
    return [migration for migration in plan if (migration.schema, migration.number) not in applied]


def _plan(packs: Mapping[str, Path]) -> Sequence[Migration]:
    """All there is, in the order of application: the pipeline's, then each pack's."""
    folders = [("leeway", PIPELINE), *sorted(packs.items())]
    return [migration for schema, folder in folders for migration in read_migrations(schema, folder)]


async def _connect(url: str) -> "asyncpg.Connection[asyncpg.Record]":
    try:
        return await asyncpg.connect(url, timeout=10)
    except (OSError, TimeoutError, asyncpg.PostgresError) as error:
        raise Unavailable(f"Postgres can't be reached: {type(error).__name__}: {error}") from error


async def _refuse_newer(connection: "asyncpg.Connection[asyncpg.Record]", plan: Sequence[Migration]) -> None:
    rows = await connection.fetch(
        "select schema, max(number) as number from leeway.schema_migration group by schema"
    )
    newest = {migration.schema: migration.number for migration in plan}
    for row in rows:
        if row["number"] > newest.get(row["schema"], row["number"]):
            raise Misconfigured(
                f"The database is newer than this version of Leeway: it has migration {row['number']:04} of {row['schema']}, "
                f"and the last one known here is {newest[row['schema']]:04}. Install the newer version."
            )


async def _apply(connection: "asyncpg.Connection[asyncpg.Record]", migration: Migration) -> bool:
    known = await connection.fetchrow(
        "select digest from leeway.schema_migration where schema = $1 and number = $2",
        migration.schema,
        migration.number,
    )
    label = f"{migration.schema} {migration.number:04} {migration.name}"
    if known:
        if known["digest"] != migration.digest:
            raise Misconfigured(
                f"Migration {label} was changed after it was applied; write a new one instead."
            )
        return False
    async with connection.transaction():
        await connection.execute(f"create schema if not exists {migration.schema}")
        await connection.execute(f"set local search_path = {migration.schema}, leeway")
        await connection.execute(migration.text)
        await connection.execute(
            "insert into leeway.schema_migration (schema, number, name, digest) values ($1, $2, $3, $4)",
            migration.schema, migration.number, migration.name, migration.digest,
        )  # fmt: skip
    return True
