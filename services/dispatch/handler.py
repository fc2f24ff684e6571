"""A reply's way out: claim, call the provider, settle, ring the next. The claim is committed before the call begins."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import assert_never
from uuid import UUID

import structlog

from services.dispatch.core.delivery import (
    Decision,
    Discard,
    MakeDraft,
    NotYet,
    Send,
    Snapshot,
    Supersede,
    Wait,
    decide,
    part_key,
)
from services.dispatch.core.outcome import (
    AccountRefused,
    GivenBack,
    NoAnswer,
    Outcome,
    Refused,
    Throttled,
    WindowClosed,
    backoff,
    settle,
    without_quotes,
)
from services.dispatch.core.pace import Pacer
from services.dispatch.core.split import split
from services.dispatch.ports import Channel, Claimed, Decided, Outbox, Settlement, Stored
from services.dispatch.spans import call_span, origin, send_span, tell_outcome
from shared.broker.port import Broker
from shared.channels.traits import traits_of
from shared.channels.troubles import Trouble
from shared.clock import Clock
from shared.errors import Misconfigured, Unavailable
from shared.ids import AttemptId, OutboundId, new_id
from shared.jitter import between
from shared.settings import Timeouts
from shared.telemetry.metrics import BATCH, Metrics, channel_of, kind_of
from shared.telemetry.traces import UNTOLD, Traces
from shared.tickets import Stage
from shared.work.batches import Batcher
from shared.work.slots import Slots
from shared.work.stage import BACKOFF_FIRST_S, BACKOFF_MAX_S, rings

GATHERS_MAX = 3
SETTLES_MOST = 100

log = structlog.get_logger(__name__)


class Dispatch:
    """shared.work.stage.Claims for dispatch. `run` must run beside it; sends are its tasks."""

    def __init__(
        self,
        *,
        outbox: Outbox,
        channels: Mapping[str, Channel],
        broker: Broker,
        metrics: Metrics,
        clock: Clock,
        timeouts: Timeouts,
        slots: Slots,
        traces: Traces = UNTOLD,
    ) -> None:
        self._outbox = outbox
        self._traces = traces
        self._channels = channels
        self._metrics = metrics
        self._clock = clock
        self._timeouts = timeouts
        self._slots = slots
        self._settles: Batcher[Settlement, Stored] = Batcher(
            self._settle, most=SETTLES_MOST, repeated=metrics.retries.labels(Stage.DISPATCH.value, BATCH).inc
        )
        self._rings = rings(broker, Stage.DISPATCH, most=SETTLES_MOST)
        self._sends: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Settle and ring until cancelled; sends under way are cancelled with it."""
        async with asyncio.TaskGroup() as sends:
            self._sends = sends
            sends.create_task(self._settles.run())
            sends.create_task(self._rings.run())

    async def idle(self) -> None:
        """Wait until no send is under way."""
        await self._slots.idle()

    async def room(self) -> int:
        return await self._slots.room()

    async def claim(self, ids: Sequence[UUID]) -> None:
        """Claim what may leave and begin to send it; decide what becomes of the rest."""
        outbounds = [OutboundId(ticket) for ticket in ids]
        claimed = list(await self._outbox.claim_plain(outbounds))
        self._metrics.batch_size.labels(Stage.DISPATCH.value).observe(len(outbounds))
        plain = {one.outbound for one in claimed}
        self._begin(claimed)
        rest = [outbound for outbound in outbounds if outbound not in plain]
        for _ in range(GATHERS_MAX):
            if not rest:
                return
            rest = await self._decide(rest)
        await self._outbox.bar(rest)

    async def count(self, ticket: UUID) -> int:
        return await self._outbox.count(OutboundId(ticket))

    async def give_up(self, ticket: UUID) -> None:
        await self._outbox.give_up(OutboundId(ticket))
        self._metrics.given_up.labels(Stage.DISPATCH.value).inc()

    async def _decide(self, outbounds: Sequence[OutboundId]) -> list[OutboundId]:
        """Gather, decide, record; those whose conversation changed meanwhile."""
        replies = await self._outbox.gather(outbounds)
        pacer = Pacer()
        decided = [_decided(reply, pacer) for reply in replies]
        barred = [one.reply.outbound for one in decided if isinstance(one.decision, NotYet)]
        if barred:
            await self._outbox.bar(barred)
        to_record = [one for one in decided if not isinstance(one.decision, NotYet)]
        if not to_record:
            return []
        claimed, recorded = await self._outbox.record(to_record)
        self._begin(claimed)
        done = set(recorded)
        for one in to_record:
            if one.reply.outbound in done and not isinstance(one.decision, Send):
                self._metrics.outbounds.labels(*_became(one.decision)).inc()
        return [one.reply.outbound for one in to_record if one.reply.outbound not in done]

    def _begin(self, claimed: Sequence[Claimed]) -> None:
        assert self._sends is not None, "run() must run beside the claims"
        began = self._clock.monotonic()
        for one in claimed:
            self._slots.take()
            if one.waited is not None:
                self._metrics.queue_wait_seconds.labels(Stage.DISPATCH.value).observe(
                    one.waited.total_seconds()
                )
            self._sends.create_task(self._send(one, claimed_at=began))

    async def _send(self, claimed: Claimed, *, claimed_at: float) -> None:
        """Send a reply's parts in order, each under its own attempt, at the pace that one person may be written to."""
        about = {"outbound": str(claimed.outbound), "conversation": str(claimed.conversation)}
        structlog.contextvars.bind_contextvars(**about)
        try:
            with send_span(self._traces, claimed, await origin(self._traces, self._outbox, claimed)):
                current = await self._send_part(claimed, claimed_at=claimed_at)
                while current is not None:
                    claimed_at = self._clock.monotonic()
                    pace = traits_of(current.channel, current.user_id).per_person
                    await asyncio.sleep(pace.total_seconds())
                    current = await self._send_part(current, claimed_at=claimed_at)
        except Exception:
            log.exception("send failed on our side, its outcome is unknown", outbound=str(claimed.outbound))
        finally:
            self._slots.give_back()

    async def _send_part(self, claimed: Claimed, *, claimed_at: float) -> Claimed | None:
        """One part: the provider's call, its outcome stored. The next part, claimed, if there is one."""
        channel = self._channels.get(claimed.channel)
        with call_span(self._traces, claimed) as span:
            outcome = await self._outcome(claimed, channel, claimed_at)
            if self._traces.on:
                tell_outcome(span, outcome)
        self._metrics.sends.labels(channel_of(claimed.channel), kind_of(outcome)).inc()
        settled = settle(
            outcome,
            last_part=claimed.last_part,
            idempotent=channel is not None and traits_of(claimed.channel, claimed.user_id).idempotent,
            backoff=backoff(claimed.tries, chance=between(0, 1)),
            by_template=claimed.by_template,
        )
        goes_on = settled.rank > 0 and not claimed.last_part
        following = AttemptId(new_id()) if goes_on else None
        settlement = Settlement(claimed=claimed, settled=settled, next_attempt=following)
        if settled.outbound == "queued":
            self._metrics.retries.labels(Stage.DISPATCH.value, kind_of(outcome)).inc()
        current = await self._stored(settlement)
        await self._consequences(claimed, outcome)
        if following is None or not current:
            return None
        return replace(claimed, attempt=following, part=claimed.part + 1, tries=0)

    async def _outcome(self, claimed: Claimed, channel: Channel | None, claimed_at: float) -> Outcome:
        if channel is None:
            return Throttled(reason=f"this version has no channel {claimed.channel}")
        if self._clock.monotonic() - claimed_at > self._timeouts.begin_send:
            return GivenBack()
        key = part_key(claimed.outbound, claimed.round, claimed.part)
        try:
            async with asyncio.timeout(self._timeouts.provider):
                return await channel.send(claimed, key=key)
        except TimeoutError:
            return NoAnswer(reason="no answer in time")
        except Misconfigured as error:  # a wrong key, settings that can't be read: nothing has left
            log.error(
                "account can't be used", channel=claimed.channel, account=claimed.account, error=str(error)
            )
            return Throttled(reason=str(error))
        except Exception:
            log.exception(
                "channel raised, outcome unknown", channel=claimed.channel, outbound=str(claimed.outbound)
            )
            return NoAnswer(reason="the channel adapter failed")

    async def _account_refused(self, claimed: Claimed, outcome: AccountRefused) -> None:
        reason = without_quotes(outcome.reason)
        about = {"account": claimed.account, "channel": claimed.channel, "reason": reason}
        if not await self._outbox.disable(claimed.account, outcome.reason):
            log.info("an account's old secrets were refused; the new ones are tried", **about)
            return
        log.error(
            "channel account disabled: its provider refuses every send. Its replies wait; put it right and enable it",
            **about,
        )
        self._metrics.accounts_disabled.labels(channel_of(claimed.channel)).inc()

    async def _consequences(self, claimed: Claimed, outcome: Outcome) -> None:
        """What an outcome asks for beside its own row."""
        try:
            if isinstance(outcome, Refused):
                await self._refused(claimed, outcome)
            elif isinstance(outcome, AccountRefused):
                await self._account_refused(claimed, outcome)
            elif isinstance(outcome, WindowClosed):
                self._rings.enqueue(claimed.outbound)
            elif isinstance(outcome, Throttled) and outcome.whole_account and outcome.retry_after:
                await self._outbox.pause(claimed.account, outcome.retry_after)
        except Unavailable as error:
            log.warning("consequence of a send not stored", outbound=str(claimed.outbound), error=str(error))

    async def _refused(self, claimed: Claimed, outcome: Refused) -> None:
        """A draft by now. A mistake of ours is for who runs the installation as well."""
        self._metrics.sends_refused.labels(channel_of(claimed.channel), outcome.trouble.value).inc()
        ours = outcome.trouble is Trouble.OUR_BUG
        (log.error if ours else log.warning)(
            "send refused, the reply is a draft",
            outbound=str(claimed.outbound),
            reason=without_quotes(outcome.reason),
            trouble=outcome.trouble.value,
        )
        if ours:
            await self._outbox.bury(claimed, outcome.reason)

    async def _stored(self, settlement: Settlement) -> bool:
        """Store the outcome, again and again until it is; whether the attempt was still the conversation's current one."""
        pause = BACKOFF_FIRST_S
        while True:
            try:
                stored = await self._settles.submit(settlement)
            except Unavailable as error:
                log.warning("outcome of a send waits for the database", error=str(error))
                await asyncio.sleep(pause)
                pause = min(2 * pause, BACKOFF_MAX_S)
                continue
            if stored.answered_after is not None:
                channel = channel_of(settlement.claimed.channel)
                self._metrics.end_to_end_seconds.labels(channel).observe(
                    stored.answered_after.total_seconds()
                )
            if stored.following is not None:
                self._rings.enqueue(stored.following)
            return stored.current

    async def _settle(self, settlements: Sequence[Settlement]) -> Sequence[Stored]:
        stored = await self._outbox.settle(settlements)
        return [stored[one.claimed.attempt] for one in settlements]


def _decided(reply: Snapshot, pacer: Pacer) -> Decided:
    """The decision, and the parts that the reply has on its channel."""
    decision = pacer.pace(reply, decide(reply))
    traits = reply.traits
    beside = traits.text_beside_buttons_max if reply.buttons and decision != Send(by_template=True) else None
    parts = split(reply.body, length=traits.length, most=traits.text_max, last_most=beside)
    return Decided(reply=reply, decision=decision, parts=tuple(parts))


def _became(decision: Decision) -> tuple[str, str]:
    """State and reason, as labels, of a reply that was not sent."""
    match decision:
        case MakeDraft(reason=reason):
            return "draft", reason.value
        case Supersede():
            return "superseded", ""
        case Discard():
            return "discarded", "opted_out"
        case Wait():
            return "queued", "waits"
        case Send() | NotYet():
            raise AssertionError("its send is counted, or nothing was recorded")
        case _:
            assert_never(decision)
