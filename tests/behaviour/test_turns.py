"""What the record of turns promises the agent, on Postgres: one turn at a time, fenced, and nothing lost in a race."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import asyncpg
import pytest

from services.agent.adapters.postgres_turns import PostgresTurns
from services.agent.core.gate import Dials, LevelSet
from services.agent.core.turn import PromptState, Turn
from services.agent.ports import (
    Receipt,
    Share,
    TurnState,
)
from shared.autonomy import Asked, Mode
from shared.ids import ActionId, CallId, ConversationId, new_id
from shared.messages import Verdict
from tests.support.eventually import eventually
from tests.support.factories import Ground
from tests.support.turns_on_postgres import (
    ANYONE,
    call,
    claim_one,
    new_action,
    receipt_for,
    record_of,
    reply,
    running,
    self_asked,
    turns_of,
)

pytestmark = pytest.mark.postgres

# Claiming


async def test_what_is_due_is_claimed_with_all_that_the_turn_needs(
    place: Ground, turns: PostgresTurns
) -> None:
    conversation = await place.conversation()
    await place.said(conversation, "Hi")
    await place.said(conversation, "A place on Monday?")
    turn = await claim_one(turns, conversation)
    assert [one.text for one in turn.taken.messages] == ["Hi", "A place on Monday?"]
    assert turn.taken.seq_to == 2
    assert (turn.attempt, turn.fruitless) == (1, 1)
    assert turn.mode is Mode.AUTO
    assert turn.locale == "en"
    state = await place.state(conversation)
    assert state["lease_token"] == turn.token
    assert state["lease_worker"] == 1
    assert state["due_at"] is not None, "claiming does not clear the debt"


BARRED = {
    "it is not due yet": "due_at = now() + interval '1 s'",
    "nothing is owed": "due_at = null",
    "a message is not judged": "unguarded = 1",
    "people have it": "state = 'handoff'",
    "the customer opted out": "opted_out_at = now()",
    "another has the lease": "lease_token = gen_random_uuid(), lease_worker = 2, lease_until = now() + interval '9 s'",
    "all was handled": "handled_seq = 1",
}


@pytest.mark.parametrize("change", BARRED.values(), ids=BARRED)
async def test_nothing_is_claimed_while(place: Ground, turns: PostgresTurns, change: str) -> None:
    conversation = await place.conversation()
    await place.said(conversation)
    await place.owner.execute(f"update conversation_state set {change}")
    before = await place.state(conversation)
    assert not await turns.claim([conversation], ANYONE)
    assert await place.state(conversation) == before


async def test_a_lease_that_ran_out_is_taken_over_by_the_same_turn(
    place: Ground, turns: PostgresTurns
) -> None:
    conversation = await place.conversation()
    await place.said(conversation)
    first = await claim_one(turns, conversation)
    await place.owner.execute("update conversation_state set lease_until = now() - interval '1 s'")
    second = await claim_one(turns, conversation)
    assert second.id == first.id
    assert second.token != first.token
    assert (second.attempt, second.fruitless) == (2, 2)


async def test_a_ticket_that_comes_twice_is_one_claim(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    await place.said(conversation)
    assert len(await turns.claim([conversation, conversation], ANYONE)) == 1


async def test_two_workers_at_once_claim_a_conversation_once(place: Ground, turns: PostgresTurns) -> None:
    conversations = [await place.conversation() for _ in range(8)]
    for conversation in conversations:
        await place.said(conversation)
    other = turns_of(place, worker=2)
    async with asyncio.TaskGroup() as group:
        claims = [
            group.create_task(turns.claim(conversations, ANYONE)),
            group.create_task(other.claim(conversations[::-1], ANYONE)),
        ]
    claimed = [turn.conversation for task in claims for turn in task.result()]
    assert sorted(claimed) == sorted(conversations)


async def test_of_one_business_only_its_share_is_claimed(place: Ground, turns: PostgresTurns) -> None:
    account, other = await place.account(), await place.account()
    ours = [await place.conversation(account) for _ in range(4)]
    theirs = await place.conversation(other)
    for conversation in (*ours, theirs):
        await place.said(conversation)
    business = (await place.state(ours[0]))["business"]
    claimed = await turns.claim([*ours, theirs], Share(most=3, under_way={business: 1}))
    assert len([turn for turn in claimed if turn.business.id == business]) == 2
    assert theirs in [turn.conversation for turn in claimed]


async def test_due_names_what_is_owed_oldest_first_and_not_more_than_a_share(
    place: Ground, turns: PostgresTurns
) -> None:
    account = await place.account()
    first, second, third = [await place.conversation(account) for _ in range(3)]
    for conversation in (third, first, second):
        await place.said(conversation)
    for age, conversation in enumerate((third, second, first), start=1):
        await place.set_state(conversation, due_at=await place.now() - timedelta(seconds=age))
    assert list(await turns.due(ANYONE, most=10)) == [first, second, third]
    assert list(await turns.due(ANYONE, most=2)) == [first, second]
    assert list(await turns.due(Share(most=1), most=10)) == [first]


# Races: a lock held on one row of the batch, while another worker finishes its work on a later one


async def in_order(place: Ground, count: int = 2) -> list[ConversationId]:
    """Conversations of one account in the order in which statements lock them."""
    account = await place.account()
    return sorted([await place.conversation(account) for _ in range(count)])


async def test_a_claim_that_waited_does_not_take_up_a_turn_that_another_ended_meanwhile(
    place: Ground, turns: PostgresTurns
) -> None:
    """The other's turn took what came before a press; the press is still due, since when the first message was."""
    blocked, finished = await in_order(place)
    await place.said(blocked)
    await place.said(finished, "First")
    await place.said(finished, "Confirm", kind="button", button="pa:x:1:confirm")
    other = turns_of(place, worker=2)
    async with asyncio.TaskGroup() as group, place.held("conversation_state", "conversation", [blocked]):
        waiting = group.create_task(turns.claim([blocked, finished], ANYONE))
        await eventually(lambda: place.waiting("claim"))
        async with running(other):
            theirs = await claim_one(other, finished)
            assert [one.text for one in theirs.taken.messages] == ["First"]
            assert (await other.commit(reply(theirs))).again
    ours = {turn.conversation: turn for turn in waiting.result()}
    assert blocked in ours
    ended = await place.row("turn", id=theirs.id)
    assert (ended["state"], ended["attempts"]) == ("done", 1)
    await assert_every_lease_is_in_hand(place, waiting.result())
    turn = ours[finished] if finished in ours else await claim_one(turns, finished)
    assert turn.id != theirs.id
    assert [one.text for one in turn.taken.messages] == ["Confirm"]


