"""`leeway drafts`: replies that wait for a person: send, edit and send, discard."""

import sys
from collections.abc import Sequence
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
    jsonable,
    not_found,
    one_line,
    person_values,
    report,
    run,
    show_list,
    waits,
    who,
)
from leeway.terminal import console, errors, shown
from services.console.core.drafts import Seen
from services.console.core.outcomes import MayHaveArrived, Outcome, TextChanged
from services.console.core.waiting import WaitingDraft, short
from services.console.core.wording import sentence
from shared.ids import OutboundId

app = typer.Typer(
    rich_markup_mode="rich",
    add_completion=False,
    no_args_is_help=True,
    help="Replies that wait for you: look at them, send, edit, discard.",
    epilog="[bold]Examples[/]\n\nleeway drafts list --watch\n\nleeway drafts send 019a3f2c-4b1d@3f2a91\n\n"
    "leeway drafts edit 019a3f2c-4b1d 'Hello Ana, we open at nine.'\n\n"
    "What follows the @ names the text that you saw: if it was changed meanwhile, nothing is sent.",
)

Id = Annotated[
    str, typer.Argument(metavar="ID", help="As the list shows it, or its beginning.", show_default=False)
]
Again = Annotated[
    bool, typer.Option("--again", help="It may have arrived already, and must go all the same.")
]


@app.command("list")
def list_(
    *, business: OfBusiness = None, as_json: AsJson = False, watch: Watch = False, data: Data = DIRECTORY
) -> None:
    """What waits, oldest first."""

    async def look(here: Office) -> Listing:
        return _listing(await here.waiting.drafts(business))

    show_list(data, look, as_json=as_json, watch=watch)


@app.command()
def show(id_: Id, *, as_json: AsJson = False, data: Data = DIRECTORY) -> None:
    """One of them in full, with why it waits and what it asks."""

    async def work(here: Office) -> WaitingDraft:
        outbound, _ = await _found(here, id_)
        draft = await here.waiting.draft(outbound)
        if draft is None:
            raise not_found("draft that waits", id_, see="leeway drafts list")
        return draft

    draft = run(data, work)
    if as_json:
        console.print_json(data=_values(draft, handle(draft, [draft])), default=jsonable)
        return
    console.print(entry(_head(draft, handle(draft, [draft])), *_about(draft)), soft_wrap=True)
    console.print()
    console.print(shown(draft.text), markup=False, soft_wrap=True)


@app.command()
def send(id_: Id, *, again: Again = False, by: By = None, data: Data = DIRECTORY) -> None:
    """Send one as it is."""
    name = actor(by)

    async def work(here: Office) -> Outcome:
        outbound, seen = await _found(here, id_)
        return await here.desk.send(outbound, seen=seen, by=name, knowing=again)

    _report(run(data, work), id_)


@app.command()
def edit(
    id_: Id,
    text: Annotated[str, typer.Argument(help="The new text, or - to read it.", show_default=False)],
    *,
    again: Again = False,
    by: By = None,
    data: Data = DIRECTORY,
) -> None:
    """Send one with another text. A question keeps the system's own words, word for word."""
    name = actor(by)
    new = sys.stdin.read() if text == "-" else text

    async def work(here: Office) -> Outcome:
        outbound, seen = await _found(here, id_)
        return await here.desk.edit(outbound, new, seen=seen, by=name, knowing=again)

    _report(run(data, work), id_)


@app.command()
def discard(id_: Id, *, by: By = None, data: Data = DIRECTORY) -> None:
    """Never send it. What it asks the customer about ends with it."""
    name = actor(by)

    async def work(here: Office) -> Outcome:
        outbound, seen = await _found(here, id_)
        return await here.desk.discard(outbound, seen=seen, by=name)

    _report(run(data, work), id_)


def handle(draft: WaitingDraft, among: Sequence[WaitingDraft]) -> str:
    """Its short name, with the code of the text that is shown beside it."""
    return f"{short(draft.id, [one.id for one in among])}@{draft.seen.code}"


async def _found(here: Office, name: str) -> tuple[OutboundId, Seen]:
    """The reply that is meant, and what its code says was seen of it."""
    id_, _, code = name.partition("@")
    outbound = await here.waiting.find_draft(id_)
    if outbound is None:
        raise not_found("draft", id_, see="leeway drafts list")
    return outbound, await here.desk.seen(outbound, code or None)


def _report(outcome: Outcome, name: str) -> None:
    match outcome:
        case TextChanged(text=text):
            errors.print(sentence(outcome), markup=False)
            console.print(shown(text), markup=False, soft_wrap=True)
            console.print(f"leeway drafts show {shown(name.partition('@')[0])}", markup=False, style="dim")
            raise typer.Exit(1)
        case MayHaveArrived():
            errors.print(f"{sentence(outcome)} To send it: --again", markup=False)
            raise typer.Exit(1)
        case _:
            report(outcome)


def _listing(drafts: Sequence[WaitingDraft]) -> Listing:
    named = [(one, handle(one, drafts)) for one in drafts]
    return Listing(
        lines=[entry(_head(one, name), *_about(one), one_line(one.text)) for one, name in named],
        values=[_values(one, name) for one, name in named],
        empty="No drafts wait.",
    )


def _head(draft: WaitingDraft, name: str) -> str:
    person = draft.person
    return f"{name}  {person.business}  {who(person)}  {draft.reason or ''}  {waits(draft.since, draft.now)}"


def _about(draft: WaitingDraft) -> list[str]:
    said = []
    if draft.tool is not None:
        said.append(f"asks about {draft.tool}; these words stay: {one_line(draft.summary or draft.text)}")
    if draft.receipt:
        said.append("says what was done")
    if draft.may_have_left:
        said.append("may have arrived already")
    if draft.parts_sent:
        said.append(f"{draft.parts_sent} of {draft.parts} parts went out")
    return said


def _values(draft: WaitingDraft, name: str) -> dict[str, Any]:
    return person_values(draft.person) | {
        "id": str(draft.id),
        "name": name,
        "reason": draft.reason,
        "text": draft.text,
        "round": draft.seen.round,
        "text_sha256": draft.seen.digest.hex(),
        "tool": draft.tool,
        "summary": draft.summary,
        "receipt": draft.receipt,
        "may_have_arrived": draft.may_have_left,
        "parts": draft.parts,
        "parts_sent": draft.parts_sent,
        "since": draft.since,
        "waiting_s": int((draft.now - draft.since).total_seconds()),
    }
