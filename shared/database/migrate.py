"""Numbered SQL migrations, forward only, safe to run by two processes at once and beside running services.

A file is one transaction. One whose first line is ``-- concurrently`` makes or drops indexes on tables that are written
meanwhile, which no transaction can: its statements run one by one, and those that are done are passed over when it is run again.
"""

import asyncio
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import structlog

from shared.database.connected import ANSWERS_WITHIN_S, connected
from shared.database.restoring import begin, why_closed
from shared.errors import Misconfigured, Unavailable
from shared.jitter import between

PIPELINE = Path(__file__).parent / "migrations"
LACKS = "The database lacks {} of its migrations; run: leeway migrate"
NEWER = "The database is newer than this version of Leeway, which does not know its migrations {}"
# Whoever waits for a table's lock holds up all who come after: so it waits shortly, lets them pass, and comes again.
LOCK_WAIT_S = 0.5
LOCK_PAUSE_MAX_S = 5.0
LOCKS_WITHIN_S = 300.0
LOOK_EVERY_S = 0.2
_LOCK = 4_711_926_001  # any number that is ours alone
_CONCURRENTLY = "-- concurrently\n"
_INDEX = re.compile(
    r"^(create (?:unique )?index concurrently if not exists|drop index concurrently if exists) ([a-z0-9_]+)\b"
)
_FILE = re.compile(r"^(\d{4})_([a-z0-9_]+)\.sql$")
_LEDGER = """
create schema if not exists leeway;
create table if not exists leeway.schema_migration (
  schema text not null, number int not null, name text not null, digest text not null,
  applied_at timestamptz not null default now(),
  primary key (schema, number));
"""
_FILLED = """
select n.nspname as schema from pg_namespace n
where n.nspname = any($1) and exists (select from pg_class c where c.relnamespace = n.oid) order by 1
"""
_HALF_MADE = """
select from pg_index i join pg_class c on c.oid = i.indexrelid join pg_namespace n on n.oid = c.relnamespace
where not i.indisvalid and n.nspname = $1 and c.relname = $2
"""

log = structlog.get_logger(__name__)


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

    @property
    def label(self) -> str:
        return f"{self.schema} {self.number:04} {self.name}"

    @property
    def concurrently(self) -> bool:
        return self.text.startswith(_CONCURRENTLY)

    def indexes(self) -> Sequence[tuple[str, str]]:
        """Of a file that runs concurrently, each index with its statement. Raises Misconfigured for any other statement."""
        lines = [line for line in self.text.splitlines() if not line.startswith("--")]
        found = []
        for statement in filter(None, (" ".join(one.split()) for one in "\n".join(lines).split(";"))):
            match = _INDEX.match(statement)
            if not match:
                raise Misconfigured(
                    f"{self.label} runs concurrently: it may only `create index concurrently if not exists` "
                    "and `drop index concurrently if exists`."
                )
            found.append((match[2], statement))
        return found


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

    Runs as the URL's user, who becomes the owner. Raises Misconfigured when an applied file was changed afterwards, the
    database is newer than this code, or a schema's name is taken by somebody else's tables; Unavailable when it can't be reached,
    or something held a table's lock for too long.
    """
    plan = _plan(packs or {})
    async with connected(url) as connection:
        await _alone(connection)
        applied = await _applied(connection)
        await _refuse_strangers(connection, plan, applied)
        _refuse_newer(plan, applied)
        await connection.execute(_LEDGER)
        return [migration for migration in plan if await _apply(connection, migration)]


async def pending(url: str, *, packs: Mapping[str, Path] | None = None) -> Sequence[Migration]:
    """What `migrate` would apply. Raises Unavailable when the database can't be reached or does not answer in time, and
    Misconfigured when its user may not look."""
    plan = _plan(packs or {})
    async with connected(url, answers_within_s=ANSWERS_WITHIN_S) as connection:
        return _missing(plan, await _applied(connection))


async def unknown(url: str, *, packs: Mapping[str, Path] | None = None) -> str:
    """Migrations of a newer version, by schema and number, with commas; empty for none. Raises as `pending`."""
    plan = _plan(packs or {})
    async with connected(url, answers_within_s=ANSWERS_WITHIN_S) as connection:
        return _unknown(plan, await _applied(connection))


async def ready_for(url: str, *, packs: Mapping[str, Path] | None = None) -> None:
    """Raises Unavailable while the database is closed, or lacks what this version needs. What a newer one added is no bar."""
    plan = _plan(packs or {})
    async with connected(url, answers_within_s=ANSWERS_WITHIN_S) as connection:
        # In this order: a back-up is there from one moment to the next, and closed until it was seen to.
        missing = _missing(plan, await _applied(connection))
        if why := await why_closed(connection):
            raise Unavailable(why)
        if missing:
            raise Unavailable(LACKS.format(len(missing)))


async def is_migrated(url: str) -> bool:
    """Whether there is an installation at all, of whatever version."""
    async with connected(url, answers_within_s=ANSWERS_WITHIN_S) as connection:
        return bool(await _applied(connection))


async def emptied(url: str) -> bool:
    """Drop all that migrations made, unless there is a business; whether it is gone. The two roles are the server's, and stay.

    From that moment no service starts, until what is restored there was seen to."""
    async with connected(url) as connection:
        if await connection.fetchval("select exists (select from leeway.business)"):
            return False
        made = await connection.fetch("select distinct schema from leeway.schema_migration")
        names = ", ".join(["leeway", *(row["schema"] for row in made if row["schema"] != "leeway")])
        async with connection.transaction():
            await begin(connection)
            await connection.execute(f"drop schema {names} cascade")
        return True


def _plan(packs: Mapping[str, Path]) -> Sequence[Migration]:
    """All there is, in the order of application: the pipeline's, then each pack's."""
    folders = [("leeway", PIPELINE), *sorted(packs.items())]
    return [migration for schema, folder in folders for migration in read_migrations(schema, folder)]


async def _applied(connection: "asyncpg.Connection[asyncpg.Record]") -> set[tuple[str, int]] | None:
    """Schema and number of each; None where nobody ever migrated."""
    try:
        rows = await connection.fetch("select schema, number from leeway.schema_migration")
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        return None
    return {(row["schema"], row["number"]) for row in rows}


async def _refuse_strangers(
    connection: "asyncpg.Connection[asyncpg.Record]",
    plan: Sequence[Migration],
    applied: set[tuple[str, int]] | None,
) -> None:
    """A schema of one of our names that we did not make is somebody else's, with what is in it."""
    ours = set() if applied is None else {"leeway", *(schema for schema, _ in applied)}
    names = {migration.schema for migration in plan} - ours
    if taken := [row["schema"] for row in await connection.fetch(_FILLED, sorted(names))]:
        raise Misconfigured(
            f"There are tables in the schema {' and '.join(taken)} of that database that are not Leeway's; "
            "give it a database of its own."
        )