async def test_a_claim_that_waited_takes_up_a_turn_that_another_gave_back_meanwhile(
    place: Ground, turns: PostgresTurns
) -> None:
    """The turn exists by then, though the statement began before it did."""
    blocked, given_back = await in_order(place)
    await place.said(blocked)
    await place.said(given_back)
    other = turns_of(place, worker=2)
    async with asyncio.TaskGroup() as group, place.held("conversation_state", "conversation", [blocked]):
        waiting = group.create_task(turns.claim([blocked, given_back], ANYONE))
        await eventually(lambda: place.waiting("claim"))
        theirs = await claim_one(other, given_back)
        await other.give_back(theirs, timedelta())
    await assert_every_lease_is_in_hand(place, waiting.result())
    ours = {turn.conversation: turn for turn in waiting.result()}
    if given_back in ours:
        assert ours[given_back].id == theirs.id
        assert ours[given_back].attempt == 2


async def test_a_turn_ends_at_the_last_message_it_was_given(place: Ground, turns: PostgresTurns) -> None:
    """A message judged while the claim waited is not in the turn, so it must not count as handled."""
    blocked, grows = await in_order(place)
    await place.said(blocked)
    await place.said(grows, "First")
    async with asyncio.TaskGroup() as group, place.held("conversation_state", "conversation", [blocked]):
        waiting = group.create_task(turns.claim([blocked, grows], ANYONE))
        await eventually(lambda: place.waiting("claim"))
        await place.said(grows, "Second")
    turn = next(turn for turn in waiting.result() if turn.conversation == grows)
    assert [one.text for one in turn.taken.messages] == ["First"]
    committed = await turns.commit(reply(turn))
    assert committed.again
    assert (await place.state(grows))["handled_seq"] == 1
    following = await claim_one(turns, grows)
    assert [one.text for one in following.taken.messages] == ["Second"]


