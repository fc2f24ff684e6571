"""`leeway dead` on a real Postgres: work goes back to the services once, or is settled once."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from leeway.dead import LISTED_MOST, QUERIES, _retry
from services.dispatch.adapters.postgres_outbox import QUERIES as OUTBOX
from services.guard.adapters.postgres_conversations import QUERIES as CONVERSATIONS
from shared.broker.rabbit import RabbitBroker
from shared.digest import text_digest
from shared.ids import ConversationId, OutboundId, new_id
from shared.tickets import Stage
from shared.topology import DEAD_QUEUE
from tests.support.commands import environment, leeway
from tests.support.factories import Ground, ground

pytestmark = pytest.mark.postgres


@pytest.fixture
async def rows(database_url: str) -> AsyncIterator[Ground]:
    async with ground(database_url) as made:
        yield made


async def given_up_turn(rows: Ground) -> tuple[ConversationId, UUID, UUID]:
    """A turn that failed five times, as the agent leaves it: conversation, turn, letter."""
    conversation = await rows.conversation()
    message = await rows.said(conversation, "Book a cleaning")
    turn = await rows.turn(conversation, message, state="failed", fruitless=6, seq_from=1, seq_to=1)
    await rows.set_state(conversation, state="handoff", handoff_epoch=1, handled_seq=1, due_at=None)
    business = (await rows.state(conversation))["business"]
    await rows.insert(
        "handoff", conversation=conversation, business=business, epoch=1, reason="processing_failed"
    )
    await rows.outbound(conversation, "Something went wrong", origin=turn, state="sent")
    letter = new_id()
    await rows.insert(
        "dead",
        id=letter,
        business=business,
        stage="agent",
        conversation=conversation,
        subject=turn,
        reason="processing_failed",
    )
    return conversation, turn, letter


async def test_a_failed_turn_is_owed_again_as_a_turn_of_its_own(rows: Ground) -> None:
    conversation, turn, letter = await given_up_turn(rows)
    assert await _retry(rows.database, letter) is None
    state = await rows.state(conversation)
    assert (state["state"], state["handoff_epoch"], state["handled_seq"]) == ("bot", 2, 0)
    assert state["due_at"] is not None
    assert state["released_at"] is not None
    assert (await rows.row("turn", id=turn))["cause"] == letter
    assert (await rows.row("handoff", conversation=conversation))["released_at"] is not None
    assert (await rows.row("dead", id=letter))["settled_how"] == "retried"


async def test_of_two_that_try_again_at_once_one_does(rows: Ground) -> None:
    conversation, _, letter = await given_up_turn(rows)
    async with asyncio.TaskGroup() as tasks:
        both = [tasks.create_task(_retry(rows.database, letter)) for _ in range(2)]
    said = sorted(str(one.result()) for one in both)
    assert said[0] == "None"
    assert said[1].startswith("settled already")
    assert (await rows.state(conversation))["handoff_epoch"] == 2


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"state": "bot"}, "the conversation went on since"),
        ({"handoff_epoch": 2}, "the conversation went on since"),
        ({"opted_out": True}, "the customer has opted out"),
    ],
    ids=["released", "handed over again", "opted out"],
)
async def test_a_conversation_that_went_on_is_left_alone(
    rows: Ground, columns: dict[str, Any], said: str
) -> None:
    conversation, _, letter = await given_up_turn(rows)
    if columns.pop("opted_out", False):
        columns["opted_out_at"] = await rows.now()
    await rows.set_state(conversation, **columns)
    before = await rows.state(conversation)
    assert said in str(await _retry(rows.database, letter))
    assert await rows.state(conversation) == before
    assert (await rows.row("dead", id=letter))["settled_at"] is None


async def test_what_the_guard_gave_up_is_judged_again_and_nothing_else(rows: Ground) -> None:
    conversation = await rows.conversation()
    earlier = await rows.said(conversation, "Hello", due=False)
    first = await rows.wrote(conversation, "Book")
    second = await rows.wrote(conversation, "a cleaning")
    letter = new_id()
    await rows.database.fetch(
        CONVERSATIONS["give_up"], conversation, letter, new_id(), "Something went wrong"
    )
    given_up = await rows.state(conversation)
    assert (given_up["state"], given_up["unguarded"]) == ("handoff", 0)

    assert await _retry(rows.database, letter) is None
    state = await rows.state(conversation)
    assert (state["state"], state["unguarded"], state["guard_attempts"]) == ("bot", 2, 0)
    assert state["guard_due_at"] is not None
    assert state["version"] > given_up["version"]
    for message in (first, second):
        row = await rows.row("inbound_message", id=message)
        assert (row["seq"], row["verdict"], row["reason"]) == (None, None, None)
    assert (await rows.row("inbound_message", id=earlier))["seq"] == 1
    assert "settled already" in str(await _retry(rows.database, letter))


@pytest.mark.parametrize(
    "columns", [{"state": "bot"}, {"handoff_epoch": 2}], ids=["released", "handed over again"]
)
async def test_what_the_guard_gave_up_is_left_alone_where_the_conversation_went_on(
    rows: Ground, columns: dict[str, Any]
) -> None:
    conversation, letter = await rows.conversation(), new_id()
    await rows.wrote(conversation, "Book")
    await rows.database.fetch(
        CONVERSATIONS["give_up"], conversation, letter, new_id(), "Something went wrong"
    )
    await rows.set_state(conversation, **columns)
    before = await rows.state(conversation)
    assert "the conversation went on since" in str(await _retry(rows.database, letter))
    assert await rows.state(conversation) == before


async def given_up_reply(rows: Ground) -> tuple[OutboundId, UUID]:
    conversation = await rows.conversation()
    await rows.said(conversation)
    outbound, letter = await rows.outbound(conversation), new_id()
    await rows.database.fetch(OUTBOX["give_up"], outbound, letter)
    assert (await rows.row("outbound", id=outbound))["state"] == "draft"
    return outbound, letter


async def test_a_reply_is_queued_in_its_next_round(rows: Ground) -> None:
    outbound, letter = await given_up_reply(rows)
    assert await _retry(rows.database, letter) is None
    row = await rows.row("outbound", id=outbound)
    assert (row["state"], row["round"], row["reason"], row["suspect"]) == ("queued", 2, None, 0)
    assert row["ring_at"] is not None


async def test_a_reply_that_the_provider_refused_as_our_mistake_is_queued_too(rows: Ground) -> None:
    """After the mistake was mended: the draft's reason is what the provider said."""
    outbound, letter = await given_up_reply(rows)
    await rows.set("outbound", {"id": outbound}, reason="the callback answered 400")
    assert await _retry(rows.database, letter) is None
    assert (await rows.row("outbound", id=outbound))["state"] == "queued"


