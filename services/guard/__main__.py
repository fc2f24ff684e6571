"""The guard as a process: python -m services.guard"""

from starlette.types import ASGIApp

from services.guard.wiring import wire
from shared.work.process import main
from shared.work.service import Parts, Service


async def wired(parts: Parts) -> tuple[Service, ASGIApp | None]:
    return await wire(parts), None


if __name__ == "__main__":
    main("guard", wired)
