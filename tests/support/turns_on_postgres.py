"""The record of turns on a real Postgres, and the commits, calls and actions that its tests write."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from decimal import Decimal
from typing import Any

from packs.clinic import PACK
from services.agent.adapters.postgres_turns import PostgresTurns
from services.agent.core.turn import Turn
from services.agent.evidence import Sealing
from services.agent.ports import CallRecord, Commit, NewAction, Receipt, Share, ToolRecord, TurnState
from shared.database import queries_of
from shared.ids import ActionId, CallId, ConversationId, OutboundId, WorkerNumber, new_id
from shared.work.presence import Presence
from tests.support.factories import Ground, Worker

ANYONE = Share(most=100)
SEALING = Sealing({PACK.name: PACK})
LEASE = timedelta(seconds=30)


def turns_of(
    place: Ground, *, worker: int = 1, model: str = "mock", presence: Presence | None = None
) -> PostgresTurns:
    """With a `presence`, the worker is who that says."""
    return PostgresTurns(
        place.database,
        presence=presence or Worker(WorkerNumber(worker)),  # type: ignore[arg-type]  # only its number is asked
        pack_queries={PACK.name: queries_of(PACK)},
        provider="mock",
        model=model,
        lease=LEASE,
    )


@asynccontextmanager
async def running(turns: PostgresTurns) -> AsyncIterator[PostgresTurns]:
    async with asyncio.TaskGroup() as group:
        jobs = [group.create_task(batcher.run()) for batcher in turns.batchers]
        yield turns
        for job in jobs:
            job.cancel()


async def claim_one(turns: PostgresTurns, conversation: ConversationId) -> Turn:
    (turn,) = await turns.claim([conversation], ANYONE)
    return turn


def reply(turn: Turn, text: str = "Hello!", **fields: Any) -> Commit:
    """The commit of an ordinary turn, in full form."""
    plain = {
        "turn": turn,
        "seq_to": turn.taken.seq_to,
        "state": TurnState.DONE,
        "outcome": "reply",
        "outbound": OutboundId(new_id()),
        "text": text,
    }
    return SEALING.seal(Commit(**(plain | fields)))


def new_action(**fields: Any) -> NewAction:
    plain = {
        "id": ActionId(new_id()),
        "tool": "book_appointment",
        "arguments": "{}",
        "shown": "{}",
        "digest": b"d",
        "summary": "Book: cleaning.",
        "confirmations_needed": 1,
    }
    return NewAction(**(plain | fields))


def record_of(**fields: Any) -> ToolRecord:
    plain = {
        "n": 1,
        "position": 0,
        "call_id": "c1",
        "tool": "find_slots",
        "arguments": "{}",
        "decision": "allow",
        "reason": None,
        "result": "{}",
    }
    return ToolRecord(**(plain | fields))


def call(call_id: CallId, n: int = 1, **fields: Any) -> CallRecord:
    plain = {
        "id": call_id,
        "n": n,
        "state": "done",
        "model": "mock-1",
        "input": 100,
        "cached": 10,
        "output": 20,
        "reasoning": 0,
        "cost_usd": Decimal("0.001"),
        "latency_ms": 5,
        "finish": "end",
        "error": None,
        "answer": '{"text":"Hello!"}',
    }
    return CallRecord(**(plain | fields))


async def self_asked(
    place: Ground, turns: PostgresTurns, conversation: ConversationId, **fields: Any
) -> ActionId:
    """An action that a turn asked about, its prompt not sent yet."""
    await place.said(conversation, "On Monday")
    turn = await claim_one(turns, conversation)
    new = new_action(**fields)
    await turns.commit(reply(turn, "Monday?", asks=new))
    return new.id


def receipt_for(action: ActionId, **fields: Any) -> Receipt:
    plain = {"action": action, "tool": "book_appointment", "digest": b"d", "result": "{}"}
    return Receipt(**(plain | fields))
