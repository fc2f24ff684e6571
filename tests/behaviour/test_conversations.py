"""What the guard's record promises, on Postgres: judged on what was still true, all of it or nothing."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from services.guard.adapters.postgres_conversations import PostgresConversations
from services.guard.core.amending import amend
from services.guard.core.guards import judge
from services.guard.core.record import Case, Record, record
from services.guard.core.verdict import Judged, Judgement, Notice, Reason
from services.guard.ports import Conversations
from shared.autonomy import Mode
from shared.ids import ActionId, ConversationId, MessageId, OutboundId, new_id
from shared.locales import load
from shared.messages import MessageKind, Verdict
from tests.support.eventually import eventually
from tests.support.factories import Ground

pytestmark = pytest.mark.postgres


@pytest.fixture
def conversations(place: Ground) -> PostgresConversations:
    return PostgresConversations(place.database)


async def gather_one(conversations: Conversations, conversation: ConversationId) -> Case:
    (case,) = await conversations.gather([conversation])
    return case


def judged_by_the_guards(case: Case) -> Record:
    amended = amend(case.messages, case.concerned, handled_seq=case.row.handled_seq, leased=case.row.leased)
    again = [one.message for one in amended.again]
    locales = [load(name) for name in case.locales]
    return record(case, judge(amended.messages, case.facts, locales, again=again), amended)


def made(case: Case, *decisions: Judged, in_handoff: bool = False, opted_out: bool = False) -> Record:
    """The record of decisions that a test made up."""
    after = case.facts.__class__(mode=Mode.AUTO, in_handoff=in_handoff, opted_out=opted_out)
    return record(case, Judgement(judged=decisions, after=after))


async def recorded(conversations: Conversations, one: Record) -> Sequence[OutboundId] | None:
    texts = {(one.case.conversation, message): "A fixed message." for message, _ in one.notices}
    return (await conversations.record([one], texts)).get(one.case.conversation)


# Gathering


async def test_a_case_has_everything_unjudged_in_the_channel_s_order(
    place: Ground, conversations: PostgresConversations
) -> None:
    conversation = await place.conversation()
    now = (await place.now()).replace(microsecond=0)
    late = await place.wrote(conversation, "third", channel_at=now)
    early = await place.wrote(conversation, "first", channel_at=now - timedelta(seconds=9))
    same_second = await place.wrote(conversation, "fourth", channel_at=now + timedelta(milliseconds=1))
    middle = await place.wrote(conversation, "second", channel_at=now - timedelta(seconds=5))
    case = await gather_one(conversations, conversation)
    assert [one.id for one in case.messages] == [early, middle, late, same_second]
    assert case.row.unguarded == 4
    assert case.facts.mode is Mode.AUTO
    assert case.locales == ("en", "ro")
    assert case.window == timedelta(seconds=2)


async def test_what_owes_nothing_is_missing(place: Ground, conversations: PostgresConversations) -> None:
    idle, unknown = await place.conversation(), ConversationId(new_id())
    await place.said(idle)
    assert list(await conversations.gather([idle, unknown])) == []


FACTS: list[tuple[str, str, Callable[[Case], Any], Any]] = [
    ("the mode of the business", "update business set mode = 'suggest'", lambda c: c.facts.mode, Mode.SUGGEST),
    ("of the account", "update channel_account set mode = 'off'", lambda c: c.facts.mode, Mode.OFF),
    ("of the conversation", "update conversation_state set mode = 'suggest'", lambda c: c.facts.mode, Mode.SUGGEST),
    ("a handoff", "update conversation_state set state = 'handoff'", lambda c: c.facts.in_handoff, True),
    ("an opt-out", "update conversation_state set opted_out_at = now()", lambda c: c.facts.opted_out, True),
    ("a disabled account", "update channel_account set state = 'disabled'", lambda c: c.facts.account_on, False),
    ("a cap that is reached", "update business set day_cap_usd = 0", lambda c: c.facts.cap_reached, True),
    ("a cap that is not", "update business set day_cap_usd = 1", lambda c: c.facts.cap_reached, False),
    ("no cap", "select 1", lambda c: c.facts.cap_reached, False),
    ("a lease", "update conversation_state set lease_token = gen_random_uuid(), lease_until = now() + interval '9 s'",
     lambda c: c.row.leased, True),
    ("a lease that ran out",
     "update conversation_state set lease_token = gen_random_uuid(), lease_until = now() - interval '9 s'",
     lambda c: c.row.leased, False),
    ("a carrier that takes CANCEL", "update channel_account set carrier_takes_cancel = true", lambda c: c.facts.carrier_takes_cancel, True),
    ("the business's own address", "insert into channel_account (business, channel, address) select business, 'sms', user_id from channel_identity", lambda c: len(c.facts.own_addresses), 1),
    ("the number of one of its lines", "update channel_account set own_number = (select user_id from channel_identity)", lambda c: len(c.facts.own_addresses), 1),
    ("that number as WhatsApp writes it", "with x as (update channel_identity set user_id = ltrim(user_id, '+') returning user_id) update channel_account set own_number = '+' || x.user_id from x", lambda c: len(c.facts.own_addresses), 1),
    ("that number as Twilio writes it", "with x as (update channel_identity set user_id = 'whatsapp:' || user_id returning user_id) update channel_account set own_number = substr(x.user_id, 10) from x", lambda c: len(c.facts.own_addresses), 1),
    ("that number as where replies go", "with x as (update channel_identity set user_id = 'RO.1', reply_to = '40700000001' returning user_id) update channel_account set own_number = '+40700000001' from x", lambda c: len(c.facts.own_addresses), 1),
    ("what payloads name it by", "update channel_account set provider_address = (select user_id from channel_identity)", lambda c: len(c.facts.own_addresses), 1),
    ("the same of another channel", "insert into channel_account (business, channel, address, provider_address) select business, 'telegram', 'bot', user_id from channel_identity", lambda c: len(c.facts.own_addresses), 0),
    ("a number of nobody of its own", "update channel_account set own_number = '+40111111111', provider_address = '7'", lambda c: len(c.facts.own_addresses), 0),
    ("a channel without side calls", "select 1", lambda c: c.side_calls, False),
    ("one with them", "update channel_account set channel = 'telegram'", lambda c: c.side_calls, True),
    ("an edit that waits", "update conversation_state set edits_wait = true", lambda c: c.row.edits_wait, True),
    ("the settings", "update business set stale_after_s = 5, rate_per_10_min = 6, takeover_quiet_min = 7",
     lambda c: (c.facts.stale_after, c.facts.rate_per_10_min, c.facts.takeover_quiet),
     (timedelta(seconds=5), 6, timedelta(minutes=7))),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "fact", "value"), [row[1:] for row in FACTS], ids=[row[0] for row in FACTS]
)
async def test_a_case_knows(
    place: Ground, conversations: PostgresConversations, change: str, fact: Callable[[Case], Any], value: Any
) -> None:
    conversation = await place.conversation()
    await place.wrote(conversation)
    await place.owner.execute(change)
    assert fact(await gather_one(conversations, conversation)) == value


async def test_a_case_knows_what_was_said_before(place: Ground, conversations: PostgresConversations) -> None:
    conversation = await place.conversation()
    kinds = ("text", "echo", "text", "reaction", "echo", "button", "text", "echo", "system")
    for text, kind in zip("abcdefghi", kinds, strict=True):
        await place.said(conversation, text, kind=kind)
    await place.wrote(conversation)
    case = await gather_one(conversations, conversation)
    assert [said.text for said in case.facts.last_said] == ["a", "c", "g"]


@pytest.mark.parametrize(
    ("kind", "counts"), [(kind, kind in {"text", "button", "media", "unsupported"}) for kind in MessageKind]
)
async def test_only_what_the_customer_said_counts_for_the_rate(
    place: Ground, conversations: PostgresConversations, kind: MessageKind, *, counts: bool
) -> None:
    conversation = await place.conversation()
    for _ in range(3):
        await place.said(conversation, kind=kind.value)
    await place.wrote(conversation)
    case = await gather_one(conversations, conversation)
    assert case.facts.messages_in_10_min == (3 if counts else 0)


async def test_the_rate_is_that_of_the_last_ten_minutes(
    place: Ground, conversations: PostgresConversations
) -> None:
    conversation = await place.conversation()
    now = await place.now()
    for minutes in (30, 11, 9, 1):
        await place.said(conversation, received_at=now - timedelta(minutes=minutes))
    await place.wrote(conversation)
    assert (await gather_one(conversations, conversation)).facts.messages_in_10_min == 2


async def test_echoes_between_them_hide_no_messages_from_the_rate(
    place: Ground, conversations: PostgresConversations
) -> None:
    """A channel that echoes each of our replies: twenty messages of the customer's are still twenty."""
    conversation = await place.conversation()
    for _ in range(20):
        await place.said(conversation)
        await place.said(conversation, kind="echo", verdict="stored")
    await place.wrote(conversation)
    assert (await gather_one(conversations, conversation)).facts.messages_in_10_min == 20


