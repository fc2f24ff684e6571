"""What `leeway doctor` sees of the database: whether it can be worked on, and what lies in it undone."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

from leeway.doctor_accounts import account_troubles
from leeway.doctor_finding import Finding, fix, note, ok
from leeway.terminal import lasting
from shared.clock import SystemClock
from shared.database import Database, load_queries, open_pool
from shared.database.migrate import pending
from shared.database.pool import OWNER
from shared.errors import LeewayError, Misconfigured
from shared.packs import load_packs, migrations_of
from shared.secrets import vault_of
from shared.settings import Settings

QUERIES = load_queries(Path(__file__).with_name("doctor.sql"))
POSTGRES_OLDEST: Final = 15
SKEW_MAX_S: Final = 2.0
OVERDUE_S: Final = 60.0
BESIDE_THE_POOL: Final = (
    2  # connections of an agent or a dispatch: its worker number, and its look for dead ones
)


async def database_findings(settings: Settings) -> AsyncGenerator[Finding]:
    url = settings.database_url.get_secret_value()
    try:
        database = await open_pool(url, size=1, timeouts=settings.timeouts, role=OWNER)
    except LeewayError as error:
        yield fix("database", f"{error}; is it running, and LEEWAY_DATABASE_URL right?")
        return
    try:
        async with aclosing(_of_database(database, settings)) as findings:
            async for finding in findings:
                yield finding
    except LeewayError as error:
        yield fix("database", str(error))
    finally:
        await database.close()


async def _of_database(database: Database, settings: Settings) -> AsyncGenerator[Finding]:
    clock = SystemClock()
    before = clock.now()
    server = (await database.fetch(QUERIES["server"]))[0]
    took_s = (clock.now() - before).total_seconds()
    yield _version(server["version_num"], server["version"], server["user"])
    off_s = abs((server["now"] - before).total_seconds() - took_s / 2)
    yield _clock(max(0.0, off_s - took_s / 2))
    yield _connections((await database.fetch(QUERIES["connections"]))[0], settings.pool_size)
    url = settings.database_url.get_secret_value()
    if missing := await pending(url, packs=migrations_of(load_packs())):
        yield fix("migrations", f"{len(missing)} are pending; run: leeway migrate")
        return
    yield ok("migrations", "up to date")
    yield _roles([(row["name"], row["there"], row["may"]) for row in await database.fetch(QUERIES["roles"])])
    yield await _sealed(database, settings)
    for row in await database.fetch(QUERIES["accounts"]):
        for said in account_troubles(row, settings):
            yield fix("channels", said)
    for finding in _undone(
        await database.fetch(QUERIES["overdue"], OVERDUE_S), await database.fetch(QUERIES["waiting"])
    ):
        yield finding
    unsettled = (await database.fetch(QUERIES["unsettled"]))[0]["n"]
    if unsettled:
        yield note("dead", f"{unsettled} failed for good and wait for you; see: leeway dead list")


def _version(number: int, text: str, user: str) -> Finding:
    if number < POSTGRES_OLDEST * 10_000:
        return fix("database", f"PostgreSQL {text} is too old; {POSTGRES_OLDEST} or newer is needed")
    return ok("database", f"PostgreSQL {text}, as user {user}")


def _clock(off_s: float) -> Finding:
    if off_s > SKEW_MAX_S:
        return fix("clock", f"this machine and the database differ by {off_s:.1f} s; run NTP on both")
    return ok("clock", "as the database's")


def _connections(row: Mapping[str, Any], pool_size: int) -> Finding:
    """Whether one more process would find room. Past the limit a service can't even say that it lives."""
    left, takes = row["most"] - row["used"], pool_size + BESIDE_THE_POOL
    said = f"{row['used']} of {row['most']} in use, {row['ours']} of them by Leeway"
    if left < takes:
        return fix(
            "connections",
            f"{said}: one process takes up to {takes}; raise max_connections, or lower LEEWAY_POOL_SIZE",
        )
    return ok("connections", f"{said}; one more process takes up to {takes}")


def _roles(roles: list[tuple[str, bool, bool]]) -> Finding:
    """`roles`: name, whether it is there, whether our user may become it."""
    absent = [name for name, there, _ in roles if not there]
    barred = [name for name, there, may in roles if there and not may]
    if absent:
        return fix("roles", f"{', '.join(absent)} missing; run: leeway migrate")
    if barred:
        return fix("roles", f"LEEWAY_DATABASE_URL's user must become a member of {', '.join(barred)}")
    return ok("roles", " and ".join(name for name, *_ in roles))


async def _sealed(database: Database, settings: Settings) -> Finding:
    """Whether the key opens what is stored."""
    rows = await database.fetch(QUERIES["secrets"])
    if not rows:
        return note("channels", "none yet; make one with: leeway channel add")
    try:
        vault_of(settings).open(rows[0]["secrets"])
    except Misconfigured as error:
        return fix("channels", str(error))
    return ok("channels", f"secrets open with the key (tried on {rows[0]['channel']} {rows[0]['address']})")


def _undone(overdue: Sequence[Mapping[str, Any]], waiting: Sequence[Mapping[str, Any]]) -> Sequence[Finding]:
    """What services should have done by now, and what waits for people."""
    late = [row for row in overdue if row["n"]]
    found = [
        fix(
            "owed",
            f"overdue steps of {row['stage']}: {row['n']}, the oldest for {lasting(row['oldest_s'])}; "
            f"does {row['stage']} run, and what do its logs say?",
        )
        for row in late
    ]
    found += [] if late else [ok("owed", f"no step is overdue by more than {OVERDUE_S:.0f} s")]
    return found + [
        note(
            "people",
            f"{row['n']} {row['what']}, the oldest for {lasting(row['oldest_s'])}; see: leeway {row['command']} list",
        )
        for row in waiting
        if row["n"]
    ]
