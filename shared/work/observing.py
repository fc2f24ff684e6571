"""What a process tells of itself: which service of which release it is, its connections, how late its event loop runs."""

import asyncio
from importlib.metadata import PackageNotFoundError, version

from shared.database import Database
from shared.telemetry.metrics import UNKNOWN, Metrics

LAG_EVERY_S = 0.5


def release() -> str:
    """The version that is installed here."""
    try:
        return version("leeway")
    except PackageNotFoundError:  # run from a tree that nobody installed
        return UNKNOWN


def introduce(metrics: Metrics, database: Database, *, service: str) -> None:
    """Show who this is, what it may count, and its pool as it is whenever somebody asks."""
    metrics.begin(service)
    metrics.service_info.labels(service, release()).set(1)
    metrics.pool_connections.labels("busy").set_function(lambda: database.busy)
    metrics.pool_connections.labels("idle").set_function(lambda: database.idle)


async def watch_the_loop(metrics: Metrics) -> None:
    """Until cancelled: how late a sleep ends says how late everything else begins."""
    now = asyncio.get_running_loop().time
    while True:
        due = now() + LAG_EVERY_S
        await asyncio.sleep(LAG_EVERY_S)
        metrics.event_loop_lag_seconds.observe(max(now() - due, 0.0))