async def test_a_case_knows_when_the_newest_answered_message_was_sent(
    place: Ground, conversations: PostgresConversations
) -> None:
    conversation = await place.conversation()
    at: datetime = (await place.now()) - timedelta(minutes=5)
    await place.said(conversation, channel_at=at)
    await place.said(conversation, verdict="stored")
    await place.said(conversation, "not answered yet")
    await place.set_state(conversation, handled_seq=2)
    await place.wrote(conversation)
    assert (await gather_one(conversations, conversation)).facts.newest_answered_at == at


async def test_an_echo_of_ours_is_told_from_a_person_s(
    place: Ground, conversations: PostgresConversations
) -> None:
    conversation = await place.conversation()
    sent = await place.outbound(conversation, "We open at nine.", state="sent")
    await place.attempt(sent, state="sent", provider_id="wamid.1")
    await place.wrote(conversation, "We open at nine.", kind="echo", channel_message_id="wamid.1")
    await place.wrote(conversation, "We open at nine.", kind="echo", channel_message_id="other")
    await place.wrote(conversation, "I will call you", kind="echo", channel_message_id="other2")
    case = await gather_one(conversations, conversation)
    assert [one.from_us for one in case.messages] == [True, True, False]


async def test_a_takeover_ends_a_quiet_hour_after_the_owner_s_last_message(
    place: Ground, conversations: PostgresConversations
) -> None:
    conversation = await place.conversation()
    spoke = (await place.now()) - timedelta(minutes=10)
    await place.said(conversation, kind="echo", verdict="stored", reason="owner_takeover", received_at=spoke)
    await place.set_state(conversation, state="handoff", handoff_epoch=1)
    business = (await place.state(conversation))["business"]
    await place.insert(
        "handoff", conversation=conversation, business=business, epoch=1, reason="owner_takeover"
    )
    await place.wrote(conversation)
    case = await gather_one(conversations, conversation)
    assert case.facts.takeover_ends_at == spoke + timedelta(minutes=60)


