"""What both ways of Telegram agree on. Its Bot API (core.telegram.org/bots/api, 10.3) numbers messages by chat: here a message is
named by chat and number, so that one name is one message of the bot, and a quote or a press names our send as its answer did.
"""

from typing import Final

ALLOWED_UPDATES: Final = ("message", "edited_message", "callback_query", "my_chat_member")
BUTTON_BYTES_MAX: Final = 64  # of what a button carries


def message_name(chat: int, number: int) -> str:
    """The name of a message among all of its bot."""
    return f"{chat}:{number}"


def read_message_name(name: str) -> tuple[int, int] | None:
    """Chat and number of a message, or None for what names none."""
    chat, _, number = name.partition(":")
    plain = chat.removeprefix("-")
    if not (plain.isascii() and plain.isdigit() and number.isascii() and number.isdigit()):
        return None
    return int(chat), int(number)
