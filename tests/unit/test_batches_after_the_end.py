"""A batcher that has ended keeps nobody waiting."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest

from shared.work.batches import Batcher


async def test_who_comes_after_the_end_is_cancelled_at_once() -> None:
    """A turn that closes its model call while everything stops waited for its whole minute."""

    async def work(items: Sequence[int]) -> Sequence[int]:
        return items

    batcher: Batcher[int, int] = Batcher(work, most=10)
    running = asyncio.create_task(batcher.run())
    assert await batcher.submit(1) == 1
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    async with asyncio.timeout(5):
        with pytest.raises(asyncio.CancelledError):
            await batcher.submit(2)
