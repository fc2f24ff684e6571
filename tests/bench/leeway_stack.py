"""Leeway's services as processes on a database of their own, with one business and a way to write to it."""

import asyncio
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import aio_pika
import asyncpg
import httpx2

from leeway.businesses import NewBusiness, as_owner, new_secret, seed_pack
from shared.autonomy import Mode
from shared.clock import SystemClock
from shared.database import open_pool
from shared.database.migrate import migrate
from shared.packs import load_packs
from shared.secrets import new_key, vault_of
from shared.settings import Settings
from shared.signing import decode_secret
from tests.bench.driver import drive
from tests.bench.job import META_SECRET
from tests.bench.leeway_requests import PHONE_NUMBER_ID, sim_requests
from tests.bench.processes import Crew, wait_until
from tests.bench.servers import Servers
from tests.bench.web import free_port
from tests.support.servers import NOTHING

SERVICES = ("ingest", "guard", "agent", "dispatch")
QUEUES = tuple(f"leeway.{dead}{stage}" for dead in ("", "dead.") for stage in SERVICES[1:])
HOST = "127.0.0.1"
ACCOUNT = "bench"
PER_WEBHOOK = 20
POSTS_IN_FLIGHT = 8
PACED_CONNECTIONS = 64
READY_SECONDS = 30.0
POST_SECONDS = 30.0
DONE_SECONDS = 45.0
QUIET_SECONDS = 3.5  # an answer within 3 s of ours, four times, is a loop to the guard

WHATSAPP_SQL = "update channel_account set provider_address = $1, settings = $2 where channel = 'whatsapp'"
OWED_SQL = """
select exists (select from conversation_state where guard_due_at is not null)
  or exists (select from conversation_state where due_at is not null)
  or exists (select from outbound where state = 'queued')
  or exists (select from send_attempt where state = 'sending')
"""


class UnfinishedError(Exception):
    """Something was not done in the time given."""


