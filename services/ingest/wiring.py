"""Wires ingest: inbox, handler, HTTP app."""

from dataclasses import dataclass

from fastapi import FastAPI

from services.ingest.adapters.media_fetching import MediaFetching, limits_of
from services.ingest.adapters.media_record import PostgresMedia
from services.ingest.adapters.media_sources import Sources
from services.ingest.adapters.postgres_inbox import PostgresInbox
from services.ingest.adapters.postgres_looks import PostgresLooks
from services.ingest.adapters.postgres_polls import PostgresPolls
from services.ingest.adapters.postgres_standing import PostgresStanding
from services.ingest.adapters.telegram_polling import TelegramPolling
from services.ingest.adapters.twilio_missed import TwilioMissed
from services.ingest.app import build_app
from services.ingest.handler import Ingest
from services.ingest.routes import Hooks
from services.ingest.watching import Watching
from shared.secrets import vault_of
from shared.telemetry.health import Ready
from shared.work.service import Parts, Service
from shared.work.sweeper import NOT_ASKED, Reach, every

PING_EVERY_S = 2.0
LOOK_EVERY_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WiredIngest:
    """Ingest as a service, and its app. `also` may add what else the process runs to its readiness."""

    service: Service
    hooks: Hooks
    parts: Parts

    def app(self, ready: Ready | None = None) -> FastAPI:
        return build_app(hooks=self.hooks, metrics=self.parts.metrics, ready=ready or self.service.why_not)


async def wire(parts: Parts) -> WiredIngest:
    """Ingest on these parts, ready to run."""
    vault = vault_of(parts.settings)
    inbox = PostgresInbox(parts.database, vault, parts.clock)
    ingest = Ingest(inbox=inbox, broker=parts.broker, metrics=parts.metrics, traces=parts.traces)
    hooks = Hooks(
        ingest=ingest,
        inbox=inbox,
        clock=parts.clock,
        metrics=parts.metrics,
        public_url=parts.settings.public_base_url,
        traces=parts.traces,
    )
    polling = TelegramPolling(
        polls=PostgresPolls(parts.database, vault),
        inbox=inbox,
        receive=ingest.receive,
        clock=parts.clock,
        metrics=parts.metrics,
        url=parts.settings.telegram_url,
    )
    missed = TwilioMissed(
        looks=PostgresLooks(parts.database, vault),
        inbox=inbox,
        receive=ingest.receive,
        clock=parts.clock,
        url=parts.settings.twilio_url,
    )
    fetching = MediaFetching(
        media=PostgresMedia(parts.database, vault),
        sources=Sources.of(parts.settings),
        limits=limits_of(parts.settings),
    )
    watching = Watching(standing=PostgresStanding(parts.database), metrics=parts.metrics, clock=parts.clock)
    reach = Reach(NOT_ASKED)

    service = Service(
        name="ingest",
        jobs=[
            ingest.run_commits,
            ingest.run_rings,
            polling.run,
            missed.run,
            fetching.run,
            lambda: every(PING_EVERY_S, lambda: reach.asked(inbox.retry_held), name="held statuses"),
            lambda: every(LOOK_EVERY_S, watching.look, name="what waits"),
        ],
        why_not_ready=lambda: reach.why_not,
    )
    return WiredIngest(service=service, hooks=hooks, parts=parts)
