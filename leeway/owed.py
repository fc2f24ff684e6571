"""What the services still owe: whoever plays on an installation goes on when that is nothing."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from shared.clock import Clock
from shared.database import Database, load_queries
from shared.ids import BusinessId

QUERIES = load_queries(Path(__file__).with_suffix(".sql"))


async def owed(database: Database, business: BusinessId) -> list[str]:
    """What the business's conversations are owed at this moment, in words; nothing: all is settled."""
    return sorted({row["what"] for row in await database.fetch(QUERIES["owed"], business)})


async def settled(
    database: Database, business: BusinessId, clock: Clock, *, within_s: float, look_every_s: float
) -> Sequence[str]:
    """Wait until nothing is owed any more; what still is when the time is up, in words."""
    until = clock.monotonic() + within_s
    while left := await owed(database, business):
        if clock.monotonic() > until:
            return left
        await asyncio.sleep(look_every_s)
    return ()