class LeewayStack:
    """Used once: start, post, stop. `model_s` is the time of a model's answer; `agents` how many agent processes run."""

    def __init__(
        self,
        *,
        services: Sequence[str] = SERVICES,
        agents: int = 1,
        slots: int = 100,
        model_s: float = 0.0,
    ) -> None:
        self._services = [*services, *["agent"] * (agents - 1)]
        self._slots = slots
        self._model_s = model_s
        self._run = f"bench_{secrets.token_hex(4)}"
        self._folder = Path(tempfile.mkdtemp(prefix=f"{self._run}-"))
        self._servers: Servers | None = None
        self._database: asyncpg.Connection | None = None
        self._secret = new_secret()
        self._wave = 0
        self.key = decode_secret(self._secret)
        self.crew = Crew(self._folder)
        self.port = free_port()

    @property
    def database(self) -> asyncpg.Connection:
        """A connection of the bench's own, for looking at rows."""
        assert self._database is not None, "start comes first"
        return self._database

    @property
    def pids(self) -> list[tuple[str, int]]:
        """Each process with its service's name."""
        return list(zip(self._services, self.crew.pids, strict=True))

    def path(self, channel: str) -> str:
        """Where the channel's webhooks go."""
        return f"/hooks/{channel}/{ACCOUNT}"

    def url(self, channel: str) -> str:
        """The same as a URL."""
        return f"http://{HOST}:{self.port}{self.path(channel)}"

    async def start(self, servers: Servers) -> None:
        """Schema, business, processes. Returns when ingest takes webhooks."""
        self._servers = servers
        await self._delete_queues()
        await self._as_admin(f"create database {self._run} template {NOTHING}")
        url = f"{servers.urls.database.rpartition('/')[0]}/{self._run}"
        settings = Settings(database_url=url, amqp_url=servers.urls.amqp, secret_key=new_key())  # type: ignore[arg-type]
        await self._prepare(settings, url)
        environment = self._environment(settings)
        for service in self._services:
            module = "tests.bench.bench_agent" if service == "agent" else f"services.{service}"
            self.crew.start([sys.executable, "-m", module], environment)
        await self._until_ready(f"http://{HOST}:{self.port}/readyz")
        self._database = await asyncpg.connect(
            url, server_settings={"search_path": "leeway", "enable_seqscan": "off"}
        )

    async def post(self, people: Sequence[int]) -> None:
        """A message of each of them, as fast as they are taken, twenty a webhook, some webhooks in flight."""
        webhooks = [people[at : at + PER_WEBHOOK] for at in range(0, len(people), PER_WEBHOOK)]
        await self._drive(webhooks, seconds=POST_SECONDS, connections=POSTS_IN_FLIGHT, rate=None)

    async def pace(self, people: Sequence[int], rate: float) -> list[float]:
        """A message of each of them, one a webhook, `rate` a second; when each was due, in seconds since 1970."""
        webhooks = [[person] for person in people]
        to_wall = time.time() - time.monotonic()  # noqa: TID251 - compared with the database's clock here
        due_ns = await self._drive(
            webhooks, seconds=len(people) / rate, connections=PACED_CONNECTIONS, rate=rate
        )
        return [at_ns / 1e9 + to_wall for at_ns in due_ns]

    async def until_done(self) -> None:
        """Until no row owes work."""
        deadline = wait_until(DONE_SECONDS)
        while await self.database.fetchval(OWED_SQL):
            self.crew.check()
            if time.monotonic() > deadline:
                raise UnfinishedError(f"work was still owed after {DONE_SECONDS} s")
            await asyncio.sleep(0.05)

    async def meet(self, people: Sequence[int]) -> None:
        """Make their conversations: each is answered once; then quiet, so that nobody is taken for a machine."""
        await self.post(people)
        await self.until_done()
        await self.database.execute("vacuum analyze")
        await asyncio.sleep(QUIET_SECONDS)

    def kill(self, pid: int) -> None:
        """SIGKILL to one of the processes, which is no longer one of them then."""
        del self._services[self.crew.pids.index(pid)]
        self.crew.kill(pid)

    async def stop(self) -> None:
        """Ends every process and deletes what was made; safe after a start that failed halfway."""
        self.crew.stop()
        if self._database is not None:
            await self._database.close()
        if self._servers is not None:
            await self._delete_queues()
            await self._as_admin(f"drop database if exists {self._run} with (force)")
        shutil.rmtree(self._folder)

    async def _drive(
        self, webhooks: Sequence[Sequence[int]], *, seconds: float, connections: int, rate: float | None
    ) -> tuple[int, ...]:
        self._wave += 1
        requests = partial(sim_requests, self.key, self.path("sim"), webhooks, self._wave)
        outcome = await drive(self.url("sim"), requests, seconds=seconds, connections=connections, rate=rate)
        if outcome.accepted != len(webhooks):
            raise UnfinishedError(f"of {len(webhooks)} webhooks: answers by status {dict(outcome.statuses)}")
        return outcome.due_ns

    async def _prepare(self, settings: Settings, url: str) -> None:
        packs = load_packs()
        await migrate(url, packs={name: pack.migrations for name, pack in packs.items()})
        business = NewBusiness(
            slug="bench",
            name="Bench",
            mode=Mode.AUTO,
            pack="clinic",
            locales=("en", "ro"),
            time_zone="Europe/Bucharest",
            window_ms=0,
        )
        async with as_owner(settings, vault_of(settings)) as businesses:
            made = await businesses.create(business)
            for channel in ("sim", "generic"):
                await businesses.add_account(made, channel=channel, address=ACCOUNT, inbound=[self._secret])
            await businesses.add_account(made, channel="whatsapp", address=ACCOUNT, inbound=[META_SECRET])
        owner = await asyncpg.connect(url, server_settings={"search_path": "leeway"})
        await owner.execute(WHATSAPP_SQL, PHONE_NUMBER_ID, f'{{"phone_number_id": "{PHONE_NUMBER_ID}"}}')
        await owner.close()
        pool = await open_pool(url, size=1, timeouts=settings.timeouts)
        await seed_pack(pool, packs["clinic"], made, SystemClock())
        await pool.close()

    def _environment(self, settings: Settings) -> dict[str, str]:
        assert settings.secret_key is not None, "just made"
        return {
            "LEEWAY_DATABASE_URL": settings.database_url.get_secret_value(),
            "LEEWAY_AMQP_URL": settings.amqp_url.get_secret_value(),
            "LEEWAY_SECRET_KEY": settings.secret_key.get_secret_value(),
            "LEEWAY_PORT": str(self.port),
            "LEEWAY_LOG_LEVEL": "warning",
            "LEEWAY_SLOTS": str(self._slots),
            "LEEWAY_BENCH_MODEL_S": str(self._model_s),
        }

    async def _until_ready(self, url: str) -> None:
        deadline = wait_until(READY_SECONDS)
        async with httpx2.AsyncClient(timeout=2) as client:
            while time.monotonic() < deadline:
                self.crew.check()
                try:
                    if (await client.get(url)).status_code == 200:
                        return
                except httpx2.HTTPError:
                    pass
                await asyncio.sleep(0.1)
        raise UnfinishedError(f"not ready after {READY_SECONDS} s")

    async def _as_admin(self, statement: str) -> None:
        assert self._servers is not None, "start comes first"
        admin = await asyncpg.connect(self._servers.urls.database)
        try:
            await admin.execute(statement)
        finally:
            await admin.close()

    async def _delete_queues(self) -> None:
        """Queue names are fixed, so what another run left is deleted before and after."""
        assert self._servers is not None, "start comes first"
        connection = await aio_pika.connect(self._servers.urls.amqp)
        async with connection, connection.channel() as channel:
            for queue in QUEUES:
                await channel.queue_delete(queue)
