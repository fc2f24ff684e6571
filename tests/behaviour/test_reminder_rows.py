"""Reminders on Postgres: one a key for ever, to the right conversation, never of what is no longer so."""

import json
from collections.abc import AsyncIterator
from datetime import time, timedelta
from typing import Any
from uuid import UUID

import pytest

from services.agent.core.reminder import NewReminder
from services.dispatch.core.delivery import DraftReason, MakeDraft, decide
from shared.ids import AccountId, BusinessId, ConversationId, CustomerId, OutboundId, new_id
from tests.behaviour.test_outbox import outbox_of
from tests.support.clocks import RACES, Hand, another, at_once, hand_on, words
from tests.support.factories import Ground

pytestmark = pytest.mark.postgres

NEVER = time(0, 0)  # quiet from then to then


@pytest.fixture
async def hand(place: Ground) -> AsyncIterator[Hand]:
    async with hand_on(place) as made:
        yield made


async def customer_of(hand: Hand, conversation: ConversationId) -> tuple[BusinessId, CustomerId]:
    row = await hand.place.row("conversation", id=conversation)
    return BusinessId(row["business"]), CustomerId(row["customer"])


async def appointment(hand: Hand, conversation: ConversationId, **ahead: float) -> UUID:
    """Of the conversation's customer; by default in five hours, in a business without quiet hours."""
    business, customer = await customer_of(hand, conversation)
    await hand.place.set("business", {"id": business}, quiet_from=NEVER, quiet_to=NEVER)
    key = new_id()
    begins = await hand.now() + timedelta(**(ahead or {"hours": 5}))
    hand.pack.appointments[key] = (business, customer, begins)
    return key


async def reminded(hand: Hand) -> list[Any]:
    await hand.reminders.remind()
    return await hand.place.rows("outbound", origin_kind="reminder", order="origin")


async def test_a_reminder_is_queued_with_its_words_and_buttons(hand: Hand) -> None:
    conversation = await hand.place.conversation(locale="ro")
    key = await appointment(hand, conversation)
    version = (await hand.place.state(conversation))["version"]
    (queued,) = await reminded(hand)
    assert (queued["conversation"], queued["origin"], queued["state"]) == (conversation, key, "queued")
    assert (queued["mode"], queued["epoch"]) == ("auto", 0)
    assert queued["body"] == "Vă amintim de programare."
    assert json.loads(queued["buttons"]) == [
        {"id": f"rm:{key.hex}:keep", "title": "Vin"},
        {"id": f"rm:{key.hex}:cancel", "title": "Nu pot"},
    ]
    stored = await hand.place.row("reminder")
    assert (stored["id"], stored["conversation"], stored["tool"]) == (key, conversation, "cancel_appointment")
    assert json.loads(stored["arguments"]) == {"appointment": str(key)}
    assert stored["thanks"] == "Mulțumim!"
    assert (await hand.place.state(conversation))["version"] == version + 1
    assert hand.counted(hand.metrics.reminders) == {"queued": 1}


@pytest.mark.parametrize("state", ["queued", "sent", "draft", "discarded", "superseded"])
async def test_there_is_one_for_ever_whatever_became_of_it(hand: Hand, state: str) -> None:
    await appointment(hand, await hand.place.conversation())
    (queued,) = await reminded(hand)
    await hand.place.set("outbound", {"id": queued["id"]}, state=state)
    assert len(await reminded(hand)) == 1
    assert hand.counted(hand.metrics.reminders) == {"queued": 1}


async def test_two_appointments_of_one_customer_are_two_reminders_in_one_round(hand: Hand) -> None:
    conversation = await hand.place.conversation()
    keys = {await appointment(hand, conversation), await appointment(hand, conversation, hours=8)}
    assert {row["origin"] for row in await reminded(hand)} == keys


async def test_of_two_agents_at_the_same_moment_one_reminds(hand: Hand) -> None:
    async with another(hand) as other:
        for race in range(RACES):
            await appointment(hand, await hand.place.conversation())
            await at_once(hand.reminders.remind, other.reminders.remind)
            assert len(await hand.place.rows("outbound", origin_kind="reminder")) == race + 1
    assert len(await hand.place.rows("reminder")) == RACES


async def test_of_two_that_have_looked_only_one_may_write(hand: Hand) -> None:
    """The version stands against it, and where it would not, the key does."""
    conversation = await hand.place.conversation()
    key = await appointment(hand, conversation)
    business, customer = await customer_of(hand, conversation)

    async def new() -> NewReminder:
        recipient = (await hand.record.recipients(business, {key: customer}))[key]
        return NewReminder(
            key=key, recipient=recipient, outbound=OutboundId(new_id()), tool="x", arguments="{}", words=words("en")
        )  # fmt: skip

    first, second = await new(), await new()
    assert list(await hand.record.remind(business, [first])) == [first.outbound]
    assert list(await hand.record.remind(business, [second])) == []
    await hand.place.set_state(conversation, version=second.recipient.version)
    assert list(await hand.record.remind(business, [second])) == []


