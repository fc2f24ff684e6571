"""Writes what a turn came to, counts it, and rings dispatch."""

import structlog

from services.agent.core.turn import Turn
from services.agent.edited import telling
from services.agent.evidence import Sealing
from services.agent.ports import Commit, Committed, Turns
from shared.broker.port import Broker
from shared.ids import OutboundId
from shared.telemetry.metrics import Metrics
from shared.telemetry.traces import UNTOLD, Traces
from shared.tickets import Stage
from shared.work.stage import rings

RINGS_MOST = 100

log = structlog.get_logger(__name__)


class Committer:
    """`run` must run beside it."""

    def __init__(
        self,
        *,
        turns: Turns,
        sealing: Sealing,
        broker: Broker,
        metrics: Metrics,
        traces: Traces = UNTOLD,
    ) -> None:
        self._turns = turns
        self._traces = traces
        self._sealing = sealing
        self._metrics = metrics
        self._rings = rings(broker, Stage.DISPATCH, most=RINGS_MOST)

    async def run(self) -> None:
        await self._rings.run()

    async def commit(self, commit: Commit) -> None:
        """The commit with its evidence. Raises Unavailable when it can't be known whether it was written."""
        commit = telling(commit)
        committed = await self._turns.commit(self._sealing.seal(commit))
        self.committed(commit.turn, commit.outcome, committed, commit.outbound)
        if commit.handoff and committed.live:
            business = self._metrics.business(commit.turn.business.slug)
            self._metrics.handoffs.labels(business, commit.handoff).inc()

    def committed(self, turn: Turn, outcome: str, committed: Committed, outbound: OutboundId | None) -> None:
        """What was written, here or in an action's transaction, is counted and rung."""
        if not committed.written:
            log.warning("turn not committed: its lease is another's", turn=str(turn.id))
            return
        business = self._metrics.business(turn.business.slug)
        self._metrics.turns.labels(business, outcome if committed.live else "cut_off").inc()
        if outbound is not None:
            self._traces.leave(Stage.DISPATCH, outbound, self._traces.here())
            self._rings.enqueue(outbound)