async def test_a_reply_that_a_restored_back_up_knows_as_not_sent_is_not_sent_by_guessing(
    rows: Ground,
) -> None:
    outbound, letter = await given_up_reply(rows)
    await rows.set("outbound", {"id": outbound}, reason="may_have_arrived")
    assert "may have arrived" in str(await _retry(rows.database, letter))
    assert (await rows.row("outbound", id=outbound))["state"] == "draft"


async def test_a_reply_that_may_have_arrived_is_not_sent_again(rows: Ground) -> None:
    outbound, letter = await given_up_reply(rows)
    await rows.attempt(outbound, state="retried")
    assert "may have arrived" in str(await _retry(rows.database, letter))
    assert (await rows.row("outbound", id=outbound))["state"] == "draft"


async def test_a_draft_that_was_decided_about_is_left_alone(rows: Ground) -> None:
    outbound, letter = await given_up_reply(rows)
    await rows.set("outbound", {"id": outbound}, state="discarded")
    assert "no longer a draft" in str(await _retry(rows.database, letter))
    assert (await rows.row("outbound", id=outbound))["state"] == "discarded"


async def test_dropped_is_settled_once(rows: Ground) -> None:
    conversation, _, letter = await given_up_turn(rows)
    assert await rows.database.fetch(QUERIES["drop"], letter, "called them")
    assert not await rows.database.fetch(QUERIES["drop"], letter, "again")
    assert (await rows.row("dead", id=letter))["settled_how"] == "dropped: called them"
    assert (await rows.state(conversation))["state"] == "handoff"
    assert "settled already" in str(await _retry(rows.database, letter))


async def test_who_settles_what_is_written_down_without_words(rows: Ground, tmp_path: Path) -> None:
    conversation, _, letter = await given_up_turn(rows)
    env = environment(LEEWAY_DATABASE_URL=rows.url)
    words = ("--because", "Maria was called", "--as", "ana")
    ended = await leeway("dead", "drop", str(letter), str(new_id()), *words, cwd=tmp_path, env=env)
    assert (ended.code, ended.out) == (1, f"{letter} settled\n")
    assert (await rows.row("dead", id=letter))["settled_how"] == "dropped: Maria was called"
    (entry,) = await rows.rows("audit_log")
    assert (entry["actor"], entry["action"], entry["subject"]) == ("ana", "dead.drop", str(letter))
    detail = json.loads(entry["detail"])
    assert detail == {
        "because": text_digest("Maria was called").hex(),
        "conversation": str(conversation),
        "stage": "agent",
    }


