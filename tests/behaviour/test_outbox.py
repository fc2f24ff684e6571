"""What the record of replies promises dispatch, on Postgres: a reply leaves once and in order, whatever races."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from services.dispatch.adapters.postgres_addresses import PostgresAddresses
from services.dispatch.adapters.postgres_outbox import PostgresOutbox
from services.dispatch.core.delivery import Discard, DraftReason, MakeDraft, Send, Supersede, Wait, decide
from services.dispatch.core.outcome import Accepted, NoAnswer, Outcome, Refused, Throttled, settle
from services.dispatch.ports import Claimed, Decided, Settlement
from services.ingest.adapters.postgres_inbox import PostgresInbox
from services.ingest.core.entrance import Account
from services.ingest.core.events import Status
from services.ingest.ports import Request
from shared.ids import AttemptId, BusinessId, ConversationId, OutboundId, WorkerNumber, new_id
from shared.secrets import Vault, new_key
from tests.support.eventually import eventually
from tests.support.factories import Ground, SetClock, Worker

pytestmark = pytest.mark.postgres

VAULT = Vault(new_key())
UNKNOWN_AFTER = timedelta(seconds=45)


def outbox_of(place: Ground, *, worker: int = 1, idempotent: Sequence[str] = ("sim",)) -> PostgresOutbox:
    return PostgresOutbox(
        place.database,
        presence=Worker(WorkerNumber(worker)),  # type: ignore[arg-type]  # only its number is asked
        addresses=PostgresAddresses(place.database, VAULT, SetClock()),
        plain_chars_max=50,
        idempotent=idempotent,
        unknown_after=UNKNOWN_AFTER,
    )


@pytest.fixture
def outbox(place: Ground) -> PostgresOutbox:
    return outbox_of(place)


async def answered(place: Ground, **columns: Any) -> tuple[ConversationId, OutboundId]:
    """A conversation whose one message has a reply that waits."""
    conversation = await place.conversation()
    await place.said(conversation, due=False)
    await place.set_state(conversation, handled_seq=1)
    return conversation, await place.outbound(conversation, **columns)


async def claim_one(outbox: PostgresOutbox, outbound: OutboundId) -> Claimed:
    (claimed,) = await outbox.claim_plain([outbound])
    return claimed


async def decided(
    outbox: PostgresOutbox, outbound: OutboundId, parts: tuple[str, ...] = ("Hello",)
) -> Decided:
    """The decision on the reply as it is now."""
    (reply,) = await outbox.gather([outbound])
    return Decided(reply=reply, decision=decide(reply), parts=parts)


def settlement(
    claimed: Claimed, outcome: Outcome, *, idempotent: bool = True, next_attempt: AttemptId | None = None
) -> Settlement:
    settled = settle(
        outcome, last_part=claimed.last_part, idempotent=idempotent, backoff=timedelta(seconds=1)
    )
    return Settlement(claimed=claimed, settled=settled, next_attempt=next_attempt)


ACCEPTED = Accepted(provider_id="p1")


# The plain claim


async def test_a_plain_reply_is_claimed_without_a_look(place: Ground, outbox: PostgresOutbox) -> None:
    conversation, outbound = await answered(place)
    claimed = await claim_one(outbox, outbound)
    assert (claimed.outbound, claimed.conversation) == (outbound, conversation)
    assert claimed.parts == ("Hello, how can I help?",)
    attempt = await place.row("send_attempt")
    assert (attempt["id"], attempt["state"], attempt["at_send_seq"]) == (claimed.attempt, "sending", 1)
    state = await place.state(conversation)
    assert state["sending_attempt"] == claimed.attempt
    assert state["unanswered_since"] is None
    row = await place.row("outbound")
    assert (row["state"], row["ring_at"]) == ("sending", None)


NOT_PLAIN = {
    "a message is not judged": "update conversation_state set unguarded = 1",
    "a send is under way": "update conversation_state set sending_attempt = gen_random_uuid()",
    "people took over": "update conversation_state set state = 'handoff'",
    "taken over and released": "update conversation_state set handoff_epoch = 1",
    "the customer opted out": "update conversation_state set opted_out_at = now()",
    "the customer wrote again": "update conversation_state set customer_seq = 2",
    "the conversation is in suggest": "update conversation_state set mode = 'suggest'",
    "the account is in suggest": "update channel_account set mode = 'suggest'",
    "the account is disabled": "update channel_account set state = 'disabled'",
    "the business is in suggest": "update business set mode = 'suggest'",
    "the provider said wait": "insert into account_rate (account, business, wait_until) "
    "select id, business, now() + interval '9 s' from channel_account",
    "it was decided in suggest": "update outbound set mode = 'suggest'",
    "it is held": "update outbound set held = 'late'",
    "it is a notice": "update outbound set origin_kind = 'notice'",
    "a part has left": "update outbound set parts_sent = 1",
    "it was tried before": "update outbound set first_try_at = now()",
    "an operator decided on it": "update outbound set round = 2",
    "it takes more than one part": "update outbound set body = repeat('x', 51)",
    "it is a draft": "update outbound set state = 'draft'",
    "it was sent": "update outbound set state = 'sent'",
}


@pytest.mark.parametrize("change", NOT_PLAIN.values(), ids=NOT_PLAIN)
async def test_no_plain_claim_when(place: Ground, outbox: PostgresOutbox, change: str) -> None:
    conversation, outbound = await answered(place)
    await place.owner.execute(change)
    before = await place.state(conversation)
    assert not await outbox.claim_plain([outbound])
    assert await place.state(conversation) == before
    assert not await place.rows("send_attempt")


@pytest.mark.parametrize("change", NOT_PLAIN.values(), ids=NOT_PLAIN)
async def test_the_plain_claim_allows_nothing_that_the_decision_forbids(
    place: Ground, outbox: PostgresOutbox, change: str
) -> None:
    """What is not plain goes through gather and decide: the SQL's conditions are not looser than the core's."""
    _, outbound = await answered(place)
    plain = await decided(outbox, outbound)
    assert plain.decision == Send()
    await place.owner.execute(change)
    assert not await outbox.claim_plain([outbound])


async def test_the_oldest_reply_of_a_conversation_goes_first(place: Ground, outbox: PostgresOutbox) -> None:
    conversation, first = await answered(place)
    second = await place.outbound(conversation)
    assert [one.outbound for one in await outbox.claim_plain([second, first])] == [first]


async def test_an_older_reply_by_what_it_answers_not_by_its_id(place: Ground, outbox: PostgresOutbox) -> None:
    conversation, newer = await answered(place)
    older = await place.outbound(conversation, basis_seq=0)
    assert not await outbox.claim_plain([newer])
    assert (await decided(outbox, older)).reply.first_in_line


async def test_two_workers_at_once_claim_each_reply_once(place: Ground, outbox: PostgresOutbox) -> None:
    outbounds = [(await answered(place))[1] for _ in range(10)]
    other = outbox_of(place, worker=2)
    async with asyncio.TaskGroup() as group:
        claims = [
            group.create_task(outbox.claim_plain(outbounds)),
            group.create_task(other.claim_plain(outbounds[::-1])),
        ]
    claimed = [one.outbound for task in claims for one in task.result()]
    assert sorted(claimed) == sorted(outbounds)
    assert len(await place.rows("send_attempt")) == 10


async def test_a_claim_that_waited_does_not_send_again_what_another_sent_meanwhile(
    place: Ground, outbox: PostgresOutbox
) -> None:
    """The other's send was claimed, sent and settled while this statement waited for a row before it."""
    pairs = dict([await answered(place), await answered(place)])
    blocked, finished = sorted(pairs)
    other = outbox_of(place, worker=2)
    async with asyncio.TaskGroup() as group, place.held("conversation_state", "conversation", [blocked]):
        waiting = group.create_task(outbox.claim_plain(list(pairs.values())))
        await eventually(lambda: place.waiting("claim_plain"))
        theirs = await claim_one(other, pairs[finished])
        await other.settle([settlement(theirs, ACCEPTED)])
    assert [one.conversation for one in waiting.result()] == [blocked]
    assert len(await place.rows("send_attempt", outbound=pairs[finished])) == 1
    assert (await place.state(finished))["sending_attempt"] is None


