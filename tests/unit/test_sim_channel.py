"""The sim channel's test numbers."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from services.dispatch.adapters.channels.sim import SimChannel
from services.dispatch.adapters.postgres_outbox import PostgresOutbox
from services.dispatch.core.outcome import Accepted, Refused
from services.dispatch.ports import Claimed
from shared.ids import AccountId, AttemptId, ConversationId, OutboundId, new_id


class Delivered:
    """An outbox that remembers what was delivered."""

    def __init__(self) -> None:
        self.users: list[str] = []

    async def deliver_sim(self, deliveries: Sequence[Any]) -> None:
        self.users += [claimed.user_id for _, claimed, _, _ in deliveries]


def to(number: str) -> Claimed:
    return Claimed(
        attempt=AttemptId(new_id()),
        outbound=OutboundId(new_id()),
        conversation=ConversationId(new_id()),
        account=AccountId(1),
        channel="sim",
        user_id=number,
        parts=("Hello",),
        part=1,
        round=1,
        buttons=None,
        thread=None,
        in_reply_to=None,
    )


@pytest.mark.parametrize("number", ["+40700000099", "000099"])
async def test_a_number_that_ends_in_000099_can_not_be_reached(number: str) -> None:
    outbox = Delivered()
    outcome = await SimChannel(cast("PostgresOutbox", outbox)).send(to(number), key="out_1")
    assert outcome == Refused(reason="number can't be reached")
    assert outbox.users == []


@pytest.mark.parametrize("number", ["+40700000001", "+40700000990", "+40700009900"])
async def test_any_other_number_is_delivered_to(number: str) -> None:
    outbox = Delivered()
    channel = SimChannel(cast("PostgresOutbox", outbox))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(channel.run())
        outcome = await channel.send(to(number), key="out_1")
        running.cancel()
    assert isinstance(outcome, Accepted)
    assert outbox.users == [number]
