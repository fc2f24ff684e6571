"""The four services as real processes, a shop with customers who write to it, and what arrives at their end.

A test kills, stops and starts processes by name; whatever it leaves behind goes when the stack closes.
"""

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from leeway.businesses import NewBusiness, as_owner, new_secret, seed_pack
from shared.autonomy import Mode
from shared.clock import SystemClock
from shared.database import open_pool
from shared.database.migrate import migrate
from shared.ids import new_id
from shared.packs import load_packs
from shared.secrets import new_key, vault_of
from shared.settings import Settings, load_settings
from shared.signing import Signature, check, decode_secret, sign
from shared.telemetry.health import Server, server
from tests.support import log_scan
from tests.support.eventually import eventually
from tests.support.process import Process, free_port

REPOSITORY = Path(__file__).parents[2]
SERVICES = ("ingest", "guard", "agent", "dispatch")
OVER_HTTP = ("ingest", "console")  # whose work comes by HTTP, to the port of the settings
ECHO = "tests.support.stack_agent"  # an agent whose model repeats what it was told, and dies when told to
GENEROUS_S = 60.0

HALF_A_HEAD = b"GET /readyz HTTP/1.1\r\nHost: leeway\r\n"
HALF_A_BODY = b"POST %b HTTP/1.1\r\nHost: leeway\r\nContent-Length: 1000\r\n\r\nhalf of it"  # % a path

OWED = """
select (select count(*) from leeway.conversation_state
        where guard_due_at is not null or due_at is not null or unguarded > 0 or lease_until > now() or sending_attempt is not null)
     + (select count(*) from leeway.outbound where state in ('queued', 'sending', 'unknown'))
     + (select count(*) from leeway.send_attempt where state in ('sending', 'unknown'))
     + (select count(*) from leeway.turn where state = 'running')
"""
EVIDENCE = (
    "select now()",
    (
        "select * from leeway.conversation_state where guard_due_at is not null or due_at is not null or unguarded > 0"
        " or lease_until > now() or sending_attempt is not null limit 5"
    ),
    "select * from leeway.outbound where state in ('queued', 'sending', 'unknown') limit 5",
    "select * from leeway.send_attempt where state in ('sending', 'unknown') limit 5",
    "select * from leeway.turn where state = 'running' limit 5",
    "select conversation, seq, verdict, reason, body from leeway.inbound_message order by received_at desc limit 10",
    "select * from leeway.worker",
)
REPLIES = """
select d.user_id, d.body from leeway.sim_delivery d join leeway.channel_account a on a.id = d.account
where a.channel = 'sim' and d.user_id = any ($1::text[]) order by d.delivered_at, d.key
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """A business with a sim and a generic account."""

    id: int
    slug: str
    secrets: Mapping[str, bytes]  # by channel, what signs its incoming webhooks
    outbound: bytes  # what signs the replies of its generic account

    def address(self, channel: str) -> str:
        return f"{self.slug}-{channel}"


class Receiver:
    """The tenant's end of the generic channel: checks the signature, takes each webhook-id once, counts every request."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.bodies: dict[str, dict[str, Any]] = {}  # by webhook-id, in order of arrival
        self.badly_signed = 0
        self.keys: list[bytes] = []
        self.status = 200  # what is answered; other than 2xx, the body is not taken
        self.taking = asyncio.Event()  # cleared: a request hangs, and is taken after all
        self.taking.set()
        self.losing_answers = False  # taken, but the answer is lost
        self._server: Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self._port = free_port()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/replies"

    def texts(self, sender: str) -> list[str]:
        return [body["text"] for body in self.bodies.values() if body["to"] == sender]

    async def start(self) -> None:
        app = Starlette(routes=[Route("/replies", self._take, methods=["POST"])])
        self._server = server(app, host="127.0.0.1", port=self._port)
        self._serving = asyncio.create_task(self._server.serve())
        await eventually(lambda: self._server is not None and self._server.started)

    async def stop(self) -> None:
        if self._server is not None and self._serving is not None:
            self.taking.set()
            self._server.should_exit = True
            await self._serving
            self._server = None

    async def _take(self, request: Request) -> Response:
        body = await request.body()
        headers = dict(request.scope["headers"])
        now = SystemClock().now().timestamp()
        if check(headers, body, self.keys, now_s=now) is not Signature.GOOD:
            self.badly_signed += 1
            return PlainTextResponse("badly signed", status_code=401)
        key = headers[b"webhook-id"].decode()
        self.requests[key] += 1
        await self.taking.wait()
        if self.status >= 300:
            return PlainTextResponse("not taken", status_code=self.status)
        self.bodies.setdefault(key, json.loads(body)["data"])
        return (
            PlainTextResponse("lost", status_code=502) if self.losing_answers else Response(status_code=204)
        )


