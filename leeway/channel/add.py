"""`leeway channel add`: an account on a channel, with secrets that are made or asked for."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final
from urllib.parse import urlsplit

import typer

from leeway.accounts import NewAccount, accounts_of
from leeway.channel.providers import account_of
from leeway.channel.reaching import polls, told_telegram, unreachable, webhook_url
from leeway.channel.words import TELEGRAM_NO_URL, TELEGRAM_POLLING, TO_DO
from leeway.installation import DIRECTORY, Data, the_one_meant
from leeway.operators import By, actor
from leeway.terminal import console, errors, program
from shared.channels.traits import ChannelName
from shared.errors import Misconfigured
from shared.settings import Settings

EPILOG: Final = (
    "Secrets of providers are asked for, or read from LEEWAY_CHANNEL_APP_SECRET, LEEWAY_CHANNEL_ACCESS_TOKEN, "
    "LEEWAY_CHANNEL_AUTH_TOKEN, LEEWAY_CHANNEL_API_KEY_SECRET and LEEWAY_CHANNEL_BOT_TOKEN."
)


def add(
    business: Annotated[str, typer.Argument(help="Its short name.", show_default=False)],
    *,
    kind: Annotated[ChannelName, typer.Option("--channel", help="Which.")] = ChannelName.GENERIC,
    address: Annotated[
        str | None, typer.Option(help="The account's name in URLs; else the business's.")
    ] = None,
    callback_url: Annotated[
        str | None, typer.Option(help="generic: where replies are posted to; https, public.")
    ] = None,
    phone_number_id: Annotated[str | None, typer.Option(help="whatsapp: the number's id.")] = None,
    number: Annotated[str | None, typer.Option(help="whatsapp, twilio: as +40700000100.")] = None,
    api_version: Annotated[str | None, typer.Option(help="whatsapp: of the Graph API.")] = None,
    template: Annotated[
        str | None, typer.Option(help="whatsapp: approved, of one parameter, for replies after 24 hours.")
    ] = None,
    template_language: Annotated[str | None, typer.Option(help="whatsapp: the template's, as en_US.")] = None,
    account_sid: Annotated[str | None, typer.Option(help="twilio: AC….")] = None,
    messaging_service: Annotated[str | None, typer.Option(help="twilio: MG…, to send by.")] = None,
    api_key: Annotated[
        str | None, typer.Option(help="twilio: SK…, to send with instead of the token.")
    ] = None,
    signature: Annotated[
        str | None, typer.Option(metavar="sha1|sha256", help="twilio: of webhooks; sha256 by a shared key.")
    ] = None,
    content_sid: Annotated[
        str | None, typer.Option(help="twilio: HX…, a template for WhatsApp after 24 hours.")
    ] = None,
    plain_letters: Annotated[
        bool, typer.Option("--plain-letters", help="twilio: send ș as s, which makes SMS cheaper.")
    ] = False,
    polling: Annotated[
        bool, typer.Option("--polling", help="telegram: fetch; no public URL is needed.")
    ] = False,
    verifies_phones: Annotated[
        bool, typer.Option(help="Believe the phone numbers that the sending system says it verified.")
    ] = False,
    carrier_takes_cancel: Annotated[
        bool | None,
        typer.Option(help="Its carrier takes CANCEL as an opt-out (SMS in some countries); twilio: yes."),
    ] = None,
    by: By = None,
    data: Data = DIRECTORY,
) -> None:
    """Make a channel account. Secrets made here are shown this once; those of a provider are asked for unseen."""
    options = {
        "--callback-url": callback_url,
        "--phone-number-id": phone_number_id,
        "--number": number,
        "--api-version": api_version,
        "--template": template,
        "--template-language": template_language,
        "--account-sid": account_sid,
        "--messaging-service": messaging_service,
        "--api-key": api_key,
        "--signature": signature,
        "--content-sid": content_sid,
        "--plain-letters": plain_letters,
        "--polling": polling,
    }
    installation = the_one_meant(data)
    settings = installation.settings
    if callback_url is not None:
        _check(callback_url, settings)
    account = account_of(kind, address or business, options)
    account = replace(account, verifies_phones=verifies_phones)
    if carrier_takes_cancel is not None:
        account = replace(account, carrier_takes_cancel=carrier_takes_cancel)
    to_do = asyncio.run(_add(settings, business, account, by=actor(by)))
    _print(webhook_url(installation, data, kind, account.address), account, settings, to_do)


async def _add(settings: Settings, slug: str, account: NewAccount, *, by: str) -> Sequence[str]:
    """Add it; what is left to do."""
    async with accounts_of(settings) as accounts:
        made = await accounts.add(slug, account, by=by)
        if account.channel != ChannelName.TELEGRAM:
            return TO_DO[account.channel]
        address = await accounts.address(made)
        assert address is not None, "it was made just now"
        told = await told_telegram(accounts, settings, address)
        if told is None:
            return TELEGRAM_NO_URL
        if not told.works:
            errors.print(f"The account is stored, but: {told.said}", markup=False)
            return ("Mend that, then: leeway channel rotate --inbound, which tells Telegram the URL.",)
        return TELEGRAM_POLLING if polls(address) else (f"Nothing is to be done: {told.said}.",)


def _print(url: str, account: NewAccount, settings: Settings, to_do: Sequence[str]) -> None:
    _line("webhook URL", url)
    if account.channel in (ChannelName.GENERIC, ChannelName.SIM):
        _line("signing secret", account.inbound[0])
    if account.channel == ChannelName.GENERIC:
        _line("reply secret", str(account.outbound))
    if account.verify_token is not None:
        _line("verify token", account.verify_token)
    for line in to_do:
        console.print(line, style="dim", markup=False)
    missing = unreachable(settings, account.channel)
    if missing and account.channel != ChannelName.TELEGRAM:
        console.print(f"{missing}.", style="yellow", markup=False)
    check = f"{program()} channel test {account.address} --channel {account.channel}"
    console.print(f"Then check it: {check}", markup=False, soft_wrap=True)


def _line(name: str, value: str) -> None:
    console.print(f"{name:<16} {value}", markup=False, soft_wrap=True)


def _check(callback_url: str, settings: Settings) -> None:
    """Raises Misconfigured for what dispatch would refuse at every send."""
    parts = urlsplit(callback_url)
    if not parts.hostname or parts.scheme not in ("https", "http"):
        raise Misconfigured(f"{callback_url!r} is no URL like https://example.com/leeway.")
    if parts.scheme != "https" and not settings.allow_internal_callbacks:
        raise Misconfigured(
            "The callback URL must be https; LEEWAY_ALLOW_INTERNAL_CALLBACKS=true allows others, also inside."
        )
