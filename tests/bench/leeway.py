"""Leeway itself: the four services as processes, signed webhooks in, sends out at the sim channel, a zero-latency model.

The burst window is off and the model answers at once and in process, so that what is measured is the pipeline: guards
with facts, turns, calls, replies, claims and outcomes, all of it durable. For throughput the bench posts webhooks of 20
messages, as a channel that batches does; paced messages come one a webhook. Every message of a run goes to a
conversation of its own, made and answered once beforehand.
"""

import asyncio
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import aio_pika
import asyncpg
import httpx2
import msgspec

from leeway.businesses import NewBusiness, as_owner, new_secret, seed_pack
from shared.autonomy import Mode
from shared.clock import SystemClock
from shared.database import open_pool
from shared.database.migrate import migrate
from shared.packs import load_packs
from shared.secrets import new_key, vault_of
from shared.settings import Settings
from shared.signing import decode_secret, sign
from tests.bench.driver import raw_request
from tests.bench.model import Pace, Throughput, pace_of
from tests.bench.processes import CpuMeter, Crew, wait_until
from tests.bench.ratios import LEEWAY
from tests.bench.servers import Servers
from tests.bench.web import free_port

SERVICES = ("ingest", "guard", "agent", "dispatch")
QUEUES = tuple(f"leeway.{dead}{stage}" for dead in ("", "dead.") for stage in SERVICES[1:])
HOST = "127.0.0.1"
ACCOUNT = "bench"
PER_WEBHOOK = 20
POSTS_IN_FLIGHT = 8
CONVERSATIONS = 9_000
SLOTS = 2_000  # of which one business has half
READY_SECONDS = 30.0
DONE_SECONDS = 45.0
QUIET_SECONDS = 3.5  # an answer within 3 s of ours, four times, is a loop to the guard
QUESTIONS = (
    "Hello, this is about my visit, reference",
    "Good morning! I have a word to say, note",
    "Bună ziua, am un mesaj, numărul",
    "Hi there, one more thing, ticket",
)

DONE_SQL = """
select count(*) filter (where s.unguarded > 0 or s.due_at is not null) +
  (select count(*) from outbound where state in ('queued', 'sending')) from conversation_state s
"""
SPAN_SQL = """
select extract(epoch from (select min(received_at) from inbound_message where id > $1)) as began,
       extract(epoch from (select max(settled_at) from send_attempt where started_at > $2)) as ended,
       (select count(*) from send_attempt where started_at > $2 and state = 'sent') as sent
"""
SENT_SQL = "select user_id, max(extract(epoch from delivered_at)) as at from sim_delivery where delivered_at > $1 group by user_id"


class UnfinishedError(Exception):
    """Messages were not answered in the time given."""


