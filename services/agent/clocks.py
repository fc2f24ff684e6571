"""What the clock brings about by itself: approvals that nobody gave, handoffs that nobody claims, owners who went quiet.

Every agent looks; each look is bounded, and of two that find the same the record lets one do it.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

import structlog

from services.agent.clock_ports import ClockRecord
from services.agent.core.clock import HORIZON, Span, Strike, Times, Unclaimed, Unset, strike, times_of
from shared.broker.port import Broker
from shared.errors import Unavailable
from shared.locales import load
from shared.packs import NOBODY, KeepsHours, Pack, ToolContext
from shared.telemetry.metrics import Metrics
from shared.tickets import Stage
from shared.work.stage import ring

LOOK_MOST = 100

log = structlog.get_logger(__name__)


class Clocks:
    def __init__(
        self, *, record: ClockRecord, packs: Mapping[str, Pack], broker: Broker, metrics: Metrics
    ) -> None:
        self._record = record
        self._packs = packs
        self._broker = broker
        self._metrics = metrics

    async def expire_approvals(self) -> None:
        """An approval that nobody gave is a decline; the turns that tell the customers are due then."""
        for conversation in await self._record.expire_approvals(most=LOOK_MOST):
            log.info("approval expired", conversation=str(conversation))

    async def release_takeovers(self) -> None:
        """The bot answers again where the owner, who wrote from their own phone, has been quiet for long enough."""
        for conversation in await self._record.release_takeovers(most=LOOK_MOST):
            log.info("owner's takeover released itself", conversation=str(conversation))

    async def watch_handoffs(self) -> None:
        """Remind operators of what nobody claimed, and tell the customers, in the business's opening hours."""
        unset = await self._record.unset(most=LOOK_MOST)
        if unset:
            await self._record.set_times([(one, await self._times(one)) for one in unset])
        unclaimed = await self._record.unclaimed(most=LOOK_MOST)
        if unclaimed:
            await self._strike([(one, strike(one)) for one in unclaimed])

    async def _strike(self, strikes: Sequence[tuple[Unclaimed, Strike]]) -> None:
        worded = [
            (one, does, load(one.locale).notice("handoff_waiting") if does.tells else "")
            for one, does in strikes
        ]
        struck = await self._record.strike(worded)
        does_what = {one.conversation: does for one, does in strikes}
        for one, _ in struck:
            self._say(one, does_what[one.conversation])
        await ring(self._broker, Stage.DISPATCH, [outbound for _, outbound in struck if outbound])

    def _say(self, one: Unclaimed, does: Strike) -> None:
        business = self._metrics.business(one.slug)
        if does.reminds:
            self._metrics.handoffs_waiting.labels(business, "reminded").inc()
            log.warning(
                "handoff waits for a person",
                business=one.slug,
                conversation=str(one.conversation),
                reason=one.reason,
            )
        if does.tells:
            self._metrics.handoffs_waiting.labels(business, "told").inc()
            log.info("customer told that a person is still to come", conversation=str(one.conversation))

    async def _times(self, unset: Unset) -> Times:
        return times_of(unset, await self._spans(unset, unset.opened_at, unset.opened_at + HORIZON))

    async def _spans(self, unset: Unset, begins: datetime, ends: datetime) -> Sequence[Span]:
        """The opening hours. A pack that can't say leaves nobody waiting unseen: its business counts as open."""
        pack: object = self._packs.get(unset.pack)
        if not isinstance(pack, KeepsHours):
            return ()
        try:
            async with self._record.tenant(unset.business, unset.pack) as sql:
                context = ToolContext(
                    sql=sql,
                    business=unset.business,
                    customer=NOBODY,
                    now=unset.now,
                    zone=ZoneInfo(unset.time_zone),
                    locale=unset.locale,
                )
                return await pack.open_spans(context, begins, ends)
        except Unavailable:
            raise
        except Exception:
            log.exception(
                "pack could not say when its business is open", pack=unset.pack, business=unset.slug
            )
            return ()
