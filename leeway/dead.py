"""`leeway dead`: work that failed for good, and messages that no consumer could read."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import UUID

import typer

from leeway.installation import DIRECTORY, Data, Installation, the_one_meant
from leeway.operators import By, actor
from leeway.terminal import console, errors, raw_line, shown
from services.console.adapters.postgres_audit import append
from shared.audit import Note
from shared.broker import DeadLetter, connect
from shared.database import Database, Transaction, load_queries, open_pool
from shared.digest import canonical, text_digest
from shared.errors import Misconfigured, Unavailable
from shared.ids import BusinessId
from shared.telemetry.logs import configure_logs
from shared.tickets import Stage
from shared.work.retry import retried

QUERIES = load_queries(Path(__file__).with_suffix(".sql"))
LISTED_MOST: Final = 100
BODY_CHARS_SHOWN: Final = 60
_RETRIES: Final = {
    Stage.GUARD: "retry_guard",
    Stage.AGENT: "retry_agent",
    Stage.DISPATCH: "retry_dispatch",
}

Record = Database | Transaction
# Settles one entry; None, or why it could not be.
Settle = Callable[[Record, UUID], Awaitable[str | None]]

app = typer.Typer(
    rich_markup_mode="rich",
    add_completion=False,
    no_args_is_help=True,
    help="Work that failed for good: list it, try it again, or settle it.",
    epilog="[bold]Examples[/]\n\nleeway dead list --json\n\nleeway dead retry 0197…\n\n"
    "leeway dead drop 0197… --because 'answered by telephone'\n\n"
    "leeway dead drop --letters guard — empties the broker's queue of what could not be read",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What a person decided about entries, for the audit log."""

    by: str
    action: str
    detail: dict[str, str]


