"""A consumer that stays: it notices when the broker stopped delivering, and begins again."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import structlog
from aio_pika.exceptions import ChannelNotFoundEntity

from shared.broker.port import Seen, Tally
from shared.broker.rabbit.backoff import LONGEST_S, Chance, pause_s
from shared.broker.rabbit.dead import reason_headers
from shared.broker.rabbit.link import Link
from shared.broker.rabbit.publishing import Publisher
from shared.broker.rabbit.subscription import RabbitDelivery, Subscription, Unreadable
from shared.broker.rabbit.trouble import translated
from shared.errors import LeewayError, NotPublished
from shared.tickets import Stage
from shared.topology import DEAD_QUEUE, WORK_QUEUE

_log = structlog.get_logger(__name__)


class RabbitConsumer:
    """Two tasks while it is open: one keeps the subscription, one moves unreadable messages to the dead."""

    def __init__(
        self,
        stage: Stage,
        *,
        link: Link,
        publisher: Publisher,
        prefetch: int,
        watch_s: float,
        timeout_s: float,
        chance: Chance,
        tally: Tally,
    ) -> None:
        self._tally = tally
        self._stage = stage
        self._queue = WORK_QUEUE[stage]
        self._dead = DEAD_QUEUE[stage]
        self._link = link
        self._publisher = publisher
        self._prefetch = prefetch
        self._watch_s = watch_s
        self._timeout_s = timeout_s
        self._chance = chance
        # The last one counts; there is another only while the last takes its place.
        self._subscriptions: list[Subscription] = []
        self._arrived = asyncio.Event()
        self._wanted = asyncio.Event()
        self._unreadable: asyncio.Queue[Unreadable] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._bug: BaseException | None = None

    @property
    def attached(self) -> bool:
        return bool(self._subscriptions) and not self._subscriptions[-1].lost.is_set()

    async def take(self, *, most: int) -> Sequence[RabbitDelivery]:
        self._wanted.set()
        while True:
            if self._bug is not None:
                raise self._bug
            # Nothing is awaited between taking out and returning: whoever cancels a take loses no packet.
            if self._subscriptions and (taken := self._subscriptions[-1].take(most=most)):
                self._tally(self._stage, Seen.TAKEN, len(taken))
                return taken
            self._arrived.clear()
            await self._arrived.wait()

    async def let_go(self) -> None:
        self._wanted.clear()
        for subscription in tuple(self._subscriptions):
            await subscription.close()

    def start(self) -> None:
        """Subscribe as soon as the link is up, and keep it so until `close`."""
        self._wanted.set()
        for work, name in ((self._keep(), "keep"), (self._bury(), "bury")):
            task = asyncio.create_task(work, name=f"broker {name} {self._stage}")
            task.add_done_callback(self._on_done)
            self._tasks.append(task)

    async def close(self) -> None:
        """Stop, and give back what is in hand."""
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        await self.let_go()

    def _on_done(self, task: asyncio.Task[None]) -> None:
        """A keeper that ended of a bug must not leave `take` waiting for ever."""
        if not task.cancelled():
            self._bug = task.exception()
            self._arrived.set()

    async def _keep(self) -> None:
        clock = asyncio.get_running_loop().time
        failures = 0
        while True:
            await self._wanted.wait()
            await self._link.up()
            since = clock()
            try:
                await self._subscribe()
                _log.info("broker consumer attached", stage=self._stage)
                await self._watch()
            except LeewayError as error:
                _log.warning(
                    "broker consumer not attached", stage=self._stage, failures=failures, error=str(error)
                )
            finally:
                await self._unsubscribe()
            failures = 0 if clock() - since > LONGEST_S or not self._wanted.is_set() else failures + 1
            if failures:
                await asyncio.sleep(pause_s(failures, self._chance()))

    async def _subscribe(self) -> None:
        subscription = Subscription(self._stage, timeout_s=self._timeout_s, arrived=self._arrived)
        try:
            with translated(f"consuming {self._queue}"):
                async with asyncio.timeout(self._timeout_s):
                    await subscription.open(
                        self._link.connection(),
                        prefetch=self._prefetch,
                        unreadable=self._unreadable.put_nowait,
                    )
        except BaseException as error:
            await subscription.close()
            if isinstance(error.__cause__, ChannelNotFoundEntity):
                await self._link.declare()
            raise
        self._subscriptions.append(subscription)
        self._arrived.set()  # for what came before this line, when a waiting take could not see it yet

    async def _unsubscribe(self) -> None:
        while self._subscriptions:
            await self._subscriptions[0].close()
            del self._subscriptions[0]

    async def _watch(self) -> None:
        """Return when the subscription is over."""
        while self._wanted.is_set():
            subscription = self._subscriptions[-1]
            with suppress(TimeoutError):
                async with asyncio.timeout(self._watch_s):
                    await subscription.lost.wait()
            if subscription.lost.is_set():
                return
            if subscription.was_idle():
                await self._renew(subscription)

    async def _renew(self, old: Subscription) -> None:
        """Put a new subscription in the place of one that may be dead: nothing but silence would tell.

        Where a queue is deleted and declared anew within milliseconds, RabbitMQ carries its consumers over
        (seen with 3.10): they are counted, messages are assigned to them, and nothing is ever sent.
        """
        await self._subscribe()
        await old.close()
        self._subscriptions.remove(old)

    async def _bury(self) -> None:
        while True:
            message = await self._unreadable.get()
            failures = 0
            while not message.subscription.lost.is_set():
                try:
                    await self._publisher.publish(
                        self._dead, [message.body], headers=[reason_headers(message.reason)]
                    )
                except NotPublished as error:
                    failures += 1
                    _log.warning(
                        "unreadable message held", stage=self._stage, failures=failures, error=str(error)
                    )
                    await asyncio.sleep(pause_s(failures, self._chance()))
                else:
                    await message.subscription.ack(message.tag)
                    self._tally(self._stage, Seen.DEAD, 1)
                    _log.warning(
                        "unreadable message moved to the dead", stage=self._stage, reason=message.reason
                    )
                    break
