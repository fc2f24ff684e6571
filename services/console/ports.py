"""What the desk needs from the outside, by role."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol
from uuid import UUID

from services.console.core.approvals import Answer, Approval
from services.console.core.drafts import Draft, DryRun, Order, Seen
from services.console.core.handoffs import Handoff
from services.console.core.row import Row
from shared.audit import Note
from shared.ids import ActionId, ConversationId, OutboundId
from shared.tickets import Stage


class Sitting(Protocol):
    """One open transaction that holds a conversation's row. What it wrote is there as a whole, or not at all.

    Every writing method raises Unavailable when the row it is about is no longer as it was read, which the lock forbids.
    """

    @property
    def row(self) -> Row:
        """As it was when the lock was got."""
        ...

    async def draft(self, outbound: OutboundId, *, round_: int) -> Draft | None:
        """The reply as it is now, with the decision on that round if there is one."""
        ...

    async def queue(self, order: Order, *, text: str | None) -> None:
        """Out it goes, in its next round, with the operator's text if there is one."""
        ...

    async def discard(self, order: Order, *, action_ends_as: str, why: str) -> bool:
        """It never goes out, and the action whose prompt it is ends; whether one did."""
        ...

    async def approval(self, action: ActionId) -> Approval | None: ...

    async def answer(self, action: ActionId, answer: Answer, *, by: str, decision: UUID) -> None:
        """The answer is stored and the agent is owed a turn for it."""
        ...

    async def handoff(self) -> Handoff | None:
        """The one that is open."""
        ...

    async def claim(self, *, by: str) -> None: ...

    async def reply(self, text: str, *, by: str, outbound: OutboundId, origin: UUID) -> None:
        """A person's message is queued, once for an origin. An unclaimed handoff is theirs then."""
        ...

    async def release(self, *, by: str, note: str | None) -> bool:
        """The bot answers again; whether the agent is owed something."""
        ...

    async def take(self, *, by: str) -> bool:
        """Only people answer; whether something that waited for the customer was cleared."""
        ...

    async def audit(self, note: Note) -> None:
        """The last step: the entry in the business's chain, whose head stays locked until the commit."""
        ...


class Record(Protocol):
    """The record of what operators decide. Every method raises Unavailable when it can't be reached."""

    async def draft(self, outbound: OutboundId, *, round_: int) -> Draft | None:
        """A look without a lock."""
        ...

    async def seen(self, outbound: OutboundId) -> Sequence[Seen]:
        """The draft as it is now, if it is one, then as it was when it was decided about, latest first."""
        ...

    async def conversation_of(self, action: ActionId) -> ConversationId | None: ...

    def sitting(self, conversation: ConversationId) -> AbstractAsyncContextManager[Sitting | None]:
        """A transaction on the conversation; None for one that is not there. Rolled back when anything is raised in it."""
        ...


class Rehearsal(Protocol):
    """Looks whether what a prompt asks about could be done now, and shows the same."""

    async def __call__(self, draft: Draft) -> DryRun: ...


class Rings(Protocol):
    """Tells a stage at once about work that rows already owe. Never raises: without it a sweeper finds the work."""

    async def __call__(self, stage: Stage, ids: Sequence[UUID]) -> None: ...
