"""The channels' ways out, by their name. A new channel is a module here and a line in this table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from services.dispatch.adapters.channels.generic import GenericChannel
from services.dispatch.adapters.channels.telegram import TelegramChannel
from services.dispatch.adapters.channels.twilio import TwilioChannel
from services.dispatch.adapters.channels.whatsapp import WhatsAppChannel
from services.dispatch.ports import Addresses, Channel
from shared.channels.traits import ChannelName
from shared.clock import Clock
from shared.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a channel is made of."""

    addresses: Addresses
    clock: Clock
    settings: Settings


CHANNELS: Final[Mapping[str, Callable[[Surroundings], Channel]]] = {
    ChannelName.GENERIC: lambda given: GenericChannel(
        given.addresses,
        clock=given.clock,
        allow_internal=given.settings.allow_internal_callbacks,
        connections=given.settings.slots,
    ),
    ChannelName.WHATSAPP: lambda given: WhatsAppChannel(
        given.addresses, url=given.settings.whatsapp_url, connections=given.settings.slots
    ),
    ChannelName.TELEGRAM: lambda given: TelegramChannel(
        given.addresses, url=given.settings.telegram_url, connections=given.settings.slots
    ),
    ChannelName.TWILIO: lambda given: TwilioChannel(
        given.addresses,
        url=given.settings.twilio_url,
        public_url=given.settings.public_base_url,
        connections=given.settings.slots,
    ),
}


def channels_of(given: Surroundings) -> dict[str, Channel]:
    """Each channel that has a provider outside."""
    return {name: make(given) for name, make in CHANNELS.items()}
