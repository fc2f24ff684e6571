"""A message of WhatsApp's (webhooks/reference/messages).

A person is known by the id of the business's own (BSUID) where the item has one, else by the number; the name they show is never
an id.

A press, or a choice from a list, is a press only where its id is one of ours. Any other, as of a template's quick reply, is
told as the words on it, and as a quotation of the message it stands on: a label is never a yes by itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import msgspec

from services.ingest.core.events import ELSEWHERE, Inbound
from services.ingest.core.fields import Item, from_digits, item_at, items_at, text_at, unix_time
from services.ingest.core.reading import ID_CHARS_MAX, NAME_CHARS_MAX, believable, clean
from services.ingest.core.whatsapp_parts import PARTS, contact_number, parts_of
from shared.channels.whatsapp import BSUID, NUMBER
from shared.messages import OUR_BUTTONS, MessageKind
from shared.phones import e164


@dataclass(frozen=True, slots=True)
class Around:
    """What every item of one change has in common."""

    to: str | None  # the phone-number id that the change names
    names: Mapping[str, str]  # by user id and by number
    ids: Mapping[str, str]  # the BSUID of a number
    standby: bool
    now: datetime


def around_of(value: Item, field: str, now: datetime) -> Around:
    """From a change's value, and the field that it is of."""
    names: dict[str, str] = {}
    ids: dict[str, str] = {}
    for contact in items_at(value, "contacts"):
        name = text_at(item_at(contact, "profile"), "name")
        number, bsuid = _number(contact.get("wa_id")), _bsuid(contact.get("user_id"))
        if number and bsuid:
            ids[number] = bsuid
        for known in (number, bsuid):
            if known and name:
                names[known] = name
    to = text_at(item_at(value, "metadata"), "phone_number_id")
    return Around(to=to, names=names, ids=ids, standby="standby" in field, now=now)


def message_of(item: Item, around: Around) -> Inbound | None:
    """A message of a customer's, whatever its kind; None where it does not say whose or which it is."""
    bare = _bare(item, around, bsuid=item.get("from_user_id"), number=item.get("from"))
    if item.get("type") == "system":
        return _system(item, around, bare)
    if bare is None:
        return None
    if "group_id" in item:
        return replace(bare, kind=MessageKind.GROUP, text=_words(item))
    if around.standby:  # another agent is handling the conversation: nothing of ours may answer
        return replace(bare, kind=MessageKind.SYSTEM, text=_words(item))
    read = READERS.get(str(item.get("type")))
    message = read(item, bare) if read else None
    return message or bare


def echo_of(item: Item, around: Around) -> Inbound | None:
    """What a person typed on the business's telephone, or another app sent: our side speaking."""
    bare = _bare(item, around, bsuid=item.get("to_user_id"), number=item.get("to"))
    return bare and replace(bare, kind=MessageKind.ECHO, text=_words(item), name=None)


def _bare(item: Item, around: Around, *, bsuid: object, number: object) -> Inbound | None:
    """Who, which and when, of a kind nobody has said yet."""
    id_, digits = text_at(item, "id"), _number(number)
    known = _bsuid(bsuid) or (around.ids.get(digits) if digits else None)
    if not id_ or len(id_) > ID_CHARS_MAX or not (known or digits):
        return None
    stated = "+" + digits if digits else None
    context = item_at(item, "context")
    forwarded = context.get("forwarded") is True or context.get("frequently_forwarded") is True
    return Inbound(
        external_id=clean(id_) or "",
        channel_message_id=clean(id_),
        to=around.to,
        sender=known or stated or "",
        also_known_as=stated if known else None,
        reply_to=stated,
        phone=e164(stated) if stated else None,
        name=clean(around.names.get(known or "") or around.names.get(digits or ""), NAME_CHARS_MAX),
        kind=MessageKind.UNSUPPORTED,
        text="",
        quoted=None if forwarded else clean(text_at(context, "id"), ID_CHARS_MAX),
        forwarded=forwarded,
        channel_at=believable(unix_time(from_digits(item.get("timestamp"))), now=around.now),
        raw=msgspec.json.encode(item),
    )


