"""Each mirror in rows.py makes of a row what the real statement makes of it: same start, same arguments, same row."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import product
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from cryptography.fernet import Fernet

from services.agent.adapters.postgres_turns import PostgresTurns
from services.agent.core.turn import Turn
from services.agent.evidence import Sealing
from services.agent.ports import CallRecord, Commit, Share, TurnState
from services.dispatch.adapters.postgres_addresses import PostgresAddresses
from services.dispatch.adapters.postgres_outbox import PostgresOutbox
from services.dispatch.core.outcome import Accepted, GivenBack, NoAnswer, OptedOut, Outcome, Refused, settle
from services.dispatch.ports import Claimed, Settlement
from services.ingest.adapters.postgres_inbox import PostgresInbox
from services.ingest.core.entrance import Account
from services.ingest.core.events import Inbound
from services.ingest.ports import Request
from shared.clock import SystemClock
from shared.database import Database, open_pool
from shared.ids import (
    AccountId,
    AttemptId,
    BusinessId,
    CallId,
    ConversationId,
    OutboundId,
    WorkerNumber,
    new_id,
    random_token,
)
from shared.messages import MessageKind
from shared.secrets import Vault
from shared.settings import Timeouts
from tests.model import rows
from tests.model.rows import Out, Row

pytestmark = [pytest.mark.postgres, pytest.mark.xdist_group("model")]

WORKER = 7
AT = datetime(2026, 12, 3, 8, tzinfo=UTC)


class Held:
    """A worker number without a process."""

    number = WorkerNumber(WORKER)


@dataclass
class Office:
    """A business in a database, and the adapters whose statements are mirrored."""

    connection: Any
    database: Database
    account: Account
    inbox: PostgresInbox
    turns: PostgresTurns
    outbox: PostgresOutbox

    async def conversation(self, row: Row, *, messages: Sequence[tuple[int, str]] = ()) -> ConversationId:
        """A conversation whose row is as given; judged messages by seq and verdict."""
        conversation, customer = ConversationId(new_id()), new_id()
        business, account = self.account.business, self.account.id
        await self.connection.execute(
            "insert into customer (id, business) values ($1, $2)", customer, business
        )
        await self.connection.execute(
            "insert into conversation (id, business, account, customer) values ($1, $2, $3, $4)",
            conversation, business, account, customer,
        )  # fmt: skip
        await self.connection.execute(
            "insert into channel_identity (account, business, user_id, customer, conversation) values ($1, $2, $3, $4, $5)",
            account, business, conversation.hex, customer, conversation,
        )  # fmt: skip
        await self.connection.execute(
            "insert into conversation_state (conversation, business) values ($1, $2)", conversation, business
        )
        for seq, verdict in messages:
            await self.connection.execute(
                "insert into inbound_message (id, business, conversation, account, external_id, kind, body, channel_at, seq, verdict)"
                " values ($1, $2, $3, $4, $5, 'text', 'hello', now(), $6, $7)",
                new_id(), business, conversation, account, f"{conversation.hex}-{seq}", seq, verdict,
            )  # fmt: skip
        await self.set(conversation, row)
        return conversation

    async def set(
        self,
        conversation: ConversationId,
        row: Row,
        *,
        token: UUID | None = None,
        sending: UUID | None = None,
    ) -> None:
        token = token or (random_token() if row.token else None)
        until = "now() - interval '1 s'" if row.lapsed else "now() + interval '30 s'"
        await self.connection.execute(
            f"""
            update conversation_state set version = $2, unguarded = $3, guarded_seq = $4, customer_seq = $5, handled_seq = $6,
              guard_due_at = case when $7 then now() - interval '1 s' end, due_at = case when $8 then now() - interval '1 s' end,
              lease_token = $9, lease_worker = case when $9::uuid is not null then $10::int end,
              lease_until = case when $9::uuid is not null then {until} end,
              opted_out_at = case when $11 then now() end, sending_attempt = $12, superseded_in_row = $13,
              decision_owed = case when $14 then coalesce(decision_owed, gen_random_uuid()) end
            where conversation = $1
            """,
            conversation, row.version, row.unguarded, row.guarded_seq, row.customer_seq, row.handled_seq, row.guard_due, row.due,
            token, WORKER, row.opted_out, sending, row.superseded_in_row, row.decision,
        )  # fmt: skip

    async def row(self, conversation: ConversationId, **kept: Any) -> Row:
        """The row as it is now; `kept` are fields told apart by the caller."""
        found = await self.connection.fetchrow(
            "select *, lease_until < now() as lapsed from conversation_state where conversation = $1",
            conversation,
        )
        return Row(
            version=found["version"],
            unguarded=found["unguarded"],
            guarded_seq=found["guarded_seq"],
            customer_seq=found["customer_seq"],
            handled_seq=found["handled_seq"],
            guard_due=found["guard_due_at"] is not None,
            due=found["due_at"] is not None,
            token=1 if found["lease_token"] else 0,
            lapsed=bool(found["lapsed"]),
            opted_out=found["opted_out_at"] is not None,
            sending=1 if found["sending_attempt"] else 0,
            superseded_in_row=found["superseded_in_row"],
            decision=found["decision_owed"] is not None,
        )._replace(**kept)


@pytest.fixture
async def office(database_url: str) -> AsyncIterator[Office]:
    timeouts = Timeouts()
    database = await open_pool(database_url, size=2, timeouts=timeouts)
    connection = await asyncpg.connect(database_url, server_settings={"search_path": "leeway"})
    business = await connection.fetchval(
        "insert into business (slug, name, mode, pack, locales, time_zone) values ('model', 'model', 'auto', 'clinic', '{en}', 'UTC') returning id"
    )
    number = await connection.fetchval(
        "insert into channel_account (business, channel, address) values ($1, 'sim', 'model') returning id",
        business,
    )
    vault, clock = Vault(Fernet.generate_key().decode()), SystemClock()
    turns = PostgresTurns(
        database,
        presence=Held(),  # type: ignore[arg-type]
        pack_queries={},
        provider="test",
        model="test",
        lease=timedelta(seconds=30),
    )
    outbox = PostgresOutbox(
        database,
        presence=Held(),  # type: ignore[arg-type]
        addresses=PostgresAddresses(database, vault, clock),
        plain_chars_max=4096,
        idempotent=["sim"],
        unknown_after=timedelta(seconds=45),
    )
    account = Account(
        id=AccountId(number), business=BusinessId(business), business_slug="model", channel="sim", address="model",
        keys=(), verifies_phones=False,
    )  # fmt: skip
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(batcher.run()) for batcher in turns.batchers]
        yield Office(connection, database, account, PostgresInbox(database, vault, clock), turns, outbox)
        for task in running:
            task.cancel()
    await connection.close()
    await database.close()


async def test_i1_stores_what_is_new(office: Office) -> None:
    for unguarded, new, repeated in product((0, 2), (0, 1, 2), (0, 1)):
        row = Row(
            version=4,
            unguarded=unguarded,
            guard_due=unguarded > 0,
            guarded_seq=3,
            customer_seq=3,
            handled_seq=3,
        )
        conversation = await office.conversation(row, messages=[(1, "turn")])
        external = [f"new-{conversation.hex}-{n}" for n in range(new)] + [f"{conversation.hex}-1"] * repeated
        if not external:
            continue
        await office.inbox.store(
            [
                Request(
                    account=office.account,
                    messages=tuple(inbound(e, conversation) for e in external),
                    statuses=(),
                )
            ]
        )
        assert await office.row(conversation) == rows.store(row, new)


def inbound(external_id: str, conversation: ConversationId) -> Inbound:
    return Inbound(
        external_id=external_id,
        sender=conversation.hex,
        kind=MessageKind.TEXT,
        text="hi",
        channel_at=AT,
        raw=b"{}",
    )


async def test_a1_claims_what_is_due_and_free(office: Office) -> None:
    leases = (Row(), Row(token=1), Row(token=1, lapsed=True))
    for due, unguarded, opted_out, owed, decision, lease in product(
        (True, False), (0, 1), (True, False), (True, False), (True, False), leases
    ):
        row = lease._replace(
            version=9, due=due, unguarded=unguarded, guard_due=unguarded > 0, opted_out=opted_out,
            guarded_seq=2, customer_seq=2 if owed else 1, handled_seq=1, decision=decision,
        )  # fmt: skip
        conversation = await office.conversation(
            row, messages=[(1, "turn"), (2, "turn" if owed else "stored")]
        )
        claimed = await office.turns.claim([conversation], Share(most=10))
        expected = rows.claim(row, 1, owed=owed)
        assert [turn.conversation for turn in claimed] == ([conversation] if expected else [])
        assert [turn.decides for turn in claimed] == ([decision] if expected else [])
        assert await office.row(conversation) == (expected or row)


async def claimed_turn(office: Office, *, decides: bool = False) -> Turn:
    conversation = await office.conversation(
        Row(version=1, due=True, guarded_seq=2, customer_seq=2, handled_seq=1, decision=decides),
        messages=[(1, "turn"), (2, "turn")],
    )
    (turn,) = await office.turns.claim([conversation], Share(most=10))
    return turn


AFTER_CLAIM = [
    Row(version=5, due=True, guarded_seq=guarded, customer_seq=customer, handled_seq=1, token=token, lapsed=lapsed, opted_out=opted_out,
        decision=decision)
    for (guarded, customer), (token, lapsed), opted_out, decision in product(
        ((2, 2), (3, 3), (3, 2)), ((1, False), (1, True), (2, False), (0, False)), (True, False), (True, False)
    )
]  # fmt: skip


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "full"])
async def test_a4_commits_under_its_own_lease(office: Office, plain: bool) -> None:
    for row in AFTER_CLAIM:
        turn = await claimed_turn(office)
        await office.set(turn.conversation, row, token=turn.token if row.token == 1 else None)
        committed = await office.turns.commit(a_commit(turn, plain=plain))
        expected = rows.commit(row, 1, seq_to=2)
        assert committed.written == (expected is not None)
        after = await office.row(turn.conversation)
        if expected is None:
            assert after == row._replace(token=min(row.token, 1))
        else:
            assert (after, committed.live, committed.again) == (expected[0], expected[1], expected[0].due)


async def test_a4_of_a_decision_s_turn(office: Office) -> None:
    for row in AFTER_CLAIM:
        if not row.decision:
            continue
        turn = await claimed_turn(office, decides=True)
        assert turn.decides
        await office.set(turn.conversation, row, token=turn.token if row.token == 1 else None)
        committed = await office.turns.commit(a_commit(turn, plain=False, seq_to=1))
        expected = rows.commit(row, 1, seq_to=1, decides=True)
        assert committed.written == (expected is not None)
        after = await office.row(turn.conversation)
        if expected is None:
            assert after == row._replace(token=min(row.token, 1))
        else:
            assert (after, committed.live, committed.again) == (expected[0], expected[1], expected[0].due)


def a_commit(turn: Turn, *, plain: bool, seq_to: int = 2) -> Commit:
    call = CallRecord(
        id=turn.open_call or CallId(new_id()), n=1, state="done", model="test", input=1, cached=0, output=1, reasoning=0,
        cost_usd=Decimal(0), latency_ms=1, finish="end", error=None, answer="{}",
    )  # fmt: skip
    made = Commit(
        turn=turn, seq_to=seq_to, state=TurnState.DONE, outcome="reply", outbound=OutboundId(new_id()), text="hello",
        last_call=call if plain else None,
    )  # fmt: skip
    assert made.plain is plain
    return Sealing({}).seal(made)


async def test_r_gives_the_lease_back(office: Office) -> None:
    for row in AFTER_CLAIM:
        turn = await claimed_turn(office)
        await office.set(turn.conversation, row, token=turn.token if row.token == 1 else None)
        await office.turns.release(turn, timedelta())
        expected = rows.release(row, 1) or row._replace(token=min(row.token, 1))
        assert await office.row(turn.conversation) == expected


async def test_w2_voids_a_dead_workers_leases(office: Office) -> None:
    for row in AFTER_CLAIM:
        turn = await claimed_turn(office)
        await office.set(turn.conversation, row)
        await office.turns.void_leases(WORKER)
        assert await office.row(turn.conversation) == (rows.void(row) if row.token else row)


OUTCOMES: list[Outcome] = [
    Accepted(provider_id=None),
    GivenBack(),
    Refused(reason="no"),
    NoAnswer(reason="none"),
    OptedOut(reason="21610"),
]
OUTBOUNDS = [  # state, which attempt is under way (1: the one that is settled, 2: another)
    ("sending", 1),
    ("sending", 2),
    ("unknown", 0),
    ("queued", 0),
    ("sent", 0),
    ("sent", 2),
    ("delivered", 0),
    ("draft", 0),
    ("superseded", 0),
]


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda one: type(one).__name__)
async def test_d3_settles_forward_only(office: Office, outcome: Outcome) -> None:
    settled = settle(outcome, last_part=True, idempotent=False, backoff=timedelta())
    for state, under_way in OUTBOUNDS:
        row = Row(version=3, guarded_seq=2, customer_seq=2, handled_seq=2, sending=under_way)
        conversation = await office.conversation(row)
        outbound, attempts = OutboundId(new_id()), [AttemptId(new_id()), AttemptId(new_id())]
        newest = 2 if under_way == 2 or state in ("queued", "sent", "delivered", "superseded") else 1
        await office.connection.execute(
            "insert into outbound (id, business, conversation, origin_kind, origin, basis_seq, epoch, mode, state, reason, body, first_try_at)"
            " values ($1, $2, $3, 'turn', $1, 2, 0, 'auto', $4, case $4 when 'draft' then 'may_have_arrived' end, 'hi', now())",
            outbound, office.account.business, conversation, state,
        )  # fmt: skip
        open_ = under_way == 1
        for attempt in attempts[:newest]:
            first = attempt is attempts[0]
            attempt_state = (
                "sending"
                if (open_ if first else under_way == 2)
                else "unknown"
                if state in ("unknown", "draft")
                else "retried"
            )
            await office.connection.execute(
                "insert into send_attempt (id, business, conversation, outbound, part, account, at_send_seq, worker, state, settled_at)"
                " values ($1, $2, $3, $4, 1, $5, 2, $6, $7, case when $7 <> 'sending' then now() end)",
                attempt, office.account.business, conversation, outbound, office.account.id, WORKER, attempt_state,
            )  # fmt: skip
        await office.set(conversation, row, sending=attempts[under_way - 1] if under_way else None)
        claimed = Claimed(
            attempt=attempts[0], outbound=outbound, conversation=conversation, account=office.account.id, channel="sim",
            user_id="", parts=("hi",), part=1, round=1, buttons=None, thread=None, in_reply_to=None,
        )  # fmt: skip
        for _ in range(2):  # again with the same arguments changes nothing
            await office.outbox.settle([Settlement(claimed=claimed, settled=settled, next_attempt=None)])
        out = Out("reply", 2, state=state, attempt=newest, attempt_open=under_way > 0)
        accepted = isinstance(outcome, Accepted)
        expected_row, expected_out = rows.settle(
            row, out, 1, settled.outbound or state, accepted=accepted, opts_out=settled.opts_out
        )
        after = await office.row(conversation)
        became = await office.connection.fetchval("select state from outbound where id = $1", outbound)
        assert (state, under_way, became) == (state, under_way, expected_out.state)
        assert after == expected_row._replace(sending=min(expected_row.sending, 1))


async def test_a_send_given_up_without_an_answer_becomes_an_open_decision(office: Office) -> None:
    conversation = await office.conversation(Row(version=3, guarded_seq=2, customer_seq=2, handled_seq=2))
    outbound, attempt = OutboundId(new_id()), AttemptId(new_id())
    business = office.account.business
    await office.connection.execute(
        "insert into outbound (id, business, conversation, origin_kind, origin, basis_seq, epoch, mode, state, body, first_try_at)"
        " values ($1, $2, $3, 'turn', $1, 2, 0, 'auto', 'sending', 'hi', now() - interval '3 min')",
        outbound, business, conversation,
    )  # fmt: skip
    await office.connection.execute(
        "insert into send_attempt (id, business, conversation, outbound, part, account, at_send_seq, worker, started_at)"
        " values ($1, $2, $3, $4, 1, $5, 2, $6, now() - interval '3 min')",
        attempt, business, conversation, outbound, office.account.id, WORKER,
    )  # fmt: skip
    await office.set(conversation, Row(version=3, sending=1), sending=attempt)
    claimed = Claimed(
        attempt=attempt, outbound=outbound, conversation=conversation, account=office.account.id, channel="sim",
        user_id="", parts=("hi",), part=1, round=1, buttons=None, thread=None, in_reply_to=None,
    )  # fmt: skip
    settled = settle(NoAnswer(reason="none"), last_part=True, idempotent=True, backoff=timedelta())
    await office.outbox.settle([Settlement(claimed=claimed, settled=settled, next_attempt=None)])
    query = "select state, reason from outbound where id = $1"
    assert (await office.connection.fetchrow(query, outbound))["state"] == "unknown"
    assert await office.outbox.open_decisions() == 1
    assert tuple(await office.connection.fetchrow(query, outbound)) == ("draft", "may_have_arrived")