async def test_a_customer_who_wrote_between_look_and_write_is_not_reminded_now(hand: Hand) -> None:
    conversation = await hand.place.conversation()
    key = await appointment(hand, conversation)
    business, customer = await customer_of(hand, conversation)
    recipient = (await hand.record.recipients(business, {key: customer}))[key]
    await hand.place.said(conversation, "I'd like to move my appointment")
    new = NewReminder(
        key=key, recipient=recipient, outbound=OutboundId(new_id()), tool="x", arguments="{}", words=words("en")
    )  # fmt: skip
    assert list(await hand.record.remind(business, [new])) == []
    assert await hand.place.rows("reminder") == []


# Where it goes


@pytest.mark.parametrize(
    ("state", "account"),
    [
        pytest.param({"opted_out_at": "now"}, {}, id="opted out"),
        pytest.param({"state": "handoff", "handoff_epoch": 1}, {}, id="people answer"),
        pytest.param({"mode": "off"}, {}, id="nothing is generated in the conversation"),
        pytest.param({}, {"mode": "off"}, id="nothing is generated on the account"),
        pytest.param({}, {"state": "disabled"}, id="the account is off"),
        pytest.param({"last_customer_at": "now"}, {}, id="in the middle of a conversation"),
    ],
)
async def test_some_are_not_reminded_now(hand: Hand, state: dict[str, Any], account: dict[str, Any]) -> None:
    conversation = await hand.place.conversation()
    await appointment(hand, conversation)
    now = await hand.now()
    await hand.place.set_state(
        conversation, **{"handled_seq": 0, **{k: now if v == "now" else v for k, v in state.items()}}
    )
    number = (await hand.place.row("conversation", id=conversation))["account"]
    if account:
        await hand.place.set("channel_account", {"id": number}, **account)
    assert await reminded(hand) == []
    assert await hand.place.rows("reminder") == []


@pytest.mark.parametrize("columns", [{"mode": "off"}, {"reminder_hours": 0}, {"pack": "gone"}])
async def test_some_businesses_remind_nobody(hand: Hand, columns: dict[str, Any]) -> None:
    conversation = await hand.place.conversation()
    await appointment(hand, conversation)
    business, _ = await customer_of(hand, conversation)
    await hand.place.set("business", {"id": business}, **columns)
    assert await reminded(hand) == []
    assert hand.pack.asked == []


async def test_who_fell_quiet_is_reminded_then(hand: Hand) -> None:
    conversation = await hand.place.conversation()
    await appointment(hand, conversation)
    await hand.place.set_state(conversation, last_customer_at=await hand.now())
    hand.pass_(minutes=31)
    assert len(await reminded(hand)) == 1


async def test_it_goes_to_the_conversation_of_late_where_one_may_go(hand: Hand) -> None:
    business = await hand.place.business()
    accounts = [await hand.place.account(business) for _ in range(4)]
    away = [("old", {}), ("of late", {}), ("off", {"state": "disabled"}), ("gone", {})]
    conversations = {}
    now = await hand.now()
    for hours, ((name, columns), account) in enumerate(zip(away, accounts, strict=True), start=1):
        conversations[name] = await one_more(hand, account, conversations.get("old"))
        at = now - timedelta(hours=5 - hours)
        await hand.place.set_state(conversations[name], last_customer_at=at)
        if columns:
            await hand.place.set("channel_account", {"id": account}, **columns)
    await hand.place.set_state(conversations["gone"], opted_out_at=now)
    await appointment(hand, conversations["old"])
    (queued,) = await reminded(hand)
    assert queued["conversation"] == conversations["of late"]


async def one_more(hand: Hand, account: AccountId, like: ConversationId | None) -> ConversationId:
    """A conversation on the account, of the same customer as another."""
    conversation = await hand.place.conversation(account)
    if like is not None:
        _, customer = await customer_of(hand, like)
        for table, key in (("conversation", "id"), ("channel_identity", "conversation")):
            await hand.place.set(table, {key: conversation}, customer=customer)
    return conversation


async def test_a_customer_whom_nobody_can_write_to_is_passed_over(hand: Hand) -> None:
    conversation = await hand.place.conversation()
    business, _ = await customer_of(hand, conversation)
    key = new_id()
    hand.pack.appointments[key] = (business, CustomerId(new_id()), await hand.now() + timedelta(hours=5))
    assert await reminded(hand) == []


async def test_one_pack_that_fails_holds_up_no_other_business(hand: Hand) -> None:
    first, second = await hand.place.conversation(), await hand.place.conversation()
    await appointment(hand, first)
    await appointment(hand, second)
    hand.pack.broken_for.add((await customer_of(hand, first))[0])
    assert [row["conversation"] for row in await reminded(hand)] == [second]


