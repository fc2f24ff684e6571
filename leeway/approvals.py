"""`leeway approvals`: actions that wait for a person's yes."""

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
    clock,
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
from services.console.core.waiting import WaitingApproval, short
from shared.ids import ActionId

app = typer.Typer(
    rich_markup_mode="rich",
    add_completion=False,
    no_args_is_help=True,
    help="What the bot may do only if you say yes.",
    epilog="[bold]Examples[/]\n\nleeway approvals list\n\nleeway approvals approve 019a3f2c-4b1d\n\n"
    "leeway approvals decline 019a3f2c-4b1d 'The dentist is away that week'",
)

Id = Annotated[
    str, typer.Argument(metavar="ID", help="As the list shows it, or its beginning.", show_default=False)
]


@app.command("list")
def list_(
    *, business: OfBusiness = None, as_json: AsJson = False, watch: Watch = False, data: Data = DIRECTORY
) -> None:
    """What waits, oldest first. What nobody approves in time is declined."""

    async def look(here: Office) -> Listing:
        return _listing(await here.waiting.approvals(business))

    show_list(data, look, as_json=as_json, watch=watch)


@app.command()
def approve(id_: Id, *, by: By = None, data: Data = DIRECTORY) -> None:
    """Yes: it is checked once more, then carried out, and the customer is told."""
    name = actor(by)

    async def work(here: Office) -> Outcome:
        return await here.desk.approve(await _found(here, id_), by=name)

    report(run(data, work))


@app.command()
def decline(
    id_: Id,
    why: Annotated[
        str, typer.Argument(help="One line, which the customer reads.", metavar="REASON", show_default=False)
    ],
    *,
    by: By = None,
    data: Data = DIRECTORY,
) -> None:
    """No: it is not done, and the customer is told why."""
    name = actor(by)

    async def work(here: Office) -> Outcome:
        return await here.desk.decline(await _found(here, id_), why, by=name)

    report(run(data, work))


async def _found(here: Office, name: str) -> ActionId:
    action = await here.waiting.find_approval(name)
    if action is None:
        raise not_found("approval", name, see="leeway approvals list")
    return action


def _listing(approvals: Sequence[WaitingApproval]) -> Listing:
    ids = [one.id for one in approvals]
    named = [(one, short(one.id, ids)) for one in approvals]
    return Listing(
        lines=[_entry(one, name) for one, name in named],
        values=[_values(one, name) for one, name in named],
        empty="Nothing waits for an approval.",
    )


def _entry(one: WaitingApproval, name: str) -> Any:
    left = f", {clock(one.now, one.until)} left" if one.until is not None else ""
    head = f"{name}  {one.person.business}  {who(one.person)}  {one.tool}  {waits(one.since, one.now)}{left}"
    confirmed = ["the customer has said yes"] if one.confirmed else []
    return entry(head, one_line(one.summary), *confirmed)


def _values(one: WaitingApproval, name: str) -> dict[str, Any]:
    return person_values(one.person) | {
        "id": str(one.id),
        "name": name,
        "tool": one.tool,
        "summary": one.summary,
        "confirmed_by_customer": one.confirmed,
        "since": one.since,
        "until": one.until,
        "waiting_s": int((one.now - one.since).total_seconds()),
    }
