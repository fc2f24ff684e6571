"""What handlers count on, of the record in Postgres and of the one that stands for it in their tests."""

from datetime import timedelta
from typing import Any, Protocol

import pytest

from services.agent.adapters.postgres_turns import PostgresTurns
from services.agent.core.turn import Turn
from services.agent.ports import Turns
from services.dispatch.adapters.postgres_addresses import PostgresAddresses
from services.dispatch.adapters.postgres_outbox import PostgresOutbox
from services.dispatch.core.delivery import Discard, NotYet, Send, Supersede, decide
from services.dispatch.core.outcome import Accepted, Refused, settle
from services.dispatch.ports import Claimed, Decided, Outbox, Settlement
from services.guard.adapters.postgres_conversations import PostgresConversations
from services.guard.core.guards import judge
from services.guard.core.record import Case, Record, record
from services.guard.ports import Conversations
from shared.autonomy import Mode
from shared.ids import ActionId, AttemptId, ConversationId, OutboundId, WorkerNumber, new_id
from shared.locales import load
from shared.secrets import Vault, new_key
from tests.support.factories import Ground, SetClock, Worker, heard, pending, turn
from tests.support.memory_conversations import MemoryConversations
from tests.support.memory_outbox import MemoryOutbox
from tests.support.memory_turns import MemoryTurns
from tests.support.turns_on_postgres import claim_one, receipt_for, self_asked

KINDS = ["memory", pytest.param("postgres", marks=pytest.mark.postgres)]


class Customers(Protocol):
    """Both records, with ways to do what other stages do."""

    @property
    def record(self) -> Conversations: ...

    async def new(self) -> ConversationId: ...

    async def wrote(self, conversation: ConversationId, text: str) -> None: ...

    async def seqs(self, conversation: ConversationId) -> tuple[int, int, int]:
        """Unguarded, guarded_seq, customer_seq."""
        ...


class InMemory:
    def __init__(self) -> None:
        self.record = MemoryConversations()

    async def new(self) -> ConversationId:
        return self.record.new()

    async def wrote(self, conversation: ConversationId, text: str) -> None:
        self.record.wrote(conversation, text)

    async def seqs(self, conversation: ConversationId) -> tuple[int, int, int]:
        row = self.record.kept[conversation].row
        return row.unguarded, row.guarded_seq, row.customer_seq


class InPostgres:
    def __init__(self, place: Ground) -> None:
        self.place = place
        self.record = PostgresConversations(place.database)

    async def new(self) -> ConversationId:
        return await self.place.conversation()

    async def wrote(self, conversation: ConversationId, text: str) -> None:
        await self.place.wrote(conversation, text)

    async def seqs(self, conversation: ConversationId) -> tuple[int, int, int]:
        row = await self.place.state(conversation)
        return row["unguarded"], row["guarded_seq"], row["customer_seq"]


@pytest.fixture(params=KINDS)
def customers(request: pytest.FixtureRequest) -> Customers:
    return InMemory() if request.param == "memory" else InPostgres(request.getfixturevalue("place"))


async def gather_one(record: Conversations, conversation: ConversationId) -> Case:
    (case,) = await record.gather([conversation])
    return case


def judged(case: Case) -> Record:
    return record(case, judge(case.messages, case.facts, [load(name) for name in case.locales]))


async def test_unjudged_messages_are_gathered_in_order_until_they_are_recorded(customers: Customers) -> None:
    conversation, idle = await customers.new(), await customers.new()
    for text in ("Hi", "A place on Monday?"):
        await customers.wrote(conversation, text)
    cases = await customers.record.gather([conversation, idle, ConversationId(new_id())])
    assert [case.conversation for case in cases] == [conversation]
    assert [message.text for message in cases[0].messages] == ["Hi", "A place on Monday?"]
    assert await customers.record.record([judged(cases[0])], {}) == {conversation: []}
    assert await customers.seqs(conversation) == (0, 2, 2)
    assert list(await customers.record.gather([conversation])) == []