def _system(item: Item, around: Around, bare: Inbound | None) -> Inbound | None:
    """What WhatsApp itself says: above all that somebody has another number or id now, which by itself changes nothing."""
    system = item_at(item, "system")
    old_id, old_number = _bsuid(system.get("previous_user_id")), _number(item.get("from"))
    new = _bsuid(system.get("user_id")) or _plus(_number(system.get("wa_id") or system.get("new_wa_id")))
    told = _bare(item, around, bsuid=old_id, number=old_number) or bare
    if told is None:
        return None
    renamed = new if (old_id or old_number) and new not in (None, told.sender) else None
    text = clean(text_at(system, "body"), NAME_CHARS_MAX) or ""
    # It states the number that was: no way to reach them, and no proof of anything.
    return replace(told, kind=MessageKind.SYSTEM, text=text, renamed_to=renamed, reply_to=None, phone=None)


def _text(item: Item, bare: Inbound) -> Inbound | None:
    words = _words(item)
    return replace(bare, kind=MessageKind.TEXT, text=words) if words else None


def _with_parts(item: Item, bare: Inbound) -> Inbound:
    parts = parts_of(item)
    kind = MessageKind.UNSUPPORTED if item.get("type") == "sticker" else MessageKind.MEDIA
    message = replace(bare, kind=kind, text=_words(item), parts=parts)
    proven = contact_number(item)
    phone = e164("+" + proven) if proven else None
    return replace(message, phone=phone, proves_phone=True) if phone else message


def _reaction(item: Item, bare: Inbound) -> Inbound | None:
    """An emoji on a message, or its removal."""
    reaction = item_at(item, "reaction")
    about = clean(text_at(reaction, "message_id"), ID_CHARS_MAX)
    emoji = clean(text_at(reaction, "emoji"), 64) or ""
    return replace(bare, kind=MessageKind.REACTION, text=emoji, quoted=about) if about else None


def _interactive(item: Item, bare: Inbound) -> Inbound | None:
    interactive = item_at(item, "interactive")
    chosen = item_at(interactive, "button_reply") or item_at(interactive, "list_reply")
    return _pressed(bare, text_at(chosen, "id"), text_at(chosen, "title"))


def _quick_reply(item: Item, bare: Inbound) -> Inbound | None:
    button = item_at(item, "button")
    return _pressed(bare, text_at(button, "payload"), text_at(button, "text"))


def _pressed(bare: Inbound, id_: str | None, title: str | None) -> Inbound | None:
    button, words = clean(id_, ID_CHARS_MAX), clean(title, ID_CHARS_MAX) or ""
    if button and button.startswith(OUR_BUTTONS):
        return replace(bare, kind=MessageKind.BUTTON, text=words, button=button)
    if not words:
        return None
    return replace(bare, kind=MessageKind.TEXT, text=words, button=button, quoted=bare.quoted or ELSEWHERE)


def _edit(item: Item, bare: Inbound) -> Inbound | None:
    edit = item_at(item, "edit")
    about = clean(text_at(edit, "original_message_id"), ID_CHARS_MAX)
    words = _words(item_at(edit, "message"))
    return replace(bare, kind=MessageKind.EDIT, text=words, quoted=about) if about else None


def _revoke(item: Item, bare: Inbound) -> Inbound | None:
    about = clean(text_at(item_at(item, "revoke"), "original_message_id"), ID_CHARS_MAX)
    return replace(bare, kind=MessageKind.DELETION, quoted=about) if about else None


READERS: Final[Mapping[str, Callable[[Item, Inbound], Inbound | None]]] = {
    "text": _text,
    **dict.fromkeys(PARTS, _with_parts),
    "reaction": _reaction,
    "interactive": _interactive,
    "button": _quick_reply,
    "edit": _edit,
    "revoke": _revoke,
}


# What they have in common


def _words(item: Item) -> str:
    """What was typed: a text, or the caption of something."""
    kind = item.get("type")
    about = item_at(item, kind) if isinstance(kind, str) else {}
    typed = text_at(about, "body") if kind == "text" else text_at(about, "caption") or text_at(about, "text")
    return clean(typed) or ""


def _number(value: object) -> str | None:
    return value if isinstance(value, str) and NUMBER.fullmatch(value) else None


def _plus(number: str | None) -> str | None:
    return "+" + number if number else None


def _bsuid(value: object) -> str | None:
    return value if isinstance(value, str) and BSUID.fullmatch(value) else None
