"""A request's way: everything in it is committed with what arrived beside it, answered, and then rung."""

from collections.abc import Sequence

from services.ingest.ports import Inbox, Request
from services.ingest.spans import tell_received
from shared.broker.port import Broker
from shared.telemetry.metrics import BATCH, Metrics
from shared.telemetry.traces import UNTOLD, Traces
from shared.tickets import Stage
from shared.work.batches import Batcher
from shared.work.stage import rings

REQUESTS_MOST = 200
RINGS_MOST = 400
INGEST = "ingest"  # among the stages in metrics, though no queue feeds it


class Ingest:
    """Takes requests; `run_commits` and `run_rings` must run beside it."""

    def __init__(self, *, inbox: Inbox, broker: Broker, metrics: Metrics, traces: Traces = UNTOLD) -> None:
        self._inbox = inbox
        self._traces = traces
        self._metrics = metrics
        self._commits: Batcher[Request, None] = Batcher(
            self._commit, most=REQUESTS_MOST, repeated=metrics.retries.labels(INGEST, BATCH).inc
        )
        self._rings = rings(broker, Stage.GUARD, most=RINGS_MOST)

    async def receive(self, request: Request) -> None:
        """Return once everything in the request is committed. Raises Unavailable when that failed or is unknown."""
        await self._commits.submit(request)

    async def run_commits(self) -> None:
        await self._commits.run()

    async def run_rings(self) -> None:
        await self._rings.run()

    async def _commit(self, requests: Sequence[Request]) -> Sequence[None]:
        if any(request.messages for request in requests):
            began = self._traces.now()
            stored = await self._inbox.store(requests)
            if self._traces.on:
                tell_received(self._traces, stored, requests, began=began)
            for new in stored:
                self._metrics.messages_stored.inc(len(new.messages))
                self._rings.enqueue(new.conversation)
        if any(request.statuses for request in requests):
            self._metrics.statuses_held.inc(await self._inbox.settle_statuses(requests))
        return [None] * len(requests)
