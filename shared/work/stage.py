"""The loop that feeds a stage from its queue, the same for all: take, claim, acknowledge when the claim is committed.

Infrastructure that is away is nobody's fault: deliveries are held and the claim is tried again, never returned to the
broker one by one. A ticket that raises, or comes redelivered because it killed its worker, is worked alone and counted
on its row first; after `ATTEMPTS_MAX` the stage gives it up to people.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol
from uuid import UUID

import structlog

from shared.broker.port import Broker, Consumer, Delivery
from shared.clock import Clock
from shared.errors import NotPublished, Unavailable
from shared.jitter import between
from shared.telemetry.metrics import BATCH, Metrics
from shared.tickets import KIND_OF, Kind, Stage, packets
from shared.work.batches import Batcher

ATTEMPTS_MAX = 5
BACKOFF_FIRST_S = 0.1
BACKOFF_MAX_S = 5.0

log = structlog.get_logger(__name__)


class Claims(Protocol):
    """What a stage does with tickets. Each method returns when its writes are committed."""

    async def room(self) -> int:
        """Wait until something more may be claimed; how many tickets."""
        ...

    async def claim(self, ids: Sequence[UUID]) -> None:
        """Take up the tickets: what is owed is claimed (and worked on from then on), what is not is passed over."""
        ...

    async def count(self, ticket: UUID) -> int:
        """Count one more attempt on a suspect ticket's row; how many there were. 0: the row owes nothing."""
        ...

    async def give_up(self, ticket: UUID) -> None:
        """Hand the ticket's work to people: too many attempts ended badly."""
        ...


