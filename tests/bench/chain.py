"""One way to run four stages behind queues: the floor and the peers differ only in their form."""

import asyncio
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import asyncpg

from tests.bench.job import STAGES, JobSettings, queue_of
from tests.bench.loader import Envelope, Loader
from tests.bench.marks import MarkReader
from tests.bench.model import Pace, Throughput, pace_of
from tests.bench.processes import CpuMeter, Crew, wait_until
from tests.bench.servers import Servers

WARM_MESSAGES = 64
READY_SECONDS = 30.0
DONE_SECONDS = 45.0
POLL_SECONDS = 0.01


class UnfinishedError(Exception):
    """Messages did not come through in the time given."""


class ChainForm(Protocol):
    """What tells one implementation of the four stages from another."""

    name: str
    schema_sql: str
    """Creates the tables, in a schema that is already on the search path."""
    consumers_per_queue: int
    """How many consumers each stage's queue has once every worker is up."""
    packs: bool
    """Whether several messages may travel in one envelope."""
    queue_arguments: Mapping[str, str] | None
    """How the bench declares the queues beforehand; `None`: the workers declare them their own way."""

    def commands(self) -> Sequence[Sequence[str]]:
        """The worker processes to start, without the interpreter in front."""

    def envelopes(self, run: str, numbers: Sequence[int]) -> list[Envelope]:
        """What the loader publishes for these messages; a form that packs puts them into few envelopes."""

    def leftovers(self, run: str) -> tuple[list[str], list[str]]:
        """Every queue, and every exchange, that the run leaves at the broker."""


class Chain:
    """A `Contestant` made of a form."""

    def __init__(self, form: ChainForm) -> None:
        self.name = form.name
        self._form = form
        self._run = f"bench_{secrets.token_hex(4)}"
        self._folder = Path(tempfile.mkdtemp(prefix=f"{self._run}-"))
        self._crew = Crew(self._folder)
        self._servers: Servers | None = None
        self._loader: Loader | None = None
        self._marks = MarkReader(self._folder / "marks")
        self._next_number = 1

    async def setup(self, servers: Servers) -> None:
        """Schema, queues, workers; then a few messages through all of it to warm it."""
        self._servers = servers
        job = JobSettings(
            amqp_url=servers.urls.amqp,
            database_url=servers.urls.database,
            run=self._run,
            marks=self._folder / "marks",
        )
        await self._sql(f"CREATE SCHEMA {self._run}; SET search_path = {self._run}; {self._form.schema_sql}")
        self._loader = await Loader.connect(servers.urls.amqp)
        if self._form.queue_arguments is not None:
            for stage in STAGES:
                await self._loader.declare(queue_of(self._run, stage), dict(self._form.queue_arguments))
        for command in self._form.commands():
            self._crew.start([sys.executable, *command], job.environment())
        await self._wait_for_consumers()
        numbers = self._take(WARM_MESSAGES)
        await self._loader.flood(self._envelopes(numbers))
        await self._wait_for(numbers, READY_SECONDS)

    async def run_throughput(self, messages: int) -> Throughput:
        """See `Contestant`. Raises `UnfinishedError` after 45 s."""
        numbers = self._take(messages)
        envelopes = self._envelopes(numbers)
        assert self._servers is not None, "setup comes before runs"
        meter = CpuMeter(self._servers, self._crew.pids)
        await self._open_loader().flood(envelopes)
        await self._wait_for(numbers, DONE_SECONDS)
        cpu = meter.used()
        began_ns = min(self._marks.first[number] for number in numbers)
        ended_ns = max(self._marks.last[number] for number in numbers)
        return Throughput(messages, (ended_ns - began_ns) / 1e9, cpu)

    async def run_paced(self, label: str, rate: float, seconds: float) -> Pace:
        """See `Contestant`. Raises `UnfinishedError` 45 s after the last message went in."""
        numbers = self._take(max(1, round(rate * seconds)))
        entered = await self._open_loader().pace(numbers, self._envelopes, rate, packs=self._form.packs)
        await self._wait_for(numbers, DONE_SECONDS)
        return pace_of(
            label, rate, [(self._marks.last[number] - entered[number]) / 1e6 for number in numbers]
        )

    async def teardown(self) -> None:
        """See `Contestant`."""
        self._crew.stop()
        self._marks.close()
        if self._loader is not None:
            queues, exchanges = self._form.leftovers(self._run)
            await self._loader.delete(queues, exchanges)
            await self._loader.close()
        if self._servers is not None:
            await self._sql(f"DROP SCHEMA IF EXISTS {self._run} CASCADE")
        shutil.rmtree(self._folder)

    def _envelopes(self, numbers: Sequence[int]) -> list[Envelope]:
        return self._form.envelopes(self._run, numbers)

    def _take(self, count: int) -> range:
        first, self._next_number = self._next_number, self._next_number + count
        return range(first, first + count)

    def _open_loader(self) -> Loader:
        assert self._loader is not None, "setup comes before runs"
        return self._loader

    async def _sql(self, script: str) -> None:
        assert self._servers is not None, "setup comes before runs"
        connection = await asyncpg.connect(self._servers.urls.database)
        try:
            await connection.execute(script)
        finally:
            await connection.close()

    async def _wait_for_consumers(self) -> None:
        deadline = wait_until(READY_SECONDS)
        for stage in STAGES:
            queue = queue_of(self._run, stage)
            while await self._open_loader().consumers(queue) < self._form.consumers_per_queue:
                self._crew.check()
                if time.monotonic() > deadline:
                    raise UnfinishedError(
                        f"{self.name}: queue {queue} had too few consumers after {READY_SECONDS} s"
                    )
                await asyncio.sleep(0.05)

    async def _wait_for(self, numbers: range, seconds: float) -> None:
        """Until the last stage has committed them all. Numbers come in ranges, so a count tells."""
        deadline = wait_until(seconds)
        while len(self._marks.last) < numbers.stop - 1:
            self._crew.check()
            if time.monotonic() > deadline:
                missing = numbers.stop - 1 - len(self._marks.last)
                raise UnfinishedError(
                    f"{self.name}: {missing} of {len(numbers)} messages missing after {seconds} s"
                )
            await asyncio.sleep(POLL_SECONDS)
            self._marks.poll()
