"""What ingest needs from the outside, by role."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from services.ingest.core.entrance import Account
from services.ingest.core.events import Inbound, Status
from shared.ids import ConversationId


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What one request brought, for one account."""

    account: Account
    messages: tuple[Inbound, ...]
    statuses: tuple[Status, ...]


class Inbox(Protocol):
    """Where messages are kept. Every method raises Unavailable when the record can't be reached."""

    async def account(self, channel: str, address: str) -> Account | None:
        """The account that a URL names."""
        ...

    async def store(self, requests: Sequence[Request]) -> Sequence[tuple[ConversationId, int]]:
        """Commit all messages at once, each once for good: the conversations that now owe the guard, with how many new ones."""
        ...

    async def settle_statuses(self, requests: Sequence[Request]) -> int:
        """Move our sends forward; what meets none is held and tried again. How many were held."""
        ...

    async def retry_held(self) -> int:
        """Try the held statuses that are due; how many met their send."""
        ...
