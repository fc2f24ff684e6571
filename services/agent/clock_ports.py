"""What the clock's work needs from the outside, by role. Every method raises Unavailable when the record is away."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol
from uuid import UUID

from services.agent.core.clock import Strike, Times, Unclaimed, Unset
from services.agent.core.reminder import NewReminder, Recipient, Reminding, Sent, Unsent
from shared.ids import BusinessId, ConversationId, CustomerId, OutboundId
from shared.packs import Sql


class ClockRecord(Protocol):
    """Approvals and handoffs as the clock sees them. Several agents may look at once: what one wrote the others don't."""

    async def expire_approvals(self, *, most: int) -> Sequence[ConversationId]:
        """Decide what nobody decided in time; each of these conversations is owed a turn for it."""
        ...

    async def unset(self, *, most: int) -> Sequence[Unset]:
        """Open handoffs without times, oldest first."""
        ...

    async def set_times(self, times: Sequence[tuple[Unset, Times]]) -> None: ...

    async def unclaimed(self, *, most: int) -> Sequence[Unclaimed]:
        """Open handoffs of which a time has passed and nothing came of it yet, oldest first."""
        ...

    async def strike(self, strikes: Sequence[tuple[Unclaimed, Strike, str]]) -> Sequence["Struck"]:
        """Write what is done, each with the words for the customer; those that changed meanwhile are missing."""
        ...

    async def release_takeovers(self, *, most: int) -> Sequence[ConversationId]:
        """Owners' takeovers whose quiet minutes are over: the bot answers again."""
        ...

    def tenant(self, business: BusinessId, pack: str) -> AbstractAsyncContextManager[Sql]:
        """A transaction of a pack's SQL as the tenant role."""
        ...


Struck = tuple[Unclaimed, OutboundId | None]  # and the message to the customer, if there is one


class ReminderRecord(Protocol):
    """Reminders: one a key, for ever."""

    async def reminding(self, packs: Sequence[str]) -> Sequence[Reminding]:
        """The businesses of these packs that want reminders sent."""
        ...

    async def recipients(
        self, business: BusinessId, wanted: Mapping[UUID, CustomerId]
    ) -> Mapping[UUID, Recipient]:
        """Of keys that no reminder was made for yet: where each may go now. The others are missing."""
        ...

    async def remind(self, business: BusinessId, reminders: Sequence[NewReminder]) -> Sequence[OutboundId]:
        """Store and queue them; one of a key that is there, or of a row that changed, is missing."""
        ...

    async def unsent(self, business: BusinessId) -> Sequence[Unsent]: ...

    async def withdraw(self, unsent: Sequence[Unsent]) -> None:
        """They never go out, unless they are on their way already."""
        ...

    def tenant(self, business: BusinessId, pack: str) -> AbstractAsyncContextManager[Sql]: ...


class SentReminders(Protocol):
    """What a press on a reminder's button is looked up in."""

    async def reminder(self, conversation: ConversationId, key: UUID) -> Sent | None:
        """The reminder that went to this conversation; another's is met as one that does not exist."""
        ...
