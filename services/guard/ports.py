"""What the guard needs from the outside, by role."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from services.guard.core.record import Case, Record
from shared.ids import ConversationId, MessageId, OutboundId


class Conversations(Protocol):
    """The record of conversations. Every method raises Unavailable when it can't be reached."""

    async def gather(self, conversations: Sequence[ConversationId]) -> Sequence[Case]:
        """All that the conversations are judged on; those with nothing unjudged are missing."""
        ...

    async def record(
        self, records: Sequence[Record], texts: Mapping[tuple[ConversationId, MessageId], str]
    ) -> Mapping[ConversationId, Sequence[OutboundId]]:
        """Write the records whose row is still as it was seen, with the notices queued for each.

        `texts` words each notice, by conversation and message.
        """
        ...

    async def count(self, conversation: ConversationId) -> int:
        """One more attempt on a suspect; how many there were, 0 when nothing is owed."""
        ...

    async def locale(self, conversation: ConversationId) -> str | None:
        """The conversation's language, else the business's first."""
        ...

    async def give_up(self, conversation: ConversationId, notice: str) -> OutboundId | None:
        """Hand the conversation to people as `processing_failed`, among the dead; the notice that was queued."""
        ...