async def test_another_handoff_does_not_end_by_itself(
    place: Ground, conversations: PostgresConversations
) -> None:
    conversation = await place.conversation(state="handoff", handoff_epoch=1)
    business = (await place.state(conversation))["business"]
    await place.insert("handoff", conversation=conversation, business=business, epoch=1, reason="loop")
    await place.wrote(conversation)
    assert (await gather_one(conversations, conversation)).facts.takeover_ends_at is None


# Recording


async def test_a_plain_record_numbers_messages_and_owes_the_agent(
    place: Ground, conversations: PostgresConversations
) -> None:
    conversation = await place.conversation()
    first, second = (
        await place.wrote(conversation, "Hi"),
        await place.wrote(conversation, "A place on Monday?"),
    )
    one = judged_by_the_guards(await gather_one(conversations, conversation))
    assert one.plain
    assert await recorded(conversations, one) == []
    state = await place.state(conversation)
    assert (state["unguarded"], state["guarded_seq"], state["customer_seq"], state["guard_due_at"]) == (
        0,
        2,
        2,
        None,
    )
    assert state["due_at"] == one.row.due_at
    assert state["version"] == one.case.row.version + 1
    rows = {row["id"]: (row["seq"], row["verdict"]) for row in await place.rows("inbound_message")}
    assert rows == {first: (1, "turn"), second: (2, "turn")}


@pytest.mark.parametrize("full", [False, True], ids=["plain", "in full"])
async def test_nothing_is_recorded_when_the_row_changed_since(
    place: Ground, conversations: PostgresConversations, *, full: bool
) -> None:
    conversation = await place.conversation()
    message = await place.wrote(conversation)
    case = await gather_one(conversations, conversation)
    decision = Judged(
        message=message, verdict=Verdict.HANDOFF if full else Verdict.TURN, customer_spoke=True, handoff=full,
        reason=Reason.HANDOFF_REQUESTED if full else None, notice=Notice.HANDOFF_REQUESTED if full else None,
    )  # fmt: skip
    one = made(case, decision, in_handoff=full)
    assert one.plain is not full
    await place.wrote(conversation, "Another")
    before = await place.state(conversation)
    assert await recorded(conversations, one) is None
    assert await place.state(conversation) == before
    assert {row["seq"] for row in await place.rows("inbound_message")} == {None}
    assert not await place.rows("outbound")
    assert not await place.rows("handoff")


async def test_the_guard_subtracts_what_it_judged(
    place: Ground, conversations: PostgresConversations
) -> None:
    """It does not zero: a message that this snapshot did not have stays owed, and is rung at once."""
    conversation = await place.conversation()
    message = await place.wrote(conversation)
    case = await gather_one(conversations, conversation)
    await place.set_state(conversation, unguarded=2)
    one = made(case, Judged(message=message, verdict=Verdict.TURN, customer_spoke=True))
    assert await recorded(conversations, one) == []
    state = await place.state(conversation)
    assert state["unguarded"] == 1
    assert state["guard_due_at"] <= await place.now()


async def test_two_guards_at_once_judge_a_message_once(
    place: Ground, conversations: PostgresConversations
) -> None:
    cases = []
    for _ in range(6):
        conversation = await place.conversation()
        await place.wrote(conversation)
        cases.append(conversation)
    one = [judged_by_the_guards(case) for case in await conversations.gather(cases)]
    other = [judged_by_the_guards(case) for case in await conversations.gather(cases[::-1])]
    async with asyncio.TaskGroup() as group:
        records = [group.create_task(conversations.record(batch, {})) for batch in (one, other)]
    done = [conversation for task in records for conversation in task.result()]
    assert sorted(done) == sorted(cases)
    assert {row["guarded_seq"] for row in await place.rows("conversation_state")} == {1}


