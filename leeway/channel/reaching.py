"""Where an account's webhook is, whether a provider can reach it, and what the provider itself says."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from leeway.accounts import Accounts
from leeway.installation import Installation, running_in
from services.dispatch.adapters.channels.registry import CHANNELS, Surroundings
from services.dispatch.adapters.channels.telegram import TelegramChannel
from services.dispatch.ports import Address, Channel, Probed
from shared.channels.accounts import Telegram
from shared.channels.traits import ChannelName
from shared.clock import SystemClock
from shared.settings import Settings
from shared.telemetry.health import callable_host

CALLS_US: Final = (ChannelName.WHATSAPP, ChannelName.TWILIO, ChannelName.TELEGRAM)
NO_PUBLIC_URL: Final = (
    "LEEWAY_PUBLIC_BASE_URL is not set: set it to the https address that providers reach this installation by"
)


def webhook_url(installation: Installation, data: Path, channel: str, address: str) -> str:
    """By the public base URL where one is set, else where it listens."""
    settings = installation.settings
    note = running_in(data) if installation.embedded else None
    here = note.url if note else f"http://{callable_host(settings.host)}:{settings.port}"
    return f"{settings.public_base_url or here}/hooks/{channel}/{address}"


def unreachable(settings: Settings, channel: str, *, polling: bool = False) -> str | None:
    """Why the provider can't post to us, as far as can be told from here; None: nothing is known to be wrong."""
    if channel not in CALLS_US or polling:
        return None
    if not settings.public_base_url:
        return NO_PUBLIC_URL
    parts = urlsplit(settings.public_base_url)
    if parts.scheme != "https" or not parts.hostname or not _public(parts.hostname):
        return f"LEEWAY_PUBLIC_BASE_URL must be https and a public name; it is {settings.public_base_url}"
    return None


def _public(host: str) -> bool:
    try:
        return ip_address(host).is_global
    except ValueError:
        return "." in host and not host.endswith((".local", ".internal", ".localhost"))


def polls(address: Address) -> bool:
    """Whether we fetch its messages, and nobody calls us."""
    return isinstance(address.settings, Telegram) and address.settings.polling


@asynccontextmanager
async def _channel(accounts: Accounts, settings: Settings, name: str) -> AsyncIterator[Channel]:
    channel = CHANNELS[name](Surroundings(addresses=accounts, clock=SystemClock(), settings=settings))
    try:
        yield channel
    finally:
        await channel.close()


async def probed(accounts: Accounts, settings: Settings, address: Address) -> Probed:
    """What the provider says about our credentials."""
    if address.channel not in CHANNELS:
        return Probed(works=True, said="nothing outside is called")
    async with _channel(accounts, settings, address.channel) as channel:
        return await channel.probe(address)


async def told_telegram(accounts: Accounts, settings: Settings, address: Address) -> Probed | None:
    """Telegram is told where to post, or to keep updates for us. None: there is no public URL to name."""
    if not polls(address) and unreachable(settings, address.channel):
        return None
    async with _channel(accounts, settings, address.channel) as channel:
        assert isinstance(channel, TelegramChannel), "the registry's, for this name"
        if polls(address):
            return await channel.delete_webhook(address)
        url = f"{settings.public_base_url}/hooks/{address.channel}/{address.name}"
        return await channel.set_webhook(address, url)
