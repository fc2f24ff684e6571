"""`leeway doctor`: what is wrong with this installation, and what to do about it."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer
import uvloop
from rich.text import Text

from leeway.doctor_accounts import account_troubles
from leeway.installation import DIRECTORY, Data, Installation, the_one_meant
from leeway.terminal import console, raw_line, shown
from shared.broker import examine
from shared.clock import SystemClock
from shared.database import Database, load_queries, open_pool
from shared.database.migrate import pending
from shared.database.pool import OWNER
from shared.errors import LeewayError, Misconfigured
from shared.llm.configured import ACCEPTED, configured_model
from shared.llm.costs import price_source
from shared.llm.retirement import retirement
from shared.packs import load_packs, migrations_of
from shared.secrets import new_key, vault_of
from shared.settings import Settings
from shared.telemetry.logs import configure_logs

QUERIES = load_queries(Path(__file__).with_suffix(".sql"))
POSTGRES_OLDEST: Final = 15
SKEW_MAX_S: Final = 2.0
WORDS_WIDTH: Final = 15

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


class Health(StrEnum):
    OK = "ok"
    NOTE = "note"  # worth knowing, nothing is broken
    FIX = "FIX"


STYLES: Final = {Health.OK: "green", Health.NOTE: "yellow", Health.FIX: "bold red"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line: what was looked at, how it is, and what to do where something is wrong."""

    health: Health
    what: str
    said: str


@app.command(
    epilog="[bold]Examples[/]\n\nleeway doctor — exit code 1 when something needs fixing\n\n"
    "echo LEEWAY_SECRET_KEY=$(leeway doctor --new-key) >> .env"
)
def doctor(
    *,
    fresh_key: Annotated[bool, typer.Option("--new-key", help="Print a fresh LEEWAY_SECRET_KEY.")] = False,
    data: Data = DIRECTORY,
) -> None:
    """Look at configuration, database, broker, keys and model; each line says ok, or what to do."""
    if fresh_key:
        raw_line(new_key())
        return
    configure_logs(level="error", service="doctor")
    healthy = uvloop.run(_examine(data))
    if not healthy:
        raise typer.Exit(1)


async def _examine(data: Path) -> bool:
    """Closed in order also when the reader goes away between two lines (`leeway doctor | head`)."""
    healthy = True
    async with aclosing(_findings(data)) as findings:
        async for finding in findings:
            line = Text().append(f"{finding.health:<5}", style=STYLES[finding.health])
            line.append(f"{finding.what:<{WORDS_WIDTH}}").append(shown(finding.said))
            console.print(line, soft_wrap=True)
            healthy = healthy and finding.health is not Health.FIX
    return healthy


async def _findings(data: Path) -> AsyncGenerator[Finding]:
    try:
        installation = the_one_meant(data)
    except Misconfigured as error:
        yield Finding(health=Health.FIX, what="configuration", said=str(error))
        return
    settings = installation.settings
    said = f"the `leeway up` on {data}" if installation.embedded else "from the environment and .env"
    yield Finding(health=Health.OK, what="configuration", said=said)
    times = settings.timeouts
    said = f"nest (drain {times.drain:g} s, so the stop signal's grace must be {times.grace:g} s)"
    yield Finding(health=Health.OK, what="time-outs", said=said)
    yield _secret_key(settings)
    for part in (_model(settings), _database(settings), _broker(installation)):
        async with aclosing(part):
            async for finding in part:
                yield finding


def _secret_key(settings: Settings) -> Finding:
    try:
        vault_of(settings)
    except Misconfigured as error:
        return Finding(health=Health.FIX, what="secret key", said=str(error))
    return Finding(health=Health.OK, what="secret key", said="well formed")


async def _model(settings: Settings) -> AsyncGenerator[Finding]:
    try:
        model = await configured_model(settings, load_packs())
    except LeewayError as error:
        yield Finding(health=Health.FIX, what="model", said=str(error))
        return
    await model.close()
    if model.provider == "mock":
        said = f"the rule-based stand-in; for a real one: {ACCEPTED}"
        yield Finding(health=Health.NOTE, what="model", said=said)
        return
    yield Finding(health=Health.OK, what="model", said=f"{model.provider}:{model.name} (not called)")
    if ends := retirement(model.name, SystemClock().now().date()):
        yield Finding(health=Health.NOTE, what="model", said=ends)
    if source := price_source(model, answered=model.name):
        yield Finding(health=Health.OK, what="prices", said=source)
    else:
        said = (
            "no price is known: its cost is shown as unknown, and caps are refused; set one in LEEWAY_PRICES"
        )
        yield Finding(health=Health.NOTE, what="prices", said=said)


