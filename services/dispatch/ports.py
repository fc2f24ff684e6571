"""What dispatch needs from the outside, by role."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from services.dispatch.core.delivery import Decision, Snapshot
from services.dispatch.core.outcome import Outcome, Settled
from shared.ids import AccountId, AttemptId, BusinessId, ConversationId, OutboundId


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
    tries: int = 0  # attempts before this one

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
class Stored:
    """An outcome as it was stored: whether its attempt was still the conversation's current one, and the reply after it."""

    current: bool
    following: OutboundId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """How to reach an account's provider."""

    business: BusinessId
    callback_url: str | None
    key: bytes | None


class Outbox(Protocol):
    """The record of replies. Every method raises Unavailable when it can't be reached."""

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

    async def address(self, account: AccountId) -> Address | None: ...

    async def pause(self, account: AccountId, how_long: timedelta) -> None:
        """No worker sends on the account for so long."""
        ...

    async def disable(self, account: AccountId) -> None:
        """The account's credentials are refused: off, until a person puts it right."""
        ...

    async def count(self, outbound: OutboundId) -> int: ...

    async def give_up(self, outbound: OutboundId) -> None: ...


class Channel(Protocol):
    """One kind of channel on its way out."""

    @property
    def idempotent(self) -> bool:
        """Whether the provider takes an idempotency key, so that an unknown outcome may be sent again under it."""
        ...

    @property
    def characters_max(self) -> int:
        """The most code points of one part."""
        ...

    async def send(self, claimed: Claimed, *, key: str) -> Outcome:
        """Hand over one part. Never raises for anything a provider or a network can do."""
        ...