# Gather and record


async def test_a_reply_of_many_parts_is_claimed_after_a_look(place: Ground, outbox: PostgresOutbox) -> None:
    _, outbound = await answered(place, body="x" * 60)
    decision = await decided(outbox, outbound, parts=("x" * 50, "x" * 10))
    claimed, recorded = await outbox.record([decision])
    assert list(recorded) == [outbound]
    assert (claimed[0].part, claimed[0].parts) == (1, ("x" * 50, "x" * 10))
    assert (await place.row("outbound"))["parts"] == 2


CHANGES = {
    "a message came in": "unguarded = unguarded + 1, version = version + 1",
    "people took over": "state = 'handoff', version = version + 1",
    "the customer opted out": "opted_out_at = now(), version = version + 1",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_nothing_is_recorded_when_the_row_changed_since(
    place: Ground, outbox: PostgresOutbox, change: str
) -> None:
    _, outbound = await answered(place)
    decision = await decided(outbox, outbound)
    await place.owner.execute(f"update conversation_state set {change}")
    claimed, recorded = await outbox.record([decision])
    assert (list(claimed), list(recorded)) == ([], [])
    assert (await place.row("outbound"))["state"] == "queued"
    assert not await place.rows("send_attempt")


async def test_of_two_who_decided_on_the_same_version_one_sends(
    place: Ground, outbox: PostgresOutbox
) -> None:
    _, outbound = await answered(place)
    one, other = await decided(outbox, outbound), await decided(outbox_of(place, worker=2), outbound)
    assert list((await outbox.record([one]))[1]) == [outbound]
    assert list((await outbox.record([other]))[1]) == []
    assert len(await place.rows("send_attempt")) == 1


BECOMES = [
    # the row's change, decision, state and reason recorded
    ("opted out", "update conversation_state set opted_out_at = now()", Discard(), ("discarded", "opted_out")),
    ("handoff", "update conversation_state set state = 'handoff', handoff_epoch = 1", MakeDraft(DraftReason.HANDOFF),
     ("draft", "handoff")),
    ("suggest", "update business set mode = 'suggest'", MakeDraft(DraftReason.SUGGEST), ("draft", "suggest")),
    ("off", "update business set mode = 'off'", MakeDraft(DraftReason.MODE_OFF), ("draft", "mode_off")),
    ("late", "update outbound set held = 'late'", MakeDraft(DraftReason.LATE), ("draft", "late")),
    ("superseded", "update conversation_state set customer_seq = 2", Supersede(), ("superseded", "customer_wrote")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "decision", "becomes"), [row[1:] for row in BECOMES], ids=[row[0] for row in BECOMES]
)
async def test_what_becomes_of_a_reply_that_may_not_leave(
    place: Ground, outbox: PostgresOutbox, change: str, decision: Any, becomes: tuple[str, str]
) -> None:
    conversation, outbound = await answered(place)
    await place.owner.execute(change)
    made = await decided(outbox, outbound)
    assert made.decision == decision
    claimed, recorded = await outbox.record([made])
    assert (list(claimed), list(recorded)) == ([], [outbound])
    row = await place.row("outbound")
    assert (row["state"], row["reason"], row["ring_at"]) == (*becomes, None)
    assert (await place.state(conversation))["sending_attempt"] is None
    assert (await place.state(conversation))["superseded_in_row"] == (1 if becomes[0] == "superseded" else 0)


@pytest.mark.parametrize(
    ("kinds", "decision"),
    [
        pytest.param(["button"], Send(), id="a press"),
        pytest.param(["button", "button"], Send(), id="the same press twice"),
        pytest.param(["button", "text"], Supersede(), id="a press and words"),
    ],
)
async def test_a_reply_gives_way_to_words_and_not_to_a_press(
    place: Ground, outbox: PostgresOutbox, kinds: list[str], decision: Any
) -> None:
    """A press's turn asks no model, so nobody would see again what gave way to it."""
    conversation, outbound = await answered(place)
    for kind in kinds:
        message = await place.said(conversation)
        await place.set("inbound_message", {"id": message}, kind=kind)
    assert (await place.state(conversation))["customer_seq"] == 1 + len(kinds)
    assert (await decided(outbox, outbound)).decision == decision


async def test_a_reply_that_waits_is_rung_when_its_time_comes(place: Ground, outbox: PostgresOutbox) -> None:
    _, outbound = await answered(place)
    await place.owner.execute("update channel_account set state = 'disabled'")
    made = await decided(outbox, outbound)
    assert isinstance(made.decision, Wait)
    await outbox.record([made])
    row = await place.row("outbound")
    assert (row["state"], row["not_before"]) == ("queued", made.decision.until)
    assert row["ring_at"] == made.decision.until


async def prompted(place: Ground, **columns: Any) -> tuple[ConversationId, OutboundId]:
    """A conversation with an action whose prompt waits to be sent."""
    conversation = await place.conversation()
    message = await place.said(conversation, due=False)
    turn = await place.turn(conversation, message)
    outbound = await place.outbound(conversation, **columns)
    action = await place.action(conversation, prompt=outbound, turn=turn)
    await place.set("outbound", {"id": outbound}, action=action)
    return conversation, outbound


@pytest.mark.parametrize(
    ("change", "ends_as"),
    [("customer_seq = 2", "superseded"), ("opted_out_at = now()", "cleared")],
    ids=["superseded", "discarded"],
)
async def test_an_action_ends_with_its_prompt(
    place: Ground, outbox: PostgresOutbox, change: str, ends_as: str
) -> None:
    _, outbound = await prompted(place)
    await place.owner.execute(f"update conversation_state set {change}")
    await outbox.record([await decided(outbox, outbound)])
    action = await place.row("pending_action")
    assert action["state"] == ends_as
    assert action["ended_at"] is not None


async def test_a_prompt_that_becomes_a_draft_keeps_its_action(place: Ground, outbox: PostgresOutbox) -> None:
    _, outbound = await prompted(place)
    await place.owner.execute("update business set mode = 'suggest'")
    await outbox.record([await decided(outbox, outbound)])
    assert (await place.row("pending_action"))["state"] == "customer"


@pytest.mark.parametrize(
    "change", ["customer_seq = 2", "opted_out_at = now()"], ids=["superseded", "discarded"]
)
async def test_what_waits_for_an_operator_outlives_its_notice(
    place: Ground, outbox: PostgresOutbox, change: str
) -> None:
    """Only the guard ends it, for somebody who wants no more of us."""
    _, outbound = await prompted(place)
    await place.owner.execute("update pending_action set state = 'operator', asked = 'operator'")
    await place.owner.execute(f"update conversation_state set {change}")
    await outbox.record([await decided(outbox, outbound)])
    assert (await place.row("outbound"))["state"] in ("superseded", "discarded")
    assert (await place.row("pending_action"))["state"] == "operator"


async def test_a_repeated_question_that_is_superseded_ends_its_action(
    place: Ground, outbox: PostgresOutbox
) -> None:
    """The one asked first, which was sent, keeps nothing open that its repetition was about."""
    conversation, first = await prompted(place)
    await place.set("outbound", {"id": first}, state="sent")
    action = (await place.row("pending_action"))["id"]
    again = await place.outbound(conversation, "Once more", action=action)
    await place.set("pending_action", {"id": action}, prompt=again, first_prompt=first, repeats=1)
    await place.owner.execute("update conversation_state set customer_seq = 2")
    await outbox.record([await decided(outbox, again)])
    assert (await place.row("pending_action"))["state"] == "superseded"


async def test_a_new_draft_supersedes_the_one_before_it(place: Ground, outbox: PostgresOutbox) -> None:
    conversation, first = await prompted(place, state="draft", reason="suggest")
    kept = await place.outbound(conversation, state="draft", receipt=True)
    theirs = await place.outbound(conversation, state="draft", origin_kind="operator")
    second = await place.outbound(conversation, mode="suggest")
    await outbox.record([await decided(outbox, second)])
    states = {row["id"]: row["state"] for row in await place.rows("outbound")}
    assert states == {first: "superseded", kept: "draft", theirs: "draft", second: "draft"}
    assert (await place.row("pending_action"))["state"] == "superseded"


async def test_a_discarded_receipt_raises_a_flag(place: Ground, outbox: PostgresOutbox) -> None:
    _, outbound = await answered(place, receipt=True)
    await place.owner.execute("update conversation_state set opted_out_at = now()")
    await outbox.record([await decided(outbox, outbound)])
    assert (await place.row("flag"))["reason"] == "receipt_not_sent"


# Settling


async def test_an_accepted_reply_is_sent_and_its_conversation_free(
    place: Ground, outbox: PostgresOutbox
) -> None:
    conversation, outbound = await answered(place)
    following = await place.outbound(conversation, "And more")
    claimed = await claim_one(outbox, outbound)
    stored = await outbox.settle([settlement(claimed, ACCEPTED)])
    assert stored[claimed.attempt].current
    assert stored[claimed.attempt].following == following
    row = await place.row("outbound", id=outbound)
    assert (row["state"], row["parts_sent"]) == ("sent", 1)
    assert row["sent_at"] is not None
    attempt = await place.row("send_attempt")
    assert (attempt["state"], attempt["provider_id"], attempt["rank"]) == ("sent", "p1", 10)
    assert (await place.state(conversation))["sending_attempt"] is None


OUTCOMES = [
    ("accepted", ACCEPTED, True, "sent", "sent"),
    ("refused", Refused(reason="no such number"), True, "refused", "draft"),
    ("throttled", Throttled(reason="429"), True, "throttled", "queued"),
    ("no answer, with a key", NoAnswer(reason="time-out"), True, "retried", "queued"),
    ("no answer, without", NoAnswer(reason="time-out"), False, "unknown", "unknown"),
]


@pytest.mark.parametrize(
    ("outcome", "idempotent", "attempt", "reply"),
    [row[1:] for row in OUTCOMES],
    ids=[row[0] for row in OUTCOMES],
)
async def test_an_outcome_stored_twice_is_stored_once(
    place: Ground, outbox: PostgresOutbox, outcome: Outcome, *, idempotent: bool, attempt: str, reply: str
) -> None:
    """D3 is repeated until it is stored: the answer to the first may have been lost."""
    conversation, outbound = await answered(place)
    claimed = await claim_one(outbox, outbound)
    made = settlement(claimed, outcome, idempotent=idempotent)
    assert (await outbox.settle([made]))[claimed.attempt].current
    after = await place.row("outbound"), await place.row("send_attempt"), await place.state(conversation)
    assert after[0]["state"] == reply
    assert after[1]["state"] == attempt
    assert not (await outbox.settle([made]))[claimed.attempt].current
    again = await place.row("outbound"), await place.row("send_attempt"), await place.state(conversation)
    assert again == after


async def test_the_parts_of_a_reply_are_sent_under_attempts_of_their_own(
    place: Ground, outbox: PostgresOutbox
) -> None:
    conversation, outbound = await answered(place, body="x" * 60)
    claimed, _ = await outbox.record([await decided(outbox, outbound, parts=("x" * 50, "x" * 10))])
    second = AttemptId(new_id())
    stored = await outbox.settle([settlement(claimed[0], Accepted(provider_id="p1"), next_attempt=second)])
    assert stored[claimed[0].attempt].current
    row = await place.row("outbound")
    assert (row["state"], row["parts_sent"]) == ("sending", 1)
    assert (await place.state(conversation))["sending_attempt"] == second
    assert {row["part"] for row in await place.rows("send_attempt")} == {1, 2}
    await outbox.settle([settlement(claimed[0], Accepted(provider_id="p1"), next_attempt=second)])
    assert len(await place.rows("send_attempt")) == 2, "again changes nothing"


async def test_a_throttled_reply_becomes_a_draft_after_two_minutes(
    place: Ground, outbox: PostgresOutbox
) -> None:
    _, outbound = await answered(place)
    claimed = await claim_one(outbox, outbound)
    await place.owner.execute("update outbound set first_try_at = now() - interval '121 s'")
    await outbox.settle([settlement(claimed, Throttled(reason="429"))])
    row = await place.row("outbound")
    assert (row["state"], row["reason"]) == ("draft", "send_failed: 429")


async def test_a_retry_under_a_key_that_goes_on_too_long_becomes_an_open_decision(
    place: Ground, outbox: PostgresOutbox
) -> None:
    """Two minutes of retries, then unknown, then a question to people: it may have arrived."""
    _, outbound = await answered(place)
    claimed = await claim_one(outbox, outbound)
    await place.owner.execute("update outbound set first_try_at = now() - interval '121 s'")
    await outbox.settle([settlement(claimed, NoAnswer(reason="time-out"))])
    assert (await place.row("outbound"))["state"] == "unknown"
    await place.owner.execute("update send_attempt set started_at = now() - interval '121 s'")
    assert await outbox.open_decisions() == 1
    row = await place.row("outbound")
    assert (row["state"], row["reason"]) == ("draft", "may_have_arrived")


# Statuses beside settling


def inbox_of(place: Ground) -> PostgresInbox:
    return PostgresInbox(place.database, VAULT, SetClock())


async def status(place: Ground, claimed: Claimed, name: str, *, by: str = "correlation") -> int:
    """The channel's word on a send, by our id or by its own; how many were held."""
    row = await place.row("channel_account", id=claimed.account)
    account = Account(
        id=claimed.account,
        business=BusinessId(row["business"]),
        business_slug="clinic",
        channel="sim",
        address=row["address"],
        keys=(),
        verifies_phones=False,
    )
    named = {"correlation": str(claimed.attempt)} if by == "correlation" else {"provider_id": "p1"}
    statuses = (Status(status=name, **named),)
    return await inbox_of(place).settle_statuses([Request(account=account, messages=(), statuses=statuses)])


@pytest.mark.parametrize("name", ["sent", "delivered", "read"])
@pytest.mark.parametrize(
    "outcome",
    [ACCEPTED, NoAnswer(reason="time-out"), Throttled(reason="429"), Refused(reason="x")],
    ids=["accepted", "no answer", "throttled", "refused"],
)
@pytest.mark.parametrize("idempotent", [True, False], ids=["with a key", "without"])
async def test_a_status_that_comes_before_the_outcome_is_stored_is_not_lost(
    place: Ground, outbox: PostgresOutbox, outcome: Outcome, name: str, *, idempotent: bool
) -> None:
    """The channel has it, whatever became of our call: the reply is not sent again."""
    conversation, outbound = await answered(place)
    claimed = await claim_one(outbox, outbound)
    assert await status(place, claimed, name) == 0
    await outbox.settle([settlement(claimed, outcome, idempotent=idempotent)])
    assert (await place.row("outbound"))["state"] == name
    assert (await place.row("send_attempt"))["state"] == name
    assert (await place.state(conversation))["sending_attempt"] is None
    assert not await outbox.claim_plain([outbound])


async def test_a_failure_that_comes_before_the_outcome_is_stored_makes_a_draft(
    place: Ground, outbox: PostgresOutbox
) -> None:
    conversation, outbound = await answered(place)
    claimed = await claim_one(outbox, outbound)
    await status(place, claimed, "failed")
    await outbox.settle([settlement(claimed, ACCEPTED)])
    assert (await place.row("outbound"))["state"] == "draft"
    assert (await place.state(conversation))["sending_attempt"] is None


ORDERS = [
    (["sent", "delivered", "read"], "read"),
    (["read", "delivered", "sent"], "read"),
    (["delivered", "sent"], "delivered"),
    (["delivered", "failed"], "delivered"),
    (["failed", "delivered"], "delivered"),
    (["read", "failed"], "read"),
    (["failed"], "draft"),
    (["failed", "sent"], "draft"),
    (["failed", "failed"], "draft"),
    (["sent", "sent"], "sent"),
]


@pytest.mark.parametrize(("names", "ends"), ORDERS, ids=[" ".join(names) for names, _ in ORDERS])
@pytest.mark.parametrize("by", ["correlation", "provider id"])
async def test_statuses_in_any_order_end_in_the_highest(
    place: Ground, outbox: PostgresOutbox, names: list[str], ends: str, by: str
) -> None:
    _, outbound = await answered(place)
    claimed = await claim_one(outbox, outbound)
    await outbox.settle([settlement(claimed, ACCEPTED)])
    for name in names:
        assert await status(place, claimed, name, by=by) == 0
    assert (await place.row("outbound"))["state"] == ends


async def test_a_success_status_closes_a_send_of_unknown_outcome(
    place: Ground, outbox: PostgresOutbox
) -> None:
    _, outbound = await answered(place)
    claimed = await claim_one(outbox, outbound)
    await outbox.settle([settlement(claimed, NoAnswer(reason="time-out"), idempotent=False)])
    assert (await place.row("outbound"))["state"] == "unknown"
    await status(place, claimed, "delivered")
    assert (await place.row("outbound"))["state"] == "delivered"


async def test_a_success_status_closes_the_draft_made_from_it(place: Ground, outbox: PostgresOutbox) -> None:
    _, outbound = await answered(place)
    claimed = await claim_one(outbox, outbound)
    await outbox.settle([settlement(claimed, NoAnswer(reason="time-out"), idempotent=False)])
    await place.owner.execute("update send_attempt set started_at = now() - interval '121 s'")
    assert await outbox.open_decisions() == 1
    await status(place, claimed, "sent")
    assert (await place.row("outbound"))["state"] == "sent"


async def test_statuses_of_two_sends_in_one_request_free_the_conversation(
    place: Ground, outbox: PostgresOutbox
) -> None:
    """The first is delivered while the second is being sent; its worker then dies before it stores the outcome."""
    conversation, first = await answered(place)
    one = await claim_one(outbox, first)
    await outbox.settle([settlement(one, ACCEPTED)])
    second = await place.outbound(conversation, "And more")
    other = await claim_one(outbox, second)
    row = await place.row("channel_account", id=one.account)
    account = Account(
        id=one.account, business=BusinessId(row["business"]), business_slug="clinic", channel="sim",
        address=row["address"], keys=(), verifies_phones=False,
    )  # fmt: skip
    statuses = (
        Status(status="delivered", correlation=str(one.attempt)),
        Status(status="sent", correlation=str(other.attempt)),
    )
    await inbox_of(place).settle_statuses([Request(account=account, messages=(), statuses=statuses)])
    assert {row["state"] for row in await place.rows("outbound")} == {"delivered", "sent"}
    assert (await place.state(conversation))["sending_attempt"] is None


async def in_two_parts(place: Ground, outbox: PostgresOutbox) -> tuple[ConversationId, Claimed]:
    """A reply of two parts, the first being sent."""
    conversation, outbound = await answered(place, body="x" * 60)
    claimed, _ = await outbox.record([await decided(outbox, outbound, parts=("x" * 50, "x" * 10))])
    return conversation, claimed[0]


async def test_a_status_of_a_first_part_does_not_strand_the_others_when_the_worker_dies(
    place: Ground, outbox: PostgresOutbox
) -> None:
    conversation, claimed = await in_two_parts(place, outbox)
    await status(place, claimed, "sent")
    assert (await place.state(conversation))["sending_attempt"] is None
    again = await decided(outbox, claimed.outbound, parts=claimed.parts)
    assert again.decision == Send()
    second, _ = await outbox.record([again])
    assert second[0].part == 2


async def test_a_status_of_a_first_part_leaves_the_others_to_one_worker(
    place: Ground, outbox: PostgresOutbox
) -> None:
    """The worker lives and stores its outcome: the second part is not begun by it as well."""
    conversation, claimed = await in_two_parts(place, outbox)
    await status(place, claimed, "sent")
    made = settlement(claimed, ACCEPTED, next_attempt=AttemptId(new_id()))
    assert not (await outbox.settle([made]))[claimed.attempt].current
    assert len(await place.rows("send_attempt")) == 1
    row = await place.row("outbound")
    assert (row["state"], row["parts_sent"]) == ("queued", 1)
    assert row["ring_at"] is not None
    assert (await place.state(conversation))["sending_attempt"] is None


async def test_a_later_status_of_a_first_part_leaves_the_second_alone(
    place: Ground, outbox: PostgresOutbox
) -> None:
    conversation, claimed = await in_two_parts(place, outbox)
    second = AttemptId(new_id())
    await outbox.settle([settlement(claimed, ACCEPTED, next_attempt=second)])
    await status(place, claimed, "delivered")
    assert (await place.row("outbound"))["state"] == "sending"
    assert (await place.state(conversation))["sending_attempt"] == second


async def test_a_failed_first_part_makes_a_draft_of_the_reply(place: Ground, outbox: PostgresOutbox) -> None:
    conversation, claimed = await in_two_parts(place, outbox)
    await status(place, claimed, "failed")
    row = await place.row("outbound")
    assert (row["state"], row["reason"], row["parts_sent"]) == ("draft", "send_failed", 0)
    assert (await place.state(conversation))["sending_attempt"] is None


# The dead


async def test_sends_of_a_dead_worker_are_queued_again_under_their_key(
    place: Ground, outbox: PostgresOutbox
) -> None:
    conversation, outbound = await answered(place)
    before = await claim_one(outbox, outbound)
    assert list(await outbox.senders()) == [1]
    assert list(await outbox.abandon(1)) == [outbound]
    assert (await place.row("send_attempt"))["state"] == "retried"
    assert (await place.state(conversation))["sending_attempt"] is None
    again = await decided(outbox, outbound)
    assert again.decision == Send()
    assert again.reply.may_have_left
    claimed, _ = await outbox.record([again])
    assert (claimed[0].round, claimed[0].part) == (before.round, before.part)


async def test_sends_of_a_dead_worker_are_unknown_where_there_is_no_key(place: Ground) -> None:
    outbox = outbox_of(place, idempotent=())
    conversation, outbound = await answered(place)
    await claim_one(outbox, outbound)
    assert list(await outbox.abandon(1)) == []
    assert (await place.row("outbound"))["state"] == "unknown"
    assert (await place.state(conversation))["sending_attempt"] is None
    following = await place.outbound(conversation, "And more")
    assert len(await outbox.claim_plain([following])) == 1, "an unknown one holds up nobody"


async def test_sends_of_the_living_are_left_alone_for_45_seconds(
    place: Ground, outbox: PostgresOutbox
) -> None:
    _, outbound = await answered(place)
    await claim_one(outbox, outbound)
    assert list(await outbox.abandon(2)) == []
    assert list(await outbox.abandon(None)) == []
    await place.owner.execute("update send_attempt set started_at = now() - interval '46 s'")
    assert list(await outbox.abandon(None)) == [outbound]


async def test_an_outcome_that_comes_after_the_send_was_given_up_counts_when_it_arrived(
    place: Ground, outbox: PostgresOutbox
) -> None:
    """A worker that was stopped for a minute: the message is there, so it is not sent again."""
    _, outbound = await answered(place)
    claimed = await claim_one(outbox, outbound)
    await outbox.abandon(1)
    await outbox.settle([settlement(claimed, ACCEPTED)])
    assert (await place.row("outbound"))["state"] == "sent"


async def test_an_unknown_outcome_is_a_question_after_two_minutes(place: Ground) -> None:
    outbox = outbox_of(place, idempotent=())
    _, outbound = await answered(place)
    await claim_one(outbox, outbound)
    await outbox.abandon(1)
    assert await outbox.open_decisions() == 0
    await place.owner.execute("update send_attempt set started_at = now() - interval '121 s'")
    assert await outbox.open_decisions() == 1
    assert await outbox.open_decisions() == 0
    row = await place.row("outbound")
    assert (row["state"], row["reason"]) == ("draft", "may_have_arrived")


# The rest


async def test_what_is_barred_is_looked_at_again_in_a_second(place: Ground, outbox: PostgresOutbox) -> None:
    _, outbound = await answered(place, ring_at=None)
    await outbox.bar([outbound])
    assert not await outbox.anything_due()
    await place.owner.execute("update outbound set ring_at = ring_at - interval '1 s'")
    assert await outbox.anything_due()
    assert list(await outbox.ring_due(most=10)) == [outbound]
    assert not await outbox.anything_due(), "rung, and rung again only in ten seconds"


async def test_the_oldest_are_rung_first_and_what_others_hold_is_skipped(
    place: Ground, outbox: PostgresOutbox
) -> None:
    outbounds = [(await answered(place))[1] for _ in range(3)]
    for age, outbound in enumerate(outbounds, start=1):
        await place.set("outbound", {"id": outbound}, ring_at=await place.now() - timedelta(seconds=age))
    async with place.held("outbound", "id", [outbounds[2]]):
        assert list(await outbox.ring_due(most=1)) == [outbounds[1]]
    assert list(await outbox.ring_due(most=1)) == [outbounds[2]]


async def test_a_provider_s_wait_holds_for_all_workers_and_is_never_shortened(
    place: Ground, outbox: PostgresOutbox
) -> None:
    _, outbound = await answered(place)
    account = (await place.row("channel_account"))["id"]
    await outbox.pause(account, timedelta(seconds=60))
    await outbox.pause(account, timedelta(seconds=5))
    assert not await outbox_of(place, worker=2).claim_plain([outbound])
    made = await decided(outbox, outbound)
    assert isinstance(made.decision, Wait)
    assert made.decision.until > await place.now() + timedelta(seconds=50)


async def test_refused_credentials_disable_the_account(place: Ground, outbox: PostgresOutbox) -> None:
    _, outbound = await answered(place)
    account = (await place.row("channel_account"))["id"]
    await outbox.disable(account, "401")
    assert not await outbox.claim_plain([outbound])
    assert (await place.row("channel_account"))["state"] == "disabled"


async def test_a_suspect_is_counted_while_it_is_queued_and_given_up_to_people(
    place: Ground, outbox: PostgresOutbox
) -> None:
    conversation, outbound = await answered(place)
    before = await place.state(conversation)
    assert [await outbox.count(outbound) for _ in range(3)] == [1, 2, 3]
    await outbox.give_up(outbound)
    row = await place.row("outbound")
    assert (row["state"], row["reason"]) == ("draft", "processing_failed")
    assert (await place.row("dead"))["stage"] == "dispatch"
    assert (await place.state(conversation))["version"] == before["version"] + 1
    assert await outbox.count(outbound) == 0
    await outbox.give_up(outbound)
    assert len(await place.rows("dead")) == 1


async def test_a_delivery_to_the_simulated_telephone_is_there_once_for_its_key(
    place: Ground, outbox: PostgresOutbox
) -> None:
    _, outbound = await answered(place)
    claimed = await claim_one(outbox, outbound)
    for _ in range(3):
        await outbox.deliver_sim([("k1", claimed, "Hello", None), ("k1", claimed, "Hello", None)])
    assert [row["body"] for row in await place.rows("sim_delivery")] == ["Hello"]


async def test_a_send_counts_on_its_account(place: Ground, outbox: PostgresOutbox) -> None:
    account = await place.account()
    outbounds = []
    for _ in range(3):
        conversation = await place.conversation(account)
        outbounds.append(await place.outbound(conversation))
    await outbox.claim_plain(outbounds)
    assert (await place.row("account_rate"))["sent"] == 3
