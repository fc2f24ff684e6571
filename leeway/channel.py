"""`leeway channel`: connect a business to a channel."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

import typer

from leeway.business_settings import Change, business_settings
from leeway.businesses import Businesses, NewAccount, as_owner, new_secret
from leeway.installation import DIRECTORY, Data, running_in, the_one_meant
from leeway.operators import By, OwnMode, actor
from leeway.setting_values import tell_changes
from leeway.terminal import console
from shared.autonomy import Mode
from shared.errors import Misconfigured
from shared.secrets import vault_of
from shared.settings import Settings
from shared.telemetry.health import callable_host

app = typer.Typer(
    rich_markup_mode="rich",
    add_completion=False,
    no_args_is_help=True,
    help="Connect a business to a channel.",
    epilog="[bold]Examples[/]\n\n"
    "leeway channel add corner-clinic --address corner-desk --callback-url https://example.com/leeway\n\n"
    "leeway channel mode corner-desk suggest",
)


@app.callback()
def channel() -> None:
    """Connect a business to a channel."""


class ChannelName(StrEnum):
    GENERIC = "generic"
    SIM = "sim"


@app.command()
def add(
    business: Annotated[str, typer.Argument(help="Its short name.", show_default=False)],
    *,
    kind: Annotated[
        ChannelName, typer.Option("--channel", help="The signed webhook, or a simulated telephone line.")
    ] = ChannelName.GENERIC,
    address: Annotated[
        str | None, typer.Option(help="The account's name in URLs; else the business's.")
    ] = None,
    callback_url: Annotated[
        str | None, typer.Option(help="Where replies are posted to (generic): https, public.")
    ] = None,
    verifies_phones: Annotated[
        bool, typer.Option(help="Believe the phone numbers that the sending system says it verified.")
    ] = False,
    carrier_takes_cancel: Annotated[
        bool, typer.Option(help="Its carrier takes CANCEL as an opt-out (SMS in some countries).")
    ] = False,
    by: By = None,
    data: Data = DIRECTORY,
) -> None:
    """Make a channel account with fresh secrets, which are shown this once."""
    if kind is ChannelName.GENERIC and callback_url is None:
        raise typer.BadParameter("the generic webhook needs --callback-url, where replies are posted to")
    installation = the_one_meant(data)
    settings = installation.settings
    if callback_url is not None:
        _check(callback_url, settings)
    address = address or business
    inbound, outbound = new_secret(), new_secret()
    adding = as_owner(settings, vault_of(settings))
    account = NewAccount(
        channel=kind.value,
        address=address,
        inbound=[inbound],
        outbound=outbound if kind is ChannelName.GENERIC else None,
        callback_url=callback_url,
        verifies_phones=verifies_phones,
        carrier_takes_cancel=carrier_takes_cancel,
    )
    asyncio.run(_add(adding, business, account, by=actor(by)))
    note = running_in(data) if installation.embedded else None
    where = note.url if note else f"http://{callable_host(settings.host)}:{settings.port}"
    console.print(f"webhook URL      {where}/hooks/{kind}/{address}", markup=False, soft_wrap=True)
    console.print(f"signing secret   {inbound}", markup=False, soft_wrap=True)
    if kind is ChannelName.GENERIC:
        console.print(f"reply secret     {outbound}", markup=False, soft_wrap=True)
    console.print(
        "Keep the secrets: they are not shown again. Sign as standardwebhooks.com says.", style="dim"
    )
    if kind is ChannelName.GENERIC:
        console.print("Replies are signed with the reply secret and posted to the callback URL.", style="dim")


@app.command()
def enable(
    address: Annotated[str, typer.Argument(help="The account's name in URLs.", show_default=False)],
    *,
    kind: Annotated[ChannelName, typer.Option("--channel", help="Of which channel.")] = ChannelName.GENERIC,
    by: By = None,
    data: Data = DIRECTORY,
) -> None:
    """Switch an account on again that is off since its credentials were refused."""
    going, late = asyncio.run(_enable(the_one_meant(data).settings, kind, address, by=actor(by)))
    console.print(f"{address} is on; {going} replies that waited go out now.", markup=False)
    if late:
        console.print(f"{late} were too old for that and became drafts.", markup=False)


@app.command()
def mode(
    address: Annotated[str, typer.Argument(help="The account's name in URLs.", show_default=False)],
    wanted: Annotated[
        OwnMode,
        typer.Argument(metavar="MODE", help="off, suggest, auto, or inherit.", show_default=False),
    ],
    *,
    kind: Annotated[ChannelName, typer.Option("--channel", help="Of which channel.")] = ChannelName.GENERIC,
    by: By = None,
    data: Data = DIRECTORY,
) -> None:
    """Let the bot do less on this account than in its business: the strictest mode wins."""
    changes = asyncio.run(_mode(the_one_meant(data).settings, kind, address, wanted.mode, by=actor(by)))
    tell_changes(f"{kind} {address}", changes)


async def _mode(
    settings: Settings, kind: ChannelName, address: str, wanted: Mode | None, *, by: str
) -> Sequence[Change]:
    async with business_settings(settings) as dials:
        return await dials.channel_mode(kind.value, address, wanted, by=by)


async def _enable(settings: Settings, kind: ChannelName, address: str, *, by: str) -> tuple[int, int]:
    async with as_owner(settings, vault_of(settings)) as businesses:
        return await businesses.enable_account(channel=kind.value, address=address, by=by)


async def _add(
    adding: AbstractAsyncContextManager[Businesses], slug: str, account: NewAccount, *, by: str
) -> None:
    async with adding as businesses:
        await businesses.add_new_account(slug, account, by=by)


def _check(callback_url: str, settings: Settings) -> None:
    """Raises Misconfigured for what dispatch would refuse at every send."""
    parts = urlsplit(callback_url)
    if not parts.hostname or parts.scheme not in ("https", "http"):
        raise Misconfigured(f"{callback_url!r} is no URL like https://example.com/leeway.")
    if parts.scheme != "https" and not settings.allow_internal_callbacks:
        raise Misconfigured(
            "The callback URL must be https; LEEWAY_ALLOW_INTERNAL_CALLBACKS=true allows others, also inside."
        )
