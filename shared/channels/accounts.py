"""What a channel account needs beside its address: settings, which anybody may read, and secrets, which the vault keeps.

Secrets have one form on every channel: `inbound` authenticate requests to us, the current one first and during a rotation the one
before; `outbound` authenticates ours to the provider; `verify_token` is asked for by WhatsApp's handshake.
"""

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from shared.channels.traits import ChannelName
from shared.errors import Misconfigured

API_VERSION: Final = "v26.0"  # of the Graph API
INBOUND_MAX: Final = 2


class Settings(BaseModel):
    """Of a channel that needs none; the root of the others."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Template(Settings):
    """An approved template whose body is one parameter: the text of the reply."""

    name: str
    language: str


class WhatsApp(Settings):
    """A number on the Cloud API."""

    phone_number_id: Annotated[str, Field(pattern=r"^[0-9]{1,32}$")]
    api_version: Annotated[str, Field(pattern=r"^v[0-9]{1,3}\.[0-9]$")] = API_VERSION
    template: Template | None = None  # for replies outside the 24-hour window


class Twilio(Settings):
    """A number, for SMS and for WhatsApp over Twilio."""

    account_sid: Annotated[str, Field(pattern=r"^AC[0-9a-zA-Z]{32}$")]
    number: Annotated[str, Field(pattern=r"^\+[1-9][0-9]{6,14}$")]
    messaging_service_sid: str | None = None
    api_key_sid: str | None = None  # with it, `outbound` is the key's secret, else the auth token
    signature: Literal["sha1", "sha256"] = "sha1"  # which hash signs webhooks; sha256 with a shared key
    content_sid: str | None = (
        None  # an approved template of one variable, for replies outside WhatsApp's window
    )
    plain_letters: bool = False  # ș as s: a diacritic makes an SMS twice as dear
    valid_for_s: Annotated[int, Field(ge=1, le=36_000)] = 600  # how long a reply is worth delivering


class Telegram(Settings):
    """A bot."""

    bot_id: Annotated[str, Field(pattern=r"^[0-9]{1,20}$")]
    username: str | None = None
    polling: bool = False  # updates are fetched, for who has no public URL


SETTINGS: Final[dict[str, type[Settings]]] = {
    ChannelName.SIM: Settings,
    ChannelName.GENERIC: Settings,
    ChannelName.WHATSAPP: WhatsApp,
    ChannelName.TWILIO: Twilio,
    ChannelName.TELEGRAM: Telegram,
}


class Secrets(BaseModel):
    """What the vault keeps of an account."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    inbound: tuple[SecretStr, ...] = ()
    outbound: SecretStr | None = None
    verify_token: SecretStr | None = None


def has_template(channel: str, stored: str) -> bool:
    """Whether the settings in a row name an approved template. False where they can't be read: then nothing is sent by it."""
    if channel not in (ChannelName.WHATSAPP, ChannelName.TWILIO):
        return False
    try:
        settings = read_settings(channel, stored)
    except Misconfigured:
        return False
    return bool(getattr(settings, "template", None) or getattr(settings, "content_sid", None))


def read_settings(channel: str, stored: str) -> Settings:
    """The settings in a row. Raises Misconfigured for what no account of the channel, or no channel of this version, can have."""
    if channel not in SETTINGS:
        raise Misconfigured(f"This version has no channel {channel}.")
    try:
        return SETTINGS[channel].model_validate_json(stored)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"]) or "all of them"
        raise Misconfigured(
            f"A {channel} account has settings that this version can't read: {where}."
        ) from error
