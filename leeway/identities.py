"""`leeway identities`: people whose number or id changed. A channel announces it, and a person believes it or not."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import UUID

import typer

from leeway.installation import DIRECTORY, Data, the_one_meant
from leeway.operators import AsJson, By, OfBusiness, actor, jsonable
from leeway.terminal import console, raw_line, shown
from services.console.adapters.postgres_audit import append
from shared.audit import Note
from shared.database import Database, load_queries, open_pool
from shared.database.pool import OWNER
from shared.digest import canonical
from shared.errors import Misconfigured
from shared.ids import BusinessId

QUERIES = load_queries(Path(__file__).with_suffix(".sql"))
LINKED: Final = "linked"
REFUSED: Final = "refused"

app = typer.Typer(
    rich_markup_mode="rich",
    add_completion=False,
    no_args_is_help=True,
    help="People whose number or id changed: until you say so, the new one is a stranger.",
    epilog="[bold]Examples[/]\n\nleeway identities list\n\nleeway identities link 0197…\n\n"
    "leeway identities refuse 0197…",
)

Id = Annotated[
    str, typer.Argument(metavar="ID", help="As `leeway identities list` shows it.", show_default=False)
]


@app.command("list")
def list_(*, business: OfBusiness = None, as_json: AsJson = False, data: Data = DIRECTORY) -> None:
    """Changes that a channel announced and nobody decided about."""

    async def look() -> Sequence[Mapping[str, Any]]:
        async with _owner(data) as owner:
            return await owner.fetch(QUERIES["open_changes"], business)

    rows = asyncio.run(look())
    if as_json:
        raw_line(json.dumps([dict(row) for row in rows], default=jsonable))
        return
    if not rows:
        console.print("No change of number or id waits for a decision.")
    for row in rows:
        head = f"{row['id']}  {row['business']}  {row['channel']} {row['address']}  {row['announced_at']:%Y-%m-%d %H:%M}"
        wrote = "has written" if row["has_written"] else "has not written yet"
        console.print(shown(head), markup=False, soft_wrap=True)
        about = f"    {row['old_user_id']} → {row['new_user_id']} ({wrote})"
        console.print(shown(about), markup=False, soft_wrap=True, style="dim")


@app.command()
def link(id_: Id, *, by: By = None, data: Data = DIRECTORY) -> None:
    """They are one person: the new id sees and changes what the old one could. Ask them something first."""
    asyncio.run(_decide(data, id_, LINKED, by=actor(by)))
    console.print("Linked: what the new id had waiting for a yes has ended; it is asked again.")


@app.command()
def refuse(id_: Id, *, by: By = None, data: Data = DIRECTORY) -> None:
    """They are two people: the new id stays a stranger."""
    asyncio.run(_decide(data, id_, REFUSED, by=actor(by)))
    console.print("Refused: the new id stays a stranger.")


async def _decide(data: Path, named: str, decided: str, *, by: str) -> None:
    try:
        change = UUID(named)
    except ValueError:
        raise Misconfigured(f"{shown(named)[:80]} is no id; see: leeway identities list") from None
    async with _owner(data) as owner, owner.transaction() as transaction:
        rows = await transaction.fetch(QUERIES["lock_change"], change)
        if not rows:
            raise Misconfigured(f"There is no change {change}; see: leeway identities list")
        row = rows[0]
        if row["decided"] is not None:
            raise Misconfigured(f"The change {change} is {row['decided']} already.")
        business = BusinessId(row["business"])
        if decided == LINKED:
            if row["old_customer"] is None:
                raise Misconfigured("The old id never wrote to this account: there is nobody to link to.")
            if row["new_conversation"] is None:
                raise Misconfigured("The new id has not written yet; link it once it has.")
            if row["new_customer"] == row["old_customer"]:
                raise Misconfigured("Both are the same customer already; nothing is to be linked.")
            await transaction.fetch(QUERIES["link"], business, row["new_conversation"], row["old_customer"])
        await transaction.fetch(QUERIES["decide"], change, decided, by)
        action = "identity.link" if decided == LINKED else "identity.refuse"
        note = Note(actor=by, action=action, subject=str(change), detail=canonical({}))
        await append(transaction, business, note)


@asynccontextmanager
async def _owner(data: Path) -> AsyncIterator[Database]:
    """A connection of the database URL's own user: customers are joined by people, never by the pipeline."""
    installation = the_one_meant(data)
    timeouts = installation.settings.timeouts
    database = await open_pool(installation.database_url, size=1, timeouts=timeouts, role=OWNER)
    try:
        yield database
    finally:
        await database.close()