async def assert_every_lease_is_in_hand(place: Ground, claimed: Sequence[Turn]) -> None:
    """A lease that nobody knows of would hold its conversation for half a minute."""
    tokens = {turn.token for turn in claimed}
    rows = await place.rows("conversation_state")
    assert {row["lease_token"] for row in rows if row["lease_token"]} == tokens


# Ending a turn


async def test_a_commit_queues_the_reply_and_clears_the_debt(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    await place.said(conversation)
    turn = await claim_one(turns, conversation)
    commit = reply(turn, "Hello!")
    committed = await turns.commit(commit)
    assert (committed.written, committed.live, committed.again) == (True, True, False)
    state = await place.state(conversation)
    assert (state["handled_seq"], state["due_at"], state["lease_token"]) == (1, None, None)
    queued = await place.row("outbound", id=commit.outbound)
    assert (queued["state"], queued["body"], queued["basis_seq"], queued["epoch"]) == (
        "queued",
        "Hello!",
        1,
        0,
    )
    assert queued["ring_at"] is not None
    assert (await place.row("turn", id=turn.id))["state"] == "done"


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "full"])
async def test_a_lost_lease_writes_nothing(place: Ground, turns: PostgresTurns, *, plain: bool) -> None:
    conversation = await place.conversation()
    await place.said(conversation)
    turn = await claim_one(turns, conversation)
    await place.owner.execute("update conversation_state set lease_until = now() - interval '1 s'")
    theirs = await claim_one(turns_of(place, worker=2), conversation)
    last = call(turn.open_call or CallId(new_id())) if plain else None
    commit = reply(turn, "Too late", last_call=last)
    assert commit.plain is plain
    committed = await turns.commit(commit)
    assert not committed.written
    assert not await place.rows("outbound")
    assert (await place.state(conversation))["lease_token"] == theirs.token


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "full"])
async def test_a_message_that_came_meanwhile_leaves_the_conversation_due(
    place: Ground, turns: PostgresTurns, *, plain: bool
) -> None:
    conversation = await place.conversation()
    await place.said(conversation, "First")
    turn = await claim_one(turns, conversation)
    assert turn.open_call is not None
    await place.said(conversation, "Second")
    last = call(turn.open_call) if plain else None
    assert (await turns.commit(reply(turn, last_call=last))).again
    assert [one.text for one in (await claim_one(turns, conversation)).taken.messages] == ["Second"]


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "full"])
async def test_a_turn_handed_off_meanwhile_is_cut_off_without_a_reply(
    place: Ground, turns: PostgresTurns, *, plain: bool
) -> None:
    conversation = await place.conversation()
    await place.said(conversation)
    turn = await claim_one(turns, conversation)
    assert turn.open_call is not None
    await place.set_state(conversation, state="handoff", handoff_epoch=1)
    last = call(turn.open_call) if plain else None
    committed = await turns.commit(reply(turn, last_call=last))
    assert (committed.written, committed.live) == (True, False)
    assert not await place.rows("outbound")
    assert (await place.row("turn", id=turn.id))["state"] == "cut_off"
    assert (await place.state(conversation))["due_at"] is None


async def test_a_batch_of_plain_commits_closes_calls_and_stores_answers(
    place: Ground, turns: PostgresTurns
) -> None:
    conversations = [await place.conversation() for _ in range(5)]
    for conversation in conversations:
        await place.said(conversation)
    claimed = await turns.claim(conversations, ANYONE)
    async with asyncio.TaskGroup() as group:
        commits = [
            group.create_task(turns.commit(reply(turn, f"Reply {at}", last_call=call(turn.open_call))))
            for at, turn in enumerate(claimed)
            if turn.open_call
        ]
    assert all(task.result().written for task in commits)
    assert len(commits) == len(await place.rows("outbound")) == len(await place.rows("iteration")) == 5
    assert {row["state"] for row in await place.rows("llm_call")} == {"done"}


