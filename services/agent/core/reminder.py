"""Reminders of what customers have: their buttons, and which of them come too late. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec

from shared.ids import BusinessId, ConversationId, OutboundId
from shared.packs import ReminderWords
from shared.quiet_hours import quiet_for

BUTTON_PREFIX: Final = "rm"
TOO_LATE: Final = timedelta(hours=2)  # before what it reminds of
UNBROKEN: Final = timedelta(minutes=30)  # without a word of the customer's: it breaks into no conversation


class Press(StrEnum):
    """What a reminder's button says."""

    KEEP = "keep"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Button:
    """A reminder's button: it names the reminder, which is looked up, never believed."""

    reminder: UUID
    press: Press

    def encode(self) -> str:
        return f"{BUTTON_PREFIX}:{self.reminder.hex}:{self.press}"

    @staticmethod
    def decode(text: str) -> "Button | None":
        """The button in an id, or None for one that is not of this form."""
        parts = text.split(":")
        if len(parts) != 3 or parts[0] != BUTTON_PREFIX:
            return None
        try:
            button = Button(reminder=UUID(hex=parts[1]), press=Press(parts[2]))
        except ValueError:
            return None
        return button if button.encode() == text else None


def is_reminders(button: str | None) -> bool:
    """Whether a button's id is a reminder's, whatever else it says."""
    return button is not None and button.startswith(f"{BUTTON_PREFIX}:")


def buttons_json(reminder: UUID, words: ReminderWords) -> str:
    """Keep and cancel, as JSON: [{"id", "title"}, …]."""
    titles: Mapping[Press, str] = {Press.KEEP: words.keep, Press.CANCEL: words.cancel}
    made = [
        {"id": Button(reminder=reminder, press=press).encode(), "title": title}
        for press, title in titles.items()
    ]
    return msgspec.json.encode(made).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A reminder that went to a conversation, and what its buttons stand for."""

    tool: str
    arguments: str  # canonical JSON
    thanks: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reminding:
    """A business whose pack may remind its customers."""

    id: BusinessId
    slug: str
    pack: str
    zone: ZoneInfo
    locale: str  # its first
    ahead: timedelta
    quiet_from: time
    quiet_to: time
    now: datetime

    @property
    def too_late(self) -> timedelta:
        """What begins within it is not worth a reminder any more: one would wait for the end of the quiet hours first.

        A business that wants its reminders later than two hours before gets them in the first half of its time.
        """
        quiet = quiet_for(self.now.astimezone(self.zone), self.quiet_from, self.quiet_to) or timedelta()
        return quiet + min(TOO_LATE, self.ahead / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """Where a reminder goes, at one version of that conversation's row."""

    conversation: ConversationId
    version: int
    locale: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewReminder:
    """A reminder to store and to send."""

    key: UUID
    recipient: Recipient
    outbound: OutboundId
    tool: str
    arguments: str
    words: ReminderWords


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsent:
    """A reminder that was made and has not left: it waits for the quiet hours' end, or for an operator."""

    outbound: OutboundId
    conversation: ConversationId
    key: UUID
