"""What tests are about, without the dull fields: rows on a real Postgres, values of the cores, a clock."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import asyncpg

from services.agent.core.gate import Dials
from services.agent.core.heard import Heard
from services.agent.core.turn import (
    Business,
    Caps,
    Pending,
    Prompt,
    PromptState,
    Turn,
    WaitsFor,
)
from services.dispatch.core.delivery import Origin, Snapshot
from shared.autonomy import Asked, Mode
from shared.channels.traits import TRAITS
from shared.database import Database, open_pool
from shared.digest import digest
from shared.ids import (
    AccountId,
    ActionId,
    AttemptId,
    BusinessId,
    ConversationId,
    CustomerId,
    LeaseToken,
    MessageId,
    OutboundId,
    TurnId,
    WorkerNumber,
    new_id,
    random_token,
)
from shared.messages import MessageKind, Verdict
from shared.settings import Timeouts

NOON = datetime(2026, 12, 3, 10, 0, tzinfo=UTC)  # a Thursday; noon in Bucharest
ANA = "+40700000001"
ONE = WorkerNumber(1)


class SetClock:
    """A clock that stands still until a test moves it."""

    def __init__(self, now: datetime = NOON) -> None:
        self._now = now
        self._passed = 0.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._passed

    def pass_(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)
        self._passed += seconds


@dataclass(slots=True)
class Worker:
    """Stands for a Presence: a number that is held."""

    number: WorkerNumber = ONE
    held: bool = True


class Ground:
    """A database of the test's own, its pipeline pool, and rows made by the schema's owner.

    A conversation made here is a stranger's who wrote nothing yet; `said` adds a message that was judged,
    `wrote` one that was not.
    """

    def __init__(self, url: str, database: Database, owner: Any) -> None:
        self.url = url
        self.database = database
        self.owner = owner
        self._made = 0

    def _next(self) -> int:
        self._made += 1
        return self._made

    async def insert(self, table: str, **columns: Any) -> Any:
        """One row; what the database made of it."""
        names = ", ".join(columns)
        places = ", ".join(f"${at}" for at in range(1, len(columns) + 1))
        return await self.owner.fetchrow(
            f"insert into {table} ({names}) values ({places}) returning *", *columns.values()
        )

    async def rows(self, table: str, order: str = "1", **where: Any) -> list[Any]:
        conditions = " and ".join(f"{name} = ${at}" for at, name in enumerate(where, start=1)) or "true"
        rows = await self.owner.fetch(
            f"select * from {table} where {conditions} order by {order}", *where.values()
        )
        return list(rows)

    async def row(self, table: str, **where: Any) -> Any:
        (row,) = await self.rows(table, **where)
        return row

    async def set(self, table: str, key: dict[str, Any], **columns: Any) -> None:
        changes = ", ".join(f"{name} = ${at}" for at, name in enumerate(columns, start=1))
        conditions = " and ".join(f"{name} = ${at}" for at, name in enumerate(key, start=len(columns) + 1))
        await self.owner.execute(
            f"update {table} set {changes} where {conditions}", *columns.values(), *key.values()
        )

    async def now(self) -> datetime:
        """Postgres's."""
        now: datetime = await self.owner.fetchval("select now()")
        return now

    async def business(self, **columns: Any) -> BusinessId:
        number = self._next()
        plain = {
            "slug": f"clinic-{number}",
            "name": f"Clinic {number}",
            "mode": "auto",
            "pack": "clinic",
            "locales": ["en", "ro"],
            "time_zone": "Europe/Bucharest",
        }
        return BusinessId((await self.insert("business", **(plain | columns)))["id"])

    async def account(self, business: BusinessId | None = None, **columns: Any) -> AccountId:
        plain = {
            "business": business or await self.business(),
            "channel": "sim",
            "address": f"line-{self._next()}",
        }
        return AccountId((await self.insert("channel_account", **(plain | columns)))["id"])

    async def conversation(
        self, account: AccountId | None = None, *, user_id: str | None = None, **state: Any
    ) -> ConversationId:
        account = account or await self.account()
        business = (await self.row("channel_account", id=account))["business"]
        customer, conversation = CustomerId(new_id()), ConversationId(new_id())
        await self.insert("customer", id=customer, business=business, name="Ana")
        await self.insert(
            "conversation", id=conversation, business=business, account=account, customer=customer
        )
        await self.insert(
            "channel_identity",
            account=account,
            business=business,
            user_id=user_id or f"+4070{self._next():07}",
            customer=customer,
            conversation=conversation,
        )
        await self.insert("conversation_state", conversation=conversation, business=business, **state)
        return conversation

    async def state(self, conversation: ConversationId) -> Any:
        return await self.row("conversation_state", conversation=conversation)

    async def set_state(self, conversation: ConversationId, **columns: Any) -> None:
        await self.set("conversation_state", {"conversation": conversation}, **columns)

    async def wrote(self, conversation: ConversationId, text: str = "Hello", **columns: Any) -> MessageId:
        """A message that is not judged yet, as ingest leaves it."""
        message = await self._message(conversation, text, **columns)
        await self.owner.execute(
            "update conversation_state set unguarded = unguarded + 1, version = version + 1, "
            "guard_due_at = coalesce(guard_due_at, now()) where conversation = $1",
            conversation,
        )
        return message

    async def said(
        self, conversation: ConversationId, text: str = "Hello", *, due: bool = True, **columns: Any
    ) -> MessageId:
        """A message that the guard left to a turn, which is due at once unless `due` is False."""
        seq = (await self.state(conversation))["guarded_seq"] + 1
        plain = {"seq": seq, "verdict": "turn"}
        message = await self._message(conversation, text, **(plain | columns))
        await self.owner.execute(
            "update conversation_state set guarded_seq = $2, customer_seq = $2, version = version + 1, "
            "due_at = case when $3 then coalesce(due_at, now()) else due_at end, "
            "unanswered_since = coalesce(unanswered_since, now()) where conversation = $1",
            conversation,
            seq,
            due,
        )
        return message

    async def _message(self, conversation: ConversationId, text: str, **columns: Any) -> MessageId:
        row = await self.row("conversation", id=conversation)
        message = MessageId(new_id())
        plain = {
            "id": message,
            "business": row["business"],
            "conversation": conversation,
            "account": row["account"],
            "external_id": f"sim-{message.hex}",
            "channel_message_id": f"sim-{message.hex}",
            "kind": "text",
            "body": text,
            "channel_at": await self.now(),
        }
        await self.insert("inbound_message", **(plain | columns))
        return message

    async def turn(self, conversation: ConversationId, cause: MessageId, **columns: Any) -> TurnId:
        turn = TurnId(new_id())
        plain = {
            "id": turn,
            "business": (await self.state(conversation))["business"],
            "conversation": conversation,
            "cause": cause,
            "seq_from": 1,
            "seq_to": 1,
            "engine": "tool_loop",
            "model": "mock",
        }
        await self.insert("turn", **(plain | columns))
        return turn

    async def outbound(
        self, conversation: ConversationId, text: str = "Hello, how can I help?", **columns: Any
    ) -> OutboundId:
        """A reply that waits to be sent: plain, auto, on all that the customer said."""
        state = await self.state(conversation)
        outbound = OutboundId(new_id())
        plain = {
            "id": outbound,
            "business": state["business"],
            "conversation": conversation,
            "origin_kind": "turn",
            "origin": new_id(),
            "basis_seq": state["customer_seq"],
            "epoch": state["handoff_epoch"],
            "mode": "auto",
            "body": text,
            "ring_at": await self.now() + timedelta(seconds=2),
        }
        await self.insert("outbound", **(plain | columns))
        return outbound

    async def attempt(self, outbound: OutboundId, **columns: Any) -> AttemptId:
        """A send of it under way."""
        row = await self.row("outbound", id=outbound)
        conversation = await self.row("conversation", id=row["conversation"])
        attempt = AttemptId(new_id())
        plain = {
            "id": attempt,
            "business": row["business"],
            "conversation": row["conversation"],
            "outbound": outbound,
            "part": 1,
            "account": conversation["account"],
            "at_send_seq": 0,
            "worker": 1,
        }
        await self.insert("send_attempt", **(plain | columns))
        return attempt

    async def action(
        self, conversation: ConversationId, *, prompt: OutboundId, turn: TurnId, **columns: Any
    ) -> ActionId:
        """A write that waits for the customer."""
        row = await self.row("conversation", id=conversation)
        action = ActionId(new_id())
        plain = {
            "id": action,
            "business": row["business"],
            "conversation": conversation,
            "customer": row["customer"],
            "turn": turn,
            "tool": "book_appointment",
            "arguments": "{}",
            "shown": "{}",
            "digest": b"digest",
            "confirmations_needed": 1,
            "state": "customer",
            "prompt": prompt,
            "at_seq": (await self.state(conversation))["guarded_seq"],
        }
        await self.insert("pending_action", **(plain | columns))
        return action

    async def leased(self, conversation: ConversationId, *, worker: int = 1, seconds: int = 30) -> UUID:
        token = random_token()
        await self.set_state(
            conversation,
            lease_token=token,
            lease_worker=worker,
            lease_until=await self.now() + timedelta(seconds=seconds),
        )
        return token

    @asynccontextmanager
    async def held(self, table: str, column: str, keys: Sequence[UUID]) -> AsyncIterator[None]:
        """Another session's lock on these rows, as long as the context lasts."""
        other = await asyncpg.connect(self.url, server_settings={"search_path": "leeway"})
        try:
            async with other.transaction():
                await other.execute(
                    f"select from {table} where {column} = any ($1::uuid[]) for update", list(keys)
                )
                yield
        finally:
            await other.close()

    async def waiting(self, query_name: str) -> bool:
        """Whether a statement of that name waits for a lock."""
        found: bool = await self.owner.fetchval(
            "select exists (select from pg_stat_activity where datname = current_database() "
            "and wait_event_type = 'Lock' and query like '%/* ' || $1 || ' */%')",
            query_name,
        )
        return found