@pytest.mark.rabbitmq
async def test_that_there_are_more_than_are_listed_is_said(
    rows: Ground, amqp_url: str, tmp_path: Path
) -> None:
    conversation, _, first = await given_up_turn(rows)
    business = (await rows.state(conversation))["business"]
    await rows.owner.execute(
        "insert into dead (id, business, stage, conversation, subject, reason, died_at) "
        "select gen_random_uuid(), $1, 'agent', $2, gen_random_uuid(), 'processing_failed', now() + interval '1 s' "
        f"from generate_series(1, {LISTED_MOST})",
        business,
        conversation,
    )
    env = environment(LEEWAY_DATABASE_URL=rows.url, LEEWAY_AMQP_URL=amqp_url)
    listed = await leeway("dead", "list", "--json", cwd=tmp_path, env=env)
    found = json.loads(listed.out)
    assert (len(found["work"]), found["more_work"], found["work"][0]["id"]) == (LISTED_MOST, 1, str(first))
    assert listed.err == "There are 1 more, all of them newer; these come first.\n"


@pytest.mark.rabbitmq
async def test_that_there_are_more_letters_than_are_listed_is_said(
    rows: Ground, amqp_url: str, tmp_path: Path
) -> None:
    broker = RabbitBroker(amqp_url, confirm_s=5)
    await broker.open()
    env = environment(LEEWAY_DATABASE_URL=rows.url, LEEWAY_AMQP_URL=amqp_url)
    try:
        await broker._publisher.publish(DEAD_QUEUE[Stage.GUARD], [b"none"] * LISTED_MOST)
        full = await leeway("dead", "list", "--json", cwd=tmp_path, env=env)
        await broker._publisher.publish(DEAD_QUEUE[Stage.GUARD], [b"none"])
        more = await leeway("dead", "list", "--json", cwd=tmp_path, env=env)
    finally:
        await broker.drop_dead_letters(Stage.GUARD)
        await broker.close()
    found = [json.loads(one.out) for one in (full, more)]
    assert [len(one["letters"]) for one in found] == [LISTED_MOST] * 2
    assert [one["more_letters"] for one in found] == [[], ["guard"]]
    assert full.err == ""
    assert more.err == "There are more unreadable messages in the queue of guard; the oldest come first.\n"


@pytest.mark.rabbitmq
async def test_the_command_lists_both_kinds_and_settles_them(
    rows: Ground, amqp_url: str, tmp_path: Path
) -> None:
    _, turn, letter = await given_up_turn(rows)
    broker = RabbitBroker(amqp_url, confirm_s=5)
    await broker.open()
    await broker._publisher.publish(DEAD_QUEUE[Stage.GUARD], [b"\x1b[31mnot a packet"])
    await broker.close()
    env = environment(LEEWAY_DATABASE_URL=rows.url, LEEWAY_AMQP_URL=amqp_url)

    listed = await leeway("dead", "list", "--json", cwd=tmp_path, env=env)
    assert listed.code == 0, listed.err
    found = json.loads(listed.out)
    assert [(one["id"], one["subject"]) for one in found["work"]] == [(str(letter), str(turn))]
    assert [(one["stage"], one["body"]) for one in found["letters"]] == [("guard", "\x1b[31mnot a packet")]

    plain = await leeway("dead", "list", cwd=tmp_path, env=env)
    assert str(letter) in plain.out
    assert "\x1b" not in plain.out

    retried = await leeway("dead", "retry", str(letter), "--as", "ana", cwd=tmp_path, env=env)
    assert (retried.code, retried.out) == (0, f"{letter} will be tried again\n")
    again = await leeway("dead", "drop", str(letter), cwd=tmp_path, env=env)
    assert again.code == 1
    assert "settled already" in again.err
    log = [(one["actor"], one["action"], one["subject"]) for one in await rows.rows("audit_log")]
    assert log == [("ana", "dead.retry", str(letter))]

    dropped = await leeway("dead", "drop", "--letters", "guard", cwd=tmp_path, env=env)
    assert dropped.out.startswith("1 unreadable")
    empty = await leeway("dead", "list", cwd=tmp_path, env=env)
    assert empty.out == "Nothing is among the dead.\n"