def _refuse_newer(plan: Sequence[Migration], applied: set[tuple[str, int]] | None) -> None:
    if newer := _unknown(plan, applied):
        raise Misconfigured(f"{NEWER.format(newer)}. Install the newer version.")


def _missing(plan: Sequence[Migration], applied: set[tuple[str, int]] | None) -> Sequence[Migration]:
    return [migration for migration in plan if (migration.schema, migration.number) not in (applied or ())]


def _unknown(plan: Sequence[Migration], applied: set[tuple[str, int]] | None) -> str:
    """What the database has of schemas that we know and this version does not; empty for nothing."""
    newest = {migration.schema: migration.number for migration in plan}
    beyond = sorted(
        (schema, number) for schema, number in applied or () if number > newest.get(schema, number)
    )
    return ", ".join(f"{schema} {number:04}" for schema, number in beyond)


async def _alone(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Wait for whoever migrates just now, asking again and again: a statement that waited would hold up an index that is made
    concurrently."""
    while not await connection.fetchval("select pg_try_advisory_lock($1)", _LOCK):  # noqa: ASYNC110  Postgres tells nobody when another process lets go of a lock
        await asyncio.sleep(LOOK_EVERY_S)


async def _apply(connection: "asyncpg.Connection[asyncpg.Record]", migration: Migration) -> bool:
    known = await connection.fetchrow(
        "select digest from leeway.schema_migration where schema = $1 and number = $2",
        migration.schema,
        migration.number,
    )
    if known:
        if known["digest"] != migration.digest:
            raise Misconfigured(
                f"Migration {migration.label} was changed after it was applied; write a new one instead."
            )
        return False
    if migration.concurrently:
        await _make_indexes(connection, migration)
    else:
        await _when_locks_are_free(connection, migration)
    return True


async def _when_locks_are_free(
    connection: "asyncpg.Connection[asyncpg.Record]", migration: Migration
) -> None:
    loop = asyncio.get_running_loop()
    until, pause = loop.time() + LOCKS_WITHIN_S, LOCK_WAIT_S
    while True:
        try:
            async with connection.transaction():
                await connection.execute(f"create schema if not exists {migration.schema}")
                await connection.execute(f"set local search_path = {migration.schema}, leeway")
                await connection.execute(f"set local lock_timeout = '{int(LOCK_WAIT_S * 1000)}ms'")
                await connection.execute(migration.text)
                await _note(connection, migration)
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError) as error:
            if loop.time() > until:
                raise Unavailable(
                    f"Migration {migration.label} got no lock within {LOCKS_WITHIN_S:.0f} s, and changed nothing: a "
                    "transaction holds its tables; pg_stat_activity shows which. Then run it again."
                ) from error
            log.warning("migration lets others pass", migration=migration.label, error=str(error))
        else:
            return
        await asyncio.sleep(pause * between(0.5, 1.0))
        pause = min(2 * pause, LOCK_PAUSE_MAX_S)


async def _make_indexes(connection: "asyncpg.Connection[asyncpg.Record]", migration: Migration) -> None:
    """No lock that others wait for is taken, but all transactions that are older must end. What an attempt that was killed, or
    gave up, left half made is dropped first."""
    schema = migration.schema
    await connection.execute(f"create schema if not exists {schema}")
    await connection.execute(
        f"set search_path = {schema}, leeway; set lock_timeout = '{int(LOCKS_WITHIN_S * 1000)}ms'; set statement_timeout = 0"
    )
    try:
        for index, statement in migration.indexes():
            if await connection.fetch(_HALF_MADE, schema, index):
                await connection.execute(f"drop index concurrently {schema}.{index}")
            await connection.execute(statement)
    except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError) as error:
        raise Unavailable(
            f"Migration {migration.label} waited for {LOCKS_WITHIN_S:.0f} s in vain: a transaction that is older than its "
            "index goes on; pg_stat_activity shows which. End it, then run it again."
        ) from error
    await connection.execute("reset search_path; reset lock_timeout; reset statement_timeout")
    await _note(connection, migration)


async def _note(connection: "asyncpg.Connection[asyncpg.Record]", migration: Migration) -> None:
    await connection.execute(
        "insert into leeway.schema_migration (schema, number, name, digest) values ($1, $2, $3, $4)",
        migration.schema, migration.number, migration.name, migration.digest,
    )  # fmt: skip
