"""What `leeway doctor` sees of the database: whether it can be worked on, and what lies in it undone."""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from leeway.doctor_accounts import account_troubles
from leeway.doctor_finding import Finding, Health, fix, note, ok
from leeway.terminal import lasting
from services.ingest.adapters.postgres_standing import PostgresStanding
from services.ingest.core.standing import Found, Labels, What, summed
from shared.clock import SystemClock
from shared.database import Database, load_queries, open_pool
from shared.database.connected import ANSWERS_WITHIN_S, connected
from shared.database.migrate import NEWER, pending, unknown
from shared.database.pool import OWNER, PIPELINE
from shared.database.restoring import why_closed
from shared.errors import LeewayError, Misconfigured
from shared.packs import load_packs, migrations_of
from shared.secrets import vault_of
from shared.settings import Settings

QUERIES = load_queries(Path(__file__).with_name("doctor.sql"))
POSTGRES_OLDEST: Final = 15
SKEW_MAX_S: Final = 2.0
OVERDUE: Final = timedelta(seconds=60)
BESIDE_THE_POOL: Final = 2  # connections of an agent or a dispatch: its worker number, its look for dead ones
# What waits for people, and which command shows it
WAITS: Final = {
    What.DRAFT: ("drafts wait for a decision", "leeway drafts list"),
    What.APPROVAL: ("actions wait for an approval", "leeway approvals list"),
    What.HANDOFF: ("conversations wait for people", "leeway handoffs list"),
}


async def database_findings(settings: Settings) -> AsyncGenerator[Finding]:
    """The server as its own user sees it; then, if our role can be taken, the record as the services see it."""
    usable = False
    async with aclosing(_asked(settings, OWNER, _of_server)) as findings:
        async for finding in findings:
            usable = finding.what == "roles" and finding.health is Health.OK
            yield finding
    if usable:
        async with aclosing(_asked(settings, PIPELINE, _of_record)) as findings:
            async for finding in findings:
                yield finding


async def _asked(
    settings: Settings, role: str, ask: Callable[[Database, Settings], AsyncGenerator[Finding]]
) -> AsyncGenerator[Finding]:
    url = settings.database_url.get_secret_value()
    try:
        database = await open_pool(url, size=1, timeouts=settings.timeouts, role=role)
    except LeewayError as error:
        yield fix("database", f"{error}; is it running, and LEEWAY_DATABASE_URL right?")
        return
    try:
        async with aclosing(ask(database, settings)) as findings:
            async for finding in findings:
                yield finding
    except LeewayError as error:
        yield fix("database", str(error))
    finally:
        await database.close()


async def _of_server(database: Database, settings: Settings) -> AsyncGenerator[Finding]:
    """The last finding is about the roles, unless migrations are missing."""
    clock = SystemClock()
    before = clock.now()
    server = (await database.fetch(QUERIES["server"]))[0]
    took_s = (clock.now() - before).total_seconds()
    yield _version(server["version_num"], server["version"], server["user"])
    if server["read_only"]:
        yield fix(
            "database", "it takes no writes; is it a standby? LEEWAY_DATABASE_URL must name the primary"
        )
    off_s = abs((server["now"] - before).total_seconds() - took_s / 2)
    yield _clock(max(0.0, off_s - took_s / 2))
    yield _connections((await database.fetch(QUERIES["connections"]))[0], settings.pool_size)
    url, packs = settings.database_url.get_secret_value(), migrations_of(load_packs())
    async with connected(url, answers_within_s=ANSWERS_WITHIN_S) as connection:
        closed = await why_closed(connection)
    if closed:
        yield fix("restore", closed)
    if missing := await pending(url, packs=packs):
        yield fix("migrations", f"{len(missing)} are pending; run: leeway migrate")
        return
    if newer := await unknown(url, packs=packs):
        yield note("migrations", f"{NEWER.format(newer)}; one release back may run on it")
    else:
        yield ok("migrations", "up to date")
    yield _roles([(row["name"], row["there"], row["may"]) for row in await database.fetch(QUERIES["roles"])])


async def _of_record(database: Database, settings: Settings) -> AsyncGenerator[Finding]:
    yield await _sealed(database, settings)
    for row in await database.fetch(QUERIES["accounts"]):
        for said in account_troubles(row, settings):
            yield fix("channels", said)
    found = summed(await PostgresStanding(database).look(due_for=OVERDUE), _of_all_businesses)
    for finding in _undone(found.values()):
        yield finding


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


def _of_all_businesses(found: Found) -> Labels:
    return found.labels if found.what is What.OWED else ()


def _undone(found: Iterable[Found]) -> Sequence[Finding]:
    """What services should have done by now, what waits for people, what lies among the dead."""
    there = [one for one in found if one.number]
    late = [
        fix(
            "owed",
            f"overdue steps of {stage}: {one.number}, the oldest for {lasting(one.oldest_s)}; "
            f"does {stage} run, and what do its logs say?",
        )
        for one in there
        if one.what is What.OWED
        for stage in one.labels
    ]
    people = [
        note("people", f"{one.number} {what}, the oldest for {lasting(one.oldest_s)}; see: {command}")
        for one in there
        if one.what in WAITS
        for what, command in [WAITS[one.what]]
    ]
    dead = [
        note("dead", f"{one.number} failed for good and wait for you; see: leeway dead list")
        for one in there
        if one.what is What.DEAD
    ]
    return [
        *(late or [ok("owed", f"no step is overdue by more than {OVERDUE.total_seconds():.0f} s")]),
        *people,
        *dead,
    ]
