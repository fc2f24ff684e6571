"""Typed ids. New ones are time-ordered (UUIDv7), so that the newest rows of a large table lie together."""

from typing import NewType
from uuid import UUID

import uuid_utils

BusinessId = NewType("BusinessId", int)
AccountId = NewType("AccountId", int)
WorkerNumber = NewType("WorkerNumber", int)
CustomerId = NewType("CustomerId", UUID)
ConversationId = NewType("ConversationId", UUID)
MessageId = NewType("MessageId", UUID)
TurnId = NewType("TurnId", UUID)
CallId = NewType("CallId", UUID)
ActionId = NewType("ActionId", UUID)
OutboundId = NewType("OutboundId", UUID)
AttemptId = NewType("AttemptId", UUID)
LeaseToken = NewType("LeaseToken", UUID)


def new_id() -> UUID:
    """A time-ordered id, unique in the whole installation. For keys of rows."""
    return UUID(int=uuid_utils.uuid7().int)


def random_token() -> UUID:
    """A random id that nobody can guess or repeat. For leases: a counted token could come back after a restore."""
    return UUID(int=uuid_utils.uuid4().int)
