"""A conversation's way through the guard: gather, judge, record while it is still true, ring."""

from collections.abc import Sequence
from uuid import UUID

import structlog

from services.guard.core.amending import amend
from services.guard.core.guards import judge
from services.guard.core.record import Case, Record, record
from services.guard.core.verdict import Notice, Reason
from services.guard.ports import Conversations
from services.guard.spans import tell_judged
from shared.broker.port import Broker
from shared.ids import ConversationId
from shared.locales import load
from shared.telemetry.metrics import Metrics
from shared.telemetry.traces import UNTOLD, Traces
from shared.tickets import Stage
from shared.work.batches import Batcher
from shared.work.stage import rings, rings_courtesies

GATHERS_MAX = 5
RINGS_MOST = 400
DAY_CAP = "day"  # the one that the guard knows of

log = structlog.get_logger(__name__)


class Guard:
    """shared.work.stage.Claims for the guard: its claim is the recorded judgement."""

    def __init__(
        self,
        *,
        conversations: Conversations,
        broker: Broker,
        metrics: Metrics,
        batch: int,
        traces: Traces = UNTOLD,
    ) -> None:
        self._conversations = conversations
        self._traces = traces
        self._metrics = metrics
        self._batch = batch
        self._agent_rings = rings(broker, Stage.AGENT, most=RINGS_MOST)
        self._dispatch_rings = rings(broker, Stage.DISPATCH, most=RINGS_MOST)
        self._courtesies = rings_courtesies(broker, most=RINGS_MOST)

    @property
    def batchers(self) -> Sequence[Batcher[UUID, None]]:
        """What must run beside this: rings leave while the next batch is judged."""
        return (self._agent_rings, self._dispatch_rings, self._courtesies)

    async def room(self) -> int:
        return self._batch

    async def claim(self, ids: Sequence[UUID]) -> None:
        """Judge what is unjudged. A row that keeps changing under us is left due: whoever changed it rang again."""
        waiting = [ConversationId(ticket) for ticket in ids]
        began = self._traces.now()
        for _ in range(GATHERS_MAX):
            cases = await self._conversations.gather(waiting)
            if not cases:
                return
            waiting = await self._decide(cases, began)
            if not waiting:
                return
        log.info("conversations kept changing, left due", conversations=len(waiting))

    async def count(self, ticket: UUID) -> int:
        return await self._conversations.count(ConversationId(ticket))

    async def give_up(self, ticket: UUID) -> None:
        conversation = ConversationId(ticket)
        locale = await self._conversations.locale(conversation)
        text = load(locale or "en").notice(Notice.PROCESSING_FAILED)
        notice = await self._conversations.give_up(conversation, text)
        self._metrics.given_up.labels(Stage.GUARD.value).inc()
        if notice is not None:
            self._dispatch_rings.enqueue(notice)

    async def _decide(self, cases: Sequence[Case], began: int) -> list[ConversationId]:
        """Judge and record; the conversations whose row had changed."""
        records = [_recorded(case) for case in cases]
        texts = {
            (one.case.conversation, message): _worded(one, notice)
            for one in records
            for message, notice in one.notices
        }
        recorded = await self._conversations.record(records, texts)
        done = [one for one in records if one.case.conversation in recorded]
        self._counted(done)
        if self._traces.on:
            tell_judged(self._traces, done, recorded, began=began)
        for message in (message for one in done for message in one.courtesies):
            self._courtesies.enqueue(message)
        for one in done:
            if one.due_now:
                self._agent_rings.enqueue(one.case.conversation)
        for notice in (notice for notices in recorded.values() for notice in notices):
            self._dispatch_rings.enqueue(notice)
        return [one.case.conversation for one in records if one.case.conversation not in recorded]

    def _counted(self, records: Sequence[Record]) -> None:
        self._metrics.batch_size.labels(Stage.GUARD.value).observe(len(records))
        for one in records:
            self._metrics.queue_wait_seconds.labels(Stage.GUARD.value).observe(
                one.case.waited.total_seconds()
            )
            business = self._metrics.business(one.case.business_slug)
            for judged in one.judged:
                self._metrics.messages_judged.labels(
                    business, judged.verdict.value, judged.reason or ""
                ).inc()
                if judged.reason is Reason.BUDGET:
                    self._metrics.cap_hits.labels(business, DAY_CAP).inc()
            if one.handoff_reason:
                self._metrics.handoffs.labels(business, one.handoff_reason.value).inc()


def _recorded(case: Case) -> Record:
    amended = amend(case.messages, case.concerned, handled_seq=case.row.handled_seq, leased=case.row.leased)
    again = [one.message for one in amended.again]
    locales = [load(name) for name in case.locales]
    return record(case, judge(amended.messages, case.facts, locales, again=again), amended)


def _worded(one: Record, notice: Notice) -> str:
    return load(one.row.locale or one.case.locales[0]).notice(notice)
