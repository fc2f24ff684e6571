"""The sim channel: a telephone that exists only here, for the demo, the simulator, scripts and tests.

It can say all that real channels say: many messages and statuses in one request, echoes, groups, system messages.
"""

import json
from datetime import datetime
from typing import Annotated

from pydantic import Field, ValidationError

from services.ingest.core.entrance import Account, Entrance, Post
from services.ingest.core.events import Inbound, Malformed, Parsed, Status
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
from shared.messages import MessageKind
from shared.phones import e164
from shared.signing import Signature, check

ITEMS_MAX = 1000
KINDS = frozenset(MessageKind)


class SimSender(Loose):
    id: Id
    sender: Id = Field(alias="from")


class SimMessage(SimSender):
    name: str | None = None
    text: str | None = None
    kind: str = "text"
    button: str | None = None
    quoted: str | None = None
    locale: str | None = None
    forwarded: bool = False
    auto_reply: bool = False
    opt_word: str | None = None
    at: Time = None


class SimStatus(Loose):
    status: str
    correlation: str | None = None
    provider_id: str | None = None
    reason: str | None = None
    at: Time = None


Items = Annotated[tuple[object, ...], Field(max_length=ITEMS_MAX)]


class SimEvent(Loose):
    """What the simulated telephone posts: items are taken one by one, so that a bad one costs the others nothing."""

    messages: Items = ()
    statuses: Items = ()


def parse(body: bytes, *, now: datetime) -> Parsed:
    """Every message and status of the request. Raises Malformed when nothing in it can be read."""
    content = parse_json(body)
    try:
        event = SimEvent.model_validate(content)
    except ValidationError as error:
        raise Malformed(explain(error)) from error
    messages, statuses, problems = [], [], []
    for item in event.messages:
        try:
            messages.append(_message(SimMessage.model_validate(item), item, now=now))
        except ValidationError as error:
            problems.append(f"messages: {explain(error)}")
            if (kept := _unreadable(item, now=now)) is not None:
                messages.append(kept)
    for item in event.statuses:
        try:
            statuses.append(_status(SimStatus.model_validate(item)))
        except ValidationError as error:
            problems.append(f"statuses: {explain(error)}")
    if not messages and not statuses:
        raise Malformed(problems[0] if problems else "neither messages nor statuses")
    return Parsed(messages=tuple(messages), statuses=tuple(statuses), passed_over=tuple(problems))


def _message(message: SimMessage, item: object, *, now: datetime) -> Inbound:
    return Inbound(
        external_id=clean(message.id) or "",
        channel_message_id=clean(message.id),
        sender=clean(message.sender) or "",
        name=clean(message.name, NAME_CHARS_MAX),
        phone=e164(message.sender),
        kind=_kind(message),
        text=clean(message.text) or "",
        button=clean(message.button, ID_CHARS_MAX),
        quoted=clean(message.quoted, ID_CHARS_MAX),
        locale=clean(message.locale, LOCALE_CHARS_MAX),
        forwarded=message.forwarded,
        auto_reply=message.auto_reply,
        opt_word=clean(message.opt_word, 16),
        channel_at=believable(message.at, now=now),
        raw=json.dumps(item).encode(),
    )


def _unreadable(item: object, *, now: datetime) -> Inbound | None:
    """A message that says whose it is and can't be read otherwise: kept raw, as `unsupported`."""
    try:
        known = SimSender.model_validate(item)
    except ValidationError:
        return None
    return _message(SimMessage.model_validate({"id": known.id, "from": known.sender}), item, now=now)


def _kind(message: SimMessage) -> MessageKind:
    if message.button:
        return MessageKind.BUTTON
    if message.kind not in KINDS or (message.kind == MessageKind.TEXT and not message.text):
        return MessageKind.UNSUPPORTED
    return MessageKind(message.kind)


def _status(status: SimStatus) -> Status:
    return Status(
        status=clean(status.status, 32) or "",
        correlation=clean(status.correlation, 64),
        provider_id=clean(status.provider_id, ID_CHARS_MAX),
        reason=clean(status.reason, 256),
        at=status.at,
    )


def _check(post: Post, account: Account, now_s: float) -> Signature:
    return check(post.headers, post.body, account.keys, now_s=now_s)


def _parse(post: Post, _: Account, now: datetime) -> Parsed:
    return parse(post.body, now=now)


ENTRANCE = Entrance(check=_check, parse=_parse)
