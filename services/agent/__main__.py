"""The agent as a process: python -m services.agent"""

from starlette.types import ASGIApp

from services.agent.wiring import wire
from shared.database.migrate import ready_for
from shared.llm.configured import configured_model
from shared.packs import load_packs, migrations_of
from shared.work.process import main
from shared.work.service import Parts, Service


async def wired(parts: Parts) -> tuple[Service, ASGIApp | None]:
    packs = load_packs()
    await ready_for(parts.settings.database_url.get_secret_value(), packs=migrations_of(packs))
    model = await configured_model(parts.settings, packs)
    return await wire(parts, model=model, packs=packs), None


if __name__ == "__main__":
    main("agent", wired)
