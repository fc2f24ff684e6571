"""Waiting for what tells nobody when it changes."""

import asyncio
from collections.abc import Callable

ASK_EVERY_S = 0.005


async def until(holds: Callable[[], bool]) -> None:
    """Wait until it holds, asking again and again."""
    while not holds():  # noqa: ASYNC110  readiness and servers' flags are asked: nobody sets an event when they change
        await asyncio.sleep(ASK_EVERY_S)