async def test_a_record_that_waited_is_refused_when_another_judged_meanwhile(
    place: Ground, conversations: PostgresConversations
) -> None:
    account = await place.account()
    blocked, finished = sorted([await place.conversation(account) for _ in range(2)])
    for conversation in (blocked, finished):
        await place.wrote(conversation)
    ours = [judged_by_the_guards(case) for case in await conversations.gather([blocked, finished])]
    theirs = judged_by_the_guards(await gather_one(conversations, finished))
    async with asyncio.TaskGroup() as group, place.held("conversation_state", "conversation", [blocked]):
        waiting = group.create_task(conversations.record(ours, {}))
        await eventually(lambda: place.waiting("record"))
        assert await recorded(conversations, theirs) == []
    assert list(waiting.result()) == [blocked]
    assert (await place.state(finished))["guarded_seq"] == 1


async def test_a_mixed_batch_is_recorded_whole(place: Ground, conversations: PostgresConversations) -> None:
    plain, handed = await place.conversation(), await place.conversation()
    await place.wrote(plain, "Hi")
    await place.wrote(handed, "I want a human")
    records = [judged_by_the_guards(case) for case in await conversations.gather([plain, handed])]
    texts = {(one.case.conversation, message): "Text" for one in records for message, _ in one.notices}
    done = await conversations.record(records, texts)
    assert set(done) == {plain, handed}
    assert (len(done[plain]), len(done[handed])) == (0, 1)


async def test_a_handoff_is_recorded_with_its_notice(
    place: Ground, conversations: PostgresConversations
) -> None:
    conversation = await place.conversation()
    message = await place.wrote(conversation, "I want a human")
    notices = await recorded(
        conversations, judged_by_the_guards(await gather_one(conversations, conversation))
    )
    state = await place.state(conversation)
    assert (state["state"], state["handoff_epoch"], state["due_at"], state["handled_seq"]) == (
        "handoff",
        1,
        None,
        1,
    )
    handoff = await place.row("handoff")
    assert (handoff["reason"], handoff["epoch"], handoff["released_at"]) == ("handoff_requested", 1, None)
    notice = await place.row("outbound")
    assert [notice["id"]] == list(notices or [])
    assert (notice["origin_kind"], notice["origin"], notice["epoch"], notice["body"]) == (
        "notice", message, 1, "A fixed message.",
    )  # fmt: skip
    assert notice["ring_at"] is not None


async def test_an_opt_out_ends_the_action_and_its_prompt(
    place: Ground, conversations: PostgresConversations
) -> None:
    conversation = await place.conversation()
    cause = await place.said(conversation, "Book Monday")
    prompt = await place.outbound(conversation, "Monday?")
    await place.action(conversation, prompt=prompt, turn=await place.turn(conversation, cause))
    await place.wrote(conversation, "STOP")
    await recorded(conversations, judged_by_the_guards(await gather_one(conversations, conversation)))
    assert (await place.state(conversation))["opted_out_at"] is not None
    assert (await place.row("pending_action"))["state"] == "cleared"
    assert (await place.row("outbound"))["state"] == "discarded"


async def test_a_sent_prompt_of_an_action_that_ends_stays_sent(
    place: Ground, conversations: PostgresConversations
) -> None:
    conversation = await place.conversation()
    cause = await place.said(conversation, "Book Monday")
    prompt = await place.outbound(conversation, "Monday?", state="sent")
    await place.action(conversation, prompt=prompt, turn=await place.turn(conversation, cause))
    await place.wrote(conversation, "STOP")
    await recorded(conversations, judged_by_the_guards(await gather_one(conversations, conversation)))
    assert (await place.row("outbound"))["state"] == "sent"


async def test_drafts_the_customer_wrote_past_are_superseded_with_their_actions(
    place: Ground, conversations: PostgresConversations
) -> None:
    conversation = await place.conversation()
    cause = await place.said(conversation, "Book Monday")
    prompt = await place.outbound(conversation, "Monday?", state="draft")
    await place.action(conversation, prompt=prompt, turn=await place.turn(conversation, cause))
    receipt = await place.outbound(conversation, "Booked.", state="draft", receipt=True)
    operators = await place.outbound(conversation, "Wait", state="draft", origin_kind="operator")
    queued = await place.outbound(conversation, "On its way")
    await place.wrote(conversation, "Or on Tuesday")
    await recorded(conversations, judged_by_the_guards(await gather_one(conversations, conversation)))
    states = {row["id"]: row["state"] for row in await place.rows("outbound")}
    assert states == {prompt: "superseded", receipt: "draft", operators: "draft", queued: "queued"}
    assert (await place.row("pending_action"))["state"] == "superseded"


