"""`leeway channel disable`, `enable` and `mode`."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from leeway.accounts import Named, accounts_of
from leeway.business_settings import Change, business_settings
from leeway.installation import DIRECTORY, Data, the_one_meant
from leeway.operators import By, OwnMode, actor
from leeway.setting_values import tell_changes
from leeway.terminal import console
from shared.autonomy import Mode
from shared.channels.traits import ChannelName
from shared.settings import Settings

WHY_CHARS_MAX: Final = 200

OfAccount = Annotated[
    str,
    typer.Argument(
        metavar="ADDRESS", help="The account's name in URLs, or CHANNEL/ADDRESS.", show_default=False
    ),
]
OfChannel = Annotated[
    ChannelName | None,
    typer.Option(
        "--channel", help="Of which channel; needed where several have that name.", show_default=False
    ),
]


def disable(
    address: OfAccount,
    *,
    kind: OfChannel = None,
    why: Annotated[str, typer.Option(help="Kept with it, and shown.")] = "by command",
    by: By = None,
    data: Data = DIRECTORY,
) -> None:
    """Switch an account off: what arrives is stored and not answered, replies wait."""
    why = " ".join(why.split())
    if not why or len(why) > WHY_CHARS_MAX:
        raise typer.BadParameter(f"--why takes 1 to {WHY_CHARS_MAX} characters")
    named = asyncio.run(_disable(the_one_meant(data).settings, address, kind, why, by=actor(by)))
    console.print(f"{named} is off; its replies wait for: leeway channel enable", markup=False)


def enable(address: OfAccount, *, kind: OfChannel = None, by: By = None, data: Data = DIRECTORY) -> None:
    """Switch an account on again, after its credentials were refused or a person switched it off."""
    going, late = asyncio.run(_enable(the_one_meant(data).settings, address, kind, by=actor(by)))
    console.print(f"{address} is on; {going} replies that waited go out now.", markup=False)
    if late:
        console.print(f"{late} were too old for that and became drafts.", markup=False)


def mode(
    address: OfAccount,
    wanted: Annotated[
        OwnMode,
        typer.Argument(metavar="MODE", help="off, suggest, auto, or inherit.", show_default=False),
    ],
    *,
    kind: OfChannel = None,
    by: By = None,
    data: Data = DIRECTORY,
) -> None:
    """Let the bot do less on this account than in its business: the strictest mode wins."""
    settings = the_one_meant(data).settings
    named, changes = asyncio.run(_mode(settings, address, kind, wanted.mode, by=actor(by)))
    tell_changes(str(named), changes)


async def _disable(settings: Settings, address: str, kind: str | None, why: str, *, by: str) -> Named:
    async with accounts_of(settings) as accounts:
        named = await accounts.named(address, kind)
        await accounts.disable(named, why, by=by)
        return named


async def _enable(settings: Settings, address: str, kind: str | None, *, by: str) -> tuple[int, int]:
    async with accounts_of(settings) as accounts:
        return await accounts.enable(await accounts.named(address, kind), by=by)


async def _mode(
    settings: Settings, address: str, kind: str | None, wanted: Mode | None, *, by: str
) -> tuple[Named, Sequence[Change]]:
    async with accounts_of(settings) as accounts:
        named = await accounts.named(address, kind)
    async with business_settings(settings) as dials:
        return named, await dials.channel_mode(named.channel, named.address, wanted, by=by)