@dataclass(slots=True, eq=False)
class Running:
    """One service process. Its HTTP port stays the same when it is started again."""

    name: str
    module: str
    port: int
    log: Path
    environment: Mapping[str, str]
    process: Process | None = field(default=None)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.is_running

    def start(self) -> None:
        assert not self.is_running, f"{self.name} runs already"
        self.process = Process(
            [sys.executable, "-m", self.module],
            log=self.log,
            environment=self.environment,
            directory=REPOSITORY,
        )
        log_scan.keep(self.log)

    def kill(self) -> None:
        """SIGKILL, of this process alone."""
        if self.process is not None:
            self.process.kill()

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send(number)

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> float:
        """A signal, SIGTERM unless another is named; how long it took to end, as in `ended`."""
        began = asyncio.get_running_loop().time()
        self.send(number)
        await self.ended()
        return asyncio.get_running_loop().time() - began

    async def ended(self, *, within_s: float = 40) -> None:
        """Wait until it ended, which it must do by itself and without an error."""
        assert self.process is not None
        await eventually(lambda: not self.is_running, within_s=within_s)
        code = self.process.exit_code
        self.process.kill()
        assert code == 0, f"{self.name} ended with {code}: {self.tail()}"

    async def why_not(self) -> str | None:
        """What /readyz says, or why it can't be asked."""
        async with httpx2.AsyncClient(trust_env=False, timeout=5) as client:
            try:
                answer = await client.get(f"http://127.0.0.1:{self.port}/readyz")
            except httpx2.HTTPError as error:
                return f"no answer: {type(error).__name__}"
        return None if answer.status_code == 200 else answer.text.strip()

    async def ready(self, *, within_s: float = GENEROUS_S) -> None:
        async def holds() -> bool:
            assert self.is_running, f"{self.name} ended: {self.tail()}"
            return await self.why_not() is None

        await eventually(holds, within_s=within_s, every_s=0.05)

    @contextlib.asynccontextmanager
    async def connected(self, sent: bytes) -> AsyncIterator[asyncio.StreamReader]:
        """A connection to its HTTP server that stays open from this side, with something sent on it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(sent)
            await writer.drain()
            yield reader
        finally:
            writer.close()

    def tail(self) -> str:
        return self.process.log_tail() if self.process else ""

    def logged(self, sentence: str) -> bool:
        return sentence in self.log.read_text(errors="replace")


class Stack:
    """Four services on one database and one virtual host. Nothing runs before `start`."""

    def __init__(self, settings: Settings, directory: Path, environment: Mapping[str, str]) -> None:
        self.settings = settings
        self.receiver = Receiver()
        self.running: dict[str, list[Running]] = defaultdict(list)
        self._directory = directory
        self._environment = environment
        self._client = httpx2.AsyncClient(
            trust_env=False,
            timeout=30,
            limits=httpx2.Limits(max_connections=400, max_keepalive_connections=50),
        )
        self._ingest_port = free_port()

    @property
    def database_url(self) -> str:
        return self.settings.database_url.get_secret_value()

    @property
    def amqp_url(self) -> str:
        return self.settings.amqp_url.get_secret_value()

    def make(self, name: str, *, module: str | None = None, **environment: str) -> Running:
        """One more process of a service, not started yet. Webhooks are posted to the first ingest."""
        number = len(self.running[name])
        port = self._ingest_port if (name, number) == ("ingest", 0) else free_port()
        variable = "LEEWAY_PORT" if name in OVER_HTTP else "LEEWAY_METRICS_PORT"
        one = Running(
            name=f"{name}{number}",
            module=module or f"services.{name}",
            port=port,
            log=self._directory / f"{name}{number}.log",
            environment={**self._environment, variable: str(port), **environment},
        )
        self.running[name].append(one)
        return one

    async def start(self, *names: str, agents: int = 1, agent: str | None = None) -> None:
        """Start services (all four when none is named) and wait until each is ready. One that was made before is
        started again; `agent` is another module to run as the agent."""
        started = []
        for name in names or SERVICES:
            for number in range(agents if name == "agent" else 1):
                if number == len(self.running[name]):
                    self.make(name, module=agent if name == "agent" else None)
                one = self.running[name][number]
                if not one.is_running:
                    one.start()
                    started.append(one)
        for one in started:
            await one.ready()

    def one(self, name: str, number: int = 0) -> Running:
        return self.running[name][number]

    def every(self) -> list[Running]:
        return [one for of_name in self.running.values() for one in of_name]

    async def shop(self, slug: str = "demo", *, window_ms: int = 100, mode: Mode = Mode.AUTO) -> Shop:
        """A business of the clinic, with a sim account and a generic one whose replies come to the receiver."""
        inbound = {"sim": new_secret(), "generic": new_secret()}
        outbound = new_secret()
        packs = load_packs()
        pool = await open_pool(self.database_url, size=1, timeouts=self.settings.timeouts)
        try:
            async with as_owner(self.settings, vault_of(self.settings)) as businesses:
                business = await businesses.create(
                    NewBusiness(
                        slug=slug, name=slug, mode=mode, pack="clinic", locales=("en", "ro"),
                        time_zone="Europe/Bucharest", window_ms=window_ms,
                    )
                )  # fmt: skip
                for channel, secret in inbound.items():
                    await businesses.add_account(
                        business,
                        channel=channel,
                        address=f"{slug}-{channel}",
                        inbound=[secret],
                        outbound=outbound,
                        callback_url=self.receiver.url,
                    )
                await seed_pack(pool, packs["clinic"], business, SystemClock())
        finally:
            await pool.close()
        log_scan.learn_secrets(*inbound.values(), outbound)
        self.receiver.keys.append(decode_secret(outbound))
        return Shop(
            id=business,
            slug=slug,
            secrets={channel: decode_secret(secret) for channel, secret in inbound.items()},
            outbound=decode_secret(outbound),
        )

    async def post(
        self,
        shop: Shop,
        channel: str,
        event: Mapping[str, Any] | bytes,
        *,
        delivery: str | None = None,
        to: Running | None = None,
    ) -> int:
        """One signed request to the first ingest, or to another; the status answered, 0 when none came."""
        body = event if isinstance(event, bytes) else json.dumps(event).encode()
        delivery = delivery or f"delivery-{new_id().hex}"
        now = int(SystemClock().now().timestamp())
        port = to.port if to else self._ingest_port
        try:
            answer = await self._client.post(
                f"http://127.0.0.1:{port}/hooks/{channel}/{shop.address(channel)}",
                content=body,
                headers={
                    "webhook-id": delivery,
                    "webhook-timestamp": str(now),
                    "webhook-signature": sign(shop.secrets[channel], delivery, now, body),
                },
            )
        except httpx2.HTTPError:
            return 0
        return answer.status_code

    async def say(
        self,
        shop: Shop,
        channel: str,
        sender: str,
        text: str,
        *,
        message: str | None = None,
        to: Running | None = None,
        **more: Any,
    ) -> int:
        """A customer's message, delivered once; the status."""
        log_scan.learn([text, sender])
        message = message or f"m-{new_id().hex}"
        if channel == "sim":
            return await self.post(
                shop, channel, {"messages": [{"id": message, "from": sender, "text": text, **more}]}, to=to
            )
        data = {
            "message_id": message,
            "conversation_id": sender,
            "from": {"id": sender},
            "text": text,
            **more,
        }
        event = {"type": "message.received", "timestamp": SystemClock().now().isoformat(), "data": data}
        return await self.post(shop, channel, event, delivery=message, to=to)

    async def deliver(
        self, shop: Shop, channel: str, sender: str, text: str, *, within_s: float = GENEROUS_S
    ) -> None:
        """As a channel does: the same message again until it is taken."""
        message = f"m-{new_id().hex}"
        async with asyncio.timeout(within_s):
            while await self.say(shop, channel, sender, text, message=message) != 200:
                await asyncio.sleep(0.2)

    async def customers_write(self, shop: Shop, count: int) -> list[str]:
        """New customers say hello at once, every other one by signed webhook; who they are."""
        senders = [f"{('sim', 'generic')[n % 2]}-{new_id().hex}" for n in range(count)]
        async with asyncio.TaskGroup() as writing:
            for sender in senders:
                writing.create_task(self.deliver(shop, sender.partition("-")[0], sender, "hello"))
        return senders

    async def replies(self, sender: str) -> list[str]:
        """What the customer got, each idempotency key once: texts in order."""
        return (await self.all_replies([sender]))[sender]

    async def all_replies(self, senders: Sequence[str]) -> dict[str, list[str]]:
        """What each customer got."""
        got: dict[str, list[str]] = {sender: self.receiver.texts(sender) for sender in senders}
        for row in await self.ask(REPLIES, list(senders)):
            got[row["user_id"]].append(row["body"])
        return got

    async def answered(self, senders: Sequence[str], *, count: int = 1, within_s: float = GENEROUS_S) -> None:
        """Wait until each of the customers has `count` replies and nothing is owed; none may have more."""

        async def holds() -> bool:
            return all(len(replies) >= count for replies in (await self.all_replies(senders)).values())

        await self._until(holds, within_s=within_s)
        await self.settled(within_s=within_s)
        got = await self.all_replies(senders)
        assert all(len(replies) == count for replies in got.values()), got

    async def settled(self, *, within_s: float = GENEROUS_S) -> None:
        """Wait until no row owes anything."""

        async def holds() -> bool:
            return (await self.ask(OWED))[0][0] == 0

        await self._until(holds, within_s=within_s)

    async def _until(self, holds: Callable[[], Awaitable[bool]], *, within_s: float) -> None:
        try:
            await eventually(holds, within_s=within_s, every_s=0.1)
        except AssertionError as error:
            error.add_note(await self.evidence())
            raise

    async def evidence(self) -> str:
        """What is owed, and the last words of every process: for a failing test."""
        rows = [f"{query}: {dict(row)}" for query in EVIDENCE for row in await self.ask(query)]
        rows += [f"--- {one.name}: {await one.why_not() or 'ready'}\n{one.tail()}" for one in self.every()]
        return "\n".join(rows)

    async def ask(self, query: str, *arguments: object) -> Sequence[Any]:
        """Rows, over a connection of the database's own user."""
        connection = await self.connect()
        try:
            rows: Sequence[Any] = await connection.fetch(query, *arguments)
            return rows
        finally:
            await connection.close()

    async def connect(self) -> Any:
        """A connection of the database's own user, which the caller closes."""
        return await asyncpg.connect(self.database_url, timeout=10)

    async def close(self) -> None:
        await self._client.aclose()
        for one in self.every():
            if one.is_running:
                one.send(signal.SIGCONT)
            one.kill()
        await self.receiver.stop()


