"""`leeway audit`: who decided and changed what, and whether the log is as it was written."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from leeway.installation import DIRECTORY, Data
from leeway.operators import AsJson, Listing, OfBusiness, Office, entry, one_line, run, show_list
from leeway.terminal import console, errors, raw_line
from shared.audit import Broken, Intact
from shared.errors import Misconfigured

app = typer.Typer(
    rich_markup_mode="rich",
    add_completion=False,
    no_args_is_help=True,
    help="Who decided and changed what.",
    epilog="[bold]Examples[/]\n\nleeway audit list --business corner-clinic\n\nleeway audit verify\n\n"
    "Note the head that `verify` shows elsewhere, now and then: it vouches for all that came before.",
)


@app.command("list")
def list_(
    *,
    business: OfBusiness = None,
    most: Annotated[int, typer.Option("--last", min=1, max=100_000, help="So many of the latest.")] = 50,
    as_json: AsJson = False,
    data: Data = DIRECTORY,
) -> None:
    """The latest entries, oldest first. They hold digests in place of anybody's words."""

    async def look(here: Office) -> Listing:
        rows = await here.audit.last(business, most=most)
        return Listing(
            lines=[_entry(row) for row in rows],
            values=[dict(row) | {"detail": json.loads(row["detail"])} for row in rows],
            empty="Nothing was decided or changed yet.",
        )

    show_list(data, look, as_json=as_json, watch=False)


@app.command()
def verify(*, business: OfBusiness = None, as_json: AsJson = False, data: Data = DIRECTORY) -> None:
    """Read each business's whole log and hold it against its own chain of digests."""

    async def work(here: Office) -> Sequence[tuple[str, Intact | Broken]]:
        found = await here.audit.businesses(business)
        if business is not None and not found:
            raise Misconfigured(f"There is no business {business}.")
        return [(slug, await here.audit.verified(id_)) for id_, slug in found]

    verified = run(data, work)
    if as_json:
        raw_line(json.dumps([_values(slug, one) for slug, one in verified]))
    else:
        _print(verified)
    if any(isinstance(one, Broken) for _, one in verified):
        raise typer.Exit(1)


def _print(verified: Sequence[tuple[str, Intact | Broken]]) -> None:
    if not verified:
        console.print("There is no business yet.")
    for slug, one in verified:
        match one:
            case Intact(head=head):
                said = f"{head.n} entries, head {head.digest.hex()[:16]}" if head.n else "no entries yet"
                console.print(f"{slug}: intact, {said}", markup=False, soft_wrap=True)
            case Broken(n=n, what=what):
                errors.print(f"{slug}: broken: entry {n} {what}", markup=False)


def _entry(row: Mapping[str, Any]) -> Any:
    said = f"{one_line(row['actor'])}  {row['action']}  {one_line(row['subject'])}"
    head = f"{row['business']} {row['n']}  {row['at']:%Y-%m-%d %H:%M:%S}  {said}"
    return entry(head, *([one_line(row["detail"])] if row["detail"] != "{}" else []))


def _values(slug: str, one: Intact | Broken) -> dict[str, Any]:
    match one:
        case Intact(head=head):
            return {"business": slug, "intact": True, "entries": head.n, "head": head.digest.hex()}
        case Broken(n=n, what=what):
            return {"business": slug, "intact": False, "entry": n, "what": what}
