"""WhatsApp's way in: the Cloud API's webhooks (developers.facebook.com, webhooks/reference, as of November 2026).

One request carries up to a thousand messages and statuses of any kind. Each is read on its own: one that says whose it
is and can't be read otherwise is kept raw as `unsupported`, and costs its neighbours nothing. A person is known by the id of
the business's own (BSUID) where the item has one, else by the number; the name they show is never an id.

A press, or a choice from a list, is a press only where its id is one of ours. Any other, as of a template's quick reply, is
told as the words on it, and as a quotation of the message it stands on: a label is never a yes by itself.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final
from urllib.parse import parse_qs

import msgspec

from services.ingest.core.entrance import Account, Entrance, Post
from services.ingest.core.events import Inbound, Malformed, Parsed, Status
from services.ingest.core.reading import ID_CHARS_MAX, NAME_CHARS_MAX, believable, clean, parse_json
from services.ingest.core.whatsapp_parts import (
    PARTS,
    Item,
    contact_number,
    item_at,
    items_at,
    parts_of,
    text_at,
)
from services.ingest.core.whatsapp_statuses import status_of
from shared.channels.accounts import WhatsApp
from shared.channels.whatsapp import BSUID, NUMBER
from shared.messages import OUR_BUTTONS, MessageKind
from shared.phones import e164
from shared.signing import Signature

BODY_BYTES_MAX: Final = 4 * 1024 * 1024  # payloads have up to 3 MB
CHALLENGE_CHARS_MAX: Final = 256
TIME_MAX_S: Final = 2**33
ELSEWHERE: Final = "elsewhere"  # names no message of ours
SIGNATURE_HEADER: Final = b"x-hub-signature-256"
OBJECT: Final = "whatsapp_business_account"

_DIGITS: Final = re.compile(r"[0-9]{1,11}")
_ECHOES: Final = ("message_echoes", "smb_message_echoes")


@dataclass(frozen=True, slots=True)
class Around:
    """What every item of one change has in common."""

    to: str | None  # the phone-number id that the change names
    names: Mapping[str, str]  # by user id and by number
    ids: Mapping[str, str]  # the BSUID of a number
    standby: bool
    now: datetime


def parse(body: bytes, *, now: datetime) -> Parsed:
    """Every message and status in the body; what means nothing to us is passed over, so that it is not delivered for days.

    Raises Malformed for what is no object.
    """
    content = parse_json(body)
    if not isinstance(content, dict):
        raise Malformed("a webhook is an object")
    messages: list[Inbound] = []
    statuses: list[Status] = []
    passed: list[str] = []
    if content.get("object") != OBJECT:
        return Parsed(passed_over=("not a webhook of WhatsApp's",))
    for entry in items_at(content, "entry"):
        for change in items_at(entry, "changes"):
            _read_change(change, now, messages, statuses, passed)
    return Parsed(messages=tuple(messages), statuses=tuple(statuses), passed_over=tuple(passed))


def _read_change(
    change: Item, now: datetime, messages: list[Inbound], statuses: list[Status], passed: list[str]
) -> None:
    value, field = item_at(change, "value"), text_at(change, "field") or "no field"
    around = _around(value, field, now)
    before = len(messages) + len(statuses)
    for item in _all_at(value, "messages"):
        message = _message(item, around) if isinstance(item, dict) else None
        messages.append(message) if message else passed.append("a message of nobody")
    for name in _ECHOES:
        for item in _all_at(value, name):
            echo = _echo(item, around) if isinstance(item, dict) else None
            messages.append(echo) if echo else passed.append("an echo to nobody")
    for item in _all_at(value, "statuses"):
        status = status_of(item, to=around.to) if isinstance(item, dict) else None
        statuses.append(status) if status else passed.append("a status that is none")
    passed += [f"error {error.get('code')}"[:64] for error in items_at(value, "errors")]
    if len(messages) + len(statuses) == before and not passed:
        passed.append(clean(field, 64) or "")


def _around(value: Item, field: str, now: datetime) -> Around:
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


# Messages


def _message(item: Item, around: Around) -> Inbound | None:
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
    read = _READERS.get(str(item.get("type")))
    message = read(item, bare) if read else None
    return message or bare


def _echo(item: Item, around: Around) -> Inbound | None:
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
        channel_at=believable(_time(item.get("timestamp")), now=around.now),
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


_READERS: Final[Mapping[str, Callable[[Item, Inbound], Inbound | None]]] = {
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


def _all_at(item: Item, name: str) -> Iterator[object]:
    found = item.get(name)
    yield from found if isinstance(found, list) else ()


def _number(value: object) -> str | None:
    return value if isinstance(value, str) and NUMBER.fullmatch(value) else None


def _plus(number: str | None) -> str | None:
    return "+" + number if number else None


def _bsuid(value: object) -> str | None:
    return value if isinstance(value, str) and BSUID.fullmatch(value) else None


def _time(value: object) -> datetime | None:
    """Unix seconds, as a string."""
    if not isinstance(value, str) or not _DIGITS.fullmatch(value) or int(value) > TIME_MAX_S:
        return None
    return datetime.fromtimestamp(int(value), UTC)


# Who posts it


def _check(post: Post, account: Account, _: float) -> Signature:
    """HMAC-SHA256 of the raw body under the app secret, current or previous; the prefix is part of the header."""
    given = post.headers.get(SIGNATURE_HEADER, b"")
    if not given.startswith(b"sha256="):
        return Signature.WRONG
    hexadecimal = given[7:].lower()
    wanted = [hmac.new(key, post.body, hashlib.sha256).hexdigest().encode() for key in account.keys]
    matches = [hmac.compare_digest(one, hexadecimal) for one in wanted]
    return Signature.GOOD if any(matches) else Signature.WRONG


def _handshake(query: bytes, account: Account) -> str | None:
    """The challenge of a verification that knows the account's token; None for any other."""
    try:
        asked = parse_qs(query.decode("ascii"), max_num_fields=20)
    except ValueError:
        return None
    mode, token, challenge = (
        asked.get(f"hub.{name}", [""])[0] for name in ("mode", "verify_token", "challenge")
    )
    known = account.verify_token is not None and hmac.compare_digest(
        account.verify_token, token.encode(errors="replace")
    )
    fits = 0 < len(challenge) <= CHALLENGE_CHARS_MAX
    return challenge if known and mode == "subscribe" and fits else None


def _parse(post: Post, account: Account, now: datetime) -> Parsed:
    assert isinstance(account.settings, WhatsApp), "settings of another channel"
    return parse(post.body, now=now)


ENTRANCE: Final = Entrance(check=_check, parse=_parse, handshake=_handshake, body_bytes_max=BODY_BYTES_MAX)
