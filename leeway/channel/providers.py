"""Which options and secrets each channel takes, and the account that they make."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import typer
from pydantic import ValidationError

from leeway.accounts import NewAccount
from leeway.businesses import new_secret
from leeway.channel.asking import ask, made
from shared.channels.accounts import Settings, Telegram, Template, Twilio, WhatsApp
from shared.channels.traits import ChannelName
from shared.errors import Misconfigured

E164: Final = re.compile(r"\+[1-9][0-9]{6,14}")
BOT_TOKEN: Final = re.compile(r"[0-9]{1,20}:[A-Za-z0-9_-]{1,128}")

Options = Mapping[str, Any]

BELONGS: Final[Mapping[str, frozenset[ChannelName]]] = {
    "--callback-url": frozenset({ChannelName.GENERIC}),
    "--phone-number-id": frozenset({ChannelName.WHATSAPP}),
    "--number": frozenset({ChannelName.WHATSAPP, ChannelName.TWILIO}),
    "--api-version": frozenset({ChannelName.WHATSAPP}),
    "--template": frozenset({ChannelName.WHATSAPP}),
    "--template-language": frozenset({ChannelName.WHATSAPP}),
    "--account-sid": frozenset({ChannelName.TWILIO}),
    "--messaging-service": frozenset({ChannelName.TWILIO}),
    "--api-key": frozenset({ChannelName.TWILIO}),
    "--signature": frozenset({ChannelName.TWILIO}),
    "--content-sid": frozenset({ChannelName.TWILIO}),
    "--plain-letters": frozenset({ChannelName.TWILIO}),
    "--polling": frozenset({ChannelName.TELEGRAM}),
}


def account_of(kind: ChannelName, address: str, options: Options) -> NewAccount:
    """The account that the options make; its provider's secrets are asked for, the others made.

    Raises BadParameter for an option that is missing, malformed or another channel's, Misconfigured for a secret that is none.
    """
    given = {name: value for name, value in options.items() if value not in (None, False)}
    for name in given:
        if kind not in BELONGS[name]:
            others = " and ".join(sorted(BELONGS[name]))
            raise typer.BadParameter(f"{name} belongs to --channel {others}, not to {kind}")
    return _MAKERS[kind](address, given)


def _generic(address: str, given: Options) -> NewAccount:
    if "--callback-url" not in given:
        raise typer.BadParameter("the generic webhook needs --callback-url, where replies are posted to")
    return NewAccount(
        channel=ChannelName.GENERIC,
        address=address,
        inbound=[new_secret()],
        outbound=new_secret(),
        callback_url=given["--callback-url"],
    )


def _sim(address: str, _: Options) -> NewAccount:
    return NewAccount(channel=ChannelName.SIM, address=address, inbound=[new_secret()])


def _whatsapp(address: str, given: Options) -> NewAccount:
    _need(ChannelName.WHATSAPP, given, "--phone-number-id", "--number")
    if ("--template" in given) != ("--template-language" in given):
        raise typer.BadParameter("--template and --template-language go together")
    number = _number(given)
    template = None
    if "--template" in given:
        template = Template(name=given["--template"], language=given["--template-language"])
    fields = {"phone_number_id": given["--phone-number-id"], "template": template}
    if "--api-version" in given:
        fields["api_version"] = given["--api-version"]
    settings = _checked(WhatsApp, fields)
    return NewAccount(
        channel=ChannelName.WHATSAPP,
        address=address,
        inbound=[ask("app_secret", "app secret")],
        outbound=ask("access_token", "access token"),
        verify_token=made(),
        provider_address=given["--phone-number-id"],
        own_number=number,
        settings=settings.model_dump_json(),
    )


def _twilio(address: str, given: Options) -> NewAccount:
    _need(ChannelName.TWILIO, given, "--account-sid", "--number")
    number, shared_key = _number(given), given.get("--signature") == "sha256"
    if shared_key and "--api-key" not in given:
        raise typer.BadParameter(
            "--signature sha256 needs --api-key: a shared key signs webhooks and can't send"
        )
    settings = _checked(
        Twilio,
        {
            "account_sid": given["--account-sid"],
            "number": number,
            "messaging_service_sid": given.get("--messaging-service"),
            "api_key_sid": given.get("--api-key"),
            "signature": given.get("--signature", "sha1"),
            "content_sid": given.get("--content-sid"),
            "plain_letters": "--plain-letters" in given,
        },
    )
    inbound = ask("auth_token", "shared key" if shared_key else "auth token")
    return NewAccount(
        channel=ChannelName.TWILIO,
        address=address,
        inbound=[inbound],
        outbound=ask("api_key_secret", "API key's secret") if "--api-key" in given else inbound,
        carrier_takes_cancel=True,
        provider_address=number,
        own_number=number,
        settings=settings.model_dump_json(),
    )


def _telegram(address: str, given: Options) -> NewAccount:
    token = bot_token()
    bot = token.partition(":")[0]
    return NewAccount(
        channel=ChannelName.TELEGRAM,
        address=address,
        inbound=[made()],
        outbound=token,
        provider_address=bot,
        settings=_checked(Telegram, {"bot_id": bot, "polling": "--polling" in given}).model_dump_json(),
    )


def bot_token() -> str:
    """A bot token, asked for. Raises Misconfigured for what is none."""
    token = ask("bot_token", "bot token")
    if not BOT_TOKEN.fullmatch(token):
        raise Misconfigured("That is no bot token: @BotFather gives one like 123456:ABC….")
    return token


def _need(kind: ChannelName, given: Options, *names: str) -> None:
    missing = [name for name in names if name not in given]
    if missing:
        raise typer.BadParameter(f"{kind} needs {' and '.join(missing)}")


def _number(given: Options) -> str:
    number: str = given["--number"]
    if not E164.fullmatch(number):
        raise typer.BadParameter(f"--number {number!r} is no number like +40700000100")
    return number


_OPTION: Final = {
    "phone_number_id": "--phone-number-id",
    "api_version": "--api-version",
    "account_sid": "--account-sid",
    "signature": "--signature",
}
_LOOKS_LIKE: Final = {
    "phone_number_id": "digits, as the app's dashboard shows",
    "api_version": "like v26.0",
    "account_sid": "AC and 32 letters or digits",
    "signature": "sha1 or sha256",
}


def _checked(model: type[Settings], fields: Mapping[str, Any]) -> Settings:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        raise typer.BadParameter(
            f"{_OPTION.get(name, name)} must be {_LOOKS_LIKE.get(name, 'of another form')}"
        ) from None


_MAKERS: Final[Mapping[ChannelName, Callable[[str, Options], NewAccount]]] = {
    ChannelName.GENERIC: _generic,
    ChannelName.SIM: _sim,
    ChannelName.WHATSAPP: _whatsapp,
    ChannelName.TWILIO: _twilio,
    ChannelName.TELEGRAM: _telegram,
}
