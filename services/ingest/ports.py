"""What ingest needs from the outside, by role."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from pydantic import SecretStr

from services.ingest.core.entrance import Account
from services.ingest.core.events import Inbound, Status
from services.ingest.core.standing import Found
from shared.channels.accounts import Secrets, Settings
from shared.ids import AccountId, BusinessId, ConversationId, MessageId
from shared.messages import PartKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What one request brought, for one account."""

    account: Account
    messages: tuple[Inbound, ...]
    statuses: tuple[Status, ...]
    asked: int = 0  # when it came, in nanoseconds since 1970, where traces are told


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessages:
    """What was stored of one conversation: messages that nobody had before, in the order in which they came."""

    conversation: ConversationId
    account: Account
    messages: tuple[MessageId, ...]


class Inbox(Protocol):
    """Where messages are kept. Every method raises Unavailable when the record can't be reached."""

    async def account(self, channel: str, address: str) -> Account | None:
        """The account that a URL names."""
        ...

    async def store(self, requests: Sequence[Request]) -> Sequence[NewMessages]:
        """Commit all messages at once, each once for good: what is new, by conversations that now owe the guard."""
        ...

    async def settle_statuses(self, requests: Sequence[Request]) -> int:
        """Move our sends forward; what meets none is held and tried again. How many were held."""
        ...

    async def retry_held(self) -> int:
        """Try the held statuses that are due; how many met their send."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled:
    """A bot whose updates this process fetches, as long as it renews its lease."""

    account: AccountId
    address: str
    token: SecretStr
    offset: int | None  # of the first update that was not committed yet, where Telegram does not know it
    leased_at: datetime


class Polls(Protocol):
    """Who fetches a bot's updates: one process at a time. Every method raises Unavailable when the record can't be reached."""

    async def claim(self) -> Sequence[Polled]:
        """Bots that want to be polled and that nobody polls."""
        ...

    async def renew(self, polled: Polled, *, offset: int | None) -> Polled | None:
        """Hold it on, with its settings as they are now; None: another has it, or nobody should."""
        ...

    async def release(self, polled: Polled) -> None:
        """Let another have it at once. Nothing, if another has."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """An account whose provider is asked for messages that no webhook brought; nobody else asks until the claim runs out."""

    account: AccountId
    address: str
    key: SecretStr  # that authenticates us to the provider
    since: datetime | None  # when it was asked last; None: never
    at: datetime  # when this look began
    until: datetime  # the claim's end, which is its name


class Looks(Protocol):
    """Who asks a provider for missed messages: one process at a time. Every method raises Unavailable when the record can't be
    reached."""

    async def claim(self, *, older_than: timedelta) -> Sequence[Look]:
        """Enabled accounts whose last look is older and that nobody looks at now."""
        ...

    async def done(self, look: Look) -> None:
        """Everything that was found is committed: the next look begins where this one began."""
        ...

    async def give_back(self, look: Look) -> None:
        """It failed: the next look begins where this one was to begin."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A part of a message whose content is fetched by this process, until the claim runs out, which is its name."""

    message: MessageId
    n: int
    business: BusinessId
    kind: PartKind
    mime: str | None
    reference: str  # the provider's id or address of it
    tries: int  # with this one
    until: datetime
    channel: str
    settings: Settings
    secrets: Secrets


class Media(Protocol):
    """Media whose content is still at their provider. Every method raises Unavailable when the record can't be reached."""

    async def claim(self, *, most: int) -> Sequence[Wanted]:
        """What is due and nobody fetches. What was tried too often is failed on the way."""
        ...

    async def store(self, wanted: Wanted, content: bytes) -> None:
        """It is here. Nothing, where the claim is another's; so with the two below."""
        ...

    async def end(self, wanted: Wanted, *, state: str, reason: str) -> None:
        """It is not taken (`refused`) or can't be had (`failed`), for good."""
        ...

    async def later(self, wanted: Wanted, *, reason: str, pause: timedelta) -> None:
        """Not this time; due again after the pause."""
        ...


class Standing(Protocol):
    """What waits, in the whole record."""

    async def look(self) -> Sequence[Found]:
        """Everything there is something of. Raises Unavailable when the record can't be reached."""
        ...
