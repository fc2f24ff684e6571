"""A conversation's way through the guard: judged while it is still true, rung where nothing need be waited for."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from services.guard.core.verdict import Reason
from services.guard.handler import GATHERS_MAX, Guard
from shared.autonomy import Mode
from shared.broker.memory import MemoryBroker
from shared.errors import Unavailable
from shared.locales import load
from shared.messages import MessageKind
from shared.telemetry.metrics import Metrics
from shared.tickets import KIND_OF, Kind, Stage
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

    def rung(self, stage: Stage, kind: Kind | None = None) -> list[UUID]:
        """Tickets published to a stage, of this kind or of its usual one."""
        wanted = kind or KIND_OF[stage]
        packets = [packet for to, packet in self.broker.published if to is stage]
        return [ticket for packet in packets if packet.kind is wanted for ticket in packet.ids]


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


async def test_how_long_the_oldest_message_waited_is_measured_when_it_is_judged(desk: Desk) -> None:
    conversation, now = desk.conversations.new(), desk.conversations.now
    for seconds in (9, 4):
        desk.conversations.wrote(conversation, received_at=now - timedelta(seconds=seconds))
    await desk.guard.claim([conversation])
    value = desk.metrics.registry.get_sample_value
    assert value("leeway_queue_wait_seconds_sum", {"stage": "guard"}) == 9
    assert value("leeway_queue_wait_seconds_count", {"stage": "guard"}) == 1


@pytest.mark.parametrize(("reached", "hits"), [(True, 1), (False, None)], ids=["reached", "not reached"])
async def test_a_turn_that_a_day_s_cap_keeps_from_the_model_is_a_hit(
    desk: Desk, reached: bool, hits: int | None
) -> None:
    conversation = desk.conversations.new(cap_reached=reached)
    desk.conversations.wrote(conversation)
    desk.conversations.wrote(conversation, "And tomorrow?")
    await desk.guard.claim([conversation])
    value = desk.metrics.registry.get_sample_value
    assert value("leeway_cap_hits_total", {"business": "clinic", "cap": "day"}) == hits


async def test_an_edit_of_what_waits_is_judged_and_written_with_its_new_text(desk: Desk) -> None:
    conversation = desk.conversations.new()
    original = desk.conversations.wrote(conversation, "Book at 10", channel_message_id="m1")
    await desk.guard.claim([conversation])
    desk.conversations.wrote(conversation, "STOP", kind=MessageKind.EDIT, quoted="m1")
    await desk.guard.claim([conversation])
    kept = desk.conversations.kept[conversation]
    assert kept.known[original].message.text == "STOP"
    assert kept.row.opted_out_at is not None
    assert kept.row.due_at is None


# Courtesies


PRESS = {"kind": MessageKind.BUTTON, "text": "Confirm"}
COURTESIES = [
    # what came (the last of it is told), facts, whether the channel is told
    ("a text", {}, {}, True),
    ("a text where a person looks first", {}, {"mode": Mode.SUGGEST}, False),
    ("a text in handoff", {}, {"in_handoff": True}, False),
    ("a text to stop", {"text": "STOP"}, {}, False),
    ("a reaction", {"kind": MessageKind.REACTION}, {}, False),
    ("an edit", {"kind": MessageKind.EDIT, "quoted": "m0"}, {}, False),
    ("a press", PRESS, {}, True),
    ("a press where a person looks first", PRESS, {"mode": Mode.SUGGEST}, True),
    ("a press in handoff", PRESS, {"in_handoff": True}, True),
    ("a press of who opted out", PRESS, {"opted_out": True}, True),
]


@pytest.mark.parametrize(
    ("came", "facts", "is_told"), [row[1:] for row in COURTESIES], ids=[row[0] for row in COURTESIES]
)
async def test_the_channel_is_told_at_once_of(
    desk: Desk, came: dict[str, Any], facts: dict[str, Any], *, is_told: bool
) -> None:
    desk.conversations.side_calls = True
    conversation, marker = desk.conversations.new(**facts), desk.conversations.new()
    message = desk.conversations.wrote(conversation, **came)
    last = desk.conversations.wrote(marker, **PRESS)
    await desk.guard.claim([conversation])
    await desk.guard.claim([marker])
    await eventually(lambda: last in desk.rung(Stage.DISPATCH, Kind.MESSAGE))
    assert desk.rung(Stage.DISPATCH, Kind.MESSAGE) == ([message, last] if is_told else [last])


async def test_of_a_burst_the_channel_is_told_of_the_newest(desk: Desk) -> None:
    desk.conversations.side_calls = True
    conversation = desk.conversations.new()
    desk.conversations.wrote(conversation, "Hi")
    newest = desk.conversations.wrote(conversation, "Are you open?")
    await desk.guard.claim([conversation])
    await eventually(lambda: desk.rung(Stage.DISPATCH, Kind.MESSAGE) == [newest])


async def test_a_channel_without_side_calls_is_told_nothing(desk: Desk) -> None:
    desk.conversations.window = timedelta()
    conversation = desk.conversations.new()
    desk.conversations.wrote(conversation, **PRESS)
    await desk.guard.claim([conversation])
    await eventually(lambda: desk.rung(Stage.AGENT) == [conversation])
    assert not desk.rung(Stage.DISPATCH, Kind.MESSAGE)
