"""What all twins share: what was sent to customers, faults to come, and webhooks posted to us."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from shared.outgoing import http_client
from shared.telemetry.health import server
from shared.work.asking import until

WEBHOOK_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What a customer's telephone shows."""

    id: str  # the provider's
    to: str
    text: str
    buttons: tuple[tuple[str, str], ...] = ()  # id and title
    correlation: str | None = None  # ours, as the provider gives it back in statuses
    template: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What the next send meets. `takes`: the customer gets the message all the same."""

    status: int | None = None  # answered with, with `body`; None: no answer
    body: Mapping[str, Any] = field(default_factory=dict)
    takes: bool = False
    cuts: bool = False  # the connection, instead of being silent
    silent_s: float = 60.0


class Cut(Response):
    """An answer that ends in the middle: the connection is closed, and the client can't know what became of its request."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"64")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{"})


class Twin(ABC):
    """One provider with one account. `webhook` is where it posts what customers do; a subclass says how."""

    def __init__(self, *, webhook: str) -> None:
        self.webhook = webhook
        self.delivered: list[Delivered] = []
        self.requests: list[Mapping[str, Any]] = []  # every send that was asked for, taken or not
        self.side_calls: list[Mapping[str, Any]] = []
        self.answers: list[httpx2.Response] = []  # ours, to its webhooks
        self.faults: deque[Fault] = deque()
        self._client = http_client(read_s=WEBHOOK_TIMEOUT_S)

    @property
    @abstractmethod
    def app(self) -> ASGIApp:
        """The provider's HTTP interface, at the paths of the real one."""

    async def meet_fault(self) -> tuple[Fault | None, Response | None]:
        """The next send's fault, if one is set, and the answer in its place."""
        if not self.faults:
            return None, None
        fault = self.faults.popleft()
        if fault.status is not None:
            return fault, JSONResponse(dict(fault.body), status_code=fault.status)
        if not fault.cuts:
            await asyncio.sleep(fault.silent_s)
        return fault, Cut()

    async def post(self, body: bytes, headers: Mapping[str, str], *, path: str = "") -> httpx2.Response:
        """A webhook to us; our answer, which is kept."""
        answer = await self._client.post(self.webhook + path, content=body, headers=dict(headers))
        self.answers.append(answer)
        return answer

    async def close(self) -> None:
        await self._client.aclose()


@asynccontextmanager
async def serving(app: ASGIApp | Starlette, *, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """The app on a port of this machine; its address."""
    http = server(app, host=host, port=port)
    running = asyncio.create_task(http.serve())
    try:
        await until(lambda: http.started or running.done())
        if not http.started:
            await running  # raises what it ended of
        yield http.address
    finally:
        http.should_exit = True
        await running
