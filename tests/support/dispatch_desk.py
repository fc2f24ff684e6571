"""Dispatch at work for tests: in memory, on a channel that answers as told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID

import pytest

from services.dispatch.core.outcome import Accepted, Outcome
from services.dispatch.handler import Dispatch
from services.dispatch.ports import Address, Claimed, Courtesy, Probed
from shared.broker.memory import MemoryBroker
from shared.channels.traits import Traits
from shared.ids import OutboundId
from shared.settings import Timeouts
from shared.telemetry.metrics import Metrics
from shared.tickets import Stage
from shared.work.slots import Slots
from tests.support.factories import SetClock
from tests.support.faulty_broker import FaultyBroker
from tests.support.memory_outbox import MemoryOutbox

ACCEPTED = Accepted(provider_id="p1")
TRAITS = Traits(text_max=50, buttons=True, idempotent=True)


@dataclass
class ScriptedChannel:
    """Answers as told, first by what is in `script`, and remembers what it was handed."""

    traits: Traits = TRAITS
    outcome: Outcome | Exception = ACCEPTED
    script: list[Outcome] = field(default_factory=list)
    sent: list[tuple[str, str]] = field(default_factory=list)
    handed: list[Claimed] = field(default_factory=list)
    answering: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, claimed: Claimed, *, key: str) -> Outcome:
        self.sent.append((key, claimed.parts[claimed.part - 1]))
        self.handed.append(claimed)
        await self.answering.wait()
        if self.script:
            return self.script.pop(0)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    async def courtesy(self, courtesy: Courtesy) -> None:
        raise AssertionError("no send asks for one")

    async def probe(self, address: Address) -> Probed:
        raise AssertionError("no send asks for one")

    async def close(self) -> None: ...


class Desk:
    """Dispatch at work."""

    def __init__(self) -> None:
        self.outbox = MemoryOutbox()
        self.channel = ScriptedChannel()
        self.channel.answering.set()
        self.broker = FaultyBroker(MemoryBroker())
        self.clock = SetClock()
        self.slots = Slots(10)
        self.metrics = Metrics(process=False)
        self.dispatch = Dispatch(
            outbox=self.outbox,
            channels={"sim": self.channel},
            broker=self.broker,
            metrics=self.metrics,
            clock=self.clock,
            timeouts=Timeouts(provider=0.05),
            slots=self.slots,
        )

    async def send(self, *outbounds: OutboundId) -> None:
        """Claim, and wait until what was begun is settled."""
        await self.dispatch.claim(outbounds)
        await self.dispatch.idle()

    def state(self, outbound: OutboundId) -> tuple[str, str | None]:
        kept = self.outbox.kept[outbound]
        return kept.state, kept.reason

    def attempts(self, outbound: OutboundId) -> list[str]:
        return list(self.outbox.kept[outbound].attempts.values())

    def counted(self, name: str, **labels: str) -> float:
        """What a metric says."""
        return self.metrics.registry.get_sample_value(name, labels) or 0

    def rung(self) -> list[UUID]:
        return [
            ticket
            for stage, packet in self.broker.published
            if stage is Stage.DISPATCH
            for ticket in packet.ids
        ]


@asynccontextmanager
async def dispatch_desk(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    """A desk whose jobs run; its channel has the traits that it is given."""
    monkeypatch.setattr("services.dispatch.handler.BACKOFF_FIRST_S", 0.0)
    made = Desk()
    monkeypatch.setattr("services.dispatch.handler.traits_of", lambda channel, user_id: made.channel.traits)
    async with asyncio.TaskGroup() as group:
        job = group.create_task(made.dispatch.run())
        await asyncio.sleep(0)
        yield made
        job.cancel()