class LeewayContestant:
    """A `Contestant`. `latency_s` is the model's time; `agents` how many agent processes run."""

    name = LEEWAY

    def __init__(self, *, agents: int = 1, conversations: int = CONVERSATIONS, latency_s: float = 0.0) -> None:
        self._agents = agents
        self._latency_s = latency_s
        self._conversations = conversations
        self._run = f"bench_{secrets.token_hex(4)}"
        self._folder = Path(tempfile.mkdtemp(prefix=f"{self._run}-"))
        self._crew = Crew(self._folder)
        self._servers: Servers | None = None
        self._database: asyncpg.Connection | None = None
        self._secret = new_secret()
        self._key = decode_secret(self._secret)
        self._next = 0
        self._round = 0

    async def setup(self, servers: Servers) -> None:
        """A database of its own, the services, and every conversation made and answered once."""
        self._servers = servers
        await self._delete_queues()
        admin = await asyncpg.connect(servers.urls.database)
        await admin.execute(f"create database {self._run}")
        await admin.close()
        url = f"{servers.urls.database.rpartition('/')[0]}/{self._run}"
        settings = Settings(database_url=url, amqp_url=servers.urls.amqp, secret_key=new_key())  # type: ignore[arg-type]
        await self._prepare(settings, url)
        port = free_port()
        self._url = f"http://{HOST}:{port}/hooks/sim/{ACCOUNT}"
        for service in (*SERVICES, *["agent"] * (self._agents - 1)):
            module = "tests.bench.bench_agent" if service == "agent" else f"services.{service}"
            self._crew.start([sys.executable, "-m", module], self._environment(settings, port))
        self._client = httpx2.AsyncClient(timeout=30)
        await self._until_ready(f"http://{HOST}:{port}/readyz")
        self._database = await asyncpg.connect(url, server_settings={"search_path": "leeway"})
        await self._post_all(range(self._conversations))
        await self._until_done()
        await self._database.execute("vacuum analyze")
        await asyncio.sleep(QUIET_SECONDS)

    async def run_throughput(self, messages: int) -> Throughput:
        """See `Contestant`: from the first message stored to the last send settled."""
        people = self._people(min(messages, self._conversations))
        assert self._servers is not None, "setup comes before runs"
        last_id, before = await self._marks()
        meter = CpuMeter(self._servers, self._crew.pids)
        await self._post_all(people)
        await self._until_done()
        cpu = meter.used()
        row = await self._db.fetchrow(SPAN_SQL, last_id, before)
        if row["sent"] != len(people):
            raise UnfinishedError(f"{row['sent']} of {len(people)} messages were answered by a send of their own")
        await asyncio.sleep(QUIET_SECONDS)
        return Throughput(len(people), float(row["ended"] - row["began"]), cpu)

    async def run_paced(self, label: str, rate: float, seconds: float) -> Pace:
        """See `Contestant`: from the webhook going out to the send at the channel."""
        people = self._people(min(max(1, round(rate * seconds)), self._conversations))
        _, before = await self._marks()
        entered: dict[int, float] = {}
        began = time.time()  # noqa: TID251 - compared with the database's clock on the same machine
        async with asyncio.TaskGroup() as posts:
            for nth, person in enumerate(people):
                due = began + nth / rate
                await asyncio.sleep(max(0.0, due - time.time()))  # noqa: TID251
                entered[person] = due
                posts.create_task(self._post(self._event([person])))
        await self._until_done()
        rows = await self._db.fetch(SENT_SQL, before)
        sent = {row["user_id"]: float(row["at"]) for row in rows}
        await asyncio.sleep(QUIET_SECONDS)
        return pace_of(label, rate, [(sent[_number(one)] - entered[one]) * 1000 for one in people])

    async def teardown(self) -> None:
        """See `Contestant`."""
        self._crew.stop()
        if self._database is not None:
            await self._database.close()
            await self._client.aclose()
        if self._servers is not None:
            await self._delete_queues()
            admin = await asyncpg.connect(self._servers.urls.database)
            await admin.execute(f"drop database if exists {self._run} with (force)")
            await admin.close()
        shutil.rmtree(self._folder)

    @property
    def _db(self) -> asyncpg.Connection:
        assert self._database is not None, "setup comes before runs"
        return self._database

    def _people(self, count: int) -> list[int]:
        """The next `count` customers, going round: each is asked of again only after all the others."""
        self._round += 1
        people = [(self._next + nth) % self._conversations for nth in range(count)]
        self._next += count
        return people

    async def _marks(self) -> tuple[object, datetime]:
        row = await self._db.fetchrow(
            "select (select id from inbound_message order by id desc limit 1) as id, clock_timestamp() as at"
        )
        return row["id"], row["at"]

    async def _prepare(self, settings: Settings, url: str) -> None:
        packs = load_packs()
        await migrate(url, packs={name: pack.migrations for name, pack in packs.items()})
        business = NewBusiness(
            slug="bench", name="Bench", mode=Mode.AUTO, pack="clinic", locales=("en", "ro"),
            time_zone="Europe/Bucharest", window_ms=0,
        )  # fmt: skip
        async with as_owner(settings, vault_of(settings)) as businesses:
            made = await businesses.create(business)
            await businesses.add_account(made, channel="sim", address=ACCOUNT, inbound=[self._secret])
        pool = await open_pool(url, size=1, timeouts=settings.timeouts)
        await seed_pack(pool, packs["clinic"], made, SystemClock())
        await pool.close()

    def _environment(self, settings: Settings, port: int) -> dict[str, str]:
        assert settings.secret_key is not None, "just made"
        return {
            "LEEWAY_DATABASE_URL": settings.database_url.get_secret_value(),
            "LEEWAY_AMQP_URL": settings.amqp_url.get_secret_value(),
            "LEEWAY_SECRET_KEY": settings.secret_key.get_secret_value(),
            "LEEWAY_PORT": str(port),
            "LEEWAY_LOG_LEVEL": "warning",
            "LEEWAY_SLOTS": str(SLOTS),
            "LEEWAY_BENCH_MODEL_S": str(self._latency_s),
        }

    async def _until_ready(self, url: str) -> None:
        deadline = wait_until(READY_SECONDS)
        while time.monotonic() < deadline:
            self._crew.check()
            try:
                if (await self._client.get(url)).status_code == 200:
                    return
            except httpx2.HTTPError:
                pass
            await asyncio.sleep(0.1)
        raise UnfinishedError(f"not ready after {READY_SECONDS} s")

    async def _until_done(self) -> None:
        deadline = wait_until(DONE_SECONDS)
        while await self._db.fetchval(DONE_SQL):
            self._crew.check()
            if time.monotonic() > deadline:
                raise UnfinishedError(f"work was still owed after {DONE_SECONDS} s")
            await asyncio.sleep(0.05)

    async def _post_all(self, people: Sequence[int]) -> None:
        """All of them, twenty a webhook, some webhooks in flight."""
        room = asyncio.Semaphore(POSTS_IN_FLIGHT)

        async def post(event: tuple[dict[str, str], bytes]) -> None:
            async with room:
                await self._post(event)

        events = [self._event(people[at : at + PER_WEBHOOK]) for at in range(0, len(people), PER_WEBHOOK)]
        async with asyncio.TaskGroup() as posts:
            for event in events:
                posts.create_task(post(event))

    def _event(self, people: Sequence[int]) -> tuple[dict[str, str], bytes]:
        messages = [
            {
                "id": f"{self._round}-{secrets.token_hex(6)}",
                "from": _number(person),
                "text": f"{QUESTIONS[(person + self._round) % len(QUESTIONS)]} ({secrets.token_hex(8)})",
            }
            for person in people
        ]
        return signed(self._key, msgspec.json.encode({"messages": messages}))

    async def _post(self, event: tuple[dict[str, str], bytes]) -> None:
        headers, body = event
        response = await self._client.post(self._url, content=body, headers=headers)
        if response.status_code != 200:
            raise UnfinishedError(f"a webhook was answered {response.status_code}: {response.text}")

    async def _delete_queues(self) -> None:
        """Queue names are fixed, so what another run left is deleted before and after."""
        assert self._servers is not None, "setup comes before runs"
        connection = await aio_pika.connect(self._servers.urls.amqp)
        async with connection, connection.channel() as channel:
            for queue in QUEUES:
                await channel.queue_delete(queue)


def _number(person: int) -> str:
    return f"+4072{person:06d}1"


def signed(key: bytes, body: bytes) -> tuple[dict[str, str], bytes]:
    """A body with the headers that Standard Webhooks asks for."""
    webhook_id, now = f"msg_{secrets.token_hex(10)}", int(time.time())  # noqa: TID251
    headers = {
        "content-type": "application/json",
        "webhook-id": webhook_id,
        "webhook-timestamp": str(now),
        "webhook-signature": sign(key, webhook_id, now, body),
    }
    return headers, body


def webhooks(key: bytes, path: str, host: str) -> Iterator[bytes]:
    """Raw signed requests of the generic channel, each a message of one of 2,000 customers. For the driver's process."""
    nth = 0
    while True:
        nth += 1
        data = {"message_id": f"m{nth}", "from": {"id": f"cust-{nth % 2_000}"}, "text": QUESTIONS[nth % len(QUESTIONS)]}
        event = {"type": "message.received", "timestamp": None, "data": data}
        headers, body = signed(key, msgspec.json.encode(event))
        yield raw_request(host, path, body, headers)


Factory = Callable[[str], Iterator[bytes]]