async def test_a_prompt_that_may_have_arrived_can_still_be_answered(
    place: Ground, conversations: PostgresConversations
) -> None:
    conversation = await place.conversation()
    cause = await place.said(conversation, "Book Monday")
    prompt = await place.outbound(conversation, "Monday?", state="draft", reason="may_have_arrived")
    await place.action(conversation, prompt=prompt, turn=await place.turn(conversation, cause))
    reply = await place.outbound(conversation, "Hello", state="draft", reason="may_have_arrived")
    await place.wrote(conversation, "Yes")
    await recorded(conversations, judged_by_the_guards(await gather_one(conversations, conversation)))
    states = {row["id"]: row["state"] for row in await place.rows("outbound")}
    assert states == {prompt: "draft", reply: "superseded"}
    assert (await place.row("pending_action"))["state"] == "customer"


async def test_another_conversation_s_drafts_and_actions_are_left_alone(
    place: Ground, conversations: PostgresConversations
) -> None:
    conversation, other = await place.conversation(), await place.conversation()
    cause = await place.said(other, "Book Monday")
    prompt = await place.outbound(other, "Monday?", state="draft")
    await place.action(other, prompt=prompt, turn=await place.turn(other, cause))
    await place.wrote(conversation, "STOP")
    await recorded(conversations, judged_by_the_guards(await gather_one(conversations, conversation)))
    assert (await place.row("pending_action"))["state"] == "customer"
    assert (await place.row("outbound"))["state"] == "draft"


async def test_flags_are_raised_once(place: Ground, conversations: PostgresConversations) -> None:
    conversation = await place.conversation()
    message = await place.wrote(conversation, kind="media", body="x-ray")
    await recorded(conversations, judged_by_the_guards(await gather_one(conversations, conversation)))
    flag = await place.row("flag")
    assert (flag["message"], flag["reason"], flag["dismissed_at"]) == (message, "media", None)


async def test_an_owner_s_takeover_that_ran_out_is_released(
    place: Ground, conversations: PostgresConversations
) -> None:
    conversation = await place.conversation()
    spoke = (await place.now()) - timedelta(hours=2)
    await place.said(
        conversation, kind="echo", verdict="stored", reason="owner_takeover", received_at=spoke, due=False
    )
    await place.set_state(conversation, state="handoff", handoff_epoch=1, handled_seq=1)
    business = (await place.state(conversation))["business"]
    await place.insert(
        "handoff", conversation=conversation, business=business, epoch=1, reason="owner_takeover"
    )
    await place.wrote(conversation, "Are you there?")
    await recorded(conversations, judged_by_the_guards(await gather_one(conversations, conversation)))
    state = await place.state(conversation)
    assert (state["state"], state["handoff_epoch"]) == ("bot", 2)
    assert state["due_at"] is not None
    assert state["released_at"] is not None
    assert (await place.row("handoff"))["released_at"] is not None


# What fails, and what is due


async def test_a_suspect_is_counted_while_it_owes_and_anew_after_it_was_judged(
    place: Ground, conversations: PostgresConversations
) -> None:
    conversation = await place.conversation()
    assert await conversations.count(conversation) == 0
    await place.wrote(conversation)
    assert [await conversations.count(conversation) for _ in range(3)] == [1, 2, 3]
    await recorded(conversations, judged_by_the_guards(await gather_one(conversations, conversation)))
    await place.wrote(conversation)
    assert await conversations.count(conversation) == 1


async def test_a_count_does_not_change_the_version(
    place: Ground, conversations: PostgresConversations
) -> None:
    conversation = await place.conversation()
    await place.wrote(conversation)
    before = (await place.state(conversation))["version"]
    await conversations.count(conversation)
    assert (await place.state(conversation))["version"] == before


async def test_what_is_given_up_goes_to_people_with_one_message(
    place: Ground, conversations: PostgresConversations
) -> None:
    conversation = await place.conversation()
    cause = await place.said(conversation, "Book Monday")
    prompt = await place.outbound(conversation, "Monday?")
    await place.action(conversation, prompt=prompt, turn=await place.turn(conversation, cause))
    await place.wrote(conversation, "Boom")
    await place.wrote(conversation, "Boom again")
    notice = await conversations.give_up(conversation, "A colleague will look.")
    state = await place.state(conversation)
    assert (state["state"], state["handoff_epoch"], state["unguarded"], state["due_at"]) == (
        "handoff",
        1,
        0,
        None,
    )
    assert (state["guarded_seq"], state["customer_seq"], state["handled_seq"]) == (3, 3, 3)
    assert state["guard_due_at"] is None
    messages = await place.rows("inbound_message", order="seq")
    assert [(row["seq"], row["reason"]) for row in messages] == [
        (1, None), (2, "processing_failed"), (3, "processing_failed"),
    ]  # fmt: skip
    assert (await place.row("handoff"))["reason"] == "processing_failed"
    assert (await place.row("dead"))["stage"] == "guard"
    assert (await place.row("pending_action"))["state"] == "cleared"
    states = {row["id"]: row["state"] for row in await place.rows("outbound")}
    assert states == {prompt: "discarded", notice: "queued"}
    assert await conversations.give_up(conversation, "again") is None


