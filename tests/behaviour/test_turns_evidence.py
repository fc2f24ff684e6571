"""What the record promises of evidence, on Postgres: one envelope a turn, behind the one before, and no way to change one unseen."""

import json
from collections.abc import Sequence
from typing import Any

import asyncpg
import pytest

from services.agent.adapters.postgres_turns import PostgresTurns
from services.agent.core.turn import Chain, Turn
from services.agent.ports import AsksAgain, TurnState
from shared.evidence import Envelope, Found, check
from shared.ids import CallId, ConversationId, new_id
from tests.support.factories import Ground
from tests.support.turns_on_postgres import (
    ANYONE,
    call,
    claim_one,
    new_action,
    receipt_for,
    reply,
    turns_of,
)

pytestmark = pytest.mark.postgres


async def rows(place: Ground, conversation: ConversationId) -> Sequence[Any]:
    return await place.rows("envelope", order="n", conversation=conversation)


async def chain(place: Ground, conversation: ConversationId) -> list[Envelope]:
    return [
        Envelope(n=row["n"], header=row["header"], digest=row["digest"], parts=row["parts"])
        for row in await rows(place, conversation)
    ]


async def is_whole(place: Ground, conversation: ConversationId, length: int) -> bool:
    """The chain holds, and it is as long, and ends, as the conversation's row says."""
    envelopes, state = await chain(place, conversation), await place.state(conversation)
    ends = (state["chain_length"], state["chain_head"])
    return check(envelopes) == [Found.WHOLE] * length and ends == (length, envelopes[-1].digest)


async def said(place: Ground, turns: PostgresTurns, conversation: ConversationId, text: str = "Hi") -> Turn:
    await place.said(conversation, text)
    return await claim_one(turns, conversation)


async def a_life(place: Ground, turns: PostgresTurns, conversation: ConversationId) -> None:
    """Five turns of every kind: plain, asking, asking again, executed, handed over."""
    plain = await said(place, turns, conversation)
    assert plain.open_call is not None
    commit = reply(plain, last_call=call(plain.open_call))
    assert commit.plain
    await turns.commit(commit)
    action = new_action()
    await turns.commit(reply(await said(place, turns, conversation, "Monday"), "Monday?", asks=action))
    again = AsksAgain(action=action.id, step=1, repeats=1, clock_from=None)
    await turns.commit(reply(await said(place, turns, conversation, "ok"), "YES or NO?", asks_again=again))
    turn = await said(place, turns, conversation, "Yes")
    async with turns.execution(turn) as execution:
        await execution.lock(action.id)
        await execution.receipt(receipt_for(action.id))
        await execution.commit(reply(turn, "Booked.", receipt=True, ends=action.id, ends_as="executed"))
    await turns.commit(reply(await said(place, turns, conversation, "A person!"), "Yes.", handoff="model"))


async def test_a_conversation_s_chain_grows_by_one_a_turn(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    await a_life(place, turns, conversation)
    assert await is_whole(place, conversation, 5)
    turn_ids = {row["id"] for row in await place.rows("turn")}
    assert {row["turn"] for row in await rows(place, conversation)} == turn_ids


async def test_a_turn_begins_where_the_chain_ends(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    first = await said(place, turns, conversation)
    assert first.chain == Chain(length=0, head=None)
    commit = reply(first)
    await turns.commit(commit)
    assert commit.sealed is not None
    following = await said(place, turns, conversation)
    assert following.chain == Chain(length=1, head=commit.sealed.digest)


async def test_each_conversation_has_a_chain_of_its_own(place: Ground, turns: PostgresTurns) -> None:
    one, other = await place.conversation(), await place.conversation()
    for conversation in (one, other, one):
        await turns.commit(reply(await said(place, turns, conversation)))
    assert await is_whole(place, one, 2)
    assert await is_whole(place, other, 1)


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "full"])
async def test_a_turn_that_was_cut_off_is_evidence_too(
    place: Ground, turns: PostgresTurns, *, plain: bool
) -> None:
    conversation = await place.conversation()
    turn = await said(place, turns, conversation)
    await place.set_state(conversation, state="handoff", handoff_epoch=1)
    last = call(turn.open_call or CallId(new_id())) if plain else None
    assert not (await turns.commit(reply(turn, last_call=last))).live
    assert await is_whole(place, conversation, 1)


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "full"])
async def test_a_lost_lease_adds_nothing_to_the_chain(
    place: Ground, turns: PostgresTurns, *, plain: bool
) -> None:
    conversation = await place.conversation()
    turn = await said(place, turns, conversation)
    await place.owner.execute("update conversation_state set lease_until = now() - interval '1 s'")
    theirs = await claim_one(turns_of(place, worker=2), conversation)
    last = call(turn.open_call or CallId(new_id())) if plain else None
    await turns.commit(reply(turn, last_call=last))
    assert await chain(place, conversation) == []
    await turns.commit(reply(theirs))
    assert await is_whole(place, conversation, 1)


