"""What the record says happened: the demo shows it, and checks itself against it."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from leeway.owed import settled
from shared.clock import Clock
from shared.database import Database, load_queries
from shared.errors import LeewayError
from shared.evidence import Envelope
from shared.ids import BusinessId, CustomerId

QUERIES = load_queries(Path(__file__).with_suffix(".sql"))
LOOK_EVERY_S: Final = 0.02
_UNDER_WAY: Final = {"queued", "sending"}


class NotHandled(LeewayError):
    """A message was not dealt with in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    tool: str
    decision: str
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Handled:
    """One message's way through the four services, as stored."""

    verdict: str
    reason: str | None
    outcome: str | None  # of its turn; None: it started none
    model_calls: int
    tools: tuple[ToolUse, ...]
    reply_state: str | None
    reply_reason: str | None
    reply: str | None
    buttons: tuple[tuple[str, str], ...]  # id and title


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    messages: int
    turns: int
    receipts: int
    confirmations: int
    waiting: int  # actions that wait for the customer
    drafts: int
    handoffs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Appointment:
    starts_at: datetime
    service: str
    dentist: str
    customer: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metered:
    """Model calls of one iteration."""

    iteration: int
    calls: int
    input: int
    cached: int
    output: int
    reasoning: int
    cost_usd: Decimal | None
    latency_ms_p50: int
    latency_ms_max: int
    model: str


class Evidence:
    """Reads the record of the business that has a sim line."""

    def __init__(self, database: Database, *, clock: Clock, sim_address: str, business: BusinessId) -> None:
        self._database = database
        self._clock = clock
        self._sim_address = sim_address
        self._business = business

    async def handled(self, message: str, *, within_s: float = 15.0) -> Handled:
        """The message's way, once it is at its end. Raises NotHandled when it is not in time."""
        until = self._clock.monotonic() + within_s
        while (found := await self.look(message)) is None:
            if self._clock.monotonic() > until:
                raise NotHandled(f"A message was not handled within {within_s:.0f} s: {message}.")
            await asyncio.sleep(LOOK_EVERY_S)
        return found

    async def settled(self, *, within_s: float) -> Sequence[str]:
        """Wait until nothing is owed any more; what still is when the time is up, in words."""
        return await settled(
            self._database, self._business, self._clock, within_s=within_s, look_every_s=LOOK_EVERY_S
        )

    async def look(self, message: str) -> Handled | None:
        """The message's way as it is now; None while it is not at its end."""
        rows = await self._database.fetch(QUERIES["handled"], self._sim_address, message)
        if not rows or not _is_at_its_end(rows[0]["verdict"], rows[0]["turn_state"], rows[0]["reply_state"]):
            return None
        row = rows[0]
        return Handled(
            verdict=row["verdict"],
            reason=row["reason"],
            outcome=row["outcome"],
            model_calls=row["model_calls"],
            tools=await self._tools(row["turn"]),
            reply_state=row["reply_state"],
            reply_reason=row["reply_reason"],
            reply=row["body"],
            buttons=tuple((one["id"], one["title"]) for one in json.loads(row["buttons"] or "[]")),
        )

    async def _tools(self, turn: UUID | None) -> tuple[ToolUse, ...]:
        rows = await self._database.fetch(QUERIES["tool_calls"], turn) if turn else []
        return tuple(
            ToolUse(tool=row["tool"], decision=row["decision"], reason=row["reason"]) for row in rows
        )

    async def counts(self) -> Counts:
        rows = await self._database.fetch(QUERIES["counts"], self._business)
        return Counts(**dict(rows[0]))

    async def appointments(self) -> list[Appointment]:
        async with self._database.tenant(self._business, QUERIES) as sql:
            rows = await sql.fetch("appointments", self._business)
        return [Appointment(**dict(row)) for row in rows]

    async def decisions(self) -> list[list[Envelope]]:
        """The sealed decisions of each conversation, in order."""
        rows = await self._database.fetch(QUERIES["envelopes"], self._business)
        return [[_envelope(row) for row in chain] for _, chain in groupby(rows, itemgetter("conversation"))]

    async def customer(self, number: str) -> CustomerId:
        """Who wrote from that telephone."""
        rows = await self._database.fetch(QUERIES["customer"], self._sim_address, number)
        return CustomerId(rows[0]["customer"])

    async def metering(self) -> list[Metered]:
        rows = await self._database.fetch(QUERIES["metering"], self._business)
        return [Metered(**dict(row)) for row in rows]


def _envelope(row: Mapping[str, Any]) -> Envelope:
    return Envelope(n=row["n"], header=row["header"], digest=row["digest"], parts=row["parts"])


def _is_at_its_end(verdict: str | None, turn: str | None, reply: str | None) -> bool:
    """Whether nothing more will happen to a message by itself."""
    match verdict:
        case None:
            return False
        case "stored":
            return True
        case "turn":
            return turn not in (None, "running") and reply not in _UNDER_WAY
        case _:  # a notice is written with the verdict; some are silent
            return reply not in _UNDER_WAY
