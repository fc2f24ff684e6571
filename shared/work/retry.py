"""How often a transaction that met another one is tried again, and how long between."""

import asyncio
import random

CONFLICT_TRIES = 3


async def jitter() -> None:
    """A short random pause, so that two that met do not meet again."""
    await asyncio.sleep(random.uniform(0.005, 0.05))  # noqa: S311  jitter, not a secret