async def test_in_suggest_it_is_a_draft(hand: Hand) -> None:
    conversation = await hand.place.conversation()
    await appointment(hand, conversation)
    business, _ = await customer_of(hand, conversation)
    await hand.place.set("business", {"id": business}, mode="suggest")
    (queued,) = await reminded(hand)
    (reply,) = await outbox_of(hand.place).gather([queued["id"]])
    assert decide(reply) == MakeDraft(DraftReason.SUGGEST)


# When


@pytest.mark.parametrize(
    ("hours", "comes"), [(0.5, False), (1.9, False), (2.1, True), (23, True), (25, False)]
)
async def test_it_comes_within_its_hours_and_not_too_late(hand: Hand, hours: float, comes: bool) -> None:
    await appointment(hand, await hand.place.conversation(), hours=hours)
    assert bool(await reminded(hand)) == comes


async def test_a_business_that_reminds_late_does_so_in_the_first_half_of_its_time(hand: Hand) -> None:
    conversation = await hand.place.conversation()
    await appointment(hand, conversation, minutes=45)
    late = await appointment(hand, conversation, minutes=25)
    business, _ = await customer_of(hand, conversation)
    await hand.place.set("business", {"id": business}, reminder_hours=1)
    assert [row["origin"] for row in await reminded(hand) if row["origin"] == late] == []
    assert len(await hand.place.rows("reminder")) == 1


@pytest.mark.parametrize(("after_quiet", "comes"), [(1.5, False), (2.5, True)])
async def test_one_that_would_wait_for_the_morning_and_be_late_then_is_none(
    hand: Hand, after_quiet: float, comes: bool
) -> None:
    conversation = await hand.place.conversation()
    business, _ = await customer_of(hand, conversation)
    await appointment(hand, conversation, hours=8 + after_quiet)
    begins = (await hand.now()).replace(second=0, microsecond=0)
    await hand.place.set(
        "business", {"id": business}, time_zone="UTC",
        quiet_from=(begins - timedelta(hours=1)).time(), quiet_to=(begins + timedelta(hours=8)).time(),
    )  # fmt: skip
    assert bool(await reminded(hand)) == comes


# What is no longer so


@pytest.mark.parametrize("state", ["queued", "draft"])
async def test_what_was_cancelled_meanwhile_is_withdrawn(hand: Hand, state: str) -> None:
    conversation = await hand.place.conversation()
    key = await appointment(hand, conversation)
    kept = await appointment(hand, conversation, hours=8)
    await hand.reminders.remind()
    await hand.place.set("outbound", {"origin": key}, state=state)
    version = (await hand.place.state(conversation))["version"]
    del hand.pack.appointments[key]
    states = {row["origin"]: row["state"] for row in await reminded(hand)}
    assert states == {key: "superseded", kept: "queued"}
    assert (await hand.place.state(conversation))["version"] == version + 1
    assert hand.counted(hand.metrics.reminders) == {"queued": 2, "withdrawn": 1}


async def test_what_has_begun_is_withdrawn(hand: Hand) -> None:
    await appointment(hand, await hand.place.conversation())
    await hand.reminders.remind()
    hand.pass_(hours=6)
    assert [row["state"] for row in await reminded(hand)] == ["superseded"]


@pytest.mark.parametrize(
    "columns",
    [
        {"state": "sending"},
        {"state": "sent"},
        {"state": "unknown"},
        {"state": "draft", "reason": "may_have_arrived"},
        {"state": "queued", "round": 2},
    ],
    ids=str,
)
async def test_what_is_on_its_way_or_somebody_s_decision_is_left_alone(
    hand: Hand, columns: dict[str, Any]
) -> None:
    key = await appointment(hand, await hand.place.conversation())
    await hand.reminders.remind()
    await hand.place.set("outbound", {"origin": key}, **columns)
    hand.pack.appointments.clear()
    assert [row["state"] for row in await reminded(hand)] == [columns["state"]]


async def test_another_business_s_is_left_alone(hand: Hand) -> None:
    first, second = await hand.place.conversation(), await hand.place.conversation()
    key = await appointment(hand, first)
    await appointment(hand, second)
    await hand.reminders.remind()
    del hand.pack.appointments[key]
    hand.pack.broken_for.add((await customer_of(hand, second))[0])
    assert {row["conversation"]: row["state"] for row in await reminded(hand)} == {
        first: "superseded",
        second: "queued",
    }


# What a button stands for


async def test_a_reminder_is_found_by_the_conversation_that_it_went_to_and_by_no_other(hand: Hand) -> None:
    conversation, other = await hand.place.conversation(), await hand.place.conversation()
    key = await appointment(hand, conversation)
    await hand.reminders.remind()
    found = await hand.record.reminder(conversation, key)
    assert found is not None
    assert (found.tool, found.thanks) == ("cancel_appointment", "Thank you!")
    assert await hand.record.reminder(other, key) is None
    assert await hand.record.reminder(conversation, new_id()) is None