async def test_a_record_of_a_row_that_changed_is_refused(customers: Customers) -> None:
    conversation = await customers.new()
    await customers.wrote(conversation, "Hi")
    before = judged(await gather_one(customers.record, conversation))
    await customers.wrote(conversation, "Still there?")
    assert await customers.record.record([before], {}) == {}
    assert await customers.seqs(conversation) == (2, 0, 0)
    again = judged(await gather_one(customers.record, conversation))
    assert await customers.record.record([again], {}) == {conversation: []}
    assert await customers.record.record([again], {}) == {}
    assert await customers.seqs(conversation) == (0, 2, 2)


async def test_notices_are_queued_with_the_record(customers: Customers) -> None:
    conversation = await customers.new()
    await customers.wrote(conversation, "I want a human")
    one = judged(await gather_one(customers.record, conversation))
    ((message, _),) = one.notices
    recorded = await customers.record.record([one], {(conversation, message): "A colleague will answer."})
    assert len(recorded[conversation]) == 1
    await customers.wrote(conversation, "Hello?")
    assert (await gather_one(customers.record, conversation)).facts.in_handoff


async def test_attempts_are_counted_while_something_is_owed(customers: Customers) -> None:
    conversation = await customers.new()
    assert await customers.record.count(conversation) == 0
    await customers.wrote(conversation, "Hi")
    assert [await customers.record.count(conversation) for _ in range(2)] == [1, 2]
    assert await customers.record.give_up(conversation, "Sorry.") is not None
    assert await customers.record.count(conversation) == 0
    assert await customers.record.give_up(conversation, "Sorry.") is None
    assert await customers.seqs(conversation) == (0, 1, 1)


async def test_a_conversation_speaks_the_business_s_first_language_until_it_is_known(
    customers: Customers,
) -> None:
    conversation = await customers.new()
    assert await customers.record.locale(conversation) == "en"
    await customers.wrote(conversation, "Bună ziua, aș vrea o programare mâine")
    await customers.record.record([judged(await gather_one(customers.record, conversation))], {})
    assert await customers.record.locale(conversation) == "ro"


# Replies


class Replies(Protocol):
    @property
    def outbox(self) -> Outbox: ...

    async def new(self, after: OutboundId | None = None, **fields: Any) -> OutboundId:
        """A reply that waits, of a conversation of its own or of that of another reply."""
        ...

    async def opted_out(self, outbound: OutboundId) -> None: ...

    async def wrote_again(self, outbound: OutboundId) -> None: ...

    async def state(self, outbound: OutboundId) -> str: ...


class RepliesInMemory:
    def __init__(self) -> None:
        self.outbox = MemoryOutbox()

    async def new(self, after: OutboundId | None = None, **fields: Any) -> OutboundId:
        conversation = self.outbox.kept[after].reply.conversation if after else None
        return self.outbox.new(conversation, **fields)

    async def opted_out(self, outbound: OutboundId) -> None:
        self.outbox.changed(outbound, opted_out=True)

    async def wrote_again(self, outbound: OutboundId) -> None:
        self.outbox.changed(outbound, customer_seq=2)

    async def state(self, outbound: OutboundId) -> str:
        return self.outbox.kept[outbound].state


class RepliesInPostgres:
    def __init__(self, place: Ground) -> None:
        self.place = place
        self.outbox = PostgresOutbox(
            place.database,
            presence=Worker(WorkerNumber(1)),  # type: ignore[arg-type]  # only its number is asked
            addresses=PostgresAddresses(place.database, Vault(new_key()), SetClock()),
            plain_chars_max=50,
            idempotent=["sim"],
            unknown_after=timedelta(seconds=45),
        )

    async def new(self, after: OutboundId | None = None, **fields: Any) -> OutboundId:
        if after:
            conversation = ConversationId((await self.place.row("outbound", id=after))["conversation"])
        else:
            conversation = await self.place.conversation()
            await self.place.said(conversation, due=False)
        return await self.place.outbound(conversation, **fields)

    async def opted_out(self, outbound: OutboundId) -> None:
        await self._changed(outbound, "opted_out_at = now()")

    async def wrote_again(self, outbound: OutboundId) -> None:
        await self._changed(outbound, "customer_seq = 2")

    async def state(self, outbound: OutboundId) -> str:
        state: str = (await self.place.row("outbound", id=outbound))["state"]
        return state

    async def _changed(self, outbound: OutboundId, change: str) -> None:
        await self.place.owner.execute(
            f"update conversation_state s set {change}, version = version + 1 "
            "from outbound o where o.id = $1 and s.conversation = o.conversation",
            outbound,
        )


