"""FastAPI as a contestant: one uvicorn process with uvloop and httptools, driven over the loopback."""

import asyncio
import secrets
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import asyncpg
import msgspec

from tests.bench.driver import RequestFactory, drive, raw_request
from tests.bench.job import BODY, JobSettings
from tests.bench.leeway_requests import whatsapp_requests
from tests.bench.model import Sample, Throughput, sample_of
from tests.bench.processes import CpuMeter, Crew, wait_until
from tests.bench.ratios import WEB_BARE, WEB_SIGNED, WEB_USUAL
from tests.bench.servers import Servers
from tests.bench.web_apps import WEB_SCHEMA

HOST = "127.0.0.1"
PATH = "/messages"
READY_SECONDS = 20.0
WARM_SECONDS = 0.5


class NotReadyError(Exception):
    """The server did not answer in time."""


class RefusedError(Exception):
    """Requests were answered with something else than 2xx: the rate would mean nothing."""


class UvicornContestant:
    """A `WebContestant`: one of the applications of `web_apps` behind one uvicorn process."""

    def __init__(self, name: str, factory: str, requests: RequestFactory) -> None:
        self.name = name
        self._factory = factory
        self._requests = requests
        self._run = f"bench_{secrets.token_hex(4)}"
        self._folder = Path(tempfile.mkdtemp(prefix=f"{self._run}-"))
        self._crew = Crew(self._folder)
        self._servers: Servers | None = None

    async def setup(self, servers: Servers) -> None:
        """Table, server, and half a second of requests to warm it."""
        self._servers = servers
        await self._sql(f"CREATE SCHEMA {self._run}; SET search_path = {self._run}; {WEB_SCHEMA}")
        port = free_port()
        self._url = f"http://{HOST}:{port}{PATH}"
        job = JobSettings(
            amqp_url=servers.urls.amqp,
            database_url=servers.urls.database,
            run=self._run,
            marks=self._folder / "marks",
        )
        self._crew.start([sys.executable, *_uvicorn(self._factory, port)], job.environment())
        await until_listening(port, self._crew)
        await drive(self._url, self._requests, seconds=WARM_SECONDS, connections=4)

    async def run(self, seconds: float, connections: int) -> Sample:
        """See `WebContestant`. The driver's CPU is not counted. Raises `RefusedError`."""
        assert self._servers is not None, "setup comes before runs"
        meter = CpuMeter(self._servers, self._crew.pids)
        outcome = await drive(self._url, self._requests, seconds=seconds, connections=connections)
        cpu = meter.used()
        if outcome.accepted != sum(outcome.statuses.values()):
            raise RefusedError(f"{self.name}: answers by status {dict(outcome.statuses)}")
        return sample_of(self.name, Throughput(outcome.accepted, outcome.seconds, cpu), [outcome.pace])

    async def teardown(self) -> None:
        """See `WebContestant`."""
        self._crew.stop()
        if self._servers is not None:
            await self._sql(f"DROP SCHEMA IF EXISTS {self._run} CASCADE")
        shutil.rmtree(self._folder)

    async def _sql(self, script: str) -> None:
        assert self._servers is not None, "setup comes before runs"
        connection = await asyncpg.connect(self._servers.urls.database)
        try:
            await connection.execute(script)
        finally:
            await connection.close()


def bare() -> UvicornContestant:
    """Bare FastAPI, asked without a body."""
    return UvicornContestant(WEB_BARE, "make_bare", empty_requests)


def usual() -> UvicornContestant:
    """The usual FastAPI, with a body of some 600 bytes and an id of its own in each request."""
    return UvicornContestant(WEB_USUAL, "make_usual", message_requests)


def signed() -> UvicornContestant:
    """Bare FastAPI at WhatsApp's webhook: the requests that Leeway gets too."""
    return UvicornContestant(WEB_SIGNED, "make_signed", partial(whatsapp_requests, PATH, None))


def empty_requests(host: str) -> Iterator[bytes]:
    """The same request for ever."""
    raw = raw_request(host, PATH)
    while True:
        yield raw


def message_requests(host: str) -> Iterator[bytes]:
    """A new message each time."""
    prefix, number = secrets.token_hex(8), 0
    while True:
        number += 1
        message = {
            "id": f"{prefix}-{number}",
            "sender": f"+4072{number % 10_000_000:07}",
            "kind": "text",
            "body": BODY,
            "sent_at": 1_767_225_600 + number,
        }
        yield raw_request(host, PATH, msgspec.json.encode(message), {"Content-Type": "application/json"})


def free_port() -> int:
    """A port of the loopback that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


async def until_listening(port: int, crew: Crew) -> None:
    """Waits for a connection. Raises `NotReadyError` after 20 s, `WorkerDiedError` when the crew is gone."""
    deadline = wait_until(READY_SECONDS)
    while time.monotonic() < deadline:
        crew.check()
        try:
            _, writer = await asyncio.open_connection(HOST, port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            await writer.wait_closed()
            return
    raise NotReadyError(f"nothing listened on port {port} within {READY_SECONDS} s")


def _uvicorn(factory: str, port: int) -> list[str]:
    quiet = ["--no-access-log", "--log-level", "warning"]
    engine = ["--loop", "uvloop", "--http", "httptools"]
    app = ["--factory", f"tests.bench.web_apps:{factory}"]
    return ["-m", "uvicorn", *app, "--host", HOST, "--port", str(port), *engine, *quiet]
