"""The nouns of ingest: what a request carried, whatever its channel. Parsers return these and never raise anything else
than Malformed for a request that is none."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from shared.channels.troubles import Trouble
from shared.errors import Unusable
from shared.messages import MessageKind, PartKind

ELSEWHERE: Final = "elsewhere"  # what is quoted where that names no message of ours


class Malformed(Unusable):
    """The request can't be parsed; its text says what was wrong, for the sender."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Something that a message carries beside its text.

    `reference` is the provider's id or address of it; `fetched`: its content is to be had there. `words` describe it where the
    channel's own fields do, as of a location; they are shown and told as such, never as the customer's words.
    """

    kind: PartKind
    mime: str | None = None
    name: str | None = None  # a file's: hostile input
    reference: str | None = None
    fetched: bool = False
    words: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbound:
    """One message as its channel delivered it."""

    external_id: str
    sender: str  # the channel user id; of an echo, of whom it was sent to
    kind: MessageKind
    text: str
    channel_at: datetime
    raw: bytes
    to: str | None = None  # our own address that the payload states; None: it states none
    channel_message_id: str | None = None
    thread: str | None = None
    name: str | None = None
    also_known_as: str | None = (
        None  # another user id that the channel may have used for the same person before
    )
    reply_to: str | None = None  # where replies go, where that is not the user id
    phone: str | None = None  # E.164; only when the transport states or proves it
    proves_phone: bool = False  # by a card of their own: of somebody who may be known without the number
    renamed_to: str | None = None  # the channel announces that the sender's user id is this one now
    button: str | None = None
    quoted: str | None = (
        None  # the channel's id of another message; of an edit or a deletion, the one it is about
    )
    forwarded: bool = False  # somebody else's words
    locale: str | None = None
    auto_reply: bool = False
    opt_word: str | None = None
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What the channel says became of one of our sends: named by our correlation id or by the provider's.

    `status` is one of STATUSES; what the channel calls it is the parser's business.
    """

    status: str
    to: str | None = None  # our own address, as of a message
    correlation: str | None = None
    provider_id: str | None = None
    reason: str | None = None
    trouble: Trouble | None = None  # of a failure: what kind
    at: datetime | None = None  # the channel's time
    billing: str | None = None  # what it says it charges for


# How far a send is: it only moves up, and a failure counts only below delivered.
STATUSES: Final = {"sent": 10, "failed": 15, "delivered": 20, "read": 30}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """All that one request carried. `passed_over` names what was there and means nothing to us."""

    messages: tuple[Inbound, ...] = ()
    statuses: tuple[Status, ...] = ()
    passed_over: tuple[str, ...] = ()
