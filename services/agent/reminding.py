"""Reminds customers of what they have: asks the packs, chooses where each reminder goes, withdraws what is no longer so."""

from collections.abc import Mapping, Sequence

import structlog

from services.agent.clock_ports import ReminderRecord
from services.agent.core.reminder import NewReminder, Recipient, Reminding
from shared.broker.port import Broker
from shared.digest import canonical
from shared.errors import Unavailable
from shared.ids import OutboundId, new_id
from shared.packs import NOBODY, Pack, Reminder, Reminds, Sql, ToolContext
from shared.telemetry.metrics import Metrics
from shared.tickets import Stage
from shared.work.stage import ring

BATCH_MOST = 100

log = structlog.get_logger(__name__)


class Reminders:
    def __init__(
        self, *, record: ReminderRecord, packs: Mapping[str, Pack], broker: Broker, metrics: Metrics
    ) -> None:
        self._record = record
        self._packs: Mapping[str, Reminds] = {
            name: pack for name, pack in packs.items() if isinstance(pack, Reminds)
        }
        self._broker = broker
        self._metrics = metrics

    async def remind(self) -> None:
        """One round over all businesses. One whose pack fails does not stop the others."""
        for business in await self._record.reminding(sorted(self._packs)):
            try:
                await self._remind(business)
            except Unavailable:
                raise
            except Exception:
                log.exception("reminders failed", business=business.slug, pack=business.pack)

    async def _remind(self, business: Reminding) -> None:
        current, worth = await self._asked(business)
        await self._withdraw(business, current)
        for start in range(0, len(worth), BATCH_MOST):
            await self._send(business, worth[start : start + BATCH_MOST])

    async def _asked(self, business: Reminding) -> tuple[Sequence[Reminder], Sequence[Reminder]]:
        """What there is to remind of, and what of it does not come too late."""
        pack = self._packs[business.pack]
        async with self._record.tenant(business.id, business.pack) as sql:
            context = _context(business, sql)
            current = await pack.reminders(context, ahead=business.ahead)
            too_late = {one.key for one in await pack.reminders(context, ahead=business.too_late)}
        return current, [one for one in current if one.key not in too_late]

    async def _send(self, business: Reminding, reminders: Sequence[Reminder]) -> None:
        recipients = await self._record.recipients(business.id, {one.key: one.customer for one in reminders})
        new = [_new(one, recipients[one.key]) for one in reminders if one.key in recipients]
        if not new:
            return
        queued = await self._record.remind(business.id, new)
        self._metrics.reminders.labels(self._metrics.business(business.slug), "queued").inc(len(queued))
        await ring(self._broker, Stage.DISPATCH, queued)

    async def _withdraw(self, business: Reminding, current: Sequence[Reminder]) -> None:
        """What waits for the morning, or for an operator, may be of something that is no longer so."""
        keys = {one.key for one in current}
        gone = [one for one in await self._record.unsent(business.id) if one.key not in keys]
        if gone:
            await self._record.withdraw(gone)
            self._metrics.reminders.labels(self._metrics.business(business.slug), "withdrawn").inc(len(gone))


def _new(reminder: Reminder, recipient: Recipient) -> NewReminder:
    return NewReminder(
        key=reminder.key,
        recipient=recipient,
        outbound=OutboundId(new_id()),
        tool=reminder.tool,
        arguments=canonical(reminder.arguments),
        words=reminder.word(recipient.locale),
    )


def _context(business: Reminding, sql: Sql) -> ToolContext:
    return ToolContext(
        sql=sql,
        business=business.id,
        customer=NOBODY,
        now=business.now,
        zone=business.zone,
        locale=business.locale,
    )
