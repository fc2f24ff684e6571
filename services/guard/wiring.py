"""Wires the guard: adapters, handler, loop, sweeper."""

from services.guard.adapters.postgres_conversations import PostgresConversations
from services.guard.handler import Guard
from shared.tickets import Stage
from shared.work.service import Parts, Service
from shared.work.stage import StageLoop
from shared.work.sweeper import Reach, sweep


async def wire(parts: Parts) -> Service:
    """The guard on these parts, ready to run."""
    settings = parts.settings
    conversations = PostgresConversations(parts.database)
    guard = Guard(
        conversations=conversations,
        broker=parts.broker,
        metrics=parts.metrics,
        batch=settings.batch,
        traces=parts.traces,
    )
    loop = StageLoop(
        broker=parts.broker,
        stage=Stage.GUARD,
        claims=guard,
        clock=parts.clock,
        metrics=parts.metrics,
        prefetch=settings.prefetch,
        batch=settings.batch,
        hold_s=settings.timeouts.hold,
        suspects=True,
    )
    reach = Reach()

    async def drain() -> None:
        await loop.stop()

    return Service(
        name=Stage.GUARD.value,
        jobs=[
            loop.run,
            *(batcher.run for batcher in guard.batchers),
            lambda: sweep(parts.broker, Stage.GUARD, conversations, reach=reach),
        ],
        why_not_ready=lambda: (
            reach.why_not or (None if loop.healthy else "the guard's queue does not feed it")
        ),
        drain=drain,
    )
