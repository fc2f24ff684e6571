"""Wires the agent: model, packs, adapters, engine, handler, loop, and what watches over leases."""

from collections.abc import Mapping
from datetime import timedelta

from services.agent.adapters.postgres_turns import PostgresTurns
from services.agent.answering import Answering
from services.agent.checks import Checks
from services.agent.committing import Committer
from services.agent.confirming import Confirming
from services.agent.engines.calling import Calling
from services.agent.engines.tool_loop import ToolLoop
from services.agent.evidence import Sealing
from services.agent.execution import Executor
from services.agent.handler import Agent
from services.agent.questions import Questions
from shared.database import load_queries
from shared.llm.port import Model
from shared.packs import Pack
from shared.tickets import Stage
from shared.work.presence import Presence, Undertaker
from shared.work.service import Parts, Service
from shared.work.slots import Slots
from shared.work.stage import StageLoop
from shared.work.sweeper import every

LOOK_FOR_DEAD_S = 0.5
LOSE_CALLS_S = 5.0
PREFETCH_MAX = 32


async def wire(parts: Parts, *, model: Model, packs: Mapping[str, Pack]) -> Service:
    """The agent on these parts, present as a worker, ready to run."""
    settings, timeouts = parts.settings, parts.settings.timeouts
    presence = Presence(settings.database_url.get_secret_value(), Stage.AGENT, timeouts)
    await presence.enter()
    undertaker = Undertaker(settings.database_url.get_secret_value(), timeouts)
    turns = PostgresTurns(
        parts.database,
        presence=presence,
        pack_queries={name: load_queries(*pack.queries, prefix=f"{name}.") for name, pack in packs.items()},
        provider=model.provider,
        model=model.name,
        lease=timedelta(seconds=timeouts.lease),
    )
    calling = Calling(
        turns=turns, model=model, clock=parts.clock, metrics=parts.metrics, call_timeout_s=timeouts.model_call
    )
    sealing = Sealing(packs)
    checks, executor = Checks(turns), Executor(turns, sealing)
    committer = Committer(turns=turns, sealing=sealing, broker=parts.broker, metrics=parts.metrics)
    answering = Answering(
        turns=turns,
        questions=Questions(turns=turns, clock=parts.clock),
        engine=ToolLoop(calling=calling, turns=turns, checks=checks, executor=executor),
        confirming=Confirming(
            turns=turns,
            checks=checks,
            executor=executor,
            committer=committer,
            packs=packs,
            metrics=parts.metrics,
        ),
        committer=committer,
        packs=packs,
        metrics=parts.metrics,
    )
    agent = Agent(
        turns=turns,
        answering=answering,
        metrics=parts.metrics,
        clock=parts.clock,
        timeouts=timeouts,
        slots=Slots(settings.slots),
    )
    loop = StageLoop(
        broker=parts.broker,
        stage=Stage.AGENT,
        claims=agent,
        clock=parts.clock,
        prefetch=min(settings.slots, PREFETCH_MAX),
        batch=settings.batch,
        hold_s=timeouts.hold,
        suspects=False,
    )

    async def bury() -> None:
        await undertaker.bury(await turns.leaseholders(), turns.void_leases)

    async def drain() -> None:
        await loop.stop()
        await agent.drain(model_s=timeouts.drain_model)

    async def close() -> None:
        await undertaker.close()
        await presence.leave()
        await model.close()

    return Service(
        name=Stage.AGENT.value,
        jobs=[
            loop.run,
            agent.run,
            committer.run,
            presence.keep,
            *(batcher.run for batcher in turns.batchers),
            lambda: every(LOOK_FOR_DEAD_S, bury, name="leases of dead workers"),
            lambda: every(LOSE_CALLS_S, turns.lose_calls, name="lost model calls"),
        ],
        why_not_ready=lambda: _why_not(loop, presence),
        drain=drain,
        close=close,
    )


def _why_not(loop: StageLoop, presence: Presence) -> str | None:
    if not presence.held:
        return "the agent does not hold its worker number"
    return None if loop.healthy else "the agent's queue does not feed it"
