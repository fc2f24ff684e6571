"""Wires dispatch: channels, adapters, handler, loop, sweeper, and what watches over sends nobody settles."""

from datetime import timedelta

from services.dispatch.adapters.channels.registry import Surroundings, channels_of
from services.dispatch.adapters.channels.sim import SimChannel
from services.dispatch.adapters.postgres_addresses import PostgresAddresses
from services.dispatch.adapters.postgres_outbox import PostgresOutbox
from services.dispatch.courtesies import Courtesies
from services.dispatch.handler import Dispatch
from services.dispatch.ports import Channel
from shared.channels.traits import ChannelName
from shared.secrets import vault_of
from shared.tickets import Stage
from shared.work.presence import Presence, Undertaker
from shared.work.service import Parts, Service
from shared.work.slots import Slots
from shared.work.stage import StageLoop, ring
from shared.work.sweeper import every, sweep

LOOK_FOR_DEAD_S = 0.5
LOOK_FOR_STUCK_S = 5.0


async def wire(parts: Parts) -> Service:
    """Dispatch on these parts, present as a worker, ready to run."""
    settings, timeouts = parts.settings, parts.settings.timeouts
    presence = Presence(settings.database_url.get_secret_value(), Stage.DISPATCH, timeouts)
    await presence.enter()
    undertaker = Undertaker(settings.database_url.get_secret_value(), timeouts)
    addresses = PostgresAddresses(parts.database, vault_of(settings), parts.clock)
    outbox = PostgresOutbox(
        parts.database,
        presence=presence,
        addresses=addresses,
        unknown_after=timedelta(seconds=timeouts.unknown),
    )
    sim = SimChannel(outbox)
    given = Surroundings(addresses=addresses, clock=parts.clock, settings=settings)
    channels: dict[str, Channel] = {ChannelName.SIM: sim, **channels_of(given)}
    dispatch = Dispatch(
        outbox=outbox,
        channels=channels,
        broker=parts.broker,
        metrics=parts.metrics,
        clock=parts.clock,
        timeouts=timeouts,
        slots=Slots(settings.slots),
        traces=parts.traces,
    )
    loop = StageLoop(
        broker=parts.broker,
        stage=Stage.DISPATCH,
        claims=dispatch,
        clock=parts.clock,
        metrics=parts.metrics,
        prefetch=settings.prefetch,
        batch=settings.batch,
        hold_s=timeouts.hold,
        suspects=True,
    )
    courtesies = Courtesies(outbox, channels, parts.metrics)
    loop.aside = courtesies.ask

    async def clear(worker: int) -> None:
        await ring(parts.broker, Stage.DISPATCH, await outbox.abandon(worker))

    async def bury() -> None:
        await undertaker.bury(await outbox.senders(), clear)

    async def look_for_stuck() -> None:
        await ring(parts.broker, Stage.DISPATCH, await outbox.abandon(None))
        await outbox.open_decisions()

    async def drain() -> None:
        await loop.stop()
        await dispatch.idle()
        await courtesies.idle()

    async def close() -> None:
        for channel in channels.values():
            await channel.close()
        await undertaker.close()
        await presence.leave()

    return Service(
        name=Stage.DISPATCH.value,
        jobs=[
            loop.run,
            dispatch.run,
            courtesies.run,
            sim.run,
            presence.keep,
            lambda: sweep(parts.broker, Stage.DISPATCH, outbox),
            lambda: every(LOOK_FOR_DEAD_S, bury, name="sends of dead workers"),
            lambda: every(LOOK_FOR_STUCK_S, look_for_stuck, name="sends nobody settled"),
        ],
        why_not_ready=lambda: _why_not(loop, presence),
        drain=drain,
        close=close,
    )


def _why_not(loop: StageLoop, presence: Presence) -> str | None:
    if not presence.held:
        return "dispatch does not hold its worker number"
    return None if loop.healthy else "dispatch's queue does not feed it"