async def _database(settings: Settings) -> AsyncGenerator[Finding]:
    url = settings.database_url.get_secret_value()
    try:
        database = await open_pool(url, size=1, timeouts=settings.timeouts, role=OWNER)
    except LeewayError as error:
        said = f"{error}; is it running, and LEEWAY_DATABASE_URL right?"
        yield Finding(health=Health.FIX, what="database", said=said)
        return
    try:
        async with aclosing(_of_database(database, settings)) as findings:
            async for finding in findings:
                yield finding
    except LeewayError as error:
        yield Finding(health=Health.FIX, what="database", said=str(error))
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
    url = settings.database_url.get_secret_value()
    missing = await pending(url, packs=migrations_of(load_packs()))
    if missing:
        said = f"{len(missing)} are pending; run: leeway migrate"
        yield Finding(health=Health.FIX, what="migrations", said=said)
        return
    yield Finding(health=Health.OK, what="migrations", said="up to date")
    for finding in _roles(
        [(row["name"], row["there"], row["may"]) for row in await database.fetch(QUERIES["roles"])]
    ):
        yield finding
    yield await _sealed(database, settings)
    for row in await database.fetch(QUERIES["accounts"]):
        for said in account_troubles(row, settings):
            yield Finding(health=Health.FIX, what="channels", said=said)
    unsettled = (await database.fetch(QUERIES["unsettled"]))[0]["n"]
    if unsettled:
        said = f"{unsettled} failed for good and wait for you; see: leeway dead list"
        yield Finding(health=Health.NOTE, what="dead", said=said)
    for row in await database.fetch(QUERIES["waiting"]):
        if row["n"]:
            said = f"{row['n']} {row['what']}; see: leeway {row['command']} list"
            yield Finding(health=Health.NOTE, what="people", said=said)


def _version(number: int, text: str, user: str) -> Finding:
    if number < POSTGRES_OLDEST * 10_000:
        said = f"PostgreSQL {text} is too old; {POSTGRES_OLDEST} or newer is needed"
        return Finding(health=Health.FIX, what="database", said=said)
    return Finding(health=Health.OK, what="database", said=f"PostgreSQL {text}, as user {user}")


def _clock(off_s: float) -> Finding:
    if off_s > SKEW_MAX_S:
        said = f"this machine and the database differ by {off_s:.1f} s; run NTP on both"
        return Finding(health=Health.FIX, what="clock", said=said)
    return Finding(health=Health.OK, what="clock", said="as the database's")


def _roles(roles: list[tuple[str, bool, bool]]) -> list[Finding]:
    """`roles`: name, whether it is there, whether our user may become it."""
    absent = [name for name, there, _ in roles if not there]
    barred = [name for name, there, may in roles if there and not may]
    if absent:
        return [
            Finding(health=Health.FIX, what="roles", said=f"{', '.join(absent)} missing; run: leeway migrate")
        ]
    if barred:
        said = f"LEEWAY_DATABASE_URL's user must become a member of {', '.join(barred)}"
        return [Finding(health=Health.FIX, what="roles", said=said)]
    return [Finding(health=Health.OK, what="roles", said=" and ".join(name for name, *_ in roles))]


async def _sealed(database: Database, settings: Settings) -> Finding:
    """Whether the key opens what is stored."""
    rows = await database.fetch(QUERIES["secrets"])
    if not rows:
        said = "none yet; make one with: leeway channel add"
        return Finding(health=Health.NOTE, what="channels", said=said)
    try:
        vault_of(settings).open(rows[0]["secrets"])
    except Misconfigured as error:
        return Finding(health=Health.FIX, what="channels", said=str(error))
    said = f"secrets open with the key (tried on {rows[0]['channel']} {rows[0]['address']})"
    return Finding(health=Health.OK, what="channels", said=said)


async def _broker(installation: Installation) -> AsyncGenerator[Finding]:
    if installation.embedded:
        yield Finding(health=Health.OK, what="broker", said="in the process's memory")
        return
    try:
        examined = await examine(installation.settings)
    except LeewayError as error:
        said = f"{error}; is it running, and LEEWAY_AMQP_URL right?"
        yield Finding(health=Health.FIX, what="broker", said=said if "`" not in said else str(error))
        return
    yield Finding(health=Health.OK, what="broker", said=examined.product)
    if examined.missing:
        said = f"{', '.join(examined.missing)} not there yet; the services declare them when they start"
        yield Finding(health=Health.NOTE, what="queues", said=said)
        return
    dead = sum(n for name, n in examined.ready.items() if ".dead." in name)
    if dead:
        said = f"{dead} unreadable messages in the queues of the dead; see: leeway dead list"
        yield Finding(health=Health.NOTE, what="queues", said=said)
    else:
        yield Finding(
            health=Health.OK, what="queues", said=f"{len(examined.ready)}, with the right arguments"
        )