async def test_a_turn_superseded_or_failed_or_silent_is_evidence_too(
    place: Ground, turns: PostgresTurns
) -> None:
    conversation = await place.conversation()
    silent = {"outbound": None, "text": None}
    for fields in ({"state": TurnState.SUPERSEDED, **silent}, {"outcome": "stopped", **silent}):
        await turns.commit(reply(await said(place, turns, conversation), **fields))
    failed = reply(
        await said(place, turns, conversation), state=TurnState.FAILED, handoff="processing_failed", dead=True
    )
    await turns.commit(failed)
    assert await is_whole(place, conversation, 3)


TAMPERED = {
    "a text": "update envelope set parts = replace(parts, 'Monday', 'Tuesday') where n = 2",
    "a fact": "update envelope set header = replace(header, 'reply', 'other') where n = 2",
    "a digest": "update envelope set digest = '\\x00' where n = 2",
    "a place": "update envelope set n = 9 where n = 2",
    "two places": "update envelope set n = case n when 2 then 103 else 102 end where n in (2, 3); update envelope set n = n - 100 where n > 100",
    "a salt": "update envelope set parts = jsonb_set(parts::jsonb, '{inputs,salt}', '\"00\"')::text where n = 2",
    "one taken out": "delete from envelope where n = 2",
    "the first taken out": "delete from envelope where n = 1",
    "one given to another turn of the chain": "update envelope set header = (select header from envelope where n = 3) where n = 2",
}


@pytest.mark.parametrize("change", TAMPERED.values(), ids=TAMPERED)
async def test_whatever_is_changed_is_found(place: Ground, turns: PostgresTurns, change: str) -> None:
    conversation = await place.conversation()
    await a_life(place, turns, conversation)
    await place.owner.execute(change)
    assert Found.TAMPERED in check(await chain(place, conversation))


async def test_the_end_cut_off_is_found_by_the_row(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    await a_life(place, turns, conversation)
    await place.owner.execute("delete from envelope where n = 5")
    envelopes, state = await chain(place, conversation), await place.state(conversation)
    assert (len(envelopes), envelopes[-1].digest) != (state["chain_length"], state["chain_head"])


async def test_an_envelope_names_its_turn_conversation_and_business(
    place: Ground, turns: PostgresTurns
) -> None:
    """The columns beside it are for finding it; what it says of itself is under the digest."""
    conversation = await place.conversation()
    await a_life(place, turns, conversation)
    for row in await rows(place, conversation):
        header = json.loads(row["header"])
        assert (header["turn"], header["conversation"], header["business"]) == (
            str(row["turn"]), str(row["conversation"]), row["business"],
        )  # fmt: skip


async def test_no_name_and_no_text_is_outside_the_parts(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    turn = await said(place, turns, conversation, "My secret")
    await turns.commit(reply(turn, "Our answer"))
    (row,) = await rows(place, conversation)
    for words in ("My secret", "Our answer", "Ana"):
        assert words in row["parts"]
        assert words not in row["header"]


@pytest.mark.parametrize("role", ["leeway_pipeline", "leeway_tenant"])
@pytest.mark.parametrize("statement", ["update envelope set parts = '{}'", "delete from envelope"])
async def test_nobody_but_the_owner_can_change_one(
    place: Ground, turns: PostgresTurns, role: str, statement: str
) -> None:
    conversation = await place.conversation()
    await turns.commit(reply(await said(place, turns, conversation)))
    async with place.owner.transaction():
        await place.owner.execute(f"set local role {role}")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with place.owner.transaction():
                await place.owner.execute(statement)


async def test_a_page_of_a_prompt_is_kept_once(place: Ground, turns: PostgresTurns) -> None:
    business = await place.business()
    for _ in range(2):
        await turns.keep_page(business, b"digest", "Open.\x00")
    page = await place.row("prompt_page")
    assert (page["business"], page["digest"], page["body"]) == (business, b"digest", "Open.\ufffd")


async def test_the_chain_costs_the_plain_turn_no_index(place: Ground) -> None:
    """A row of the state is updated in place (HOT) as long as no index has a column that changes."""
    indexed = await place.owner.fetch(
        "select a.attname from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey) "
        "where i.indrelid = 'conversation_state'::regclass"
    )
    assert {row["attname"] for row in indexed} <= {"conversation", "business", "due_at", "guard_due_at"}


async def test_an_action_and_its_evidence_are_one_transaction(place: Ground, turns: PostgresTurns) -> None:
    conversation = await place.conversation()
    action = new_action()
    await turns.commit(reply(await said(place, turns, conversation, "Monday"), "Monday?", asks=action))
    turn = await said(place, turns, conversation, "Yes")
    with pytest.raises(ZeroDivisionError):
        await commit_and_raise(turns, turn)
    assert await is_whole(place, conversation, 1)
    assert not await turns.claim([conversation], ANYONE), "the lease is still its own"


async def commit_and_raise(turns: PostgresTurns, turn: Turn) -> None:
    async with turns.execution(turn) as execution:
        await execution.lock(None)
        await execution.commit(reply(turn, "Booked."))
        raise ZeroDivisionError
