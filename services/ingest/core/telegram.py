"""Telegram's way in: one update a request, by the Bot API 10.3 (core.telegram.org/bots/api#update).

Only private chats are conversations. Messages are named by chat and number (shared/channels/telegram.py); an update by its id.
"""

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from services.ingest.core.entrance import Account, Entrance, Post
from services.ingest.core.events import ELSEWHERE, Inbound, Malformed, Parsed, Part
from services.ingest.core.fields import Item, item_at, positive, signed, unix_time
from services.ingest.core.reading import (
    ID_CHARS_MAX,
    LOCALE_CHARS_MAX,
    NAME_CHARS_MAX,
    believable,
    clean,
    parse_json,
)
from services.ingest.core.telegram_parts import MEDIA, parts_of
from shared.channels.telegram import message_name
from shared.messages import MessageKind, PartKind
from shared.phones import e164
from shared.signing import Signature

SECRET_HEADER: Final = b"x-telegram-bot-api-secret-token"

_CAPTIONED: Final = ("photo", *MEDIA)
_SAID_BY_TELEGRAM: Final = (
    "pinned_message",
    "message_auto_delete_timer_changed",
    "chat_background_set",
    "connected_website",
    "write_access_allowed",
)
_FORWARDED: Final = ("forward_origin", "forward_date")
_QUOTES_ELSEWHERE: Final = ("external_reply", "reply_to_story")
_MEMBERSHIP: Final = {"kicked": "blocked the bot", "member": "started the bot again"}


@dataclass(frozen=True, slots=True)
class Update:
    """What every reader needs beside the item itself."""

    id: str
    raw: bytes
    now: datetime


def parse(body: bytes, *, now: datetime) -> Parsed:
    """The update in the body. What it carries that means nothing to us is passed over.

    Raises Malformed for what is no update: not an object, or without an id by which a repeat would be known.
    """
    content = parse_json(body)
    if not isinstance(content, dict):
        raise Malformed("an update is an object")
    number = positive(content.get("update_id"))
    if number is None:
        raise Malformed("update_id must be a positive whole number")
    update = Update(str(number), body, now)
    for name, read in _READERS.items():
        item = content.get(name)
        if isinstance(item, dict):
            message = read(item, update)
            return Parsed(messages=(message,)) if message else Parsed(passed_over=(name,))
    named = next((name for name in content if name != "update_id"), "")
    return Parsed(passed_over=(clean(named, 64) or "an empty update",))


# The kinds of updates


def _message(item: Item, update: Update) -> Inbound | None:
    bare = _bare(item, update, at=item.get("date"))
    if bare is None:
        return None
    text, parts = _words(item), parts_of(item)
    said = replace(
        bare,
        channel_message_id=_name_of(item, item),
        text=text,
        quoted=_quoted(item),
        forwarded=any(item.get(name) for name in _FORWARDED),
    )
    if (other := _not_the_customer(item)) is not None:
        return replace(said, kind=other)
    if any(name in item for name in _SAID_BY_TELEGRAM):
        return replace(said, kind=MessageKind.SYSTEM)
    return _with_proof(item, replace(said, kind=_kind(text, parts), parts=parts))


def _edit(item: Item, update: Update) -> Inbound | None:
    """New words for a message. What has no words, as a location that moves, says nothing new."""
    bare = _bare(item, update, at=item.get("edit_date"))
    if bare is None or not (_words(item) or any(name in item for name in _CAPTIONED)):
        return None
    kind = _not_the_customer(item) or MessageKind.EDIT
    return replace(bare, kind=kind, text=_words(item), quoted=_name_of(item, item))


def _press(item: Item, update: Update) -> Inbound | None:
    """A press has no time of its own: it is now. Its label is what the pressed button says."""
    bare = _bare(item, update, at=None)
    data = item.get("data")
    if bare is None or not isinstance(data, str):
        return None
    message = item_at(item, "message")
    press = item.get("id")
    return replace(
        bare,
        kind=(_not_the_customer({**item, "chat": message.get("chat")}) if message else None) or MessageKind.BUTTON,
        channel_message_id=clean(press, ID_CHARS_MAX) if isinstance(press, str) else None,
        text=_label(message, data),
        button=clean(data, ID_CHARS_MAX),
        quoted=_name_of(message, message),
    )  # fmt: skip


