"""A conversation's way through the guard: judged while it is still true, rung where nothing need be waited for."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID

import pytest

from services.guard.core.verdict import Reason
from services.guard.handler import GATHERS_MAX, Guard
from shared.broker.memory import MemoryBroker
from shared.errors import Unavailable
from shared.locales import load
from shared.telemetry.metrics import Metrics
from shared.tickets import Stage
from tests.support.eventually import eventually
from tests.support.faulty_broker import FaultyBroker
from tests.support.memory_conversations import MemoryConversations, reasons


class Desk:
    """A guard at work, with all that it rang."""

    def __init__(self, conversations: MemoryConversations) -> None:
        self.conversations = conversations
        self.broker = FaultyBroker(MemoryBroker())
        self.metrics = Metrics(process=False)
        self.guard = Guard(conversations=conversations, broker=self.broker, metrics=self.metrics, batch=100)

    def rung(self, stage: Stage) -> list[UUID]:
        return [ticket for to, packet in self.broker.published if to is stage for ticket in packet.ids]


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    made = Desk(MemoryConversations())
    async with asyncio.TaskGroup() as group:
        jobs = [group.create_task(batcher.run()) for batcher in made.guard.batchers]
        yield made
        for job in jobs:
            job.cancel()


async def test_a_plain_message_is_judged_and_its_window_waited_for(desk: Desk) -> None:
    conversation = desk.conversations.new()
    desk.conversations.wrote(conversation)
    await desk.guard.claim([conversation])
    assert reasons(desk.conversations, conversation) == [None]
    assert not desk.broker.published


async def test_with_no_window_the_agent_is_rung_at_once(desk: Desk) -> None:
    desk.conversations.window = timedelta()
    conversation = desk.conversations.new()
    desk.conversations.wrote(conversation)
    await desk.guard.claim([conversation])
    await eventually(lambda: desk.rung(Stage.AGENT) == [conversation])


async def test_a_handoff_rings_dispatch_for_its_notice_in_the_customer_s_language(desk: Desk) -> None:
    conversation = desk.conversations.new()
    desk.conversations.wrote(conversation, "Vreau să vorbesc cu un om")
    await desk.guard.claim([conversation])
    notices = desk.conversations.kept[conversation].notices
    assert list(notices.values()) == [load("ro").notice("handoff_requested")]
    await eventually(lambda: desk.rung(Stage.DISPATCH) == list(notices))
    assert not desk.rung(Stage.AGENT)


async def test_a_conversation_that_changed_is_gathered_again(desk: Desk) -> None:
    """A message that comes while the first is judged: both are judged, in order."""
    conversation = desk.conversations.new()
    desk.conversations.wrote(conversation, "Hi")

    def another() -> None:
        desk.conversations.before_record = lambda: None
        desk.conversations.wrote(conversation, "STOP")

    desk.conversations.before_record = another
    await desk.guard.claim([conversation])
    assert desk.conversations.gathers == 2
    assert reasons(desk.conversations, conversation) == [None, Reason.OPT_OUT]


async def test_a_conversation_that_goes_on_changing_is_left_due(desk: Desk) -> None:
    conversation, quiet = desk.conversations.new(), desk.conversations.new()
    desk.conversations.wrote(conversation)
    desk.conversations.wrote(quiet)
    desk.conversations.before_record = lambda: void(desk.conversations.wrote(conversation))
    await desk.guard.claim([conversation, quiet])
    assert desk.conversations.gathers == GATHERS_MAX
    assert desk.conversations.kept[conversation].row.unguarded > 0
    assert reasons(desk.conversations, quiet) == [None], "its neighbour was judged"


def void(_: object) -> None:
    """What a callback returns is nobody's business."""


async def test_a_ticket_with_nothing_to_do_does_nothing(desk: Desk) -> None:
    conversation = desk.conversations.new()
    await desk.guard.claim([conversation])
    assert desk.conversations.kept[conversation].row.version == 0


async def test_what_is_given_up_is_worded_and_rung(desk: Desk) -> None:
    conversation = desk.conversations.new()
    desk.conversations.wrote(conversation)
    assert await desk.guard.count(conversation) == 1
    await desk.guard.give_up(conversation)
    kept = desk.conversations.kept[conversation]
    assert kept.dead
    assert list(kept.notices.values()) == [load("en").notice("processing_failed")]
    await eventually(lambda: desk.rung(Stage.DISPATCH) == list(kept.notices))


async def test_a_record_that_is_away_is_told_to_the_loop(desk: Desk) -> None:
    conversation = desk.conversations.new()
    desk.conversations.wrote(conversation)
    desk.conversations.away = True
    with pytest.raises(Unavailable):
        await desk.guard.claim([conversation])


async def test_a_broker_that_is_away_does_not_undo_the_record(desk: Desk) -> None:
    desk.broker.refusing = True
    desk.conversations.window = timedelta()
    conversation = desk.conversations.new()
    desk.conversations.wrote(conversation)
    await desk.guard.claim([conversation])
    assert reasons(desk.conversations, conversation) == [None]


async def test_verdicts_and_handoffs_are_counted_by_reason(desk: Desk) -> None:
    conversation = desk.conversations.new()
    desk.conversations.wrote(conversation, "I want a human")
    await desk.guard.claim([conversation])
    value = desk.metrics.registry.get_sample_value
    judged = {"business": "clinic", "verdict": "handoff", "reason": "handoff_requested"}
    assert value("leeway_messages_judged_total", judged) == 1
    assert value("leeway_handoffs_total", {"business": "clinic", "reason": "handoff_requested"}) == 1
