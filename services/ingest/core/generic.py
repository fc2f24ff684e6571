"""The generic signed webhook: one message a request, in our own contract (docs/channels/generic.md)."""

from datetime import datetime
from typing import Literal

from pydantic import Field, ValidationError

from services.ingest.core.entrance import Account, Entrance, Post
from services.ingest.core.events import Inbound, Malformed, Parsed, Part
from services.ingest.core.reading import (
    ID_CHARS_MAX,
    LOCALE_CHARS_MAX,
    NAME_CHARS_MAX,
    Id,
    Loose,
    Time,
    believable,
    clean,
    explain,
    parse_json,
)
from shared.messages import MessageKind, PartKind
from shared.phones import e164
from shared.signing import Signature, check

RECEIVED = "message.received"
PARTS_MAX = 10


class Sender(Loose):
    id: Id
    phone: str | None = None
    phone_verified: bool = False
    name: str | None = None


class Button(Loose):
    id: Id
    title: str = ""


class Attachment(Loose):
    kind: str = "file"
    url: str | None = None
    mime: str | None = None
    name: str | None = None


class Data(Loose):
    message_id: Id
    conversation_id: Id | None = None
    sender: Sender = Field(alias="from")
    text: str | None = None
    button: Button | None = None
    locale: str | None = None
    attachments: tuple[Attachment, ...] = ()
    quoted_id: str | None = None


class Event(Loose):
    """What a tenant's system posts to us."""

    type: Literal["message.received"]
    timestamp: Time = None
    data: Data


def parse(body: bytes, *, webhook_id: str, verifies_phones: bool, now: datetime) -> Parsed:
    """The message in the body. `verifies_phones`: the tenant's word that it checks the numbers it states.

    Raises Malformed for what is not an event of ours; an event of another type is passed over.
    """
    try:
        event = Event.model_validate_json(body)
    except ValidationError:
        # No event of ours, or one in a spelling of JSON that only the patient reader takes.
        content = parse_json(body)
        if not isinstance(content, dict) or not isinstance(content.get("type"), str):
            raise Malformed("the body must be an object with a type") from None
        if content["type"] != RECEIVED:
            return Parsed(passed_over=(clean(content["type"], 64) or "",))
        event = _read_patiently(content)
    return Parsed(messages=(_message(event, body, webhook_id, verifies_phones=verifies_phones, now=now),))


def _read_patiently(content: dict[str, object]) -> Event:
    try:
        return Event.model_validate(content)
    except ValidationError as error:
        raise Malformed(explain(error)) from error


def _message(event: Event, body: bytes, webhook_id: str, *, verifies_phones: bool, now: datetime) -> Inbound:
    data = event.data
    proven = data.sender.phone if verifies_phones and data.sender.phone_verified else None
    return Inbound(
        external_id=webhook_id,
        channel_message_id=clean(data.message_id),
        thread=clean(data.conversation_id),
        sender=clean(data.sender.id) or "",
        name=clean(data.sender.name, NAME_CHARS_MAX),
        phone=e164(proven) if proven else None,
        kind=_kind(data),
        text=clean(data.button.title if data.button else data.text) or "",
        button=clean(data.button.id) if data.button else None,
        quoted=clean(data.quoted_id, ID_CHARS_MAX),
        locale=clean(data.locale, LOCALE_CHARS_MAX),
        channel_at=believable(event.timestamp, now=now),
        raw=body,
        parts=tuple(_part(one) for one in data.attachments[:PARTS_MAX]),
    )


def _part(attachment: Attachment) -> Part:
    """Kept by its address and never fetched: whose system posts to us has the file."""
    kind = attachment.kind if attachment.kind in frozenset(PartKind) else PartKind.OTHER
    return Part(
        kind=PartKind(kind),
        mime=clean(attachment.mime, 128),
        name=clean(attachment.name, NAME_CHARS_MAX),
        reference=clean(attachment.url, 2048),
    )


def _kind(data: Data) -> MessageKind:
    if data.button:
        return MessageKind.BUTTON
    if data.attachments:
        return MessageKind.MEDIA
    return MessageKind.TEXT if data.text else MessageKind.UNSUPPORTED


def _check(post: Post, account: Account, now_s: float) -> Signature:
    return check(post.headers, post.body, account.keys, now_s=now_s)


def _parse(post: Post, account: Account, now: datetime) -> Parsed:
    webhook_id = post.headers[b"webhook-id"].decode("ascii")
    return parse(post.body, webhook_id=webhook_id, verifies_phones=account.verifies_phones, now=now)


ENTRANCE = Entrance(check=_check, parse=_parse)
