"""Ingest as a process: python -m services.ingest"""

from starlette.types import ASGIApp

from services.ingest.wiring import wire
from shared.work.process import main
from shared.work.service import Parts, Service


async def wired(parts: Parts) -> tuple[Service, ASGIApp | None]:
    ingest = await wire(parts)
    return ingest.service, ingest.app()


if __name__ == "__main__":
    main("ingest", wired)
