"""`/healthz`, `/readyz` and `/metrics` of a process, and the small server that shows them."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterator

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from shared.errors import Misconfigured
from shared.telemetry.metrics import Metrics

HANG_UP_AFTER_S = 5
CANCEL_AFTER_S = 10  # who goes on after that is cancelled

Ready = Callable[[], str | None]


def routes(*, metrics: Metrics, ready: Ready) -> list[Route]:
    """The three routes. `ready` says why the process can't work just now, or None."""

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("alive\n")

    async def readyz(_: Request) -> Response:
        why_not = ready()
        return PlainTextResponse(
            f"{why_not}\n" if why_not else "ready\n", status_code=503 if why_not else 200
        )

    async def shown(_: Request) -> Response:
        metrics.ready.set(0 if ready() else 1)
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", shown)]


def health_app(*, metrics: Metrics, ready: Ready) -> Starlette:
    """An app of these routes alone."""
    return Starlette(routes=routes(metrics=metrics, ready=ready))


class Server(uvicorn.Server):
    """uvicorn without its own signal handling: the process decides when to stop.

    A request that does not end in time then sees its client hang up, and ends as it would have at any other moment;
    uvicorn would cancel it, and show a traceback.
    """

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more, let requests end for some seconds, then hang up."""
        hanging_up = asyncio.get_running_loop().call_later(HANG_UP_AFTER_S, self._hang_up)
        try:
            await super().shutdown(sockets)
        finally:
            hanging_up.cancel()

    def _hang_up(self) -> None:
        for connection in tuple(self.server_state.connections):
            connection.transport.abort()

    @property
    def address(self) -> str:
        """Where it really listens, once `started`."""
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        return f"http://{callable_host(host)}:{port}"


def callable_host(host: str) -> str:
    """Where to reach a server on this machine that listens on `host`."""
    return "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104  compared, not bound


def refuse_taken(host: str, port: int, *, choose: str) -> None:
    """Raises Misconfigured where a server could not listen, before one tries; `choose` names what says another port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, port), family=family):
            pass
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise Misconfigured(
            f"{host}:{port} can't be listened on ({reason}); choose another with {choose}."
        ) from error


def server(app: ASGIApp, *, host: str, port: int) -> Server:
    """A server for `app`; its `serve()` runs until `should_exit` is set."""
    return Server(
        uvicorn.Config(
            app,
            host=host,
            port=port,
            log_config=None,  # its lines go where all go
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # nothing asks who the peer is: requests are known by their signature
            lifespan="off",
            timeout_graceful_shutdown=HANG_UP_AFTER_S + CANCEL_AFTER_S,
            limit_concurrency=2_000,
            backlog=2_048,
        )
    )