async def test_what_is_given_up_twice_over_time_is_among_the_dead_again(
    place: Ground, conversations: PostgresConversations
) -> None:
    conversation = await place.conversation()
    for _ in range(2):
        await place.wrote(conversation)
        assert await conversations.give_up(conversation, "Sorry.") is not None
        await place.owner.execute("update dead set settled_at = coalesce(settled_at, null)")
    assert (await place.row("dead"))["settled_at"] is None
    assert len(await place.rows("handoff")) == 2


async def test_the_due_are_rung_oldest_first_and_not_again_for_ten_seconds(
    place: Ground, conversations: PostgresConversations
) -> None:
    first, second = await place.conversation(), await place.conversation()
    assert not await conversations.anything_due()
    for conversation, age in ((second, 1), (first, 2)):
        await place.wrote(conversation)
        await place.set_state(conversation, guard_due_at=await place.now() - timedelta(seconds=age))
    assert await conversations.anything_due()
    before = (await place.state(first))["version"]
    assert list(await conversations.ring_due(most=1)) == [first]
    assert list(await conversations.ring_due(most=10)) == [second]
    assert not await conversations.anything_due()
    assert (await place.state(first))["version"] == before, "a ring changes nothing that is known"


async def test_what_another_process_is_ringing_is_skipped(
    place: Ground, conversations: PostgresConversations
) -> None:
    held, free = await place.conversation(), await place.conversation()
    for conversation in (held, free):
        await place.wrote(conversation)
    async with place.held("conversation_state", "conversation", [held]):
        assert list(await conversations.ring_due(most=10)) == [free]


@pytest.mark.parametrize(("known", "locale"), [(None, "en"), ("ro", "ro")])
async def test_a_conversation_s_language(
    place: Ground, conversations: PostgresConversations, known: str | None, locale: str
) -> None:
    conversation = await place.conversation(locale=known)
    assert await conversations.locale(conversation) == locale
    assert await conversations.locale(ConversationId(new_id())) is None


# What waits for an operator, and what is owed to a decision


async def waits_for_operator(place: Ground, conversation: ConversationId) -> ActionId:
    cause = await place.said(conversation, "Cancel Monday")
    notice = await place.outbound(conversation, "A colleague has to approve this.", state="sent")
    turn = await place.turn(conversation, cause)
    action = await place.action(conversation, prompt=notice, turn=turn, state="operator", asked="operator")
    await place.set_state(conversation, handled_seq=1, due_at=None)
    return action


@pytest.mark.parametrize(
    ("text", "state"), [("STOP", "cleared"), ("I want a human", "operator"), ("And?", "operator")]
)
async def test_only_an_opt_out_ends_what_waits_for_an_operator(
    place: Ground, conversations: PostgresConversations, text: str, state: str
) -> None:
    conversation = await place.conversation()
    await waits_for_operator(place, conversation)
    await place.wrote(conversation, text)
    case = await gather_one(conversations, conversation)
    assert case.action_waits_for_operator
    await recorded(conversations, judged_by_the_guards(case))
    assert (await place.row("pending_action"))["state"] == state


async def test_a_draft_of_its_notice_that_is_superseded_leaves_it_waiting(
    place: Ground, conversations: PostgresConversations
) -> None:
    conversation = await place.conversation()
    await waits_for_operator(place, conversation)
    await place.owner.execute("update outbound set state = 'draft'")
    await place.wrote(conversation, "Hello?")
    await recorded(conversations, judged_by_the_guards(await gather_one(conversations, conversation)))
    assert (await place.row("outbound"))["state"] == "superseded"
    assert (await place.row("pending_action"))["state"] == "operator"


@pytest.mark.parametrize(
    ("text", "is_due"),
    [("A question", True), ("Liked “ok”", True), ("I want a human", False), ("STOP", False)],
)
async def test_a_judgement_keeps_a_decision_due_as_long_as_the_bot_may_speak(
    place: Ground, conversations: PostgresConversations, text: str, is_due: bool
) -> None:
    conversation = await place.conversation()
    await waits_for_operator(place, conversation)
    decision = new_id()
    await place.set_state(conversation, decision_owed=decision, due_at=await place.now())
    await place.wrote(conversation, text)
    case = await gather_one(conversations, conversation)
    assert case.row.decision_owed
    await recorded(conversations, judged_by_the_guards(case))
    state = await place.state(conversation)
    assert state["decision_owed"] == decision
    assert (state["due_at"] is not None and state["due_at"] <= await place.now()) is is_due


async def test_who_opts_in_again_has_their_decision_due(
    place: Ground, conversations: PostgresConversations
) -> None:
    conversation = await place.conversation()
    await waits_for_operator(place, conversation)
    await place.set_state(conversation, decision_owed=new_id(), due_at=None, opted_out_at=await place.now())
    await place.wrote(conversation, "START")
    await recorded(conversations, judged_by_the_guards(await gather_one(conversations, conversation)))
    state = await place.state(conversation)
    assert (state["opted_out_at"], state["due_at"] is not None) == (None, True)


