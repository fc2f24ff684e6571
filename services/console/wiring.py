"""Wires the console's process: so far it serves feeds."""

from collections.abc import Mapping

from starlette.applications import Starlette
from starlette.types import ASGIApp

from services.console.adapters.pack_feeds import PackFeeds
from services.console.feeds import feed_keys_of, feed_routes
from shared.packs import Pack
from shared.telemetry.health import routes
from shared.work.service import Parts, Service
from shared.work.sweeper import NOT_ASKED, Reach, every

PING_EVERY_S = 2.0


async def wire(parts: Parts, *, packs: Mapping[str, Pack]) -> tuple[Service, ASGIApp]:
    """The service and its app, on these parts."""
    feeds = PackFeeds(parts.database, packs)
    reach = Reach(NOT_ASKED)

    service = Service(
        name="console",
        jobs=[lambda: every(PING_EVERY_S, lambda: reach.asked(feeds.ping), name="the database")],
        why_not_ready=lambda: reach.why_not,
    )
    shown = routes(metrics=parts.metrics, ready=service.why_not)
    return service, Starlette(routes=[*shown, *feed_routes(feeds, feed_keys_of(parts.settings))])
