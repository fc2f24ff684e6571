"""What the record shows the metrics of what waits, on Postgres: what people and stages are owed, and nothing that is not."""

from datetime import timedelta
from typing import Any

import pytest

from services.ingest.adapters.postgres_standing import PostgresStanding
from services.ingest.core.standing import Found, What
from shared.ids import BusinessId, ConversationId, new_id
from tests.support.factories import Ground

pytestmark = pytest.mark.postgres

SLACK_S = 5.0  # of a busy machine


@pytest.fixture
async def conversation(place: Ground) -> ConversationId:
    return await place.conversation(await place.account(await place.business(slug="clinic")))


async def ago(place: Ground, seconds: float) -> Any:
    return await place.now() - timedelta(seconds=seconds)


async def looked(place: Ground, what: What) -> dict[tuple[str, ...], Found]:
    found = await PostgresStanding(place.database).look()
    return {one.labels: one for one in found if one.what is what}


async def owed(place: Ground, stage: str) -> tuple[int, float]:
    one = (await looked(place, What.OWED))[(stage,)]
    return one.number, one.oldest_s


def is_about(age: float, seconds: float) -> bool:
    return 0 <= age - seconds <= SLACK_S


# People


async def test_drafts_by_business_with_the_age_of_the_oldest(
    place: Ground, conversation: ConversationId
) -> None:
    other = await place.conversation(await place.account(await place.business(slug="garage")))
    for age, state in ((900, "draft"), (60, "draft"), (9_000, "sent"), (9_000, "queued")):
        await place.outbound(conversation, state=state, created_at=await ago(place, age))
    await place.outbound(other, state="draft")
    drafts = await looked(place, What.DRAFT)
    assert {labels: one.number for labels, one in drafts.items()} == {("clinic",): 2, ("garage",): 1}
    assert is_about(drafts["clinic",].oldest_s, 900)


async def test_a_business_without_drafts_is_not_there(place: Ground, conversation: ConversationId) -> None:
    await place.outbound(conversation, state="draft")
    await place.set("outbound", {"conversation": conversation}, state="discarded")
    assert not await looked(place, What.DRAFT)


async def test_approvals_wait_from_the_customer_s_yes(place: Ground, conversation: ConversationId) -> None:
    message = await place.said(conversation)
    turn = await place.turn(conversation, message)
    prompt = await place.outbound(conversation, state="sent")
    made = {"prompt": prompt, "turn": turn, "created_at": await ago(place, 500)}
    action = await place.action(conversation, state="operator", **made)
    assert is_about((await looked(place, What.APPROVAL))["clinic",].oldest_s, 500)
    await place.insert(
        "confirmation",
        action=action,
        business=await business_of(place, conversation),
        message=message,
        step=1,
        at=await ago(place, 100),
    )
    assert is_about((await looked(place, What.APPROVAL))["clinic",].oldest_s, 100)
    await place.set("pending_action", {"id": action}, decision=new_id(), decided="approved")
    assert not await looked(place, What.APPROVAL), "it was decided"


async def test_handoffs_open_claimed_or_not_and_none_that_is_no_longer_the_conversation_s(
    place: Ground, conversation: ConversationId
) -> None:
    account = (await place.row("conversation", id=conversation))["account"]
    cases = [("bot", 1, None), ("handoff", 2, None), ("handoff", 1, None), ("handoff", 1, "ana")]
    for n, (state, epoch, claimed_by) in enumerate(cases):
        one = await place.conversation(account, state=state, handoff_epoch=epoch)
        await place.insert(
            "handoff",
            conversation=one,
            business=await business_of(place, one),
            epoch=1,
            reason="model",
            claimed_by=claimed_by,
            opened_at=await ago(place, 100 * n),
        )
    handoffs = await looked(place, What.HANDOFF)
    assert {labels: one.number for labels, one in handoffs.items()} == {
        ("clinic", "no"): 1,
        ("clinic", "yes"): 1,
    }
    assert is_about(handoffs["clinic", "no"].oldest_s, 200)
    assert is_about(handoffs["clinic", "yes"].oldest_s, 300)


async def business_of(place: Ground, conversation: ConversationId) -> BusinessId:
    business: BusinessId = (await place.row("conversation", id=conversation))["business"]
    return business


# Stages


async def test_nothing_is_owed_where_nothing_is(place: Ground, conversation: ConversationId) -> None:
    for stage in ("ingest", "guard", "agent", "dispatch"):
        assert await owed(place, stage) == (0, 0.0)


async def test_the_guard_owes_the_oldest_message_however_often_it_was_rung_for(
    place: Ground, conversation: ConversationId
) -> None:
    await place.wrote(conversation, received_at=await ago(place, 300))
    await place.wrote(conversation)
    await place.set_state(conversation, guard_due_at=await ago(place, -10))
    number, age = await owed(place, "guard")
    assert number == 1
    assert is_about(age, 300)


