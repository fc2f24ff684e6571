"""The channels' ways in, by their name in the URL. A new channel is a module in core/ and a line here."""

from collections.abc import Mapping
from typing import Final

from services.ingest.core import generic, sim, telegram, twilio, whatsapp
from services.ingest.core.entrance import Entrance
from shared.channels.traits import ChannelName

ENTRANCES: Final[Mapping[str, Entrance]] = {
    ChannelName.SIM: sim.ENTRANCE,
    ChannelName.GENERIC: generic.ENTRANCE,
    ChannelName.WHATSAPP: whatsapp.ENTRANCE,
    ChannelName.TELEGRAM: telegram.ENTRANCE,
    ChannelName.TWILIO: twilio.ENTRANCE,
}