@pytest.fixture(params=KINDS)
def replies(request: pytest.FixtureRequest) -> Replies:
    return (
        RepliesInMemory()
        if request.param == "memory"
        else RepliesInPostgres(request.getfixturevalue("place"))
    )


async def decided(replies: Replies, outbound: OutboundId, parts: tuple[str, ...] = ("Hello",)) -> Decided:
    (reply,) = await replies.outbox.gather([outbound])
    return Decided(reply=reply, decision=decide(reply), parts=parts)


def accepted(claimed: Claimed, next_attempt: AttemptId | None = None) -> Settlement:
    settled = settle(
        Accepted(provider_id=None), last_part=claimed.last_part, idempotent=True, backoff=timedelta(seconds=1)
    )
    return Settlement(claimed=claimed, settled=settled, next_attempt=next_attempt)


async def test_a_plain_reply_is_claimed_once(replies: Replies) -> None:
    outbound = await replies.new()
    (claimed,) = await replies.outbox.claim_plain([outbound])
    assert (claimed.outbound, claimed.part, claimed.parts) == (outbound, 1, ("Hello, how can I help?",))
    assert await replies.state(outbound) == "sending"
    assert list(await replies.outbox.claim_plain([outbound])) == []
    assert list(await replies.outbox.gather([outbound])) == []


async def test_of_a_conversation_one_reply_is_sent_at_a_time_the_oldest_first(replies: Replies) -> None:
    first = await replies.new()
    second = await replies.new(first)
    assert [one.outbound for one in await replies.outbox.claim_plain([second, first])] == [first]
    assert (await decided(replies, second)).decision == NotYet()


async def test_an_outcome_frees_the_conversation_and_names_its_next_reply(replies: Replies) -> None:
    first = await replies.new()
    second = await replies.new(first)
    (claimed,) = await replies.outbox.claim_plain([first])
    stored = (await replies.outbox.settle([accepted(claimed)]))[claimed.attempt]
    assert (stored.current, stored.following) == (True, second)
    assert await replies.state(first) == "sent"
    assert not (await replies.outbox.settle([accepted(claimed)]))[claimed.attempt].current
    assert len(await replies.outbox.claim_plain([second])) == 1


async def test_a_reply_of_two_parts_goes_on_under_a_second_attempt(replies: Replies) -> None:
    outbound = await replies.new(body="x" * 60)
    assert list(await replies.outbox.claim_plain([outbound])) == []
    (claimed,), _ = await replies.outbox.record([await decided(replies, outbound, ("x" * 50, "x" * 10))])
    second = AttemptId(new_id())
    assert (await replies.outbox.settle([accepted(claimed, second)]))[claimed.attempt].current
    assert await replies.state(outbound) == "sending"


async def test_a_decision_on_a_version_that_is_gone_is_not_recorded(replies: Replies) -> None:
    outbound = await replies.new()
    before = await decided(replies, outbound)
    assert before.decision == Send()
    await replies.opted_out(outbound)
    assert tuple(map(list, await replies.outbox.record([before]))) == ([], [])
    after = await decided(replies, outbound)
    assert after.decision == Discard()
    assert tuple(map(list, await replies.outbox.record([after]))) == ([], [outbound])
    assert await replies.state(outbound) == "discarded"


async def test_a_reply_that_the_customer_wrote_past_is_superseded(replies: Replies) -> None:
    outbound = await replies.new()
    await replies.wrote_again(outbound)
    assert list(await replies.outbox.claim_plain([outbound])) == []
    after = await decided(replies, outbound)
    assert after.decision == Supersede()
    await replies.outbox.record([after])
    assert await replies.state(outbound) == "superseded"


