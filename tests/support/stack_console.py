"""The console as a process for tests: the real one, with a page that goes on for ever, as one that is fed live does."""

import asyncio
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from services.console.__main__ import wired
from shared.database import Database
from shared.work.process import main
from shared.work.service import Parts, Service

EVERY_S = 0.05


def live_page(database: Database) -> Route:
    async def events() -> AsyncIterator[bytes]:
        while True:
            await database.fetch("select 1")
            yield b"data: as before\n\n"
            await asyncio.sleep(EVERY_S)

    async def answer(_: Request) -> Response:
        return StreamingResponse(events(), media_type="text/event-stream")

    return Route("/live", answer)


async def with_live_page(parts: Parts) -> tuple[Service, ASGIApp | None]:
    service, app = await wired(parts)
    assert isinstance(app, Starlette)
    app.router.routes.append(live_page(parts.database))
    return service, app


if __name__ == "__main__":
    main("console", with_live_page)