@asynccontextmanager
async def ground(url: str, *, pool: int = 4, timeouts: Timeouts | None = None) -> AsyncIterator[Ground]:
    """Rows on the database at the URL, which has the schema."""
    database = await open_pool(url, size=pool, timeouts=timeouts or Timeouts())
    owner = await asyncpg.connect(url, server_settings={"search_path": "leeway", "timezone": "UTC"})
    try:
        yield Ground(url, database, owner)
    finally:
        await owner.close()
        await database.close()


# Values of the agent's core


def heard(seq: int = 1, text: str = "Hello", **fields: Any) -> Heard:
    """A message of the customer's that the guard left to a turn, said a second after the one before."""
    at = NOON + timedelta(seconds=seq)
    plain = {
        "id": MessageId(UUID(int=seq)),
        "kind": MessageKind.TEXT,
        "button": None,
        "quoted": None,
        "channel_at": at,
        "received_at": at,
        "verdict": Verdict.TURN,
        "unsupported": False,
    }
    return Heard(seq=seq, text=text, **(plain | fields))


def pending(**fields: Any) -> Pending:
    """A booking whose prompt was sent at noon, when one message had been judged."""
    plain = {
        "id": ActionId(UUID(int=0xAC)),
        "tool": "book_appointment",
        "arguments": "{}",
        "shown": "{}",
        "digest": digest("book_appointment", "{}", "{}"),
        "summary": "Book: cleaning.",
        "confirmations_needed": 1,
        "asked": Asked.CUSTOMER,
        "waits_for": WaitsFor.CUSTOMER,
        "at_seq": 1,
        "prompt": prompt(),
    }
    return Pending(**(plain | fields))


