"""Rings what is due and nobody rang for: a lost ticket costs seconds. Silent while the queue is full."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeVar
from uuid import UUID

import structlog

from shared.broker.port import Broker
from shared.errors import Unavailable
from shared.tickets import Stage
from shared.work.stage import ring

LOOK_EVERY_S = 0.25
RING_MOST = 500
READY_MOST = 100  # packets; with more in the queue, ringing again only doubles them
PAUSE_AFTER_ERROR_S = 2.0
NOT_ASKED: Final = "the database was not asked yet"

log = structlog.get_logger(__name__)

Answer = TypeVar("Answer")


class Owed(Protocol):
    """The rows of one stage that owe work."""

    async def anything_due(self) -> bool:
        """One cheap look, no lock."""
        ...

    async def ring_due(self, *, most: int) -> Sequence[UUID]:
        """Move the ring time of what is due by 10 s and return it, oldest first; skip what others hold."""
        ...


class Reach:
    """Whether the database answered when it was last asked: `why_not` is None if it did."""

    def __init__(self, why_not: str | None = None) -> None:
        self.why_not = why_not

    async def asked(self, question: Callable[[], Awaitable[Answer]]) -> Answer:
        """The answer. Raises Unavailable, and remembers it."""
        try:
            answer = await question()
        except Unavailable:
            self.why_not = "the database is away"
            raise
        self.why_not = None
        return answer


async def sweep(broker: Broker, stage: Stage, owed: Owed, *, reach: Reach | None = None) -> None:
    """Every 250 ms until cancelled: publish tickets for what is due, unless the queue holds enough."""
    reach = reach or Reach()
    while True:
        pause = LOOK_EVERY_S
        try:
            if await reach.asked(owed.anything_due) and await broker.ready(stage) <= READY_MOST:
                await ring(broker, stage, await owed.ring_due(most=RING_MOST))
        except Unavailable as error:
            log.warning("sweeper waits", stage=stage, error=str(error))
            pause = PAUSE_AFTER_ERROR_S
        await asyncio.sleep(pause)


async def every(seconds: float, work: Callable[[], Awaitable[object]], *, name: str) -> None:
    """Run `work` again and again with a pause; what is away or broken is logged and tried again."""
    while True:
        pause = seconds
        try:
            await work()
        except Unavailable as error:
            log.warning("periodic work waits", work=name, error=str(error))
            pause = max(seconds, PAUSE_AFTER_ERROR_S)
        except Exception:
            log.exception("periodic work failed", work=name)
        await asyncio.sleep(pause)
