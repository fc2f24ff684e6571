"""That a back-up is read into the database: no service starts until replies in it were decided about, whatever was killed.

While it goes on, a lock says so. From before the first row until the decision is committed a schema of its own name says so too:
it belongs to no back-up, and stays when the process that reads one is killed.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

import asyncpg

from shared.database.connected import ANSWERS_WITHIN_S, connected
from shared.errors import Misconfigured

MARK: Final = "leeway_restoring"
GOES_ON: Final = "A back-up is being read into the database"
NOT_ENDED: Final = (
    "A restore of the database was begun and not brought to its end: run it again, or, where its rows are there, "
    "leeway restore --loaded"
)
_CLOSED: Final = 4_711_926_002  # any number that is ours alone


@asynccontextmanager
async def closed(url: str) -> AsyncIterator[None]:
    """While it lasts no service starts on the database. Raises Misconfigured when another keeps it closed."""
    async with connected(url) as connection:
        await connection.execute(f"set lock_timeout = '{int(ANSWERS_WITHIN_S * 1000)}ms'")
        try:
            await connection.execute(f"select pg_advisory_lock({_CLOSED})")
        except asyncpg.LockNotAvailableError:
            raise Misconfigured("Another leeway restore works on that database just now.") from None
        yield


class Fetches(Protocol):
    """A connection, or a transaction on one, of the database's owner."""

    async def fetch(self, query: str, /, *arguments: Any) -> Any: ...


async def begin(database: Fetches) -> None:
    """From now on no service starts, whatever becomes of us."""
    await database.fetch(f"create schema if not exists {MARK}")


async def end(database: Fetches) -> None:
    await database.fetch(f"drop schema if exists {MARK}")


async def why_closed(connection: "asyncpg.Connection[asyncpg.Record]") -> str | None:
    """Why no service may start, if so."""
    if not await connection.fetchval("select pg_try_advisory_lock_shared($1)", _CLOSED):
        return GOES_ON
    if await connection.fetchval("select to_regnamespace($1) is not null", MARK):
        return NOT_ENDED
    return None