class StageLoop:
    """Feeds `claims` from one queue until cancelled or stopped.

    `suspects`: whether redelivered packets are worked ticket by ticket. `aside`, where it is set, takes tickets of another kind
    than the stage's own: they are acknowledged whatever comes of them, and redelivered ones are dropped.
    """

    def __init__(  # noqa: PLR0913  one argument for each collaborator, all by keyword; only wiring calls it
        self,
        *,
        broker: Broker,
        stage: Stage,
        claims: Claims,
        clock: Clock,
        metrics: Metrics,
        prefetch: int,
        batch: int,
        hold_s: float,
        suspects: bool,
    ) -> None:
        self._broker = broker
        self._stage = stage
        self._claims = claims
        self._clock = clock
        self._metrics = metrics
        self._prefetch = prefetch
        self._batch = batch
        self._hold_s = hold_s
        self._suspects = suspects
        self.aside: Callable[[Sequence[UUID]], None] | None = None
        self._consumer: Consumer | None = None
        self._holding = False
        self._waiting: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()
        metrics.consumer_attached.labels(stage.value).set_function(lambda: self.attached)

    async def stop(self) -> None:
        """Take no more; wait until what was taken is claimed and acknowledged and `run` has ended."""
        self._stopping.set()
        if self._waiting is not None:
            self._waiting.cancel()
        if self._consumer is not None:
            await self._ended.wait()

    @property
    def attached(self) -> bool:
        """Whether the queue feeds us."""
        return self._consumer is not None and self._consumer.attached

    @property
    def healthy(self) -> bool:
        """Whether the queue feeds us and nothing is being held."""
        return self.attached and not self._holding

    async def run(self) -> None:
        async with self._broker.consume(self._stage, prefetch=self._prefetch) as consumer:
            self._consumer = consumer
            try:
                while (deliveries := await self._take(consumer)) is not None:
                    self._set_aside(deliveries)
                    if await self._worked(deliveries):
                        for delivery in deliveries:
                            await delivery.ack()
                    else:
                        await consumer.let_go()
            finally:
                self._consumer = None
                self._ended.set()

    async def _take(self, consumer: Consumer) -> Sequence[Delivery] | None:
        """The next deliveries, as many as there is room for; None once stopped."""
        if self._stopping.is_set():
            return None
        self._waiting = asyncio.current_task()
        try:
            room = await self._claims.room()
            return await consumer.take(most=min(room, self._batch))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._stopping.is_set() and task is not None and task.uncancel() == 0:
                return None
            raise
        finally:
            self._waiting = None

    def _set_aside(self, deliveries: Sequence[Delivery]) -> None:
        """Hand over what is not the stage's own kind: once, while it is fresh."""
        ids = [
            ticket
            for delivery in deliveries
            if delivery.packet.kind is not KIND_OF[self._stage] and not delivery.redelivered
            for ticket in delivery.packet.ids
        ]
        if ids and self.aside is not None:
            self.aside(ids)

    async def _worked(self, deliveries: Sequence[Delivery]) -> bool:
        """Work all tickets; False when the infrastructure stayed away for longer than they should be held."""
        owed = [delivery for delivery in deliveries if delivery.packet.kind is KIND_OF[self._stage]]
        suspect = [d for d in owed if self._suspects and d.redelivered]
        fresh = [d for d in owed if not (self._suspects and d.redelivered)]
        ids = tuple(dict.fromkeys(ticket for delivery in fresh for ticket in delivery.packet.ids))
        if ids and not await self._held(lambda: self._batch_or_singly(ids)):
            return False
        for ticket in dict.fromkeys(ticket for delivery in suspect for ticket in delivery.packet.ids):
            if not await self._held(lambda ticket=ticket: self._alone(ticket)):  # type: ignore[misc]  # bound per loop
                return False
        return True

    async def _batch_or_singly(self, ids: Sequence[UUID]) -> None:
        try:
            await self._claims.claim(ids)
        except Unavailable:
            raise
        except Exception:
            log.exception("batch failed, repeating it ticket by ticket", stage=self._stage, tickets=len(ids))
            self._metrics.retries.labels(self._stage.value, BATCH).inc()
            for ticket in ids:
                await self._alone(ticket)

    async def _alone(self, ticket: UUID) -> None:
        """Work one suspect ticket by itself, counted before it is touched."""
        about = {KIND_OF[self._stage].value: str(ticket)}
        with structlog.contextvars.bound_contextvars(**about):
            await self._counted(ticket)

    async def _counted(self, ticket: UUID) -> None:
        attempts = await self._claims.count(ticket)
        if attempts == 0:
            return
        if attempts > ATTEMPTS_MAX:
            log.error("ticket given up", stage=self._stage, ticket=str(ticket), attempts=attempts - 1)
            await self._claims.give_up(ticket)
            return
        try:
            await self._claims.claim([ticket])
        except Unavailable:
            raise
        except Exception:
            log.exception("ticket failed, left due", stage=self._stage, ticket=str(ticket), attempts=attempts)

    async def _held(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Run `work`, again and again while what it needs is away; False after `hold_s`."""
        until = self._clock.monotonic() + self._hold_s
        pause = BACKOFF_FIRST_S
        while True:
            try:
                await work()
            except Unavailable as error:
                self._holding = True
                log.warning("infrastructure away, holding deliveries", stage=self._stage, error=str(error))
            else:
                self._holding = False
                return True
            if self._clock.monotonic() >= until:
                return False
            await asyncio.sleep(pause * between(0.5, 1.0))
            pause = min(2 * pause, BACKOFF_MAX_S)


async def ring(broker: Broker, stage: Stage, ids: Sequence[UUID], *, kind: Kind | None = None) -> None:
    """Publish tickets for work that rows already owe. A broker that is away costs seconds, not the work."""
    if not ids:
        return
    try:
        await broker.publish(stage, list(packets(stage, ids, kind=kind)))
    except NotPublished as error:
        log.warning(
            "tickets not published, their rows owe the work", stage=stage, tickets=len(ids), error=str(error)
        )


def rings(broker: Broker, stage: Stage, *, most: int) -> Batcher[UUID, None]:
    """Rings what is enqueued, at most so many in a batch, while who enqueued goes on. `run` must run beside it."""

    async def ring_all(ids: Sequence[UUID]) -> Sequence[None]:
        await ring(broker, stage, ids)
        return [None] * len(ids)

    return Batcher(ring_all, most=most)


def rings_courtesies(broker: Broker, *, most: int) -> Batcher[UUID, None]:
    """Asks dispatch for the side calls that the enqueued messages deserve. No row owes them: one that is lost stays lost."""

    async def ring_all(messages: Sequence[UUID]) -> Sequence[None]:
        await ring(broker, Stage.DISPATCH, messages, kind=Kind.MESSAGE)
        return [None] * len(messages)

    return Batcher(ring_all, most=most)
