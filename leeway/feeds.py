"""`leeway feeds`: where staff's own programs read a business's feeds, a calendar for example."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import typer

from leeway.installation import DIRECTORY, Data, running_in, the_one_meant
from leeway.operators import AsJson, Office, run
from leeway.terminal import console, raw_line, shown
from services.console.adapters.pack_feeds import PackFeeds
from services.console.core.feed_keys import FeedKeys
from services.console.feeds import feed_keys_of, feed_url
from shared.errors import Misconfigured
from shared.packs import load_packs

WHOSE: Final = "Who has one of these addresses may read its feed: treat them like passwords."

app = typer.Typer(
    rich_markup_mode="rich",
    add_completion=False,
    no_args_is_help=True,
    help="Where staff's own programs read appointments and the like.",
    epilog="[bold]Examples[/]\n\nleeway feeds list demo-clinic\n\n"
    "leeway feeds list corner-clinic --base-url https://chat.corner.example",
)


@app.callback()
def feeds() -> None:
    """Where staff's own programs read appointments and the like."""


@app.command("list")
def list_(
    slug: Annotated[str, typer.Argument(metavar="BUSINESS", help="Its short name.", show_default=False)],
    *,
    base_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="How it is reached from outside; else where it listens."),
    ] = None,
    as_json: AsJson = False,
    data: Data = DIRECTORY,
) -> None:
    """Each feed with its address, which a calendar program can subscribe to. The addresses are secrets."""
    keys = feed_keys_of(the_one_meant(data).settings)
    base = _base(base_url, data)

    async def work(here: Office) -> Sequence[tuple[str, str, str]]:
        return await _addresses(here, slug, base=base, keys=keys)

    found = run(data, work)
    if as_json:
        raw_line(json.dumps([{"name": name, "what": what, "url": url} for name, what, url in found]))
    elif not found:
        console.print(f"The pack of {slug} has no feeds.", markup=False)
    else:
        for name, what, url in found:
            console.print(shown(f"{what} ({name})"), markup=False, soft_wrap=True)
            console.print(f"  {url}", markup=False, soft_wrap=True, highlight=False)
        console.print(WHOSE, markup=False, soft_wrap=True)


async def _addresses(here: Office, slug: str, *, base: str, keys: FeedKeys) -> Sequence[tuple[str, str, str]]:
    """Name, what it is, address."""
    source = PackFeeds(here.database, load_packs())
    publisher = await source.publisher(slug)
    if publisher is None:
        raise Misconfigured(f"There is no business {slug}.")
    names = await source.names(publisher)
    return [(name, what, feed_url(base, slug, publisher, name, keys)) for name, what in names.items()]


def _base(given: str | None, data: Path) -> str:
    """Where the installation is reached. Raises BadParameter for what is no such address."""
    if given is None:
        installation = the_one_meant(data)
        note = running_in(data) if installation.embedded else None
        return note.url if note else f"http://{installation.settings.host}:{installation.settings.port}"
    parts = urlsplit(given)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise typer.BadParameter("--base-url takes an address like https://chat.example.com")
    return given
