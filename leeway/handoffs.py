"""`leeway handoffs`: conversations that people answer: claim, reply, release, take over."""

import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from leeway.installation import DIRECTORY, Data
from leeway.operators import (
    AsJson,
    By,
    Listing,
    OfBusiness,
    Office,
    Watch,
    actor,
    entry,
    not_found,
    one_line,
    person_values,
    report,
    run,
    show_list,
    waits,
    who,
)
from services.console.core.outcomes import Outcome
from services.console.core.waiting import WaitingHandoff, short
from shared.ids import ConversationId

app = typer.Typer(
    rich_markup_mode="rich",
    add_completion=False,
    no_args_is_help=True,
    help="Conversations that people answer, and no bot.",
    epilog="[bold]Examples[/]\n\nleeway handoffs list\n\nleeway handoffs claim 019a3f2c-4b1d\n\n"
    "leeway handoffs reply demo-clinic:+40700000001 'Hello, this is Maria.'\n\n"
    "leeway handoffs release 019a3f2c-4b1d --note 'Told the price'\n\n"
    "leeway handoffs take demo-clinic:+40700000001",
)

Which = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="As the list shows it, its beginning, or BUSINESS:NUMBER.",
        show_default=False,
    ),
]


@app.command("list")
def list_(
    *, business: OfBusiness = None, as_json: AsJson = False, watch: Watch = False, data: Data = DIRECTORY
) -> None:
    """Who waits for a person, oldest first."""

    async def look(here: Office) -> Listing:
        return _listing(await here.waiting.handoffs(business))

    show_list(data, look, as_json=as_json, watch=watch)


@app.command()
def claim(id_: Which, *, by: By = None, data: Data = DIRECTORY) -> None:
    """It is yours: nobody is reminded of it any more."""
    name = actor(by)
    _do(data, id_, lambda here, one: here.desk.claim(one, by=name))


@app.command()
def reply(
    id_: Which,
    text: Annotated[str, typer.Argument(help="What you write, or - to read it.", show_default=False)],
    *,
    by: By = None,
    data: Data = DIRECTORY,
) -> None:
    """Write to the customer. What nobody claimed is yours then."""
    name = actor(by)
    said = sys.stdin.read() if text == "-" else text
    _do(data, id_, lambda here, one: here.desk.reply(one, said, by=name))


@app.command()
def release(
    id_: Which,
    *,
    note: Annotated[str | None, typer.Option(help="For whoever looks at it later.")] = None,
    by: By = None,
    data: Data = DIRECTORY,
) -> None:
    """Give it back to the bot, which answers what comes next."""
    name = actor(by)
    _do(data, id_, lambda here, one: here.desk.release(one, by=name, note=note))


@app.command()
def take(id_: Which, *, by: By = None, data: Data = DIRECTORY) -> None:
    """Take it over from the bot: it is yours, and what waits for the customer's yes is cleared."""
    name = actor(by)
    _do(data, id_, lambda here, one: here.desk.take(one, by=name))


def _do(data: Path, name: str, step: Callable[[Office, ConversationId], Awaitable[Outcome]]) -> None:
    async def work(here: Office) -> Outcome:
        conversation = await here.waiting.find_conversation(name, in_handoff=True)
        if conversation is None:
            raise not_found("conversation", name, see="leeway handoffs list")
        return await step(here, conversation)

    report(run(data, work))


def _listing(handoffs: Sequence[WaitingHandoff]) -> Listing:
    ids = [one.person.conversation for one in handoffs]
    named = [(one, short(one.person.conversation, ids)) for one in handoffs]
    return Listing(
        lines=[_entry(one, name) for one, name in named],
        values=[_values(one, name) for one, name in named],
        empty="Nobody waits for a person.",
    )


def _entry(one: WaitingHandoff, name: str) -> Any:
    claimed = f"claimed by {one.claimed_by}" if one.claimed_by else "unclaimed"
    head = f"{name}  {one.person.business}  {who(one.person)}  {one.reason}  {claimed}  {waits(one.since, one.now)}"
    return entry(head, *([one_line(one.said)] if one.said else []))


def _values(one: WaitingHandoff, name: str) -> dict[str, Any]:
    return person_values(one.person) | {
        "name": name,
        "reason": one.reason,
        "claimed_by": one.claimed_by,
        "said": one.said,
        "since": one.since,
        "waiting_s": int((one.now - one.since).total_seconds()),
    }