def _membership(item: Item, update: Update) -> Inbound | None:
    """Blocked, or unblocked: said by Telegram of a private chat."""
    bare = _bare(item, update, at=item.get("date"))
    status = item_at(item, "new_chat_member").get("status")
    said = _MEMBERSHIP.get(status) if isinstance(status, str) else None
    if bare is None or said is None or not _is_private(item):
        return None
    return replace(bare, kind=MessageKind.SYSTEM, text=said)


_READERS: Final[Mapping[str, Callable[[Item, Update], Inbound | None]]] = {
    "message": _message,
    "edited_message": _edit,
    "callback_query": _press,
    "my_chat_member": _membership,
}


# What they have in common


def _bare(item: Item, update: Update, *, at: object) -> Inbound | None:
    """Who and when, of a kind nobody has said yet; None: it does not say who."""
    person = item_at(item, "from")
    sender = positive(person.get("id"))
    if sender is None:
        return None
    names = (person.get("first_name"), person.get("last_name"))
    locale = person.get("language_code")
    return Inbound(
        external_id=update.id,
        sender=str(sender),
        name=clean(" ".join(name for name in names if isinstance(name, str)), NAME_CHARS_MAX) or None,
        locale=clean(locale, LOCALE_CHARS_MAX) if isinstance(locale, str) else None,
        kind=MessageKind.UNSUPPORTED,
        text="",
        channel_at=believable(unix_time(positive(at)), now=update.now),
        raw=update.raw,
    )


def _not_the_customer(item: Item) -> MessageKind | None:
    """A group is nobody's conversation; a bot is nobody."""
    if not _is_private(item):
        return MessageKind.GROUP
    return MessageKind.SYSTEM if item_at(item, "from").get("is_bot") is True else None


def _kind(text: str, parts: tuple[Part, ...]) -> MessageKind:
    if any(part.kind is not PartKind.STICKER for part in parts):
        return MessageKind.MEDIA
    return MessageKind.TEXT if text and not parts else MessageKind.UNSUPPORTED


def _with_proof(item: Item, message: Inbound) -> Inbound:
    """Telegram sets a card's `user_id` by its number: equal to the sender's, the number is theirs. A forwarded card is old."""
    contact = item_at(item, "contact")
    stated, owner = contact.get("phone_number"), positive(contact.get("user_id"))
    if not isinstance(stated, str) or owner is None or str(owner) != message.sender or message.forwarded:
        return message
    phone = e164("+" + stated.strip().removeprefix("+"))
    return replace(message, phone=phone, proves_phone=phone is not None)


def _quoted(item: Item) -> str | None:
    if any(item.get(name) for name in _QUOTES_ELSEWHERE):
        return ELSEWHERE
    answered = item.get("reply_to_message")
    if not isinstance(answered, dict):
        return None
    return _name_of(answered, item) or ELSEWHERE


def _name_of(item: Item, whole: Item) -> str | None:
    """The name of a message; its chat is that of the whole where it does not say."""
    number = positive(item.get("message_id"))
    chat = signed(item_at(item if "chat" in item else whole, "chat").get("id"))
    return None if number is None or chat is None else message_name(chat, number)


def _label(message: Item, data: str) -> str:
    rows = item_at(message, "reply_markup").get("inline_keyboard")
    for row in rows if isinstance(rows, list) else ():
        for button in row if isinstance(row, list) else ():
            if isinstance(button, dict) and button.get("callback_data") == data:
                title = button.get("text")
                return (clean(title, NAME_CHARS_MAX) or "") if isinstance(title, str) else ""
    return ""


def _words(item: Item) -> str:
    text = item.get("text")
    if not isinstance(text, str) or not text:
        text = item.get("caption")
    return (clean(text) or "") if isinstance(text, str) else ""


def _is_private(item: Item) -> bool:
    return item_at(item, "chat").get("type") == "private"


def _check(post: Post, account: Account, _: float) -> Signature:
    """There is no signature over the body: the secret itself is in a header."""
    given = post.headers.get(SECRET_HEADER, b"")
    matches = [hmac.compare_digest(key, given) for key in account.keys]
    return Signature.GOOD if any(matches) else Signature.WRONG


def _parse(post: Post, _: Account, now: datetime) -> Parsed:
    return parse(post.body, now=now)


ENTRANCE: Final = Entrance(check=_check, parse=_parse)
