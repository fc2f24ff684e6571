"""Side calls: typing, read marks, acknowledged presses. Beside all sends and never in their way: no row, no order, no retry."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Protocol
from uuid import UUID

import structlog

from services.dispatch.ports import Channel, Courtesy
from shared.channels.traits import traits_of
from shared.ids import MessageId
from shared.telemetry.metrics import Metrics

AT_ONCE_MAX = 50
CALL_S = 5.0
END_S = 1.0

log = structlog.get_logger(__name__)


class LooksUp(Protocol):
    """Where messages are found."""

    async def courtesies(self, messages: Sequence[MessageId]) -> Sequence[Courtesy]: ...


class Courtesies:
    """`run` must run beside `ask`. What is too much at once is dropped: it would come too late to be of use."""

    def __init__(self, outbox: LooksUp, channels: Mapping[str, Channel], metrics: Metrics) -> None:
        self._outbox = outbox
        self._channels = channels
        self._metrics = metrics
        self._under_way: set[asyncio.Task[None]] = set()
        self._running = False

    async def run(self) -> None:
        """Until cancelled, and whatever is under way with it."""
        self._running = True
        try:
            await asyncio.Event().wait()
        finally:
            self._running = False
            for task in self._under_way:
                task.cancel()

    async def idle(self) -> None:
        """Wait for what is under way, a second at most."""
        if self._under_way:
            await asyncio.wait(set(self._under_way), timeout=END_S)

    def ask(self, messages: Sequence[UUID]) -> None:
        """Make the side calls that these messages deserve, some time soon or never."""
        self._begin(self._look_up([MessageId(message) for message in messages]))

    def _begin(self, work: Coroutine[None, None, None]) -> bool:
        if not self._running or len(self._under_way) >= AT_ONCE_MAX:
            work.close()
            return False
        task = asyncio.get_running_loop().create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return True

    async def _look_up(self, messages: Sequence[MessageId]) -> None:
        try:
            async with asyncio.timeout(CALL_S):
                found = await self._outbox.courtesies(messages)
        except Exception as error:
            log.debug("courtesies not made: their messages were not found", error=type(error).__name__)
            return
        for courtesy in found:
            channel = self._channels.get(courtesy.channel)
            if channel is None or not traits_of(courtesy.channel, courtesy.user_id).side_calls:
                continue
            if not self._begin(self._make(channel, courtesy)):
                self._metrics.courtesies.labels(courtesy.channel, "dropped").inc()

    async def _make(self, channel: Channel, courtesy: Courtesy) -> None:
        try:
            async with asyncio.timeout(CALL_S):
                await channel.courtesy(courtesy)
        except Exception as error:
            log.debug("courtesy not made", channel=courtesy.channel, error=type(error).__name__)
            self._metrics.courtesies.labels(courtesy.channel, "failed").inc()
        else:
            self._metrics.courtesies.labels(courtesy.channel, "made").inc()
