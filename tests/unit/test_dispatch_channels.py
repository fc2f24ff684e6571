"""What a channel's way of carrying and answering makes of replies: pace, parts, buttons, window, opt-out, troubles."""

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest
import structlog

from services.dispatch.core.outcome import (
    AccountRefused,
    NoAnswer,
    OptedOut,
    Refused,
    Throttled,
    WindowClosed,
)
from services.dispatch.core.troubles import outcome_of
from shared.channels.traits import TRAITS, Traits
from shared.channels.troubles import Trouble, twilio_trouble, whatsapp_trouble
from tests.support.dispatch_desk import ACCEPTED, Desk, dispatch_desk
from tests.support.eventually import eventually
from tests.support.factories import NOON

WHATSAPP = TRAITS["whatsapp"]
BUTTONS = '[{"id": "a:confirm", "title": "Confirm"}]'


@pytest.fixture
async def desk(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    async with dispatch_desk(monkeypatch) as desk:
        desk.channel.traits = WHATSAPP
        yield desk


# Parts, buttons, pace


async def test_the_last_part_is_short_enough_for_buttons_beside_it(desk: Desk) -> None:
    outbound = desk.outbox.new(body="word " * 400, buttons=BUTTONS, traits=WHATSAPP, round=2)
    await desk.send(outbound)
    texts = [text for _, text in desk.channel.sent]
    assert len(texts) == 2
    assert len(texts[-1]) <= 1024
    assert {one.buttons for one in desk.channel.handed} == {BUTTONS}
    assert [one.last_part for one in desk.channel.handed] == [False, True]
    assert desk.state(outbound)[0] == "sent"


async def test_parts_to_one_person_leave_at_their_pace(desk: Desk) -> None:
    pause = 0.05
    desk.channel.traits = Traits(text_max=50, per_person=timedelta(seconds=pause))
    outbound = desk.outbox.new(body="x" * 120, traits=desk.channel.traits)
    began = time.monotonic()
    await desk.send(outbound)
    assert len(desk.channel.sent) == 3
    assert time.monotonic() - began >= 2 * pause


async def test_what_an_account_s_pace_does_not_allow_yet_waits(desk: Desk) -> None:
    traits = Traits(text_max=50, per_account=timedelta(seconds=1), account_burst=2)
    outbounds = [desk.outbox.new(traits=traits, round=2) for _ in range(3)]
    await desk.send(*outbounds)
    assert len(desk.channel.sent) == 2
    assert sorted(desk.state(one)[0] for one in outbounds) == ["queued", "sent", "sent"]


# The window


async def test_a_window_that_the_channel_says_is_closed_is_decided_by_the_next_claim(desk: Desk) -> None:
    desk.channel.outcome = WindowClosed(reason="131047")
    outbound = desk.outbox.new(traits=WHATSAPP)
    await desk.send(outbound)
    assert desk.state(outbound)[0] == "queued"
    await eventually(lambda: desk.rung() == [outbound])
    await desk.send(outbound)
    assert desk.state(outbound) == ("draft", "window_closed")
    assert len(desk.channel.sent) == 1


async def test_by_template_it_goes_without_buttons_and_only_once(desk: Desk) -> None:
    desk.channel.outcome = WindowClosed(reason="131047")
    outbound = desk.outbox.new(
        traits=WHATSAPP, buttons=BUTTONS, has_template=True, in_handoff=True, epoch=1, handoff_epoch=1
    )
    await desk.send(outbound)
    await desk.send(outbound)
    assert [(one.by_template, one.buttons, one.in_handoff) for one in desk.channel.handed] == [
        (False, BUTTONS, True),
        (True, None, True),
    ]
    assert desk.state(outbound) == ("draft", "send_failed: 131047"), "never again and again"


# What a provider's answer means for more than one reply


async def test_who_opted_out_at_the_channel_gets_nothing_more(desk: Desk) -> None:
    desk.channel.outcome = OptedOut(reason="21610")
    first = desk.outbox.new()
    second = desk.outbox.new(desk.outbox.kept[first].reply.conversation)
    await desk.send(first)
    await eventually(lambda: desk.rung() == [second])
    await desk.send(second)
    assert desk.state(first) == ("discarded", "opted_out: 21610")
    assert desk.state(second) == ("discarded", "opted_out")
    assert len(desk.channel.sent) == 1


async def test_an_account_that_every_send_fails_on_is_counted_and_said_with_its_reason(desk: Desk) -> None:
    desk.channel.outcome = AccountRefused(reason="131042 payment")
    outbound = desk.outbox.new()
    with structlog.testing.capture_logs() as lines:
        await desk.send(outbound)
    assert desk.outbox.disabled == [(desk.outbox.kept[outbound].reply.account, "131042 payment")]
    assert desk.counted("leeway_accounts_disabled_total", channel="sim") == 1
    assert [line["log_level"] for line in lines] == ["error"]
    assert desk.state(outbound)[0] == "queued"


@pytest.mark.parametrize(
    "trouble", [Trouble.RECIPIENT, Trouble.CONTENT, Trouble.CONFIGURATION, Trouble.OUR_BUG, Trouble.UNKNOWN]
)
async def test_a_refusal_is_counted_by_its_kind_and_our_own_mistakes_are_kept(
    desk: Desk, trouble: Trouble
) -> None:
    desk.channel.outcome = Refused(reason="no", trouble=trouble)
    outbound = desk.outbox.new()
    with structlog.testing.capture_logs() as lines:
        await desk.send(outbound)
    ours = trouble is Trouble.OUR_BUG
    assert desk.counted("leeway_sends_refused_total", channel="sim", trouble=trouble.value) == 1
    assert desk.outbox.buried == ([(outbound, "no")] if ours else [])
    assert [line["log_level"] for line in lines] == ["error" if ours else "warning"]
    filtered = trouble is Trouble.CONTENT
    assert desk.state(outbound) == ("draft", "send_failed: filtered: no" if filtered else "send_failed: no")


# Field cases


async def test_snd_01_a_time_out_is_never_sent_again_by_itself(desk: Desk) -> None:
    desk.channel.answering.clear()
    outbound = desk.outbox.new(traits=WHATSAPP)
    for _ in range(3):
        await desk.send(outbound)
    assert len(desk.channel.sent) == 1
    assert desk.state(outbound)[0] == "unknown"


async def test_snd_03_one_owner_of_retries_and_one_key(desk: Desk) -> None:
    """Ten resets: each look sends once, under the same key; elsewhere than with a key there is one attempt."""
    desk.channel.traits = TRAITS["generic"]
    desk.channel.outcome = NoAnswer(reason="ReadError")
    outbound = desk.outbox.new()
    for _ in range(10):
        await desk.send(outbound)
    assert len({key for key, _ in desk.channel.sent}) == 1
    assert len(desk.channel.sent) == 10
    desk.channel.traits = WHATSAPP
    other = desk.outbox.new(traits=WHATSAPP)
    for _ in range(10):
        await desk.send(other)
    assert len(desk.channel.sent) == 11


async def test_snd_04_what_is_older_than_a_day_is_for_people_without_a_call(desk: Desk) -> None:
    old = desk.outbox.new(traits=WHATSAPP, round=2, last_customer_at=NOON - timedelta(hours=25))
    await desk.send(old)
    assert desk.state(old) == ("draft", "window_closed")
    assert not desk.channel.sent


async def test_snd_06_too_many_to_one_person_holds_up_the_rest_of_theirs_and_nobody_else_s(
    desk: Desk,
) -> None:
    pair = [outcome_of(Trouble.PAIR_RATE, reason="131056", tries=tries) for tries in (0, 1)]
    desk.channel.script = [ACCEPTED, pair[0]]
    outbound = desk.outbox.new(body="x" * 9000, traits=WHATSAPP)
    await desk.send(outbound)
    waits = desk.outbox.kept[outbound].reply.person_waits_until
    assert waits is not None
    other = desk.outbox.new(traits=WHATSAPP)
    await desk.send(outbound, other)
    assert desk.state(outbound)[0] == "queued"
    assert desk.state(other)[0] == "sent"
    desk.channel.script = [pair[1]]
    for _ in range(2):
        desk.outbox.changed(outbound, person_waits_until=None)
        await desk.send(outbound)
    assert [key.rpartition("_")[2] for key, _ in desk.channel.sent if outbound.hex in key] == [
        "1",
        "2",
        "2",
        "2",
        "3",
    ]
    assert desk.state(outbound)[0] == "sent"


async def test_snd_07_a_person_who_was_written_to_too_often_is_answered_later(desk: Desk) -> None:
    desk.channel.script = [outcome_of(Trouble.PAIR_RATE, reason="131056", tries=0)]
    first = desk.outbox.new(traits=WHATSAPP)
    await desk.send(first)
    assert desk.state(first)[0] == "queued"
    assert not desk.outbox.disabled, "back-off only"
    desk.outbox.changed(first, person_waits_until=None)
    second = desk.outbox.new(desk.outbox.kept[first].reply.conversation, traits=WHATSAPP)
    await desk.send(first)
    await desk.send(second)
    assert [desk.state(one)[0] for one in (first, second)] == ["sent", "sent"]


@pytest.mark.parametrize(
    ("code", "becomes", "attempts"),
    [
        (131026, "draft", 1),
        (131047, "draft", 1),
        (131051, "draft", 1),
        (130429, "sent", 2),
        (131056, "sent", 2),
        (131000, "sent", 2),
    ],
)
async def test_snd_08_what_a_code_is_worth_trying_again(
    desk: Desk, code: int, becomes: str, attempts: int
) -> None:
    desk.channel.script = [outcome_of(whatsapp_trouble(code), reason=str(code))]
    outbound = desk.outbox.new(traits=WHATSAPP)
    for _ in range(3):
        await desk.send(outbound)
        desk.outbox.changed(outbound, person_waits_until=None)
    assert desk.state(outbound)[0] == becomes
    assert len(desk.channel.sent) == attempts


async def test_snd_09_an_opt_out_at_the_carrier_is_one_attempt(desk: Desk) -> None:
    desk.channel.traits = TRAITS["twilio"]
    desk.channel.outcome = outcome_of(twilio_trouble(21610, http_status=400), reason="21610")
    reminder = desk.outbox.new(traits=TRAITS["twilio"])
    for _ in range(3):
        await desk.send(reminder)
    assert len(desk.channel.sent) == 1
    assert desk.outbox.kept[reminder].reply.opted_out
    assert desk.state(reminder)[0] == "discarded"


async def test_snd_11_a_number_that_is_none_is_one_attempt_and_for_people(desk: Desk) -> None:
    desk.channel.outcome = outcome_of(twilio_trouble(21211, http_status=400), reason="21211")
    outbound = desk.outbox.new(traits=TRAITS["twilio"])
    for _ in range(3):
        await desk.send(outbound)
    assert len(desk.channel.sent) == 1
    assert desk.state(outbound) == ("draft", "send_failed: 21211")


@pytest.mark.parametrize("code", [30003, 30005, 30006, 30007, 30008])
async def test_snd_12_what_a_carrier_could_not_deliver_is_never_sent_again_by_itself(
    desk: Desk, code: int
) -> None:
    trouble = twilio_trouble(code)
    desk.channel.outcome = outcome_of(trouble, reason=str(code))
    outbound = desk.outbox.new(traits=TRAITS["twilio"])
    for _ in range(3):
        await desk.send(outbound)
    assert len(desk.channel.sent) == 1
    state, reason = desk.state(outbound)
    assert state == "draft"
    assert ("filtered" in (reason or "")) is (code == 30007)
    assert desk.counted("leeway_sends_refused_total", channel="sim", trouble=trouble.value) == 1


async def test_snd_19_a_wait_of_the_bot_holds_for_the_account_and_one_delivery_is_made(desk: Desk) -> None:
    desk.channel.traits = replace(TRAITS["telegram"], per_person=timedelta())
    wait = timedelta(seconds=3)
    desk.channel.script = [Throttled(reason="429", retry_after=wait, whole_account=True)]
    outbound = desk.outbox.new(traits=desk.channel.traits)
    await desk.send(outbound)
    assert desk.outbox.paused == [(desk.outbox.kept[outbound].reply.account, wait)]
    desk.outbox.changed(outbound, account_waits_until=NOON + wait)
    await desk.send(outbound)
    assert len(desk.channel.sent) == 1
    desk.outbox.changed(outbound, account_waits_until=None)
    await desk.send(outbound)
    assert [desk.state(outbound)[0], len(desk.channel.sent)] == ["sent", 2]
