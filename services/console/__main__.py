"""The console as a process: python -m services.console"""

from starlette.types import ASGIApp

from services.console.wiring import wire
from shared.database.migrate import ready_for
from shared.packs import load_packs, migrations_of
from shared.work.process import main
from shared.work.service import Parts, Service


async def wired(parts: Parts) -> tuple[Service, ASGIApp | None]:
    packs = load_packs()
    await ready_for(parts.settings.database_url.get_secret_value(), packs=migrations_of(packs))
    return await wire(parts, packs=packs)


if __name__ == "__main__":
    main("console", wired)
