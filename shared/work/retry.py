"""A transaction that met another one is done again whole, a few times."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from shared.errors import Conflict
from shared.jitter import between

CONFLICT_TRIES = 3

Result = TypeVar("Result")


async def retried(work: Callable[[], Awaitable[Result]]) -> Result:
    """Run a whole transaction again when it met another one: three times, with jitter; then Conflict."""
    for left in range(CONFLICT_TRIES, 0, -1):
        try:
            return await work()
        except Conflict:
            if left == 1:
                raise
            await _jitter()
    raise AssertionError


async def _jitter() -> None:
    """A short random pause, so that two that met do not meet again."""
    await asyncio.sleep(between(0.005, 0.05))
