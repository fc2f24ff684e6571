"""What the commands of operators share: who decides, whose things are listed, how a list is shown and watched."""

import asyncio
import getpass
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar
from uuid import UUID

import typer
from rich.live import Live
from rich.text import Text

from leeway.installation import the_one_meant
from leeway.terminal import console, errors, plain, raw_line, shown
from services.console.adapters.postgres_audit import PostgresAudit
from services.console.adapters.postgres_desk import PostgresRecord
from services.console.adapters.postgres_waiting import PostgresWaiting
from services.console.adapters.rehearsal import PackRehearsal
from services.console.core.outcomes import Done, Outcome
from services.console.core.waiting import Person
from services.console.core.wording import sentence
from services.console.desk import Desk
from shared.autonomy import Mode
from shared.database import Database, open_pool
from shared.errors import Misconfigured
from shared.packs import load_packs
from shared.telemetry.logs import configure_logs

WATCH_EVERY_S: Final = 1.0
ACTOR_CHARS_MAX: Final = 60
TEXT_CHARS_SHOWN: Final = 200
NOBODY_KNOWN: Final = "unknown"

Result = TypeVar("Result")

By = Annotated[
    str | None, typer.Option("--as", metavar="NAME", help="Who decides, for the record; else your user name.")
]
OfBusiness = Annotated[str | None, typer.Option("--business", metavar="SLUG", help="Of this business alone.")]
AsJson = Annotated[bool, typer.Option("--json", help="For programs.")]
Watch = Annotated[bool, typer.Option("--watch", help="Go on showing it, once a second, until Ctrl-C.")]


class OwnMode(StrEnum):
    """What an account or a conversation may have: a mode of its own, or none."""

    OFF = "off"
    SUGGEST = "suggest"
    AUTO = "auto"
    INHERIT = "inherit"

    @property
    def mode(self) -> Mode | None:
        return None if self is OwnMode.INHERIT else Mode(self.value)


def actor(name: str | None) -> str:
    """The name as it is written down; None: the operating system's. Raises BadParameter for one that says nothing."""
    given = _user_name() if name is None else name
    cleaned = " ".join("".join(one if one.isprintable() else " " for one in given).split())
    if not cleaned or len(cleaned) > ACTOR_CHARS_MAX:
        raise typer.BadParameter(f"--as takes a name of 1 to {ACTOR_CHARS_MAX} characters")
    return cleaned


def _user_name() -> str:
    try:
        return getpass.getuser()[:ACTOR_CHARS_MAX] or NOBODY_KNOWN
    except (OSError, KeyError, ImportError):  # a user id without a name, in a container
        return NOBODY_KNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Office:
    """An installation as operators see it."""

    database: Database
    desk: Desk
    waiting: PostgresWaiting
    audit: PostgresAudit


@asynccontextmanager
async def office(data: Path) -> AsyncIterator[Office]:
    """On the installation that is meant. Raises Misconfigured when there is none, Unavailable when it is away."""
    installation = the_one_meant(data)
    database = await open_pool(installation.database_url, size=1, timeouts=installation.settings.timeouts)
    try:
        yield Office(
            database=database,
            desk=Desk(PostgresRecord(database), rehearsal=PackRehearsal(database, load_packs())),
            waiting=PostgresWaiting(database),
            audit=PostgresAudit(database),
        )
    finally:
        await database.close()


def run(data: Path, work: Callable[[Office], Coroutine[Any, Any, Result]]) -> Result:
    """Do the work in the office of the installation that is meant."""
    configure_logs(level="error", service="operator")

    async def worked() -> Result:
        async with office(data) as here:
            return await work(here)

    return asyncio.run(worked())


def report(outcome: Outcome) -> None:
    """Say what came of it; exit code 1 when nothing was done."""
    if isinstance(outcome, Done):
        console.print(shown(sentence(outcome)), markup=False, soft_wrap=True)
        return
    errors.print(" ".join(shown(sentence(outcome)).split()), markup=False)
    raise typer.Exit(1)