Ids = Annotated[list[UUID], typer.Argument(help="As `leeway dead list` shows them.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="For programs.")]


@app.command("list")
def list_(*, as_json: Json = False, data: Data = DIRECTORY) -> None:
    """What failed for good and nobody decided about; and what no consumer could read."""
    rows, letters_of, away = asyncio.run(_list(_installation(data)))
    more = rows[0]["all"] - len(rows) if rows else 0
    letters = [one for some in letters_of.values() for one in some[:LISTED_MOST]]
    more_letters = [stage.value for stage, some in letters_of.items() if len(some) > LISTED_MOST]
    if as_json:
        found = {"work": [_plain(row) for row in rows], "letters": [_letter(one) for one in letters]}
        raw_line(json.dumps(found | {"more_work": more, "more_letters": more_letters}))
    else:
        _print(rows, letters)
    if more:
        errors.print(f"There are {more} more, all of them newer; these come first.", markup=False)
    if more_letters:
        errors.print(
            f"There are more unreadable messages in the queue of {' and '.join(more_letters)}; the oldest come first.",
            markup=False,
        )
    if away:
        errors.print(f"The broker was not asked: {away}", markup=False)
        raise typer.Exit(1)


@app.command()
def retry(ids: Ids, *, by: By = None, data: Data = DIRECTORY) -> None:
    """Give the work back to the services: the conversation to the bot, the draft to dispatch. Each once."""
    decided = Decided(by=actor(by), action="dead.retry", detail={})
    _report(asyncio.run(_each(_installation(data), ids, _retry, decided)), done="will be tried again")


@app.command()
def drop(
    ids: Annotated[list[UUID] | None, typer.Argument(help="As `leeway dead list` shows them.")] = None,
    *,
    because: Annotated[str, typer.Option(help="Kept with it.")] = "by command",
    letters: Annotated[Stage | None, typer.Option(help="Empty this stage's queue of the dead.")] = None,
    by: By = None,
    data: Data = DIRECTORY,
) -> None:
    """Settle it: nothing more is done about it. The conversation stays with people, the draft a draft."""
    if not ids and letters is None:
        raise typer.BadParameter("name an id, or a stage with --letters")
    decided = Decided(by=actor(by), action="dead.drop", detail={"because": text_digest(because).hex()})
    installation = _installation(data)
    if letters is not None:
        dropped = asyncio.run(_drop_letters(installation, letters))
        console.print(f"{dropped} unreadable messages dropped from {letters}'s queue of the dead.")

    async def settle(record: Record, dead: UUID) -> str | None:
        if await record.fetch(QUERIES["drop"], dead, because[:200]):
            return None
        return await _why_not(record, dead)

    _report(asyncio.run(_each(installation, ids or [], settle, decided)), done="settled")


def _installation(data: Path) -> Installation:
    configure_logs(level="error", service="dead")
    return the_one_meant(data)


async def _list(
    installation: Installation,
) -> tuple[Sequence[Mapping[str, Any]], Mapping[Stage, Sequence[DeadLetter]], str | None]:
    """Rows, letters of each stage (one more than are listed, where there are more), and why letters could not be read."""
    async with _database(installation) as database:
        rows = await database.fetch(QUERIES["unsettled"], LISTED_MOST)
    if installation.embedded:
        return rows, {}, None
    try:
        async with connect(installation.settings) as broker:
            letters = {stage: await broker.dead_letters(stage, most=LISTED_MOST + 1) for stage in Stage}
    except (Unavailable, Misconfigured) as error:
        return rows, {}, str(error)
    return rows, letters, None


async def _drop_letters(installation: Installation, stage: Stage) -> int:
    if installation.embedded:
        raise Misconfigured("A `leeway up` has its broker in memory, which keeps no unreadable messages.")
    async with connect(installation.settings) as broker:
        return await broker.drop_dead_letters(stage)


async def _each(
    installation: Installation, ids: Sequence[UUID], settle: Settle, decided: Decided
) -> list[tuple[UUID, str | None]]:
    async with _database(installation) as database:
        return [(dead, await _settled(database, dead, settle, decided)) for dead in dict.fromkeys(ids)]


async def _settled(database: Database, dead: UUID, settle: Settle, decided: Decided) -> str | None:
    """None, and who decided is written down in the same transaction; or why it could not be."""

    async def once() -> str | None:
        async with database.transaction() as transaction:
            if (why_not := await settle(transaction, dead)) is None:
                (row,) = await transaction.fetch(QUERIES["look"], dead)
                detail = decided.detail | {"stage": row["stage"], "conversation": str(row["conversation"])}
                note = Note(
                    actor=decided.by, action=decided.action, subject=str(dead), detail=canonical(detail)
                )
                await append(transaction, BusinessId(row["business"]), note)
        return why_not

    return await retried(once)


async def _retry(record: Record, dead: UUID) -> str | None:
    """None, or why it can't be tried again."""
    found = await record.fetch(QUERIES["look"], dead)
    if found and await record.fetch(QUERIES[_RETRIES[Stage(found[0]["stage"])]], dead):
        return None
    return await _why_not(record, dead)


async def _why_not(record: Record, dead: UUID) -> str:
    rows = await record.fetch(QUERIES["look"], dead)
    if not rows:
        return "there is none of that id; see: leeway dead list"
    row = rows[0]
    if row["settled_at"] is not None:
        return f"settled already, {row['settled_at']:%Y-%m-%d %H:%M} UTC ({row['settled_how']})"
    if row["opted_out"]:
        return "the customer has opted out since; drop it"
    if row["stage"] == Stage.DISPATCH:
        if row["may_have_arrived"]:
            return "it may have arrived, so it is not sent again; drop it, and ask the customer"
        return f"the reply is no longer a draft (it is {row['reply_state']}); drop it"
    return "the conversation went on since; drop it"


@asynccontextmanager
async def _database(installation: Installation) -> AsyncIterator[Database]:
    timeouts = installation.settings.timeouts
    database = await open_pool(installation.database_url, size=1, timeouts=timeouts)
    try:
        yield database
    finally:
        await database.close()


def _print(rows: Sequence[Mapping[str, Any]], letters: Sequence[DeadLetter]) -> None:
    if not rows and not letters:
        console.print("Nothing is among the dead.")
    for row in rows:
        died = f"{row['died_at']:%Y-%m-%d %H:%M}"
        console.print(
            f"{row['id']}  {row['stage']:<8}  {died}  {row['business']}", markup=False, soft_wrap=True
        )
        console.print(f"    {shown(row['reason'])}", markup=False, soft_wrap=True, style="dim")
    for one in letters:
        console.print(
            f"unreadable, in the queue of {one.stage}: {shown(one.reason)}", markup=False, soft_wrap=True
        )
        console.print(f"    {_start(one.body)}", markup=False, soft_wrap=True, style="dim")


def _start(body: bytes) -> str:
    text = shown(body[: 4 * BODY_CHARS_SHOWN].decode(errors="replace")).replace("\n", " ")
    return text[:BODY_CHARS_SHOWN] + ("…" if len(text) > BODY_CHARS_SHOWN else "")


def _plain(row: Mapping[str, Any]) -> dict[str, str]:
    return {
        key: value.isoformat() if key == "died_at" else str(value)
        for key, value in row.items()
        if key != "all"
    }


def _letter(one: DeadLetter) -> dict[str, str]:
    return {"stage": one.stage.value, "reason": one.reason, "body": one.body.decode(errors="replace")}


def _report(outcomes: Sequence[tuple[UUID, str | None]], *, done: str) -> None:
    """One line an entry; exit code 1 when any could not be settled."""
    for dead, why_not in outcomes:
        if why_not is None:
            console.print(f"{dead} {done}", markup=False, soft_wrap=True)
        else:
            errors.print(f"{dead}: {why_not}", markup=False)
    if any(why_not for _, why_not in outcomes):
        raise typer.Exit(1)
