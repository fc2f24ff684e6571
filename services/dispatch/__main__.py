"""Dispatch as a process: python -m services.dispatch"""

from starlette.types import ASGIApp

from services.dispatch.wiring import wire
from shared.work.process import main
from shared.work.service import Parts, Service


async def wired(parts: Parts) -> tuple[Service, ASGIApp | None]:
    return await wire(parts), None


if __name__ == "__main__":
    main("dispatch", wired)