async def test_a_handoff_takes_all_that_was_said(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    await place.said(conversation)
    turn = await claim_one(turns, conversation)
    await place.said(conversation, "And another thing")
    committed = await turns.commit(reply(turn, "A colleague will answer.", handoff="model_failed"))
    assert committed.live
    state = await place.state(conversation)
    assert (state["state"], state["handoff_epoch"], state["handled_seq"], state["due_at"]) == (
        "handoff",
        1,
        2,
        None,
    )
    assert (await place.row("handoff"))["reason"] == "model_failed"
    queued = await place.row("outbound")
    assert queued["epoch"] == 1, "the notice of the handoff belongs to it, and goes out"


async def test_a_turn_given_up_is_among_the_dead(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    await place.said(conversation)
    turn = await claim_one(turns, conversation)
    await turns.commit(reply(turn, state=TurnState.FAILED, handoff="processing_failed", dead=True))
    dead = await place.row("dead")
    assert (dead["stage"], dead["subject"], dead["settled_at"]) == ("agent", turn.id, None)


async def test_a_new_action_replaces_the_one_that_waited(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    asked = await self_asked(place, turns, conversation)
    await place.said(conversation, "No, on Tuesday")
    turn = await claim_one(turns, conversation)
    assert turn.pending is not None
    assert turn.pending.id == asked
    new = new_action()
    await turns.commit(reply(turn, "Tuesday?", asks=new, ends=asked, ends_as="replaced"))
    states = {row["id"]: row["state"] for row in await place.rows("pending_action")}
    assert states == {asked: "replaced", new.id: "customer"}
    prompts = {row["body"]: row["state"] for row in await place.rows("outbound")}
    assert prompts == {"Monday?": "discarded", "Tuesday?": "queued"}, (
        "an action that ends discards its unsent prompt"
    )


async def test_a_repeated_commit_changes_nothing(place: Ground, turns: PostgresTurns) -> None:
    """The answer to the first was lost; the lease is gone with it."""
    conversation = await place.conversation()
    await place.said(conversation)
    turn = await claim_one(turns, conversation)
    commit = reply(turn)
    assert (await turns.commit(commit)).written
    before = await place.rows("outbound"), await place.state(conversation)
    assert not (await turns.commit(commit)).written
    assert (await place.rows("outbound"), await place.state(conversation)) == before


# Prompts


PROMPTS = {
    "queued": PromptState.QUEUED,
    "draft": PromptState.DRAFT,
    "sending": PromptState.SENDING,
    "unknown": PromptState.UNKNOWN,
    "sent": PromptState.SENT,
    "delivered": PromptState.SENT,
    "read": PromptState.SENT,
}


@pytest.mark.parametrize(("state", "prompt"), PROMPTS.items(), ids=PROMPTS)
async def test_a_pending_action_comes_with_how_far_its_prompt_is(
    place: Ground, turns: PostgresTurns, state: str, prompt: PromptState
) -> None:
    conversation = await place.conversation()
    asked = await self_asked(place, turns, conversation)
    outbound = await place.row("outbound")
    await place.set("outbound", {"id": outbound["id"]}, state=state)
    if state not in ("queued", "draft"):
        await place.attempt(outbound["id"], at_send_seq=1)
    await place.said(conversation, "Yes")
    turn = await claim_one(turns, conversation)
    assert turn.pending is not None
    assert turn.pending.prompt is not None
    assert (turn.pending.id, turn.pending.prompt.state) == (asked, prompt)
    assert (turn.pending.prompt.at_send_seq is None) is (state in ("queued", "draft"))
    assert turn.open_call is None, "whether the model is asked is not known yet"


async def test_a_draft_of_a_prompt_that_may_have_arrived_is_one_of_unknown_outcome(
    place: Ground, turns: PostgresTurns
) -> None:
    conversation = await place.conversation()
    await self_asked(place, turns, conversation)
    prompt = await place.row("outbound")
    await place.set("outbound", {"id": prompt["id"]}, state="draft", reason="may_have_arrived")
    await place.said(conversation, "Yes")
    turn = await claim_one(turns, conversation)
    assert turn.pending is not None
    assert turn.pending.prompt is not None
    assert turn.pending.prompt.state is PromptState.UNKNOWN


@pytest.mark.parametrize("state", ["superseded", "discarded"])
async def test_an_action_whose_prompt_ended_by_itself_does_not_stop_the_turn(
    place: Ground, turns: PostgresTurns, state: str
) -> None:
    """It can't be (they end together), but a conversation must not stand still over it."""
    conversation = await place.conversation()
    await self_asked(place, turns, conversation)
    await place.owner.execute("update outbound set state = $1", state)
    await place.said(conversation, "Yes")
    turn = await claim_one(turns, conversation)
    assert turn.pending is None


# Calls


async def test_a_call_is_written_before_it_is_made_and_closed_after(
    place: Ground, turns: PostgresTurns
) -> None:
    conversation = await place.conversation()
    await place.said(conversation)
    turn = await claim_one(turns, conversation)
    assert turn.open_call is not None
    assert (await place.row("llm_call", id=turn.open_call))["state"] == "started"
    await turns.end_call(turn, call(turn.open_call, answer='{"text":null}'))
    row = await place.row("llm_call", id=turn.open_call)
    assert (row["state"], row["input_tokens"], row["cost_usd"]) == ("done", 100, Decimal("0.001"))
    second = CallId(new_id())
    going = await turns.begin_call(turn, second, n=2, try_=1, reserved=Decimal("0.02"), tools=[record_of()])
    assert going is not None
    assert going.customer_seq == 1
    assert (await place.row("llm_call", id=second))["reserved_usd"] == Decimal("0.02")
    assert (await place.row("tool_call"))["result"] == "{}"


STOPS = {
    "the lease is another's": "lease_token = gen_random_uuid()",
    "people took over": "state = 'handoff', handoff_epoch = 1",
    "taken over and released": "handoff_epoch = 2",
    "the customer opted out": "opted_out_at = now()",
    "the mode is off": "mode = 'off'",
}


@pytest.mark.parametrize("change", STOPS.values(), ids=STOPS)
async def test_no_call_begins_when(place: Ground, turns: PostgresTurns, change: str) -> None:
    conversation = await place.conversation()
    await place.said(conversation)
    turn = await claim_one(turns, conversation)
    await place.owner.execute(f"update conversation_state set {change}")
    begun = await turns.begin_call(turn, CallId(new_id()), n=2, try_=1, reserved=None, tools=())
    assert begun is None
    assert len(await place.rows("llm_call")) == 1


@pytest.mark.parametrize("table", ["business", "channel_account"])
async def test_no_call_begins_when_the_mode_above_it_is_off(
    place: Ground, turns: PostgresTurns, table: str
) -> None:
    conversation = await place.conversation()
    await place.said(conversation)
    turn = await claim_one(turns, conversation)
    await place.owner.execute(f"update {table} set mode = 'off'")
    assert await turns.begin_call(turn, CallId(new_id()), n=2, try_=1, reserved=None, tools=()) is None


async def test_a_call_is_closed_without_the_lease_but_its_answer_is_not_stored(
    place: Ground, turns: PostgresTurns
) -> None:
    conversation = await place.conversation()
    await place.said(conversation)
    turn = await claim_one(turns, conversation)
    assert turn.open_call is not None
    await place.owner.execute("update conversation_state set lease_token = gen_random_uuid()")
    await turns.end_call(turn, call(turn.open_call))
    assert (await place.row("llm_call"))["state"] == "done", "it was spent"
    assert not await place.rows("iteration")


async def test_a_reclaimed_turn_finds_what_was_stored_and_starts_its_count_anew(
    place: Ground, turns: PostgresTurns
) -> None:
    conversation = await place.conversation()
    await place.said(conversation)
    turn = await claim_one(turns, conversation)
    assert turn.open_call is not None
    await turns.end_call(turn, call(turn.open_call, answer='{"text":"first"}'))
    record = record_of(result="[]")
    await turns.begin_call(turn, CallId(new_id()), n=2, try_=1, reserved=None, tools=[record])
    await turns.give_back(turn, timedelta())
    again = await claim_one(turns, conversation)
    assert again.id == turn.id
    assert again.stored_answers == ('{"text":"first"}',)
    assert [(one.tool, one.result) for one in again.stored_calls] == [("find_slots", "[]")]
    assert (again.attempt, again.fruitless) == (2, 1)


async def test_a_reclaimed_turn_of_another_model_starts_anew(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    await place.said(conversation)
    turn = await claim_one(turns, conversation)
    assert turn.open_call is not None
    await turns.end_call(turn, call(turn.open_call))
    await turns.give_back(turn, timedelta())
    again = await claim_one(turns_of(place, model="another"), conversation)
    assert again.stored_answers == ()


async def test_calls_that_nobody_closes_are_lost_and_count_as_reserved(
    place: Ground, turns: PostgresTurns
) -> None:
    conversation = await place.conversation()
    await place.said(conversation)
    turn = await claim_one(turns, conversation)
    await turns.begin_call(turn, CallId(new_id()), n=2, try_=1, reserved=Decimal("0.02"), tools=())
    assert await turns.lose_calls() == 0
    await place.owner.execute("update llm_call set started_at = now() - interval '181 s'")
    assert await turns.lose_calls() == 2
    assert {row["state"] for row in await place.rows("llm_call")} == {"lost"}


# Leases


async def test_a_released_turn_is_due_later_and_its_attempt_does_not_count(
    place: Ground, turns: PostgresTurns
) -> None:
    conversation = await place.conversation()
    await place.said(conversation)
    turn = await claim_one(turns, conversation)
    await turns.release(turn, timedelta(seconds=60))
    assert not await turns.claim([conversation], ANYONE)
    state = await place.state(conversation)
    assert state["lease_token"] is None
    assert state["due_at"] > await place.now() + timedelta(seconds=50)
    await place.set_state(conversation, due_at=await place.now())
    assert (await claim_one(turns, conversation)).fruitless == 1


async def test_a_turn_given_back_counts_its_attempts(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    await place.said(conversation)
    for attempt in range(1, 5):
        turn = await claim_one(turns, conversation)
        assert turn.fruitless == attempt
        await turns.give_back(turn, timedelta())


@pytest.mark.parametrize("how", ["release", "give_back"])
async def test_a_lease_that_is_another_s_is_not_given_back(
    place: Ground, turns: PostgresTurns, how: str
) -> None:
    conversation = await place.conversation()
    await place.said(conversation)
    turn = await claim_one(turns, conversation)
    await place.owner.execute("update conversation_state set lease_token = gen_random_uuid()")
    before = await place.state(conversation)
    await getattr(turns, how)(turn, timedelta())
    assert await place.state(conversation) == before


async def test_a_heartbeat_extends_our_leases_and_tells_which_are_lost(
    place: Ground, turns: PostgresTurns
) -> None:
    kept, lost = await place.conversation(), await place.conversation()
    for conversation in (kept, lost):
        await place.said(conversation)
    claimed = {turn.conversation: turn for turn in await turns.claim([kept, lost], ANYONE)}
    await place.set_state(kept, lease_until=await place.now() + timedelta(seconds=1))
    await place.set_state(lost, lease_token=new_id())
    before = await place.state(kept)
    ours = await turns.heartbeat([(turn.conversation, turn.token) for turn in claimed.values()])
    assert ours == {claimed[kept].token}
    after = await place.state(kept)
    assert after["lease_until"] > await place.now() + timedelta(seconds=20)
    assert after["version"] == before["version"], "a heartbeat changes nothing that is known or allowed"


async def test_the_leases_of_a_dead_worker_are_void_at_once(place: Ground, turns: PostgresTurns) -> None:
    dead, alive = await place.conversation(), await place.conversation()
    for conversation in (dead, alive):
        await place.said(conversation)
    await claim_one(turns_of(place, worker=7), dead)
    theirs = await claim_one(turns_of(place, worker=8), alive)
    assert sorted(await turns.leaseholders()) == [7, 8]
    assert list(await turns.void_leases(7)) == [dead]
    assert (await claim_one(turns, dead)).attempt == 2
    assert (await place.state(alive))["lease_token"] == theirs.token


# Executing


async def test_an_execution_locks_the_action_as_it_is_stored(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    asked = await self_asked(place, turns, conversation, call_n=1, call_position=0)
    await place.said(conversation, "Yes")
    turn = await claim_one(turns, conversation)
    message = turn.taken.messages[0].id
    async with turns.execution(turn) as execution:
        locked = await execution.lock(asked)
        assert locked is not None
        assert locked.pending is not None
        assert (locked.pending.digest, locked.confirmations) == (b"d", 0)
        assert await execution.confirm(asked, message) == 1
        assert await execution.confirm(asked, message) == 1, "one message is one confirmation"
        await execution.receipt(receipt_for(asked))
        commit = reply(turn, "Done.", receipt=True, ends=asked, ends_as="executed")
        assert (await execution.commit(commit)).written
    assert await turns.receipt_of(asked) == "{}"
    assert (await place.row("pending_action"))["state"] == "executed"
    assert (await place.row("outbound", id=commit.outbound))["receipt"] is True


async def test_an_execution_sees_what_was_changed_since_the_claim(
    place: Ground, turns: PostgresTurns
) -> None:
    """Levels, modes and the action are read under the lock; a tampered row shows as it is."""
    conversation = await place.conversation()
    asked = await self_asked(place, turns, conversation)
    await place.said(conversation, "Yes")
    turn = await claim_one(turns, conversation)
    assert turn.dials == Dials(mode=Mode.AUTO)
    await place.insert(
        "tool_level", business=turn.business.id, tool="book_appointment", level=1, asked="both", set_by="test"
    )
    await place.owner.execute("update channel_account set mode = 'suggest'")
    await place.owner.execute("update pending_action set arguments = 'other', step = 2, repeats = 1")
    async with turns.execution(turn) as execution:
        locked = await execution.lock(asked)
    assert locked is not None
    assert locked.pending is not None
    assert locked.dials == Dials(
        mode=Mode.SUGGEST, levels={"book_appointment": LevelSet(level=1, asked=Asked.BOTH)}
    )
    assert (locked.pending.arguments, locked.pending.step, locked.pending.repeats) == ("other", 2, 1)


NOT_OURS = {
    "the lease is another's": "update conversation_state set lease_token = gen_random_uuid()",
    "people took over": "update conversation_state set state = 'handoff'",
    "taken over and released": "update conversation_state set handoff_epoch = 1",
    "the customer opted out": "update conversation_state set opted_out_at = now()",
    "the action ended": "update pending_action set state = 'cleared'",
    "it waits for an operator by now": "update pending_action set state = 'operator'",
}


@pytest.mark.parametrize("change", NOT_OURS.values(), ids=NOT_OURS)
async def test_nothing_is_executed_when(place: Ground, turns: PostgresTurns, change: str) -> None:
    conversation = await place.conversation()
    asked = await self_asked(place, turns, conversation)
    await place.said(conversation, "Yes")
    turn = await claim_one(turns, conversation)
    await place.owner.execute(change)
    async with turns.execution(turn) as execution:
        assert await execution.lock(asked) is None


@pytest.mark.parametrize("table", ["business", "channel_account", "conversation_state"])
async def test_an_execution_sees_that_the_mode_is_off(
    place: Ground, turns: PostgresTurns, table: str
) -> None:
    conversation = await place.conversation()
    asked = await self_asked(place, turns, conversation)
    await place.said(conversation, "Yes")
    turn = await claim_one(turns, conversation)
    await place.owner.execute(f"update {table} set mode = 'off'")
    async with turns.execution(turn) as execution:
        locked = await execution.lock(asked)
        assert locked is not None
        assert locked.dials.mode is Mode.OFF


async def test_an_execution_that_raises_leaves_nothing(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    asked = await self_asked(place, turns, conversation)
    await place.said(conversation, "Yes")
    turn = await claim_one(turns, conversation)
    with pytest.raises(ZeroDivisionError):
        await execute_and_raise(turns, turn, asked)
    assert await turns.receipt_of(asked) is None
    assert not await place.rows("confirmation")


async def execute_and_raise(turns: PostgresTurns, turn: Turn, action: ActionId) -> None:
    async with turns.execution(turn) as execution:
        assert await execution.lock(action) is not None
        await execution.confirm(action, turn.taken.messages[0].id)
        await execution.receipt(receipt_for(action))
        await execution.record(record_of())
        raise ZeroDivisionError


async def test_an_action_has_one_receipt_for_ever(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    asked = await self_asked(place, turns, conversation)
    await place.said(conversation, "Yes")
    turn = await claim_one(turns, conversation)
    await store_receipt(turns, turn, receipt_for(asked))
    with pytest.raises(asyncpg.UniqueViolationError):
        await store_receipt(turns, turn, receipt_for(asked, result='{"again":1}'))
    assert len(await place.rows("receipt")) == 1


async def store_receipt(turns: PostgresTurns, turn: Turn, receipt: Receipt) -> None:
    async with turns.execution(turn) as execution:
        await execution.receipt(receipt)


async def test_an_allowed_call_s_receipt_and_record_are_one_transaction(
    place: Ground, turns: PostgresTurns
) -> None:
    conversation = await place.conversation()
    await place.said(conversation, "On Monday")
    turn = await claim_one(turns, conversation)
    key = ActionId(new_id())
    async with turns.execution(turn) as execution:
        locked = await execution.lock(None)
        assert locked is not None
        assert locked.pending is None
        await execution.receipt(receipt_for(key))
        await execution.record(record_of(tool="book_appointment", result='{"done":{}}', why='{"level":3}'))
    assert await turns.receipt_of(key) == "{}"
    assert [one.action for one in await turns.receipts_of(turn)] == [key]
    stored = await place.row("tool_call")
    assert (stored["result"], stored["why"]) == ('{"done":{}}', '{"level":3}')
    await turns.give_back(turn, timedelta())
    again = await claim_one(turns, conversation)
    assert again.fruitless == 1, "something was stored: the attempt was not for nothing"
    assert [(one.tool, one.result) for one in again.stored_calls] == [("book_appointment", '{"done":{}}')]
    assert [one.action for one in await turns.receipts_of(again)] == [key]


@pytest.mark.parametrize("change", list(NOT_OURS.values())[:4], ids=list(NOT_OURS)[:4])
async def test_an_allowed_call_does_not_run_when(place: Ground, turns: PostgresTurns, change: str) -> None:
    conversation = await place.conversation()
    await place.said(conversation)
    turn = await claim_one(turns, conversation)
    await place.owner.execute(change)
    async with turns.execution(turn) as execution:
        assert await execution.lock(None) is None


@pytest.mark.parametrize(("state", "reason"), [("unknown", "no_answer"), ("draft", "may_have_arrived")])
async def test_a_press_settles_a_prompt_of_unknown_outcome(
    place: Ground, turns: PostgresTurns, state: str, reason: str
) -> None:
    conversation = await place.conversation()
    await self_asked(place, turns, conversation)
    prompt = await place.row("outbound")
    await place.set("outbound", {"id": prompt["id"]}, state=state, reason=reason)
    await place.said(conversation, "Confirm", kind="button")
    turn = await claim_one(turns, conversation)
    async with turns.execution(turn) as execution:
        await execution.settle_prompt(prompt["id"])
    assert (await place.row("outbound"))["state"] == "sent"


async def test_what_is_no_text_for_postgres_is_stored_as_near_as_can_be(
    place: Ground, turns: PostgresTurns
) -> None:
    conversation = await place.conversation()
    await place.said(conversation)
    turn = await claim_one(turns, conversation)
    record = record_of(call_id="c\x00", tool="x\ud83d", arguments='{"\x00": 1}', decision="refuse")
    await turns.commit(replace(reply(turn, "a\x00"), text="a\x00\ud83db", tools=(record,)))
    assert (await place.row("outbound"))["body"] == "a\ufffd\ufffdb"
    assert (await place.row("tool_call"))["arguments"] == '{"\ufffd": 1}'


async def test_the_guard_s_verdicts_decide_what_a_turn_takes(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    await place.said(conversation, "STOP", verdict="consent")
    await place.said(conversation, "Hello")
    await place.said(conversation, "old", verdict="stored")
    turn = await claim_one(turns, conversation)
    assert [one.text for one in turn.taken.messages] == ["Hello"]
    assert turn.taken.seq_to == 3
    assert [one.verdict for one in turn.messages] == [Verdict.CONSENT, Verdict.TURN, Verdict.STORED]
