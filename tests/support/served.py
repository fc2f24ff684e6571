"""One HTTP server for all tests of a worker: starting and stopping one takes a fifth of a second, and hundreds of tests want one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

from starlette.types import ASGIApp, Receive, Scope, Send

from leeway.twins.twin import serving


class Served:
    """Apps by the first part of the path, which each is mounted under for as long as a test needs it."""

    def __init__(self) -> None:
        self.address = ""
        self._apps: dict[str, ASGIApp] = {}
        self._names = count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = scope["path"].split("/")[1]
        await self._apps[name]({**scope, "root_path": f"{scope.get('root_path', '')}/{name}"}, receive, send)

    @asynccontextmanager
    async def serving(self, app: ASGIApp) -> AsyncIterator[str]:
        """Where the app answers."""
        name = str(next(self._names))
        self._apps[name] = app
        yield f"{self.address}/{name}"
        del self._apps[name]


@asynccontextmanager
async def the_server() -> AsyncIterator[Served]:
    served = Served()
    async with serving(served) as address:
        served.address = address
        yield served
