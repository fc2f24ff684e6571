"""`leeway channel rotate`: another secret, without a moment in which none is valid."""

import asyncio
from typing import Annotated, Final

import typer

from leeway.accounts import Accounts, Named, accounts_of
from leeway.businesses import new_secret
from leeway.channel.asking import ask, made
from leeway.channel.change import OfAccount, OfChannel
from leeway.channel.providers import bot_token
from leeway.channel.reaching import told_telegram
from leeway.installation import DIRECTORY, Data, the_one_meant
from leeway.operators import By, actor
from leeway.terminal import console, errors
from shared.channels.accounts import Twilio
from shared.channels.traits import ChannelName
from shared.errors import Misconfigured
from shared.settings import Settings

OURS: Final = (ChannelName.GENERIC, ChannelName.SIM)  # both sides are told the secret by us


def rotate(
    address: OfAccount,
    *,
    kind: OfChannel = None,
    inbound: Annotated[
        bool, typer.Option("--inbound", help="What checks incoming requests; the old one stays valid.")
    ] = False,
    finish: Annotated[bool, typer.Option("--finish", help="Drop the old inbound secret.")] = False,
    outbound: Annotated[
        bool, typer.Option("--outbound", help="What we send with; replaced at once.")
    ] = False,
    by: By = None,
    data: Data = DIRECTORY,
) -> None:
    """Change a secret: --inbound, change it at the sender, then --finish; or --outbound. A provider's is asked for."""
    if inbound + finish + outbound != 1:
        raise typer.BadParameter("name one of --inbound, --finish and --outbound")
    step = "inbound" if inbound else "finish" if finish else "outbound"
    asyncio.run(_rotate(the_one_meant(data).settings, address, kind, step, by=actor(by)))


async def _rotate(settings: Settings, address: str, kind: str | None, step: str, *, by: str) -> None:
    async with accounts_of(settings) as accounts:
        account = await accounts.named(address, kind)
        if step == "finish":
            await accounts.finish_rotation(account, by=by)
            console.print(f"{account}: the old secret is no longer valid.", markup=False)
        elif step == "inbound":
            await _inbound(accounts, settings, account, by=by)
        else:
            await _outbound(accounts, account, by=by)


async def _inbound(accounts: Accounts, settings: Settings, account: Named, *, by: str) -> None:
    fresh = await _fresh_inbound(accounts, account)
    await accounts.rotate_inbound(account, fresh, by=by)
    if account.channel in OURS:
        console.print(f"signing secret   {fresh}", markup=False, soft_wrap=True)
    if account.channel == ChannelName.TELEGRAM:
        stored = await accounts.address(account.id)
        assert stored is not None, "it was found just now"
        told = await told_telegram(accounts, settings, stored)
        if told is None or not told.works:
            said = told.said if told else "set LEEWAY_PUBLIC_BASE_URL (https) first"
            errors.print(f"The secret is stored, but Telegram was not told: {said}", markup=False)
            raise typer.Exit(1)
        console.print(f"{told.said}.", markup=False)
    console.print("Both secrets are valid now. When the sender has the new one:", markup=False)
    console.print(
        f"  leeway channel rotate {account.address} --channel {account.channel} --finish", markup=False
    )


async def _fresh_inbound(accounts: Accounts, account: Named) -> str:
    match account.channel:
        case ChannelName.WHATSAPP:
            return ask("app_secret", "app secret")
        case ChannelName.TWILIO:
            stored = await accounts.address(account.id)
            by_key = (
                stored is not None
                and isinstance(stored.settings, Twilio)
                and stored.settings.signature == "sha256"
            )
            return ask("auth_token", "shared key" if by_key else "auth token")
        case ChannelName.TELEGRAM:
            return made()
        case _:
            return new_secret()


async def _outbound(accounts: Accounts, account: Named, *, by: str) -> None:
    fresh = await _fresh_outbound(accounts, account)
    await accounts.rotate_outbound(account, fresh, by=by)
    if account.channel == ChannelName.GENERIC:
        console.print(f"reply secret     {fresh}", markup=False, soft_wrap=True)
    console.print(f"{account}: sends use the new secret within seconds.", markup=False)


async def _fresh_outbound(accounts: Accounts, account: Named) -> str:
    match account.channel:
        case ChannelName.WHATSAPP:
            return ask("access_token", "access token")
        case ChannelName.TELEGRAM:
            return bot_token()
        case ChannelName.TWILIO:
            stored = await accounts.address(account.id)
            by_key = (
                stored is not None
                and isinstance(stored.settings, Twilio)
                and stored.settings.api_key_sid is not None
            )
            return ask("api_key_secret", "API key's secret") if by_key else ask("auth_token", "auth token")
        case ChannelName.GENERIC:
            return new_secret()
        case _:
            raise Misconfigured(f"{account} sends nothing to a provider; it has no outbound secret.")
