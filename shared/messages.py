"""What an inbound message is, as every stage speaks of it."""

from enum import StrEnum
from typing import Final

# What the ids of our own buttons begin with: of a pending action, of a reminder. Any other is somebody else's.
OUR_BUTTONS: Final = ("pa:", "rm:")

PROMPT_CHARS_MAX: Final = 1_000  # a prompt is one message on every channel, and never split


class MessageKind(StrEnum):
    """What arrived, by how it must be treated rather than by how its channel calls it."""

    TEXT = "text"
    BUTTON = "button"  # a press of one of our buttons; its text is a label, never read as a yes
    MEDIA = "media"  # something a person should see; its caption is text
    REACTION = "reaction"  # stored, starts no turn
    SYSTEM = "system"  # said by the channel itself
    ECHO = "echo"  # our side speaking: our own send, or a person on the business's phone
    GROUP = "group"  # not a private chat
    EDIT = "edit"  # new words for the message it quotes; it starts no turn
    DELETION = "deletion"  # the message it quotes is taken back
    UNSUPPORTED = "unsupported"  # a sticker, an empty text, a kind nobody has seen yet


class Verdict(StrEnum):
    """What the guard decided about one message."""

    TURN = "turn"  # the agent handles it
    STORED = "stored"  # kept and shown, nothing follows
    CONSENT = "consent"  # an opt-out or opt-in word
    HANDOFF = "handoff"  # people take over


class PartKind(StrEnum):
    """What a message carries beside its text."""

    AUDIO = "audio"
    IMAGE = "image"
    VIDEO = "video"
    DOCUMENT = "document"
    STICKER = "sticker"
    LOCATION = "location"
    CONTACT = "contact"
    ORDER = "order"
    OTHER = "other"
