"""Waiting for what will be so soon, where nothing signals it."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable


async def eventually(
    holds: Callable[[], bool | Awaitable[bool]], *, within_s: float = 10.0, every_s: float = 0.02
) -> None:
    """Return once `holds` does. Raises AssertionError, with its source, when it does not in time."""
    now = asyncio.get_running_loop().time
    deadline = now() + within_s
    while True:
        answer = holds()
        if await answer if isinstance(answer, Awaitable) else answer:
            return
        if now() > deadline:
            raise AssertionError(f"not within {within_s} s: {inspect.getsource(holds).strip()}")
        await asyncio.sleep(every_s)
