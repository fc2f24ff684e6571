"""A stage as a running thing: its jobs side by side, whether it can work, how it stops. The same for one process or many."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from shared.broker.port import Broker
from shared.clock import Clock
from shared.database import Database
from shared.settings import Settings
from shared.telemetry.metrics import Metrics
from shared.telemetry.traces import UNTOLD, Traces

Job = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What every stage is wired from. One process may give the same parts to all stages."""

    settings: Settings
    clock: Clock
    broker: Broker
    database: Database
    metrics: Metrics
    traces: Traces = UNTOLD


async def _nothing() -> None:
    """No work to finish."""


@dataclass(slots=True, kw_only=True)
class Service:
    """A wired stage. `run` ends when cancelled; `drain` stops taking work and finishes or releases what is under way.

    From `stop` on it is not ready: whoever asks sees that before the drain begins.
    """

    name: str
    jobs: Sequence[Job]
    why_not_ready: Callable[[], str | None]
    drain: Job = _nothing
    close: Job = _nothing
    _running: bool = field(default=False, init=False)
    _stopping: bool = field(default=False, init=False)

    async def run(self) -> None:
        """All jobs until cancelled; one that fails takes the others down, so that the process is restarted whole."""
        self._running = True
        try:
            async with asyncio.TaskGroup() as tasks:
                for job in self.jobs:
                    tasks.create_task(_as_coroutine(job))
        finally:
            self._running = False
            await self.close()

    def why_not(self) -> str | None:
        """Why it can't work just now, or None."""
        if not self._running:
            return f"{self.name} is not running"
        return f"{self.name} is stopping" if self._stopping else self.why_not_ready()

    def stop(self) -> None:
        """Say that it will end; nothing else happens yet."""
        self._stopping = True


async def _as_coroutine(job: Job) -> None:
    await job()