async def test_a_refused_reply_is_a_draft(replies: Replies) -> None:
    outbound = await replies.new()
    (claimed,) = await replies.outbox.claim_plain([outbound])
    settled = settle(Refused(reason="x"), last_part=True, idempotent=True, backoff=timedelta())
    await replies.outbox.settle([Settlement(claimed=claimed, settled=settled, next_attempt=None)])
    assert await replies.state(outbound) == "draft"


async def test_a_suspect_is_counted_and_given_up(replies: Replies) -> None:
    outbound = await replies.new()
    assert [await replies.outbox.count(outbound) for _ in range(2)] == [1, 2]
    await replies.outbox.give_up(outbound)
    assert await replies.state(outbound) == "draft"
    assert await replies.outbox.count(outbound) == 0


# Executions


class Booths(Protocol):
    """Both records of turns, with an action that a turn would execute."""

    @property
    def record(self) -> Turns: ...

    async def asked(self) -> Turn:
        """A claimed turn of a yes to an action that waits."""
        ...

    async def ended(self, turn: Turn) -> None:
        """Its action ends by other hands."""
        ...


class BoothInMemory:
    def __init__(self) -> None:
        self.record = MemoryTurns()

    async def asked(self) -> Turn:
        self.record.stored = pending()
        return turn(heard(2, "Yes"), handled_seq=1, pending=self.record.stored)

    async def ended(self, turn: Turn) -> None:
        self.record.stored = None


class BoothInPostgres:
    def __init__(self, place: Ground, record: PostgresTurns) -> None:
        self.place = place
        self.record = record

    async def asked(self) -> Turn:
        conversation = await self.place.conversation()
        await self_asked(self.place, self.record, conversation)
        await self.place.said(conversation, "Yes")
        return await claim_one(self.record, conversation)

    async def ended(self, turn: Turn) -> None:
        await self.place.owner.execute("update pending_action set state = 'cleared'")


@pytest.fixture(params=KINDS)
def booth(request: pytest.FixtureRequest) -> Booths:
    if request.param == "memory":
        return BoothInMemory()
    return BoothInPostgres(request.getfixturevalue("place"), request.getfixturevalue("turns"))


def action_of(turn: Turn) -> ActionId:
    assert turn.pending is not None
    return turn.pending.id


async def test_an_execution_keeps_what_it_did_when_it_ends(booth: Booths) -> None:
    turn = await booth.asked()
    action, message = action_of(turn), turn.taken.messages[-1].id
    async with booth.record.execution(turn) as execution:
        locked = await execution.lock(action)
        assert locked is not None
        assert locked.confirmations == 0
        assert await execution.confirm(action, message) == 1
        assert await execution.confirm(action, message) == 1
        await execution.receipt(receipt_for(action))
    assert await booth.record.receipt_of(action) == "{}"
    assert [one.action for one in await booth.record.receipts_of(turn)] == [action]
    async with booth.record.execution(turn) as execution:
        locked = await execution.lock(action)
        assert locked is not None
        assert locked.confirmations == 1


async def test_an_execution_that_raises_did_nothing(booth: Booths) -> None:
    turn = await booth.asked()
    action = action_of(turn)
    with pytest.raises(ZeroDivisionError):
        await confirmed_and_raised(booth.record, turn)
    assert await booth.record.receipt_of(action) is None
    async with booth.record.execution(turn) as execution:
        locked = await execution.lock(action)
        assert locked is not None
        assert locked.confirmations == 0


async def confirmed_and_raised(record: Turns, turn: Turn) -> None:
    async with record.execution(turn) as execution:
        await execution.lock(action_of(turn))
        await execution.confirm(action_of(turn), turn.taken.messages[-1].id)
        await execution.receipt(receipt_for(action_of(turn)))
        raise ZeroDivisionError


async def test_an_action_that_ended_can_t_be_locked(booth: Booths) -> None:
    turn = await booth.asked()
    await booth.ended(turn)
    async with booth.record.execution(turn) as execution:
        assert await execution.lock(action_of(turn)) is None


async def test_an_allowed_call_locks_the_row_alone(booth: Booths) -> None:
    turn = await booth.asked()
    async with booth.record.execution(turn) as execution:
        locked = await execution.lock(None)
        assert locked is not None
        assert (locked.pending, locked.dials.mode) == (None, Mode.AUTO)
