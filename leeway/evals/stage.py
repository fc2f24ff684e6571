"""The installation that scripts are played on: the real services in this process, a clock that can be set, an agent's
worker that can be killed."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import httpx2

from leeway.business_settings import BusinessSettings, business_settings
from leeway.counter import desk_of
from leeway.evals.model import NoModel, PlayedModel
from leeway.evals.record import Record
from leeway.one_process import OneProcess, one_process, running
from services.agent import wiring as agent
from services.agent.adapters.postgres_clocks import PostgresClocks
from services.agent.clocks import Clocks
from services.agent.reminding import Reminders
from shared.clock import Shift, SystemClock
from shared.database import Database, open_pool, queries_of
from shared.packs import Pack
from shared.settings import Settings
from shared.tickets import Stage as Service
from shared.work.asking import until

AGENT_POOL_SIZE: Final = 4
# What the clock brings about is asked for when a script lets time pass, not by the worker's own rounds.
SELDOM: Final = agent.Rounds(approvals_s=3600, handoffs_s=3600, reminders_s=3600)


class SetTime:
    """Business time as the script has it: set, moved, and running on meanwhile."""

    def __init__(self, shift: Shift) -> None:
        self._shift = shift
        self._system = SystemClock()
        self._at = self._system.now()

    def now(self) -> datetime:
        return self._system.now() + self._shift.by

    def set(self, at: datetime) -> None:
        self._at = at
        self._shift.by = at - self._system.now()

    def move(self, by: timedelta) -> None:
        """On from where it was set last, unless time itself got further: it never goes back."""
        self.set(max(self._at + by, self.now()))


@dataclass(slots=True)
class Worker:
    """An agent's process, as far as dying goes: its task and its connections."""

    task: asyncio.Task[None]
    database: Database


class Stage:
    """Plays on one installation; one script at a time, since business time is one."""

    def __init__(
        self,
        installation: OneProcess,
        tasks: asyncio.TaskGroup,
        *,
        packs: Mapping[str, Pack],
        shift: Shift,
        dials: BusinessSettings,
        client: httpx2.AsyncClient,
    ) -> None:
        self.installation = installation
        self.packs = packs
        self.dials = dials
        self.client = client
        self.time = SetTime(shift)
        self.record = Record(installation.parts.database)
        self.desk = desk_of(installation, packs)
        self.model = PlayedModel(NoModel())
        clocks = PostgresClocks(
            installation.parts.database,
            pack_queries={name: queries_of(pack) for name, pack in packs.items()},
        )
        parts = installation.parts
        self._clocks = Clocks(record=clocks, packs=packs, broker=parts.broker, metrics=parts.metrics)
        self._reminders = Reminders(record=clocks, packs=packs, broker=parts.broker, metrics=parts.metrics)
        self._shift = shift
        self._tasks = tasks
        self._worker: Worker | None = None

    async def hire(self, model: PlayedModel | None = None) -> None:
        """A worker for the agent, in place of the one there is."""
        if self._worker is not None:
            await self.kill()
        self.model = model or self.model
        parts, settings = self.installation.parts, self.installation.parts.settings
        url = settings.database_url.get_secret_value()
        database = await open_pool(url, size=AGENT_POOL_SIZE, timeouts=settings.timeouts, shift=self._shift)
        service = await agent.wire(
            replace(parts, database=database), model=self.model, packs=self.packs, rounds=SELDOM
        )
        self._worker = Worker(self._tasks.create_task(service.run()), database)
        working = self._worker.task
        await until(lambda: service.why_not() is None or working.done())

    async def let_time_work(self) -> None:
        """What the clock brings about by itself, now: approvals nobody gave, handoffs, owners who went quiet, reminders."""
        await self._clocks.expire_approvals()
        await self._clocks.watch_handoffs()
        await self._clocks.release_takeovers()
        await self._reminders.remind()

    async def kill(self) -> None:
        """The worker dies as a process does: its connections are gone, so nothing it still wants reaches the record."""
        assert self._worker is not None, "nobody works"
        worker, self._worker = self._worker, None
        await worker.database.close()
        worker.task.cancel()
        await asyncio.wait([worker.task])

    async def end(self) -> None:
        if self._worker is not None:
            await self.kill()


@asynccontextmanager
async def stage(settings: Settings, packs: Mapping[str, Pack]) -> AsyncIterator[Stage]:
    """Everything but the agent's worker runs: `hire` one with the model it asks. Nothing is kept afterwards."""
    shift = Shift()
    with tempfile.TemporaryDirectory(prefix="leeway-eval-") as directory:
        async with (
            one_process(settings, Path(directory), keeps=False, shift=shift, model=NoModel()) as installation,
            business_settings(installation.parts.settings) as dials,
            httpx2.AsyncClient(
                transport=httpx2.ASGITransport(app=installation.app), base_url="http://leeway.invalid"
            ) as client,
        ):
            others = [one for one in installation.services if one.name != Service.AGENT.value]
            async with running(replace(installation, services=others)), asyncio.TaskGroup() as tasks:
                played = Stage(installation, tasks, packs=packs, shift=shift, dials=dials, client=client)
                try:
                    yield played
                finally:
                    await played.end()