# The cap


@pytest.mark.parametrize(("used", "reached"), [("0.99", False), ("1.00", True)])
async def test_a_day_s_cap_is_reached_by_what_was_reserved_for_it(
    place: Ground, conversations: PostgresConversations, used: str, reached: bool
) -> None:
    business = await place.business(day_cap_usd=Decimal(1))
    conversation = await place.conversation(await place.account(business))
    today = await place.owner.fetchval("select (now() at time zone 'Europe/Bucharest')::date")
    await place.insert("budget", business=business, day=today, used_usd=Decimal(used))
    await place.insert("budget", business=business, day=today - timedelta(days=1), used_usd=Decimal(9))
    await place.wrote(conversation)
    assert (await gather_one(conversations, conversation)).facts.cap_reached is reached


# Edits and deletions

ORIGINAL = "on-the-channel"


async def amends(place: Ground, conversation: ConversationId, text: str = "Book at 11", *, of: str = ORIGINAL, **columns: Any) -> MessageId:  # fmt: skip
    """An edit of what is named so, or the deletion of it, as ingest leaves it."""
    return await place.wrote(conversation, text, **({"kind": "edit", "quoted": of} | columns))


async def told(place: Ground, message: MessageId) -> dict[str, Any]:
    row = await place.row("inbound_message", id=message)
    return {name: row[name] for name in ("seq", "kind", "body", "verdict", "reason", "edited_to")} | {
        "edited": row["edited_at"] is not None,
        "deleted": row["deleted_at"] is not None,
    }


async def guarded(conversations: PostgresConversations, conversation: ConversationId) -> Record:
    one = judged_by_the_guards(await gather_one(conversations, conversation))
    assert await recorded(conversations, one) is not None
    return one


async def with_payload(place: Ground, message: MessageId) -> None:
    business = (await place.row("inbound_message", id=message))["business"]
    await place.insert("inbound_payload", message=message, business=business, raw=b"as it came")


async def test_an_edit_of_what_is_not_judged_replaces_its_text(
    place: Ground, conversations: PostgresConversations
) -> None:
    conversation = await place.conversation()
    original = await place.wrote(conversation, "Book at 10", channel_message_id=ORIGINAL)
    edit = await amends(place, conversation)
    await guarded(conversations, conversation)
    assert await told(place, original) == {
        "seq": 1, "kind": "text", "body": "Book at 11", "verdict": "turn", "reason": None,
        "edited_to": None, "edited": True, "deleted": False,
    }  # fmt: skip
    row = await told(place, edit)
    assert (row["seq"], row["verdict"], row["reason"]) == (2, "stored", "edit")


async def test_an_edit_of_what_no_turn_has_taken_is_judged_again_under_its_seq(
    place: Ground, conversations: PostgresConversations
) -> None:
    conversation = await place.conversation()
    original = await place.said(conversation, "Book at 10", channel_message_id=ORIGINAL)
    await place.said(conversation, "please")
    await amends(place, conversation, "STOP")
    await guarded(conversations, conversation)
    row = await told(place, original)
    assert (row["seq"], row["body"], row["verdict"], row["reason"]) == (1, "STOP", "consent", "opt_out")
    state = await place.state(conversation)
    assert state["opted_out_at"] is not None
    assert (state["due_at"], state["handled_seq"], state["unguarded"]) == (None, 2, 0)


@pytest.mark.parametrize("how", ["taken", "under way"])
async def test_an_edit_of_what_a_turn_has_taken_stands_beside_it(
    place: Ground, conversations: PostgresConversations, how: str
) -> None:
    conversation = await place.conversation()
    original = await place.said(conversation, "Book at 10", channel_message_id=ORIGINAL)
    if how == "taken":
        await place.set_state(conversation, handled_seq=1, due_at=None)
    else:
        await place.leased(conversation)
    before = await place.state(conversation)
    await amends(place, conversation)
    await guarded(conversations, conversation)
    assert await told(place, original) == {
        "seq": 1, "kind": "text", "body": "Book at 10", "verdict": "turn", "reason": None,
        "edited_to": "Book at 11", "edited": True, "deleted": False,
    }  # fmt: skip
    assert (await place.state(conversation))["due_at"] == before["due_at"]


async def test_a_second_edit_replaces_the_first_wherever_that_stood(
    place: Ground, conversations: PostgresConversations
) -> None:
    """The first came while a turn was under way that then did not take the message; an empty text is one, too."""
    conversation = await place.conversation()
    original = await place.said(conversation, "Book at 10", channel_message_id=ORIGINAL)
    await place.leased(conversation)
    for text in ("Book at 11", ""):
        await amends(place, conversation, text)
        await guarded(conversations, conversation)
        assert (await told(place, original))["edited_to"] == text
    await place.set_state(conversation, lease_token=None, lease_until=None)
    await amends(place, conversation, "Book at 12")
    await guarded(conversations, conversation)
    row = await told(place, original)
    assert (row["body"], row["edited_to"]) == ("Book at 12", None)