async def test_what_came_just_now_is_on_its_way_and_not_owed(
    place: Ground, conversation: ConversationId
) -> None:
    await place.wrote(conversation)
    await place.outbound(conversation)
    other = await place.conversation()
    await place.said(other)
    assert await owed(place, "guard") == await owed(place, "agent") == await owed(place, "dispatch") == (0, 0)


async def test_the_agent_owes_what_is_due(place: Ground, conversation: ConversationId) -> None:
    await place.said(conversation)
    await place.set_state(conversation, due_at=await ago(place, 70))
    number, age = await owed(place, "agent")
    assert number == 1
    assert is_about(age, 70)


NOT_OWED = {
    "a turn is under way": "lease_token = gen_random_uuid(), lease_until = now() + interval '9 s'",
    "it is due later": "due_at = now() + interval '9 s'",
    "a message is not judged yet": "unguarded = 1",
    "people have it": "state = 'handoff'",
    "the customer opted out": "opted_out_at = now()",
}


@pytest.mark.parametrize("change", NOT_OWED.values(), ids=NOT_OWED)
async def test_it_owes_nothing_while(place: Ground, conversation: ConversationId, change: str) -> None:
    await place.said(conversation)
    await place.set_state(conversation, due_at=await ago(place, 70))
    await place.owner.execute(f"update conversation_state set {change}")
    assert await owed(place, "agent") == (0, 0)


async def test_a_lease_that_ran_out_leaves_it_owed(place: Ground, conversation: ConversationId) -> None:
    await place.said(conversation)
    await place.leased(conversation, seconds=-1)
    await place.set_state(conversation, due_at=await ago(place, 70))
    assert (await owed(place, "agent"))[0] == 1


async def test_dispatch_owes_what_is_queued_however_often_it_was_rung_for(
    place: Ground, conversation: ConversationId
) -> None:
    rung = await ago(place, -10)
    await place.outbound(conversation, created_at=await ago(place, 40), ring_at=rung)
    number, age = await owed(place, "dispatch")
    assert number == 1
    assert is_about(age, 40)


async def test_a_reply_that_is_to_wait_is_owed_from_then_on(
    place: Ground, conversation: ConversationId
) -> None:
    created = await ago(place, 900)
    await place.outbound(conversation, created_at=created, not_before=await ago(place, 30))
    assert is_about((await owed(place, "dispatch"))[1], 30)
    await place.set("outbound", {"conversation": conversation}, not_before=await ago(place, -30))
    assert await owed(place, "dispatch") == (0, 0)


async def test_replies_of_an_account_that_is_off_are_not_owed(
    place: Ground, conversation: ConversationId
) -> None:
    await place.outbound(conversation, created_at=await ago(place, 900))
    await place.owner.execute("update channel_account set state = 'disabled'")
    assert await owed(place, "dispatch") == (0, 0)
    assert (await looked(place, What.ACCOUNT))["sim", "disabled"].number == 1


async def test_of_a_channel_that_has_accounts_it_is_said_that_none_is_off(
    place: Ground, conversation: ConversationId
) -> None:
    accounts = await looked(place, What.ACCOUNT)
    assert {labels: one.number for labels, one in accounts.items()} == {
        ("sim", "on"): 1,
        ("sim", "disabled"): 0,
    }


async def test_ingest_owes_media_and_statuses_that_are_due(
    place: Ground, conversation: ConversationId
) -> None:
    business, message = await business_of(place, conversation), await place.said(conversation)
    part = {"message": message, "business": business, "kind": "audio", "state": "due"}
    await place.insert("media_part", n=1, due_at=await ago(place, 20), **part)
    await place.insert("media_part", n=2, due_at=await ago(place, -20), **part)
    account = (await place.row("conversation", id=conversation))["account"]
    held = {"id": new_id(), "business": business, "account": account, "status": "sent"}
    await place.insert("held_status", due_at=await ago(place, 50), **held)
    number, age = await owed(place, "ingest")
    assert number == 2
    assert is_about(age, 50)


async def test_the_dead_that_nobody_settled_by_stage(place: Ground, conversation: ConversationId) -> None:
    row = {"business": await business_of(place, conversation), "conversation": conversation, "reason": "x"}
    for stage, settled_at in (("guard", None), ("guard", None), ("agent", None), ("agent", "now")):
        at = await place.now() if settled_at else None
        await place.insert("dead", id=new_id(), stage=stage, subject=new_id(), settled_at=at, **row)
    dead = await looked(place, What.DEAD)
    assert {labels: one.number for labels, one in dead.items()} == {("guard",): 2, ("agent",): 1}
