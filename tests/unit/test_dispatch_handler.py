"""A reply's way out: claimed, sent once under its key, settled whatever came of it, and the next one rung."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import structlog

from services.dispatch.core.delivery import part_key
from services.dispatch.core.outcome import AccountRefused, NoAnswer, Outcome, Refused, Throttled
from services.dispatch.handler import GATHERS_MAX
from shared.autonomy import Mode
from shared.errors import Misconfigured
from tests.support.dispatch_desk import ACCEPTED, Desk, dispatch_desk
from tests.support.eventually import eventually


@pytest.fixture
async def desk(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    async with dispatch_desk(monkeypatch) as desk:
        yield desk


async def test_a_plain_reply_is_sent_under_its_key_without_a_look(desk: Desk) -> None:
    outbound = desk.outbox.new()
    await desk.send(outbound)
    assert desk.channel.sent == [(part_key(outbound, 1, 1), "Hello, how can I help?")]
    assert desk.state(outbound) == ("sent", None)
    assert desk.outbox.gathers == 0


async def test_the_claim_returns_while_the_provider_is_being_called(desk: Desk) -> None:
    """It is acknowledged by then: unacknowledged time is milliseconds."""
    desk.channel.answering.clear()
    outbound = desk.outbox.new()
    await desk.dispatch.claim([outbound])
    assert desk.state(outbound)[0] == "sending"
    assert desk.slots.used == 1
    desk.channel.answering.set()
    await desk.dispatch.idle()
    assert desk.state(outbound)[0] == "sent"


async def test_many_conversations_are_sent_side_by_side(desk: Desk) -> None:
    desk.channel.answering.clear()
    outbounds = [desk.outbox.new() for _ in range(5)]
    await desk.dispatch.claim(outbounds)
    await eventually(lambda: len(desk.channel.sent) == 5)
    desk.channel.answering.set()
    await desk.dispatch.idle()


async def test_the_next_reply_of_a_conversation_is_rung_after_the_first(desk: Desk) -> None:
    first = desk.outbox.new()
    second = desk.outbox.new(desk.outbox.kept[first].reply.conversation)
    await desk.send(first)
    await eventually(lambda: desk.rung() == [second])


async def test_a_later_reply_that_comes_first_is_barred(desk: Desk) -> None:
    first = desk.outbox.new()
    second = desk.outbox.new(desk.outbox.kept[first].reply.conversation)
    await desk.send(second)
    assert desk.outbox.kept[second].barred == 1
    assert not desk.channel.sent


BECOMES: dict[str, tuple[dict[str, object], tuple[str, str | None]]] = {
    "in suggest": ({"modes": (Mode.SUGGEST, None, None)}, ("draft", "suggest")),
    "off": ({"modes": (Mode.OFF, None, None)}, ("draft", "mode_off")),
    "opted out": ({"opted_out": True}, ("discarded", "opted_out")),
    "written past": ({"customer_seq": 2}, ("superseded", "customer_wrote")),
    "handed off": ({"in_handoff": True, "handoff_epoch": 1}, ("draft", "handoff")),
    "disabled": ({"account_on": False}, ("queued", None)),
}


@pytest.mark.parametrize(("fields", "becomes"), BECOMES.values(), ids=BECOMES)
async def test_what_may_not_leave_is_never_handed_to_the_channel(
    desk: Desk, fields: dict[str, object], becomes: tuple[str, str | None]
) -> None:
    outbound = desk.outbox.new(**fields)
    await desk.send(outbound)
    assert desk.state(outbound) == becomes
    assert not desk.channel.sent


async def test_what_changed_while_it_was_decided_is_decided_again(desk: Desk) -> None:
    outbound = desk.outbox.new(round=2)

    def opts_out() -> None:
        desk.outbox.before_record = lambda: None
        desk.outbox.changed(outbound, opted_out=True)

    desk.outbox.before_record = opts_out
    await desk.send(outbound)
    assert desk.outbox.gathers == 2
    assert desk.state(outbound) == ("discarded", "opted_out")


async def test_what_goes_on_changing_is_looked_at_again_in_a_second(desk: Desk) -> None:
    outbound = desk.outbox.new(round=2)
    desk.outbox.before_record = lambda: desk.outbox.changed(outbound)
    await desk.send(outbound)
    assert desk.outbox.gathers == GATHERS_MAX
    assert desk.outbox.kept[outbound].barred == 1
    assert desk.state(outbound)[0] == "queued"


async def test_a_ticket_with_nothing_to_do_does_nothing(desk: Desk) -> None:
    outbound = desk.outbox.new()
    await desk.send(outbound)
    await desk.send(outbound)
    assert len(desk.channel.sent) == 1


# Parts


async def test_the_parts_of_a_reply_are_sent_in_order_under_keys_of_their_own(desk: Desk) -> None:
    body = "First sentence is this one. Second sentence is this one. Third."
    outbound = desk.outbox.new(body=body, traits=desk.channel.traits)
    await desk.send(outbound)
    assert [text for _, text in desk.channel.sent] == [
        "First sentence is this one.",
        "Second sentence is this one. Third.",
    ]
    assert [key for key, _ in desk.channel.sent] == [part_key(outbound, 1, part) for part in (1, 2)]
    assert desk.state(outbound)[0] == "sent"
    assert len(desk.outbox.kept[outbound].attempts) == 2


async def test_no_part_follows_one_that_was_refused(desk: Desk) -> None:
    desk.channel.outcome = Refused(reason="no such number")
    outbound = desk.outbox.new(body="x" * 60, traits=desk.channel.traits)
    await desk.send(outbound)
    assert len(desk.channel.sent) == 1
    assert desk.state(outbound) == ("draft", "send_failed: no such number")


async def test_a_reply_that_was_begun_goes_on_at_its_next_part(desk: Desk) -> None:
    outbound = desk.outbox.new(body="x" * 60, parts_sent=1, traits=desk.channel.traits)
    await desk.send(outbound)
    assert desk.channel.sent == [(part_key(outbound, 1, 2), "x" * 10)]


# Outcomes


async def test_a_provider_that_does_not_answer_in_time_leaves_an_unknown_outcome(desk: Desk) -> None:
    desk.channel.answering.clear()
    desk.channel.traits = replace(desk.channel.traits, idempotent=False)
    outbound = desk.outbox.new()
    await desk.send(outbound)
    assert desk.state(outbound)[0] == "unknown"
    await desk.send(outbound)
    assert len(desk.channel.sent) == 1, "never sent again by itself"


async def test_where_there_is_a_key_it_is_sent_again_under_the_same_one(desk: Desk) -> None:
    desk.channel.outcome = NoAnswer(reason="reset")
    outbound = desk.outbox.new()
    await desk.send(outbound)
    desk.channel.outcome = ACCEPTED
    await desk.send(outbound)
    assert [key for key, _ in desk.channel.sent] == [part_key(outbound, 1, 1)] * 2
    assert desk.attempts(outbound) == ["retried", "sent"]


@pytest.mark.parametrize("error", [ZeroDivisionError(), OSError("broken pipe"), TimeoutError()], ids=repr)
async def test_a_channel_that_raises_leaves_an_unknown_outcome(desk: Desk, error: Exception) -> None:
    desk.channel.outcome = error
    desk.channel.traits = replace(desk.channel.traits, idempotent=False)
    outbound = desk.outbox.new()
    await desk.send(outbound)
    assert desk.state(outbound)[0] == "unknown"
    assert desk.slots.used == 0


async def test_an_account_that_can_not_be_read_sends_nothing_and_waits(desk: Desk) -> None:
    desk.channel.outcome = Misconfigured("A whatsapp account has settings that this version can't read.")
    outbound = desk.outbox.new()
    await desk.send(outbound)
    assert desk.state(outbound)[0] == "queued"
    assert desk.attempts(outbound) == ["throttled"]


async def test_a_call_that_could_not_begin_in_time_is_given_back(desk: Desk) -> None:
    outbound = desk.outbox.new()
    await desk.dispatch.claim([outbound])
    desk.clock.pass_(5.1)
    await desk.dispatch.idle()
    assert not desk.channel.sent
    assert desk.state(outbound)[0] == "queued"
    assert desk.attempts(outbound) == ["given_back"]


async def test_a_channel_this_version_has_not_is_tried_later(desk: Desk) -> None:
    outbound = desk.outbox.new(channel="pigeon")
    await desk.send(outbound)
    assert desk.state(outbound)[0] == "queued"
    assert desk.attempts(outbound) == ["throttled"]


async def test_a_refused_send_says_why_in_the_log(desk: Desk) -> None:
    desk.channel.outcome = Refused(reason="the callback URL must be https")
    outbound = desk.outbox.new()
    with structlog.testing.capture_logs() as lines:
        await desk.send(outbound)
    said = [(line["outbound"], line["reason"]) for line in lines if "refused" in line["event"]]
    assert said == [(str(outbound), "the callback URL must be https")]


@pytest.mark.parametrize("kind", [Refused, AccountRefused])
async def test_the_log_does_not_repeat_what_a_provider_quotes(desk: Desk, kind: Any) -> None:
    """The row does: operators see it."""
    desk.channel.outcome = kind(reason="WhatsApp says 100: not a text: 'a table for seven'")
    outbound = desk.outbox.new()
    with structlog.testing.capture_logs() as lines:
        await desk.send(outbound)
    assert [line["reason"] for line in lines] == ["WhatsApp says 100"]


async def test_refused_credentials_disable_the_account(desk: Desk) -> None:
    desk.channel.outcome = AccountRefused(reason="401")
    outbound = desk.outbox.new()
    await desk.send(outbound)
    assert desk.outbox.disabled == [(desk.outbox.kept[outbound].reply.account, "401")]
    assert desk.state(outbound)[0] == "queued"


@pytest.mark.parametrize(
    ("outcome", "paused"),
    [
        (Throttled(reason="429", retry_after=timedelta(seconds=9), whole_account=True), True),
        (Throttled(reason="429", retry_after=timedelta(seconds=9)), False),
        (Throttled(reason="429", whole_account=True), False),
    ],
    ids=["the whole account", "this person", "no time said"],
)
async def test_a_provider_s_wait_is_kept_where_it_is_for_all(
    desk: Desk, outcome: Outcome, *, paused: bool
) -> None:
    desk.channel.outcome = outcome
    await desk.send(desk.outbox.new())
    assert bool(desk.outbox.paused) is paused


async def test_an_outcome_is_stored_again_and_again_until_it_is(desk: Desk) -> None:
    """The message has left: only its outcome waits for the database."""
    desk.channel.answering.clear()
    outbound = desk.outbox.new()
    await desk.dispatch.claim([outbound])
    desk.outbox.away = True
    desk.channel.answering.set()
    await eventually(lambda: bool(desk.channel.sent))
    for _ in range(20):
        await asyncio.sleep(0)
    assert desk.state(outbound)[0] == "sending"
    desk.outbox.away = False
    await desk.dispatch.idle()
    assert desk.state(outbound)[0] == "sent"
    assert len(desk.channel.sent) == 1


async def test_a_suspect_is_counted_and_given_up_on_its_row(desk: Desk) -> None:
    outbound = desk.outbox.new()
    assert await desk.dispatch.count(outbound) == 1
    await desk.dispatch.give_up(outbound)
    assert desk.outbox.dead == [outbound]
    assert desk.state(outbound) == ("draft", "processing_failed")


async def test_room_is_as_much_as_there_are_slots(desk: Desk) -> None:
    assert await desk.dispatch.room() == 10
