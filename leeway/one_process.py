"""All services in one process on the embedded default: same handlers, same SQL, a broker in memory."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from fastapi import FastAPI
from pydantic import SecretStr

from leeway.businesses import Businesses, NewBusiness, as_owner, new_secret, seed_pack
from leeway.embedded import embedded_postgres, only_one
from leeway.keys import secret_key
from services.agent import wiring as agent
from services.console.adapters.pack_feeds import PackFeeds
from services.console.feeds import feed_keys_of, feed_routes
from services.dispatch import wiring as dispatch
from services.guard import wiring as guard
from services.ingest import wiring as ingest
from shared.autonomy import Mode
from shared.broker.memory import MemoryBroker
from shared.broker.traced import traced
from shared.clock import Shift, SystemClock
from shared.database import open_pool
from shared.database.migrate import migrate, ready_for
from shared.ids import BusinessId
from shared.llm.configured import configured_model
from shared.llm.port import Model
from shared.packs import Pack, load_packs, migrations_of
from shared.secrets import vault_of
from shared.settings import Settings
from shared.telemetry.metrics import Metrics
from shared.telemetry.traces import Traces, configured_traces
from shared.work.asking import until
from shared.work.observing import introduce, release
from shared.work.service import Parts, Service

DEMO = NewBusiness(
    slug="demo-clinic",
    name="Demo Dental Clinic",
    mode=Mode.AUTO,
    pack="clinic",
    locales=("en", "ro"),
    time_zone="Europe/Bucharest",
)
POOL_SIZE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class OneProcess:
    """An installation: its services, its app, and its demo business with a simulated telephone line."""

    parts: Parts
    services: list[Service]
    app: FastAPI
    businesses: Businesses
    business: BusinessId
    sim_address: str
    sim_secret: str

    def why_not(self) -> str | None:
        return next((why for service in self.services if (why := service.why_not())), None)


@asynccontextmanager
async def one_process(
    settings: Settings,
    directory: Path,
    *,
    demo: NewBusiness = DEMO,
    keeps: bool = True,
    shift: Shift | None = None,
    model: Model | None = None,
    rounds: agent.Rounds | None = None,
    traces: Traces | None = None,
) -> AsyncIterator[OneProcess]:
    """Everything wired and migrated, with the demo business seeded; services are not run yet.

    `keeps`: the data matter after it. `shift` moves business time, for simulations. `model`: instead of the settings' one.
    `rounds`: how often the agent looks what the clock has brought about. `traces`: instead of the settings' own.

    Raises Misconfigured when another process uses the directory or a setting is wrong.
    """
    with only_one(directory), embedded_postgres(directory / "postgres", keeps=keeps) as url:
        key = settings.secret_key or SecretStr(secret_key(directory))
        settings = settings.model_copy(
            update={"database_url": SecretStr(url), "secret_key": key, "pool_size": POOL_SIZE}
        )
        packs = load_packs()
        await migrate(url, packs=migrations_of(packs))
        await ready_for(url, packs=migrations_of(packs))
        told = traces or configured_traces(settings, service="up", version=release())
        async with _wired(
            settings, packs, demo, shift=shift, model=model, rounds=rounds, traces=told
        ) as running:
            yield running


@asynccontextmanager
async def _wired(
    settings: Settings,
    packs: Mapping[str, Pack],
    demo: NewBusiness,
    *,
    shift: Shift | None,
    model: Model | None,
    rounds: agent.Rounds | None,
    traces: Traces,
) -> AsyncIterator[OneProcess]:
    url = settings.database_url.get_secret_value()
    metrics = Metrics()
    database = await open_pool(
        url,
        size=settings.pool_size,
        timeouts=settings.timeouts,
        shift=shift,
        waited=metrics.pool_wait_seconds.observe,
    )
    broker = MemoryBroker(tally=metrics.tally)
    parts = Parts(
        settings=settings,
        clock=SystemClock(shift),
        broker=traced(broker, traces),
        database=database,
        metrics=metrics,
        traces=traces,
    )
    introduce(metrics, database, service="up")
    services: list[Service] = []
    try:
        async with as_owner(settings, vault_of(settings)) as businesses:
            business = await businesses.create(demo)
            address = demo.slug
            await businesses.add_account(business, channel="sim", address=address, inbound=[new_secret()])
            await seed_pack(database, packs[demo.pack], business, parts.clock)
            asked = model or await configured_model(settings, packs)
            wired = await ingest.wire(parts)
            services.append(wired.service)
            services.append(await guard.wire(parts))
            services.append(await agent.wire(parts, model=asked, packs=packs, rounds=rounds))
            services.append(await dispatch.wire(parts))
            app = wired.app(lambda: next((why for one in services if (why := one.why_not())), None))
            app.router.routes.extend(feed_routes(PackFeeds(database, packs), feed_keys_of(settings)))
            yield OneProcess(
                parts=parts,
                services=services,
                app=app,
                businesses=businesses,
                business=business,
                sim_address=address,
                sim_secret=await businesses.inbound_secret("sim", address),
            )
    finally:
        for service in services:  # also those that were never run; again is a no-op
            await service.close()
        await traces.close()
        await broker.close()
        await database.close()


@asynccontextmanager
async def running(installation: OneProcess) -> AsyncIterator[None]:
    """Run the services beside what happens inside; drain them afterwards."""
    async with asyncio.TaskGroup() as tasks:
        jobs = [tasks.create_task(service.run()) for service in installation.services]
        await until(lambda: installation.why_not() is None)
        try:
            yield
        finally:
            for service in installation.services:
                await service.drain()
            for job in jobs:
                job.cancel()
