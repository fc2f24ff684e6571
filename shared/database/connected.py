"""One connection as the URL's user, who owns what is there: for what is done to the database as a whole."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from shared.database.pool import AWAY
from shared.errors import Misconfigured, Unavailable, kind_and_reason

ANSWERS_WITHIN_S = 5.0  # who only looks


@asynccontextmanager
async def connected(
    url: str, *, answers_within_s: float | None = None
) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """Raises Unavailable when the database can't be reached, or not any more, and Misconfigured when the user may not do that."""
    try:
        connection = await asyncpg.connect(url, timeout=10, command_timeout=answers_within_s)
    except (*AWAY, asyncpg.PostgresError) as error:
        raise Unavailable(f"Postgres can't be reached: {kind_and_reason(error)}") from error
    try:
        yield connection
    except asyncpg.InsufficientPrivilegeError as error:
        raise Misconfigured(f"LEEWAY_DATABASE_URL's user may not do that: {error}") from error
    except AWAY as error:
        raise Unavailable(f"Postgres: {kind_and_reason(error)}") from error
    finally:
        try:
            await connection.close(timeout=2)
        except AWAY:
            connection.terminate()
