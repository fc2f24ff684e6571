"""What each channel can carry, as a table: how much text and how it is counted, buttons, its window, its pace."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

WHATSAPP_OVER_TWILIO: Final = (
    "whatsapp:"  # what a user id of such a sender begins with; an SMS sender's is the bare number
)
WINDOW: Final = timedelta(hours=24)  # for free text after the customer's last message, on WhatsApp
WINDOW_MARGIN: Final = timedelta(minutes=10)


class ChannelName(StrEnum):
    """The channels that there are, by their name in URLs and rows."""

    SIM = "sim"
    GENERIC = "generic"
    WHATSAPP = "whatsapp"
    TWILIO = "twilio"
    TELEGRAM = "telegram"


class Counts(StrEnum):
    """What a channel's limit on text is counted in."""

    CODE_POINTS = "code_points"
    UTF16 = "utf16"  # units: most emoji count two


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """One channel's way of carrying messages."""

    text_max: int  # of one message
    counts: Counts = Counts.CODE_POINTS
    buttons: bool = False
    text_beside_buttons_max: int | None = None  # None: as without
    button_title_max: int = 64  # in code points
    idempotent: bool = False  # takes a key, so that an unknown outcome may be sent again under it
    window: bool = False  # free text only within WINDOW
    side_calls: bool = False  # typing, read marks, acknowledged presses
    per_account: timedelta = timedelta()  # from one send of an account to the next, on average
    account_burst: int = 1  # so many may go at once
    per_person: timedelta = timedelta()  # from one send to somebody to the next

    def length(self, text: str) -> int:
        """How long a text is, as the channel counts."""
        if self.counts is Counts.UTF16:
            return len(text.encode("utf-16-le", errors="replace")) // 2
        return len(text)


_WHATSAPP: Final = Traits(
    text_max=4096,
    buttons=True,
    text_beside_buttons_max=1024,
    button_title_max=20,
    window=True,
    side_calls=True,
    per_account=timedelta(
        milliseconds=13
    ),  # 80 a second and number, in and out; its rest is for what comes in
    account_burst=40,
)

TRAITS: Final[Mapping[str, Traits]] = {
    ChannelName.SIM: Traits(text_max=4096, buttons=True, idempotent=True),
    ChannelName.GENERIC: Traits(text_max=16_000, buttons=True, idempotent=True),
    ChannelName.WHATSAPP: _WHATSAPP,
    ChannelName.TWILIO: Traits(text_max=1600, counts=Counts.UTF16),  # Twilio queues and paces by itself
    ChannelName.TELEGRAM: Traits(
        text_max=4096,
        counts=Counts.UTF16,
        buttons=True,
        side_calls=True,
        per_account=timedelta(milliseconds=34),  # 30 a second and bot
        account_burst=30,
        per_person=timedelta(seconds=1),
    ),
}
_OVER_TWILIO: Final = Traits(text_max=1600, counts=Counts.UTF16, window=True)

# What surely fits into one message of any channel, however it counts.
PLAIN_CHARS_MAX: Final = 800


def traits_of(channel: str, user_id: str) -> Traits:
    """The traits of a channel towards one person. Raises KeyError for a channel that this version has not got."""
    if channel == ChannelName.TWILIO and user_id.startswith(WHATSAPP_OVER_TWILIO):
        return _OVER_TWILIO
    return TRAITS[channel]