def not_found(what: str, name: str, *, see: str) -> Misconfigured:
    """For a name of which there is nothing, or more than one thing."""
    return Misconfigured(
        f"There is no {what} {shown(name)[:80]!s}, or more than one that begins so; see: {see}"
    )


# Lists


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A list at one moment: for people, and for programs."""

    lines: Sequence[Text]
    values: Sequence[Mapping[str, Any]]
    empty: str  # the sentence that stands for no entries

    @property
    def as_json(self) -> str:
        return json.dumps(self.values, default=jsonable)

    @property
    def as_text(self) -> Text:
        return Text("\n").join(self.lines) if self.lines else Text(self.empty)


def show_list(
    data: Path, look: Callable[[Office], Awaitable[Listing]], *, as_json: bool, watch: bool
) -> None:
    """Show a list once, or go on showing it until Ctrl-C, which ends it cleanly."""

    async def work(here: Office) -> None:
        if not watch:
            _print(await look(here), as_json=as_json)
        elif as_json or not console.is_terminal:
            await _follow(lambda: look(here), as_json=as_json)
        else:
            await _live(lambda: look(here))

    until_interrupted(lambda: run(data, work))


def until_interrupted(work: Callable[[], None]) -> None:
    """Ctrl-C ends it, and is no failure."""
    try:
        work()
    except KeyboardInterrupt:
        return


def _print(listing: Listing, *, as_json: bool) -> None:
    if as_json:
        raw_line(listing.as_json)
    else:
        console.print(listing.as_text, soft_wrap=True)


async def _follow(look: Callable[[], Awaitable[Listing]], *, as_json: bool) -> None:
    """Print it whenever an entry came, went or changed; a clock that went on is no change."""
    before: object = None
    while True:
        listing = await look()
        now = [{key: value for key, value in one.items() if key != "waiting_s"} for one in listing.values]
        if now != before:
            _print(listing, as_json=as_json)
            before = now
        await asyncio.sleep(WATCH_EVERY_S)


async def _live(look: Callable[[], Awaitable[Listing]]) -> None:
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            live.update((await look()).as_text, refresh=True)
            await asyncio.sleep(WATCH_EVERY_S)


# Words


def clock(since: datetime, now: datetime) -> str:
    """ "12 min", "3 h 05 min", "2 d 4 h": how long something waits."""
    minutes = max(0, int((now - since) / timedelta(minutes=1)))
    hours, days = minutes // 60, minutes // (24 * 60)
    if minutes < 1:
        return "less than a minute"
    if hours < 1:
        return f"{minutes} min"
    return f"{hours} h {minutes % 60:02} min" if days < 2 else f"{days} d {hours % 24} h"


def waits(since: datetime, now: datetime) -> str:
    return f"waiting {clock(since, now)}"


def who(person: Person) -> str:
    """ "Ana (+40700000001)"; both come from outside."""
    return one_line(f"{person.name} ({person.address})" if person.name else person.address)


def one_line(text: str, *, most: int = TEXT_CHARS_SHOWN) -> str:
    """The start of a text from outside on one line."""
    flat = " ".join(shown(text).split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def entry(head: str, *below: str) -> Text:
    """A list's entry: what it is, and under it, in, what it says."""
    text = plain(head)
    for line in below:
        text.append_text(Text("\n    ")).append_text(Text(line, style="dim"))
    return text


def person_values(person: Person) -> dict[str, Any]:
    return {
        "business": person.business,
        "conversation": str(person.conversation),
        "customer": person.name,
        "address": person.address,
        "channel": person.channel,
    }


def jsonable(value: object) -> str | list[Any]:
    """What JSON has no form for."""
    match value:
        case datetime() | date():
            return value.isoformat()
        case Decimal() | UUID():
            return str(value)
        case bytes():
            return value.hex()
        case set() | frozenset() | tuple():
            return list(value)
        case _:
            raise TypeError(f"no JSON for {type(value).__name__}")
