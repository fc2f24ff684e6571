"""Wires the agent: model, packs, adapters, engine, handler, loop, and what watches over leases."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from services.agent.adapters.postgres_clocks import PostgresClocks
from services.agent.adapters.postgres_parts import PostgresParts
from services.agent.adapters.postgres_turns import PostgresTurns
from services.agent.answering import Answering
from services.agent.checks import Checks
from services.agent.clocks import Clocks
from services.agent.committing import Committer
from services.agent.confirming import Confirming
from services.agent.engines.calling import Calling
from services.agent.engines.tool_loop import ToolLoop
from services.agent.evidence import Sealing
from services.agent.execution import Executor
from services.agent.handler import Agent
from services.agent.listening import Listening
from services.agent.questions import Questions
from services.agent.reminded import Reminded
from services.agent.reminding import Reminders
from services.agent.timing import ModelTime
from shared.database import queries_of
from shared.errors import Misconfigured
from shared.llm.configured import media_types
from shared.llm.costs import has_price
from shared.llm.port import Model
from shared.packs import Pack
from shared.telemetry.metrics import BATCH
from shared.tickets import Stage
from shared.work.presence import Presence, Undertaker
from shared.work.service import Job, Parts, Service
from shared.work.slots import Slots
from shared.work.stage import StageLoop
from shared.work.sweeper import every

LOOK_FOR_DEAD_S = 0.5
LOSE_CALLS_S = 5.0
PREFETCH_MAX = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """How often the agent looks what the clock has brought about, in seconds."""

    approvals_s: float = 5.0
    handoffs_s: float = 5.0
    reminders_s: float = 60.0


async def wire(
    parts: Parts, *, model: Model, packs: Mapping[str, Pack], rounds: Rounds | None = None
) -> Service:
    """The agent on these parts, present as a worker, ready to run."""
    settings, timeouts = parts.settings, parts.settings.timeouts
    parts.metrics.asks(model.provider, model.name)
    types = media_types(settings)
    presence = Presence(settings.database_url.get_secret_value(), Stage.AGENT, timeouts)
    await presence.enter()
    undertaker = Undertaker(settings.database_url.get_secret_value(), timeouts)
    pack_queries = {name: queries_of(pack) for name, pack in packs.items()}
    record = PostgresClocks(parts.database, pack_queries=pack_queries)
    turns = PostgresTurns(
        parts.database,
        presence=presence,
        pack_queries=pack_queries,
        provider=model.provider,
        model=model.name,
        lease=timedelta(seconds=timeouts.lease),
        repeated=parts.metrics.retries.labels(Stage.AGENT.value, BATCH).inc,
    )
    if not has_price(model) and await turns.any_cap():
        raise Misconfigured(
            f"A business has a cap, and {model.provider}:{model.name} has no known price: set one in LEEWAY_PRICES "
            "(0 is allowed), or remove the cap (leeway business set SLUG --day-cap none …)."
        )
    sealing, model_time = Sealing(packs), ModelTime()
    calling = Calling(
        turns=turns,
        model=model,
        clock=parts.clock,
        metrics=parts.metrics,
        call_timeout_s=timeouts.model_call,
        model_time=model_time,
        traces=parts.traces,
    )
    listening = None
    if settings.media:
        heard = PostgresParts(parts.database)
        listening = Listening(record=heard, calling=calling, turns=turns, media=settings.media, types=types)
    committer = Committer(
        turns=turns, sealing=sealing, broker=parts.broker, metrics=parts.metrics, traces=parts.traces
    )
    agent = Agent(
        turns=turns,
        answering=_answering(
            parts,
            packs=packs,
            turns=turns,
            calling=calling,
            reminders=record,
            sealing=sealing,
            committer=committer,
            listening=listening,
        ),
        metrics=parts.metrics,
        clock=parts.clock,
        timeouts=timeouts,
        slots=Slots(settings.slots),
        model_time=model_time,
        traces=parts.traces,
    )
    loop = StageLoop(
        broker=parts.broker,
        stage=Stage.AGENT,
        claims=agent,
        clock=parts.clock,
        metrics=parts.metrics,
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
            *_rounds(parts, record, packs, rounds or Rounds()),
        ],
        why_not_ready=lambda: _why_not(loop, presence),
        drain=drain,
        close=close,
    )


def _answering(
    parts: Parts,
    *,
    packs: Mapping[str, Pack],
    turns: PostgresTurns,
    calling: Calling,
    reminders: PostgresClocks,
    sealing: Sealing,
    committer: Committer,
    listening: Listening | None,
) -> Answering:
    """What makes an answer of a turn: the engine, and all that it may do only by way of checks."""
    checks, executor = Checks(turns, parts.traces), Executor(turns, sealing, parts.traces)
    return Answering(
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
        listening=listening,
        reminded=Reminded(reminders=reminders, checks=checks, committer=committer, packs=packs),
    )


def _rounds(parts: Parts, record: PostgresClocks, packs: Mapping[str, Pack], rounds: Rounds) -> Sequence[Job]:
    """What the clock brings about, each a job of its own: one that fails holds up no other."""
    clocks = Clocks(record=record, packs=packs, broker=parts.broker, metrics=parts.metrics)
    reminders = Reminders(record=record, packs=packs, broker=parts.broker, metrics=parts.metrics)
    return [
        lambda: every(rounds.approvals_s, clocks.expire_approvals, name="approvals nobody gave"),
        lambda: every(rounds.handoffs_s, clocks.watch_handoffs, name="handoffs nobody claimed"),
        lambda: every(rounds.handoffs_s, clocks.release_takeovers, name="owners who went quiet"),
        lambda: every(rounds.reminders_s, reminders.remind, name="reminders"),
    ]


def _why_not(loop: StageLoop, presence: Presence) -> str | None:
    if not presence.held:
        return "the agent does not hold its worker number"
    return None if loop.healthy else "the agent's queue does not feed it"
