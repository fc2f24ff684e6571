"""A handoff that nobody claims: operators are reminded once, the customer is told once, and an owner's ends by itself."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import uuid5

import pytest

from services.agent.core.clock import HORIZON, strike
from services.console.adapters.postgres_desk import PostgresRecord
from services.console.core.drafts import Passes
from services.console.desk import Desk
from services.dispatch.core.delivery import DraftReason, MakeDraft, Send, decide
from shared.ids import ConversationId, new_id
from shared.locales import load
from tests.behaviour.test_outbox import outbox_of
from tests.support.clocks import RACES, Hand, another, at_once, hand_on
from tests.support.factories import Ground

pytestmark = pytest.mark.postgres


@pytest.fixture
async def hand(place: Ground) -> AsyncIterator[Hand]:
    async with hand_on(place) as made:
        yield made


async def look(hand: Hand) -> None:
    await hand.clocks.watch_handoffs()


async def came(hand: Hand, conversation: ConversationId) -> tuple[bool, bool]:
    """Whether operators were reminded, and the customer told."""
    row = await hand.handoff(conversation)
    told = bool(await hand.notices(conversation))
    assert told == (row["told_at"] is not None)
    assert bool(await flags(hand, conversation)) == (row["reminded_at"] is not None)
    return row["reminded_at"] is not None, told


async def flags(hand: Hand, conversation: ConversationId) -> list[Any]:
    return await hand.place.rows("flag", conversation=conversation)


# When


async def test_its_times_are_reckoned_in_the_pack_s_opening_hours_and_stay(hand: Hand) -> None:
    conversation = await hand.handed()
    opened = (await hand.handoff(conversation))["opened_at"]
    hand.pack.spans = [(opened + timedelta(hours=10), opened + timedelta(hours=18))]
    await look(hand)
    row = await hand.handoff(conversation)
    assert row["clock_set"]
    assert row["remind_at"] == opened + timedelta(hours=10, minutes=15)
    assert row["tell_at"] == opened + timedelta(hours=11)

    hand.pack.spans = []
    await look(hand)
    assert await hand.handoff(conversation) == row


async def test_each_business_has_its_own_minutes(hand: Hand) -> None:
    conversation = await hand.handed()
    business = (await hand.place.state(conversation))["business"]
    await hand.place.set("business", {"id": business}, handoff_remind_min=5, handoff_tell_min=7)
    await look(hand)
    row = await hand.handoff(conversation)
    assert row["remind_at"] == row["opened_at"] + timedelta(minutes=5)
    assert row["tell_at"] == row["opened_at"] + timedelta(minutes=7)


@pytest.mark.parametrize("pack", ["without hours", "not installed", "broken"])
async def test_a_pack_that_names_no_hours_lets_nobody_wait_unseen(hand: Hand, pack: str) -> None:
    conversation, other = await hand.handed(), await hand.handed()
    state = await hand.place.state(conversation)
    if pack == "not installed":
        await hand.place.set("business", {"id": state["business"]}, pack="gone")
    elif pack == "broken":
        hand.pack.broken_for.add(state["business"])
    await look(hand)
    for one in (conversation, other):
        row = await hand.handoff(one)
        assert row["remind_at"] == row["opened_at"] + timedelta(minutes=15)


async def test_a_business_that_hardly_ever_opens_is_reminded_at_the_horizon(hand: Hand) -> None:
    conversation = await hand.handed()
    opened = (await hand.handoff(conversation))["opened_at"]
    hand.pack.spans = [(opened, opened + timedelta(minutes=1))]
    await look(hand)
    assert (await hand.handoff(conversation))["remind_at"] == opened + HORIZON


# Reminding operators


async def test_operators_are_reminded_once_by_a_flag_on_the_newest_message(hand: Hand) -> None:
    conversation = await hand.handed()
    newest = await hand.place.said(conversation, "Hello?", due=False, verdict="stored")
    await hand.place.said(conversation, "typed elsewhere", due=False, kind="echo", verdict="stored")
    await look(hand)
    hand.pass_(minutes=14)
    await look(hand)
    assert await came(hand, conversation) == (False, False)

    version = (await hand.place.state(conversation))["version"]
    hand.pass_(minutes=2)
    for _ in range(3):
        await look(hand)
    (flag,) = await flags(hand, conversation)
    assert (flag["message"], flag["reason"]) == (newest, "handoff_waiting")
    assert await came(hand, conversation) == (True, False)
    assert (await hand.place.state(conversation))["version"] == version + 1
    assert hand.counted(hand.metrics.handoffs_waiting) == {"reminded": 1}


async def test_a_conversation_without_a_message_is_no_trouble(hand: Hand) -> None:
    conversation = await hand.handed()
    await hand.place.owner.execute("delete from inbound_message")
    await look(hand)
    hand.pass_(hours=2)
    await look(hand)
    assert (await hand.handoff(conversation))["reminded_at"] is not None
    assert len(await hand.notices(conversation)) == 1


# Telling the customer


@pytest.mark.parametrize("locale", [None, "en", "ro"])
async def test_the_customer_is_told_once_in_their_language(hand: Hand, locale: str | None) -> None:
    conversation = await hand.handed(locale=locale)
    await look(hand)
    hand.pass_(minutes=61)
    for _ in range(3):
        await look(hand)
    assert await came(hand, conversation) == (True, True)
    notice = await hand.place.row("outbound", conversation=conversation, origin_kind="notice")
    assert notice["body"] == load(locale or "en").notice("handoff_waiting")
    assert notice["origin"] == uuid5(conversation, "1/tell")
    assert (notice["epoch"], notice["mode"], notice["state"]) == (1, "auto", "queued")
    assert hand.counted(hand.metrics.handoffs_waiting) == {"reminded": 1, "told": 1}


@pytest.mark.parametrize(
    ("mode", "becomes"),
    [
        ("auto", Send()),
        ("suggest", MakeDraft(DraftReason.SUGGEST)),
        ("off", MakeDraft(DraftReason.MODE_OFF)),
    ],
)
async def test_what_they_are_told_goes_out_in_the_handoff_by_the_business_s_mode(
    hand: Hand, mode: str, becomes: Any
) -> None:
    conversation = await hand.handed()
    business = (await hand.place.state(conversation))["business"]
    await hand.place.set("business", {"id": business}, mode=mode)
    await look(hand)
    hand.pass_(minutes=61)
    await look(hand)
    (reply,) = await outbox_of(hand.place).gather(await hand.notices(conversation))
    assert reply.in_handoff
    assert decide(reply) == becomes


async def test_one_of_a_handoff_that_is_over_does_not_go_out_in_the_next(hand: Hand) -> None:
    conversation = await hand.handed()
    await look(hand)
    hand.pass_(minutes=61)
    await look(hand)
    await hand.place.set_state(conversation, handoff_epoch=3)
    (reply,) = await outbox_of(hand.place).gather(await hand.notices(conversation))
    assert decide(reply) == MakeDraft(DraftReason.HANDOFF)


@pytest.mark.parametrize(
    ("reason", "comes"),
    [
        ("handoff_requested", (True, True)),
        ("not_permitted", (True, True)),
        ("loop", (True, False)),
        ("owner_takeover", (False, False)),
    ],
)
async def test_the_reason_says_who_hears_of_it(hand: Hand, reason: str, comes: tuple[bool, bool]) -> None:
    conversation = await hand.handed(reason)
    await look(hand)
    hand.pass_(minutes=61)
    await look(hand)
    assert await came(hand, conversation) == comes


# What stops it


async def test_who_claims_it_stops_the_clock(hand: Hand) -> None:
    conversation = await hand.handed()
    await look(hand)
    await desk_of(hand).claim(conversation, by="ana")
    hand.pass_(hours=2)
    await look(hand)
    assert await came(hand, conversation) == (False, False)


async def test_who_claims_it_between_look_and_write_stops_it_too(hand: Hand) -> None:
    conversation = await hand.handed()
    await look(hand)
    hand.pass_(hours=2)
    (seen,) = await hand.record.unclaimed(most=10)
    await desk_of(hand).claim(conversation, by="ana")
    assert list(await hand.record.strike([(seen, strike(seen), "Busy.")])) == []
    assert await came(hand, conversation) == (False, False)


async def test_an_operator_s_answer_stops_it(hand: Hand) -> None:
    conversation = await hand.handed()
    await look(hand)
    await desk_of(hand).reply(conversation, "Hello, this is Ana.", by="ana")
    hand.pass_(hours=2)
    await look(hand)
    assert await came(hand, conversation) == (False, False)


async def test_a_release_stops_it(hand: Hand) -> None:
    conversation = await hand.handed()
    await look(hand)
    await desk_of(hand).release(conversation, by="ana")
    hand.pass_(hours=2)
    await look(hand)
    assert await came(hand, conversation) == (False, False)


async def test_a_person_who_answered_from_their_own_phone_leaves_nothing_to_tell(hand: Hand) -> None:
    conversation = await hand.handed()
    await look(hand)
    hand.pass_(minutes=20)
    await hand.place.said(
        conversation, "On my way", due=False, kind="echo", verdict="stored", reason="from_me",
        received_at=await hand.now(),
    )  # fmt: skip
    hand.pass_(minutes=41)
    await look(hand)
    assert await came(hand, conversation) == (True, False)
    assert (await hand.handoff(conversation))["tell_at"] is None


async def test_a_draft_that_an_operator_sent_is_an_answer(hand: Hand) -> None:
    conversation = await hand.handed()
    await look(hand)
    await hand.place.outbound(conversation, round=2, state="sent", ring_at=None)
    hand.pass_(minutes=61)
    await look(hand)
    assert await came(hand, conversation) == (True, False)


@pytest.mark.parametrize("by", ["provider id", "text"])
async def test_our_own_message_coming_back_is_no_answer(hand: Hand, by: str) -> None:
    conversation = await hand.handed()
    text = "A colleague will take over from here."
    notice = await hand.place.outbound(conversation, text, state="sent", origin_kind="turn", ring_at=None)
    await hand.place.attempt(notice, state="sent", provider_id="theirs-1")
    echo = {"body": text} if by == "text" else {"body": "as sent", "channel_message_id": "theirs-1"}
    body = echo.pop("body")
    await look(hand)
    await hand.place.said(
        conversation, body, due=False, kind="echo", verdict="stored", received_at=await hand.now(), **echo
    )
    hand.pass_(minutes=61)
    await look(hand)
    assert await came(hand, conversation) == (True, True)


async def test_a_message_that_is_not_judged_is_waited_for(hand: Hand) -> None:
    conversation = await hand.handed()
    await look(hand)
    await hand.place.wrote(conversation, "On my way", kind="echo")
    hand.pass_(minutes=61)
    await look(hand)
    assert await came(hand, conversation) == (False, False)


async def test_who_wants_no_more_of_us_is_told_nothing(hand: Hand) -> None:
    conversation = await hand.handed()
    await look(hand)
    await hand.place.set_state(conversation, opted_out_at=await hand.now())
    hand.pass_(minutes=61)
    await look(hand)
    assert await came(hand, conversation) == (True, False)


# Several agents


async def test_of_two_agents_at_the_same_moment_one_does_it(hand: Hand) -> None:
    async with another(hand) as other:
        for _ in range(RACES):
            conversation = await hand.handed()
            business = (await hand.place.state(conversation))["business"]
            await hand.place.set("business", {"id": business}, handoff_remind_min=1, handoff_tell_min=1)
            await at_once(lambda: look(hand), lambda: look(other))
            hand.pass_(minutes=2)
            await at_once(lambda: look(hand), lambda: look(other))
            assert await came(hand, conversation) == (True, True)
            assert len(await hand.notices(conversation)) == 1
        counts = [hand.counted(one.metrics.handoffs_waiting) for one in (hand, other)]
        for what in ("reminded", "told"):
            assert sum(one.get(what, 0) for one in counts) == RACES


# Owners


async def took_over(hand: Hand) -> ConversationId:
    """The owner has just typed on their own phone."""
    conversation = await hand.handed("owner_takeover")
    await owner_typed(hand, conversation)
    return conversation


async def owner_typed(hand: Hand, conversation: ConversationId) -> None:
    await hand.place.said(
        conversation, "I'll see to it", due=False, kind="echo", verdict="stored", reason="owner_takeover",
        received_at=await hand.now(),
    )  # fmt: skip
    seq = (await hand.place.state(conversation))["guarded_seq"]
    await hand.place.set_state(conversation, customer_seq=1, handled_seq=seq)


async def test_an_owner_s_takeover_ends_after_quiet_minutes(hand: Hand) -> None:
    conversation = await took_over(hand)
    hand.pass_(minutes=59)
    await hand.clocks.release_takeovers()
    assert (await hand.place.state(conversation))["state"] == "handoff"

    before = await hand.place.state(conversation)
    hand.pass_(minutes=2)
    await hand.clocks.release_takeovers()
    state, row = await hand.place.state(conversation), await hand.handoff(conversation)
    assert (state["state"], state["handoff_epoch"], state["due_at"]) == ("bot", 2, None)
    assert state["version"] == before["version"] + 1
    assert state["released_at"] == row["released_at"]
    assert row["released_by"] == "clock"
    await hand.clocks.release_takeovers()
    assert await hand.place.state(conversation) == state


async def test_each_word_of_the_owner_s_begins_the_quiet_minutes_anew(hand: Hand) -> None:
    conversation = await took_over(hand)
    hand.pass_(minutes=50)
    await owner_typed(hand, conversation)
    hand.pass_(minutes=50)
    await hand.clocks.release_takeovers()
    assert (await hand.place.state(conversation))["state"] == "handoff"


async def test_what_was_decided_meanwhile_is_due_then(hand: Hand) -> None:
    conversation = await took_over(hand)
    await hand.place.set_state(conversation, decision_owed=new_id())
    hand.pass_(minutes=61)
    await hand.clocks.release_takeovers()
    assert (await hand.place.state(conversation))["due_at"] <= await hand.place.now()


@pytest.mark.parametrize("stays", ["another reason", "claimed", "not judged"])
async def test_only_a_quiet_owner_s_ends_by_itself(hand: Hand, stays: str) -> None:
    conversation = await (hand.handed() if stays == "another reason" else took_over(hand))
    if stays == "claimed":
        await desk_of(hand).claim(conversation, by="ana")
    elif stays == "not judged":
        await hand.place.wrote(conversation, "Wait", kind="echo")
    hand.pass_(hours=3)
    await hand.clocks.release_takeovers()
    assert (await hand.place.state(conversation))["state"] == "handoff"


async def test_of_two_agents_at_the_same_moment_one_releases(hand: Hand) -> None:
    async with another(hand) as other:
        for _ in range(RACES):
            conversation = await took_over(hand)
            business = (await hand.place.state(conversation))["business"]
            await hand.place.set("business", {"id": business}, takeover_quiet_min=1)
            version = (await hand.place.state(conversation))["version"]
            hand.pass_(minutes=2)
            await at_once(hand.clocks.release_takeovers, other.clocks.release_takeovers)
            state = await hand.place.state(conversation)
            assert (state["state"], state["handoff_epoch"], state["version"]) == ("bot", 2, version + 1)


def desk_of(hand: Hand) -> Desk:
    async def passes(_: Any) -> Passes:
        return Passes()

    return Desk(PostgresRecord(hand.database), rehearsal=passes)
