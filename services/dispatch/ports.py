"""What dispatch needs from the outside, by role."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from services.dispatch.core.delivery import Decision, Snapshot
from services.dispatch.core.outcome import Outcome, Settled
from shared.channels.accounts import Secrets, Settings
from shared.ids import AccountId, AttemptId, BusinessId, ConversationId, MessageId, OutboundId


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A send that is ours: its attempt is committed, the provider may be called."""

    attempt: AttemptId
    outbound: OutboundId
    conversation: ConversationId
    account: AccountId
    channel: str
    user_id: str
    parts: tuple[str, ...]  # of the whole reply
    part: int  # this one, from 1
    round: int
    buttons: str | None  # JSON: [{"id", "title"}]
    thread: str | None
    in_reply_to: str | None
    reply_to: str | None = None  # where this person is reached, where that is not the user id
    by_template: bool = False  # outside the channel's window: as the parameter of the approved template
    in_handoff: bool = False  # people have taken over, or will
    tries: int = 0  # attempts before this one
    waited: timedelta | None = None  # from when it was due to the claim; None: not known

    @property
    def last_part(self) -> bool:
        return self.part == len(self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A decision on a snapshot, to be recorded against the version it saw."""

    reply: Snapshot
    decision: Decision
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What came of one attempt. `next_attempt` claims the next part in the same statement."""

    claimed: Claimed
    settled: Settled
    next_attempt: AttemptId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOrigin:
    """What a reply comes from, for its trace: the work on a subject because of a cause (both are ids of messages or turns)."""

    cause: UUID
    subject: UUID
    work: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """An outcome as it was stored: whether its attempt was still the conversation's current one, and the reply after it."""

    current: bool
    following: OutboundId | None
    answered_after: timedelta | None = (
        None  # how long a customer waited for what the provider just took; None: not to be told
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """How to reach an account's provider. `name` is the account's in our URLs."""

    business: BusinessId
    channel: str
    name: str
    callback_url: str | None
    secrets: Secrets
    settings: Settings
    sealed: bytes | None = None  # the secrets as they are stored: another value, other secrets

    @property
    def secret(self) -> str:
        """For requests of ours; empty where the account has none."""
        return self.secrets.outbound.get_secret_value() if self.secrets.outbound else ""


class CourtesyKind(StrEnum):
    """What a side call is for."""

    TYPING = "typing"  # the message was read, and an answer is being made
    PRESSED = "pressed"  # a button was pressed: ends its waiting, and takes the buttons away


@dataclass(frozen=True, slots=True, kw_only=True)
class Courtesy:
    """A side call that a message of a customer's asks for: no row, no order, no retry, never in the way."""

    kind: CourtesyKind
    account: AccountId
    channel: str
    user_id: str
    message_id: str  # the channel's own of the message, or of the press
    quoted: str | None  # of a press: the message that has the button


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """Whether a provider takes our credentials, and what it says or what to do."""

    works: bool
    said: str


class Outbox(Protocol):
    """The record of replies. Every method raises Unavailable when it can't be reached."""

    async def origin(self, outbound: OutboundId) -> TraceOrigin | None:
        """What it comes from; None for what no message or turn of the bot's brought about. Asked where traces are told alone."""
        ...

    async def claim_plain(self, outbounds: Sequence[OutboundId]) -> Sequence[Claimed]:
        """Claim those that nothing stands against, without a look first; the others are missing."""
        ...

    async def gather(self, outbounds: Sequence[OutboundId]) -> Sequence[Snapshot]:
        """Those still queued, with all that bears on them."""
        ...

    async def record(self, decided: Sequence[Decided]) -> tuple[Sequence[Claimed], Sequence[OutboundId]]:
        """Write the decisions whose row is still as it was seen: the sends claimed, and all that was recorded."""
        ...

    async def settle(self, settlements: Sequence[Settlement]) -> Mapping[AttemptId, Stored]:
        """Store outcomes, forward only; by attempt what came of it."""
        ...

    async def bar(self, outbounds: Sequence[OutboundId]) -> None:
        """Look again in a second at what can't be decided yet."""
        ...

    async def pause(self, account: AccountId, how_long: timedelta) -> None:
        """No worker sends on the account for so long."""
        ...

    async def disable(self, account: AccountId, why: str) -> bool:
        """Every send of the account fails the same way: off, until a person puts it right. False, and looked up anew, where its
        secrets were changed since they were last read: it was the old ones that were refused."""
        ...

    async def bury(self, claimed: Claimed, reason: str) -> None:
        """A send was wrong by a mistake of ours: keep it among the dead."""
        ...

    async def courtesies(self, messages: Sequence[MessageId]) -> Sequence[Courtesy]:
        """What side calls for these messages need to know; those without a name of the channel's own are missing."""
        ...

    async def count(self, outbound: OutboundId) -> int: ...

    async def give_up(self, outbound: OutboundId) -> None: ...


class Channel(Protocol):
    """One kind of channel on its way out. What it can carry is in shared/channels/traits.py."""

    async def send(self, claimed: Claimed, *, key: str) -> Outcome:
        """Hand over one part. Never raises for anything a provider or a network can do."""
        ...

    async def courtesy(self, courtesy: Courtesy) -> None:
        """Make a side call. May raise anything: nobody waits for it."""
        ...

    async def probe(self, address: Address) -> Probed:
        """Ask the provider who we are. Never raises for anything a provider or a network can do."""
        ...

    async def close(self) -> None: ...


class Addresses(Protocol):
    """What a channel looks its account up in."""

    async def address(self, account: AccountId) -> Address | None:
        """How to reach the account's provider, as it was some seconds ago; None: there is no such account. Raises Unavailable."""
        ...
