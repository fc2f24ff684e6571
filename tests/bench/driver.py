"""An HTTP/1.1 load generator: raw requests over kept-alive connections, in a process of its own.

Requests are built before the clock starts, so that each can have its own id and signature; the loop then only
writes bytes and looks for the end of each answer, which costs some 20 µs a request.
"""

import asyncio
import multiprocessing
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.connection import Connection
from typing import cast
from urllib.parse import urlsplit

import uvloop

from tests.bench.model import Pace, pace_of

BODY_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
REQUESTS_PER_S_MAX = 15_000
"""How many requests are built for each second of an unpaced drive; it ends early when they run out."""
BUILD_SECONDS = 60.0
DRAIN_SECONDS = 10.0

RequestFactory = Callable[[str], Iterator[bytes]]
"""From the `Host` header's value, raw requests one by one. Runs in the driver's process: a module-level
function, or a `functools.partial` of one."""


@dataclass(frozen=True)
class Drive:
    """What came back. `statuses` counts answers by status (0: none came); latencies are of 2xx alone."""

    seconds: float
    statuses: Mapping[int, int]
    pace: Pace
    due_ns: tuple[int, ...] = field(repr=False)
    """When the n-th request was planned to go out (without a rate: went out), on the monotonic clock."""

    @property
    def accepted(self) -> int:
        """The number of 2xx answers."""
        return sum(count for status, count in self.statuses.items() if 200 <= status < 300)

    @property
    def accepted_per_s(self) -> float:
        """2xx answers a second."""
        return self.accepted / self.seconds


class DriveError(Exception):
    """The driver could not do its work; the text says why."""


def raw_request(
    host: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None, *, method: str = "POST"
) -> bytes:
    """One request as bytes, kept alive."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def drive(
    url: str, requests: RequestFactory, *, seconds: float, connections: int, rate: float | None = None
) -> Drive:
    """Drives a server of this machine and returns what came back.

    Without a rate every connection sends its next request when the last was answered. With one, requests go
    out at that rate whatever comes back, on the first free connection; latency then counts from the planned
    moment. Raises `DriveError`.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    order = _Order(url, requests, seconds, connections, rate)
    process = context.Process(target=_run, args=(there, order), daemon=True)
    process.start()
    there.close()
    try:
        limit = BUILD_SECONDS + seconds + DRAIN_SECONDS
        if not await asyncio.to_thread(here.poll, limit):
            raise DriveError(f"the driver of {url} did not answer within {limit:.0f} s")
        outcome = here.recv()
    except EOFError as error:
        raise DriveError(f"the driver of {url} ended without an answer") from error
    finally:
        process.kill()
        process.join(timeout=DRAIN_SECONDS)
        here.close()
    if isinstance(outcome, str):
        raise DriveError(outcome)
    assert isinstance(outcome, Drive), "the driver sends nothing else"
    return outcome


@dataclass(frozen=True)
class _Order:
    url: str
    requests: RequestFactory
    seconds: float
    connections: int
    rate: float | None


class _Run:
    """The requests, handed out in order, and what became of each."""

    def __init__(self, requests: list[bytes]) -> None:
        self.requests = requests
        self.next = 0
        self.under_way = 0
        self.until = float("inf")
        self.statuses: Counter[int] = Counter()
        self.latencies_ms: list[float] = []
        self.due_ns: list[int] = []
        self.ended = 0.0
        self.idle = asyncio.Event()

    def settle(self, status: int, latency_ms: float) -> None:
        """Notes an answer; `idle` is set when none is under way."""
        self.statuses[status] += 1
        if 200 <= status < 300:
            self.latencies_ms.append(latency_ms)
        self.ended = time.monotonic()
        self.under_way -= 1
        if not self.under_way:
            self.idle.set()


class _Connection(asyncio.Protocol):
    """One kept-alive connection with at most one request under way."""

    def __init__(self, run: _Run, freed: Callable[["_Connection"], None]) -> None:
        self._run = run
        self._freed = freed
        self._buffer = b""
        self._since = 0.0
        self._busy = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send(self, *, planned: float | None = None) -> None:
        """Writes the next request; its latency counts from `planned`, or from now."""
        assert self._transport is not None, "connected"
        run = self._run
        raw = run.requests[run.next]
        run.next += 1
        run.under_way += 1
        self._busy = True
        self._since = planned if planned is not None else time.monotonic()
        run.due_ns.append(int(self._since * 1e9))
        self._transport.write(raw)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        head_end = buffer.find(b"\r\n\r\n")
        length = BODY_LENGTH.search(buffer, 0, head_end + 2) if head_end >= 0 else None
        if head_end < 0 or len(buffer) < head_end + 4 + (int(length[1]) if length else 0):
            self._buffer = buffer
            return
        self._buffer = b""
        self._busy = False
        self._run.settle(int(buffer[9:12]), (time.monotonic() - self._since) * 1e3)
        self._freed(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._busy:
            self._busy = False
            self._run.settle(0, 0.0)

    def close(self) -> None:
        """Closes it."""
        assert self._transport is not None, "connected"
        self._transport.close()


def _run(pipe: Connection, order: _Order) -> None:
    """The process: builds the requests, drives, sends the outcome (or one sentence) back."""
    try:
        pipe.send(uvloop.run(_drive(order)))
    except Exception as error:
        pipe.send(f"driving {order.url}: {type(error).__name__}: {error}")


async def _drive(order: _Order) -> Drive:
    target = urlsplit(order.url)
    per_second = order.rate or REQUESTS_PER_S_MAX
    wanted = max(1, round(per_second * order.seconds))
    run = _Run(list(islice(order.requests(target.netloc), wanted)))
    free: asyncio.Queue[_Connection] = asyncio.Queue()
    freed = free.put_nowait if order.rate else _again(run)
    loop = asyncio.get_running_loop()
    links = [
        (
            await loop.create_connection(
                lambda: _Connection(run, freed), target.hostname or "", target.port or 80
            )
        )[1]
        for _ in range(min(order.connections, len(run.requests)))
    ]
    began = time.monotonic()
    if order.rate:
        for link in links:
            free.put_nowait(link)
        await asyncio.wait_for(_paced(run, free, order.rate, began), order.seconds + DRAIN_SECONDS)
    else:
        run.until = began + order.seconds
        for link in links:
            link.send()
    await asyncio.wait_for(run.idle.wait(), order.seconds + DRAIN_SECONDS)
    for link in links:
        link.close()
    took = run.ended - began
    label = f"{order.rate:g}/s" if order.rate else f"{order.connections} busy connections"
    if not run.latencies_ms:
        raise DriveError(f"no request was accepted: {dict(run.statuses)}")
    pace = pace_of(label, len(run.due_ns) / took, run.latencies_ms)
    return Drive(took, dict(run.statuses), pace, tuple(run.due_ns))


def _again(run: _Run) -> Callable[[_Connection], None]:
    """What a freed connection does without a rate: the next request, while there is time and one is left."""

    def freed(link: _Connection) -> None:
        if run.next < len(run.requests) and time.monotonic() < run.until:
            run.idle.clear()
            link.send()

    return freed


async def _paced(run: _Run, free: "asyncio.Queue[_Connection]", rate: float, began: float) -> None:
    for place in range(len(run.requests)):
        planned = began + place / rate
        await asyncio.sleep(max(0.0, planned - time.monotonic()))
        link = await free.get()
        run.idle.clear()
        link.send(planned=planned)
