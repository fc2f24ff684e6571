"""The nouns of ingest: what a request carried, whatever its channel. Parsers return these and never raise anything else
than Malformed for a request that is none."""

from dataclasses import dataclass
from datetime import datetime

from shared.errors import Unusable
from shared.messages import MessageKind


class Malformed(Unusable):
    """The request can't be parsed; its text says what was wrong, for the sender."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbound:
    """One message as its channel delivered it."""

    external_id: str
    sender: str  # the channel user id
    kind: MessageKind
    text: str
    channel_at: datetime
    raw: bytes
    channel_message_id: str | None = None
    thread: str | None = None
    name: str | None = None
    phone: str | None = None  # E.164; only when the transport states or proves it
    button: str | None = None
    quoted: str | None = None
    locale: str | None = None
    auto_reply: bool = False
    opt_word: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What the channel says became of one of our sends: named by our correlation id or by the provider's."""

    status: str
    correlation: str | None = None
    provider_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """All that one request carried. `passed_over` names what was there and means nothing to us."""

    messages: tuple[Inbound, ...] = ()
    statuses: tuple[Status, ...] = ()
    passed_over: tuple[str, ...] = ()