def prompt(**fields: Any) -> Prompt:
    """The question of that booking, on the customer's phone since noon."""
    plain = {
        "outbound": OutboundId(UUID(int=0xAA)),
        "state": PromptState.SENT,
        "at_send_seq": 1,
        "sent_at": NOON,
        "provider_ids": frozenset({"prompt-on-the-channel"}),
    }
    return Prompt(**(plain | fields))


def turn(*messages: Heard, **fields: Any) -> Turn:
    """A claimed turn of the messages, by default of one."""
    business = Business(
        id=BusinessId(1),
        slug="clinic",
        name="Clinic",
        pack="clinic",
        engine="tool_loop",
        locales=("en", "ro"),
        zone=ZoneInfo("Europe/Bucharest"),
        stale_after=timedelta(hours=1),
        caps=Caps(),
    )
    plain = {
        "id": TurnId(UUID(int=0x70)),
        "conversation": ConversationId(UUID(int=0xC0)),
        "token": LeaseToken(UUID(int=0x7E)),
        "business": business,
        "customer": CustomerId(UUID(int=0xC1)),
        "locale": "en",
        "dials": Dials(mode=Mode.AUTO),
        "epoch": 0,
        "attempt": 1,
        "fruitless": 1,
        "now": NOON + timedelta(minutes=1),
        "messages": messages or (heard(),),
        "handled_seq": 0,
    }
    return Turn(**(plain | fields))


# Values of dispatch's core


def snapshot(**fields: Any) -> Snapshot:
    """A plain reply that nothing stands against."""
    plain = {
        "outbound": OutboundId(UUID(int=0x0B)),
        "conversation": ConversationId(UUID(int=0xC0)),
        "business": BusinessId(1),
        "account": AccountId(1),
        "channel": "sim",
        "traits": TRAITS["sim"],
        "user_id": ANA,
        "reply_to": None,
        "origin": Origin.TURN,
        "basis_seq": 1,
        "epoch": 0,
        "mode_at_decision": Mode.AUTO,
        "held": None,
        "body": "Hello, how can I help?",
        "buttons": None,
        "round": 1,
        "receipt": False,
        "parts_sent": 0,
        "tries": 0,
        "may_have_left": False,
        "not_before": None,
        "thread": None,
        "in_reply_to": None,
        "now": NOON,
        "version": 1,
        "unguarded": 0,
        "customer_seq": 1,
        "in_handoff": False,
        "handoff_epoch": 0,
        "opted_out": False,
        "modes": (Mode.AUTO, None, None),
        "account_on": True,
        "account_waits_until": None,
        "account_next_at": None,
        "person_waits_until": None,
        "has_template": False,
        "last_customer_at": NOON,
        "window_closed_at": None,
        "sending": False,
        "first_in_line": True,
        "superseded_in_row": 0,
        "unanswered_since": None,
        "local_now": NOON,
        "quiet_from": time(21),
        "quiet_to": time(8),
    }
    return Snapshot(**(plain | fields))
