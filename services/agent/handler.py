"""A turn's way: claimed, matched or understood, committed, rung. Each turn is a task of its own, under its own lease."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import structlog

from services.agent.answering import Answering
from services.agent.core.turn import Turn
from services.agent.ports import Share, Turns
from services.agent.spans import turn_span
from services.agent.timing import ModelTime
from shared.clock import Clock
from shared.errors import Unavailable
from shared.ids import BusinessId, ConversationId, LeaseToken
from shared.settings import Timeouts
from shared.telemetry.metrics import Metrics
from shared.telemetry.traces import UNTOLD, Traces, trace_id
from shared.tickets import Stage
from shared.work.slots import Slots

DUE_EVERY_S = 0.25
LOST_GRACE_S = 1.0
FRUITLESS_MAX = 5
LONELY_FROM = 3  # so often fruitless, a turn runs alone: a neighbour that kills it is found out
LONELY_AGAIN_AFTER = timedelta(seconds=1)
RAISED_AGAIN_AFTER = timedelta(seconds=2)
AWAY_AGAIN_AFTER = timedelta(seconds=1)

log = structlog.get_logger(__name__)


class Agent:
    """shared.work.stage.Claims for the agent. `run` must run beside it; turns are its tasks."""

    def __init__(
        self,
        *,
        turns: Turns,
        answering: Answering,
        metrics: Metrics,
        clock: Clock,
        timeouts: Timeouts,
        slots: Slots,
        model_time: ModelTime,
        traces: Traces = UNTOLD,
    ) -> None:
        self._turns = turns
        self._answering = answering
        self._metrics = metrics
        self._clock = clock
        self._timeouts = timeouts
        self._slots = slots
        self._model_time = model_time
        self._traces = traces
        self._under_way: dict[UUID, tuple[Turn, asyncio.Task[None]]] = {}
        self._lonely: list[Turn] = []
        self._lonely_came = asyncio.Event()
        self._claiming = asyncio.Lock()
        # Whether the last claim could not take all that was asked: then a turn's end is a time to look again.
        self._left_over = False
        self._look_again = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None
        self._stopping = False

    async def run(self) -> None:
        """Look for what is due and keep the leases, until cancelled; turns under way are then released."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            tasks.create_task(self._look())
            tasks.create_task(self._work_the_lonely())
            tasks.create_task(self._keep_leases())

    async def drain(self, *, model_s: float) -> None:
        """Take up nothing more; let turns finish for `model_s`, then release them: due again, no attempt counted."""
        self._stopping = True
        try:
            async with asyncio.timeout(model_s):
                await self._slots.idle()
        except TimeoutError:
            for _, task in self._under_way.values():
                task.cancel()
            await self._slots.idle()
        for turn in self._lonely:
            await self._let_go(turn, timedelta())

    async def room(self) -> int:
        async with self._claiming:  # no packet is taken into hand while a turn runs alone
            pass
        return await self._slots.room()

    async def claim(self, ids: Sequence[UUID]) -> None:
        """Lease what is due of the tickets, as many as there is room for; what is left over is found by the next look."""
        async with self._claiming:
            asked = [ConversationId(ticket) for ticket in ids if ticket not in self._under_way]
            wanted = asked[: max(self._slots.free - len(self._lonely), 0)]
            if not wanted or self._stopping:
                self._left_over = self._left_over or bool(asked)
                return
            claimed = await self._turns.claim(wanted, self._share())
            self._metrics.batch_size.labels(Stage.AGENT.value).observe(len(wanted))
            self._left_over = self._left_over or len(claimed) < len(asked)
            for turn in claimed:
                self._metrics.turns_reclaimed.inc(1 if turn.attempt > 1 else 0)
                self._metrics.queue_wait_seconds.labels(Stage.AGENT.value).observe(
                    turn.waited.total_seconds()
                )
                if turn.fruitless < LONELY_FROM:
                    self._begin(turn)
                elif self._lonely:  # it would be counted again, should the one before it kill us
                    await self._let_go(turn, LONELY_AGAIN_AFTER)
                else:
                    self._lonely.append(turn)
                    self._lonely_came.set()

    async def count(self, ticket: UUID) -> int:
        return 1

    async def give_up(self, ticket: UUID) -> None:
        raise AssertionError(f"tickets of the agent are not suspect: {ticket}")

    def _share(self) -> Share:
        busy: Counter[BusinessId] = Counter(turn.business.id for turn, _ in self._under_way.values())
        return Share(most=max(self._slots.size // 2, 1), under_way=dict(busy))

    def _begin(self, turn: Turn) -> None:
        assert self._tasks is not None, "run() must run beside the claims"
        self._slots.take()
        task = self._tasks.create_task(self._work(turn))
        self._under_way[turn.conversation] = (turn, task)
        self._metrics.turns_under_way.set(len(self._under_way))

    async def _work(self, turn: Turn) -> None:
        began = self._clock.monotonic()
        _name(turn)
        try:
            with turn_span(self._traces, turn):
                await self._answer(turn)
        except asyncio.CancelledError:
            await self._let_go(turn, timedelta())
        except Unavailable as error:
            log.warning("turn waits for what it needs", turn=str(turn.id), error=str(error))
            await self._let_go(turn, AWAY_AGAIN_AFTER)
        except Exception:
            log.exception("turn raised", turn=str(turn.id), fruitless=turn.fruitless)
            await self._give_back(turn)
        finally:
            self._under_way.pop(turn.conversation, None)
            self._slots.give_back()
            if self._left_over:
                self._look_again.set()
            self._metrics.turns_under_way.set(len(self._under_way))
            took, engine = self._clock.monotonic() - began, turn.business.engine
            self._metrics.turn_seconds.labels(engine).observe(took)
            overhead = max(took - self._model_time.take(turn.id), 0.0)
            self._metrics.turn_overhead_seconds.labels(engine).observe(overhead)

    async def _answer(self, turn: Turn) -> None:
        if turn.fruitless > FRUITLESS_MAX:
            await self._answering.give_up(turn)
            return
        try:
            async with asyncio.timeout(self._timeouts.turn):
                await self._answering.answer(turn)
        except TimeoutError:
            await self._answering.out_of_time(turn)

    async def _let_go(self, turn: Turn, delay: timedelta) -> None:
        try:
            await asyncio.shield(self._turns.release(turn, delay))
        except Unavailable as error:
            log.warning("lease not released, it runs out by itself", turn=str(turn.id), error=str(error))

    async def _give_back(self, turn: Turn) -> None:
        try:
            await self._turns.give_back(turn, RAISED_AGAIN_AFTER)
        except Unavailable as error:
            log.warning("lease not given back, it runs out by itself", turn=str(turn.id), error=str(error))

    async def _look(self) -> None:
        """Every quarter of a second, and when a turn ends while more is waiting: the row says what is due."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DUE_EVERY_S):
                    await self._look_again.wait()
            self._look_again.clear()
            if self._stopping or self._slots.free - len(self._lonely) <= 0:
                continue
            try:
                share = self._share()
                due = await self._turns.due(share, most=self._slots.free)
                # What is due of a business with all of its share under way is not among it.
                self._left_over = bool(due) or max(share.under_way.values(), default=0) >= share.most
                await self.claim(due)
            except Unavailable as error:
                log.warning("look for due turns waits", error=str(error))
            except Exception:
                log.exception("look for due turns failed")

    async def _work_the_lonely(self) -> None:
        """One after another, with no other turn beside them: nothing is claimed meanwhile."""
        while True:
            await self._lonely_came.wait()
            self._lonely_came.clear()
            async with self._claiming:
                while self._lonely and not self._stopping:
                    await self._slots.idle()
                    self._begin(self._lonely.pop(0))
                    await self._slots.idle()

    async def _keep_leases(self) -> None:
        while True:
            await asyncio.sleep(self._timeouts.heartbeat)
            held = [turn for turn, _ in self._under_way.values()] + self._lonely
            if not held:
                continue
            try:
                ours = await self._turns.heartbeat([(turn.conversation, turn.token) for turn in held])
            except Unavailable as error:
                log.warning("leases not extended", leases=len(held), error=str(error))
                continue
            lost = {turn.token for turn in held} - ours
            if lost:
                await asyncio.sleep(LOST_GRACE_S)  # by then, what was being committed is no longer under way
                self._stop_lost(lost)

    def _stop_lost(self, lost: set[LeaseToken]) -> None:
        for turn, task in list(self._under_way.values()):
            if turn.token in lost and not task.done():
                log.warning("lease lost, turn stopped", turn=str(turn.id))
                task.cancel()


def _name(turn: Turn) -> None:
    """What every line of the turn's task is about."""
    first = turn.taken.messages[0].id if turn.taken.messages else None
    about = {"message": str(first)} if first else {}
    structlog.contextvars.bind_contextvars(
        trace=trace_id(first or turn.id), turn=str(turn.id), conversation=str(turn.conversation), **about
    )