@contextlib.asynccontextmanager
async def stack_on(database_url: str, amqp_url: str, **environment: str) -> AsyncIterator[Stack]:
    """A stack with its receiver; the database is migrated, packs included. `environment` goes to every service."""
    packs = load_packs()
    await migrate(database_url, packs={name: pack.migrations for name, pack in packs.items()})
    key = new_key()
    log_scan.learn_secrets(key)
    settings = load_settings(
        database_url=SecretStr(database_url), amqp_url=SecretStr(amqp_url), secret_key=SecretStr(key)
    )
    own = {name: value for name, value in os.environ.items() if not re.match("LEEWAY_|LLM$|COV_", name)}  # noqa: TID251  for children
    with tempfile.TemporaryDirectory(prefix="leeway-test-stack-") as directory:
        stack = Stack(
            settings,
            Path(directory),
            own
            | {
                "LEEWAY_DATABASE_URL": database_url,
                "LEEWAY_AMQP_URL": amqp_url,
                "LEEWAY_SECRET_KEY": key,
                "LEEWAY_ALLOW_INTERNAL_CALLBACKS": "true",
                "LEEWAY_LOG_LEVEL": "debug",
                "LLM": "mock",
            }
            | environment,
        )
        await stack.receiver.start()
        try:
            yield stack
        finally:
            await stack.close()
