"""The console as a process: python -m services.console"""

from starlette.types import ASGIApp

from services.console.wiring import wire
from shared.packs import load_packs
from shared.work.process import main
from shared.work.service import Parts, Service


async def wired(parts: Parts) -> tuple[Service, ASGIApp | None]:
    return await wire(parts, packs=load_packs())


if __name__ == "__main__":
    main("console", wired)
