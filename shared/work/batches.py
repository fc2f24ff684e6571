"""Natural batching: what arrived while the last batch was being worked is the next one. No timer, one in flight."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from shared.errors import Unavailable

Item = TypeVar("Item")
Result = TypeVar("Result")

Work = Callable[[Sequence[Item]], Awaitable[Sequence[Result]]]
Repeated = Callable[[], object]


def untold() -> None:
    """A repetition that nobody counts."""


class Batcher(Generic[Item, Result]):
    """Collects single items into batches of at most `most`, worked one batch at a time by `run`.

    `work` gets the items in order and returns as many results. When it raises, the batch is repeated item by item, so
    that one bad item costs its neighbours nothing, and `repeated` is told; Unavailable is no item's fault and goes to all.
    """

    def __init__(self, work: Work[Item, Result], *, most: int, repeated: Repeated = untold) -> None:
        self._work = work
        self._most = most
        self._repeated = repeated
        self._waiting: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        self._arrived = asyncio.Event()
        self._ended = False

    async def submit(self, item: Item) -> Result:
        """Wait until the item's batch is worked; its result, or what was raised for it."""
        return await self.enqueue(item)

    def enqueue(self, item: Item) -> "asyncio.Future[Result]":
        """Like `submit`, for who has many items at hand and awaits them later."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        if self._ended:  # nobody would ever work it, and who stops must not wait for it
            future.cancel()
            return future
        self._waiting.append((item, future))
        self._arrived.set()
        return future

    async def run(self) -> None:
        """Work batches until cancelled; whoever still waits then is cancelled too, and so is whoever comes later."""
        try:
            while True:
                await self._arrived.wait()
                self._arrived.clear()
                while self._waiting:
                    await self._next()
        finally:
            self._ended = True
            for _, future in self._waiting:
                future.cancel()

    async def _next(self) -> None:
        batch: list[tuple[Item, asyncio.Future[Result]]] = []
        while self._waiting and len(batch) < self._most:
            item, future = self._waiting.popleft()
            if not future.cancelled():
                batch.append((item, future))
        if not batch:
            return
        try:
            await self._settle(batch)
        except asyncio.CancelledError:
            for _, future in batch:
                future.cancel()
            raise

    async def _settle(self, batch: Sequence[tuple[Item, "asyncio.Future[Result]"]]) -> None:
        try:
            results = await self._work([item for item, _ in batch])
        except Unavailable as error:
            for _, future in batch:
                _fail(future, error)
        except Exception as error:
            if len(batch) == 1:
                _fail(batch[0][1], error)
            else:
                self._repeated()
                for pair in batch:
                    await self._settle([pair])
        else:
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)


def _fail(future: "asyncio.Future[Result]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