@pytest.mark.parametrize("handled", [0, 1], ids=["not taken", "taken"])
async def test_a_deletion_takes_the_words_away_everywhere(
    place: Ground, conversations: PostgresConversations, handled: int
) -> None:
    conversation = await place.conversation()
    original = await place.said(
        conversation, "my secret", channel_message_id=ORIGINAL, edited_to="my other secret"
    )
    await place.set_state(conversation, handled_seq=handled)
    edit = await amends(place, conversation, "my other secret")
    await guarded(conversations, conversation)
    for message in (original, edit):
        await with_payload(place, message)
    gone = await amends(place, conversation, "", kind="deletion")
    await with_payload(place, gone)
    await guarded(conversations, conversation)
    for message in (original, edit):
        row = await told(place, message)
        assert (row["body"], row["edited_to"], row["deleted"]) == ("", None, True)
    raws = {row["message"]: row["raw"] for row in await place.rows("inbound_payload")}
    assert raws == {original: b"", edit: b"", gone: b"as it came"}
    assert (await place.state(conversation))["due_at"] is None
    assert (await told(place, original))["verdict"] == ("turn" if handled else "stored")


async def test_an_edit_that_came_first_waits_for_its_original(
    place: Ground, conversations: PostgresConversations
) -> None:
    conversation = await place.conversation()
    await amends(place, conversation)
    await guarded(conversations, conversation)
    assert (await place.state(conversation))["edits_wait"]
    await place.wrote(conversation, "Are you open?")
    await guarded(conversations, conversation)
    assert (await place.state(conversation))["edits_wait"], "that was another one"
    original = await place.wrote(conversation, "Book at 10", channel_message_id=ORIGINAL)
    await guarded(conversations, conversation)
    row = await told(place, original)
    assert (row["body"], row["edited"], row["verdict"]) == ("Book at 11", True, "turn")
    assert not (await place.state(conversation))["edits_wait"]


async def test_an_edit_of_another_conversation_s_message_changes_nothing_there(
    place: Ground, conversations: PostgresConversations
) -> None:
    account = await place.account()
    theirs, ours = await place.conversation(account), await place.conversation(account)
    original = await place.said(theirs, "Book at 10", channel_message_id=ORIGINAL)
    await amends(place, ours, "STOP")
    await guarded(conversations, ours)
    assert (await told(place, original))["body"] == "Book at 10"
    assert (await place.state(theirs))["opted_out_at"] is None


@pytest.mark.parametrize("waits_for", ["customer", "operator"])
@pytest.mark.parametrize("kind", ["edit", "deletion"])
async def test_an_edit_of_what_an_action_came_from_ends_it_with_its_unsent_prompt(
    place: Ground, conversations: PostgresConversations, waits_for: str, kind: str
) -> None:
    conversation = await place.conversation()
    original = await place.said(conversation, "Book at 10", channel_message_id=ORIGINAL)
    turn = await place.turn(conversation, original)
    await place.set_state(conversation, handled_seq=1, due_at=None)
    prompt = await place.outbound(conversation, "Book: 10?")
    action = await place.action(conversation, prompt=prompt, turn=turn, state=waits_for)
    await amends(place, conversation, kind=kind)
    await guarded(conversations, conversation)
    row = await place.row("pending_action", id=action)
    assert (row["state"], row["reason"]) == ("cleared", "edited")
    assert (await place.row("outbound", id=prompt))["state"] == "discarded"


@pytest.mark.parametrize(
    ("of", "executing"), [("another-message", False), (ORIGINAL, True)], ids=["not what it came from", "called for"]
)  # fmt: skip
async def test_an_action_stays_that_did_not_come_from_it_or_may_have_happened(
    place: Ground, conversations: PostgresConversations, of: str, *, executing: bool
) -> None:
    conversation = await place.conversation()
    original = await place.said(conversation, "Book at 10", channel_message_id=ORIGINAL)
    await place.said(conversation, "Thanks", channel_message_id="another-message")
    turn = await place.turn(conversation, original)
    await place.set_state(conversation, handled_seq=2, due_at=None)
    since = await place.now() if executing else None
    prompt = await place.outbound(conversation, "Book: 10?")
    action = await place.action(conversation, prompt=prompt, turn=turn, executing_since=since)
    await amends(place, conversation, of=of)
    await guarded(conversations, conversation)
    assert (await place.row("pending_action", id=action))["state"] == "customer"


async def test_an_edit_is_recorded_whole_or_not_at_all(
    place: Ground, conversations: PostgresConversations
) -> None:
    conversation = await place.conversation()
    original = await place.said(conversation, "Book at 10", channel_message_id=ORIGINAL)
    await amends(place, conversation)
    one = judged_by_the_guards(await gather_one(conversations, conversation))
    await place.wrote(conversation, "Another")
    assert await recorded(conversations, one) is None
    assert (await told(place, original))["body"] == "Book at 10"
