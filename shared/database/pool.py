"""Connections to Postgres under the two roles, with lock and statement time-outs, and errors told apart.

Pipeline connections are `leeway_pipeline`, which serves all tenants; a tool's SQL runs as `leeway_tenant`, whose
session sees the business of its transaction alone. Nobody works as the owner.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import asyncpg

from shared.clock import Shift
from shared.database.queries import Queries
from shared.errors import Conflict, ConstraintRefused, Unavailable, kind_and_reason
from shared.ids import BusinessId
from shared.settings import Timeouts
from shared.work.retry import retried

Row = Mapping[str, Any]
Result = TypeVar("Result")
Waited = Callable[[float], None]

TENANT_STATEMENT_TIMEOUT = "3s"
PIPELINE = "leeway_pipeline"
OWNER = "none"  # no role is stepped down to: the URL's own user

AWAY = (
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)
CONFLICTS = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)


def _settings(timeouts: Timeouts, role: str = PIPELINE) -> dict[str, str]:
    """What a session starts with. Statements go by keys to few rows, whatever the tables hold: their plans are made once,
    and none may be chosen because a table looked empty then."""
    return {
        "role": role,
        "search_path": "leeway",
        "timezone": "UTC",
        "plan_cache_mode": "force_generic_plan",
        "jit": "off",
        "enable_seqscan": "off",
        "enable_hashjoin": "off",
        "enable_mergejoin": "off",
        "lock_timeout": f"{int(timeouts.lock * 1000)}ms",
        "statement_timeout": f"{int(timeouts.statement * 1000)}ms",
        "idle_in_transaction_session_timeout": "30s",
        "application_name": "leeway",
    }


def _untold(_seconds: float) -> None:
    """Waiting that nobody measures."""


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _keep_session(_: "asyncpg.Connection[Any]") -> None:
    """Nothing to reset: statements are autocommit, and what a transaction sets is SET LOCAL."""


class Database:
    """A pool of pipeline connections and the queries that may run on it.

    Every method raises Unavailable when Postgres can't be reached or does not answer in time, and Conflict when a
    serialization failure or deadlock came back three times.
    """

    def __init__(self, pool: "asyncpg.Pool[Any]", *, acquire_timeout: float, waited: Waited) -> None:
        self._pool = pool
        self._acquire_timeout = acquire_timeout
        self._waited = waited

    @property
    def busy(self) -> int:
        """Connections that are at work."""
        return self._pool.get_size() - self._pool.get_idle_size()

    @property
    def idle(self) -> int:
        return self._pool.get_idle_size()

    async def fetch(self, query: str, *arguments: object) -> Sequence[Row]:
        """Run one statement in autocommit and return its rows. Repeated as a whole on 40001 and 40P01."""

        async def once() -> Sequence[Row]:
            asked = _now()
            async with self._pool.acquire(timeout=self._acquire_timeout) as connection:
                self._waited(_now() - asked)
                rows: Sequence[Row] = await connection.fetch(query, *arguments)
                return rows

        return await _translated(once)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator["Transaction"]:
        """BEGIN … COMMIT (or ROLLBACK). An Unavailable out of it may mean that it did commit: ask for the receipt."""
        asked = _now()
        try:
            async with self._pool.acquire(timeout=self._acquire_timeout) as connection:
                self._waited(_now() - asked)
                async with connection.transaction():
                    yield Transaction(connection)
        except AWAY as error:
            raise Unavailable(f"Postgres: {kind_and_reason(error)}") from error
        except CONFLICTS as error:
            raise Conflict(str(error)) from error

    @asynccontextmanager
    async def tenant(self, business: BusinessId, queries: Queries) -> AsyncIterator["Tenant"]:
        """A transaction as the tenant role, which sees `business` and nothing else."""
        async with self.transaction() as transaction, transaction.tenant(business, queries) as tenant:
            yield tenant

    async def close(self) -> None:
        try:
            async with asyncio.timeout(5):
                await self._pool.close()
        except (TimeoutError, *AWAY):
            self._pool.terminate()


class Transaction:
    """An open transaction as the pipeline role."""

    def __init__(self, connection: "asyncpg.pool.PoolConnectionProxy[Any]") -> None:
        self._connection = connection

    async def fetch(self, query: str, *arguments: object) -> Sequence[Row]:
        rows: Sequence[Row] = await self._connection.fetch(query, *arguments)
        return rows

    @asynccontextmanager
    async def tenant(self, business: BusinessId, queries: Queries) -> AsyncIterator["Tenant"]:
        """Step down to the tenant role for what runs inside, and back to the pipeline's afterwards."""
        await self._connection.execute(
            f"set local role leeway_tenant; set local leeway.business = '{int(business)}'; "
            f"set local statement_timeout = '{TENANT_STATEMENT_TIMEOUT}'"
        )
        yield Tenant(self._connection, queries)
        await self._connection.execute(
            "set local role leeway_pipeline; set local statement_timeout = default"
        )


class Tenant:
    """What a pack's tools get: shared.packs.Sql over one transaction."""

    def __init__(self, connection: "asyncpg.pool.PoolConnectionProxy[Any]", queries: Queries) -> None:
        self._connection = connection
        self._queries = queries

    async def fetch(self, query: str, *arguments: object) -> Sequence[Row]:
        rows: Sequence[Row] = await self._connection.fetch(self._queries[query], *arguments)
        return rows

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        try:
            async with self._connection.transaction():
                yield
        except (
            asyncpg.ExclusionViolationError,
            asyncpg.UniqueViolationError,
            asyncpg.CheckViolationError,
        ) as error:
            raise ConstraintRefused(error.constraint_name or "constraint") from error


async def _translated(once: Callable[[], Awaitable[Result]]) -> Result:
    async def tried() -> Result:
        try:
            return await once()
        except AWAY as error:
            raise Unavailable(f"Postgres: {kind_and_reason(error)}") from error
        except CONFLICTS as error:
            raise Conflict(str(error)) from error
        except asyncpg.IntegrityConstraintViolationError as error:
            raise ConstraintRefused(error.constraint_name or "a constraint") from error

    return await retried(tried)


async def open_pool(
    url: str,
    *,
    size: int,
    timeouts: Timeouts,
    role: str = PIPELINE,
    shift: Shift | None = None,
    waited: Waited = _untold,
) -> Database:
    """A pool of `size` connections, opened lazily but for one, so that a wrong URL is told at once (Unavailable).

    With a `shift`, each use of a connection sees business time moved by what it says then. `waited` is told how long each
    use waited for a connection, in seconds.
    """

    async def moved(connection: "asyncpg.pool.PoolConnectionProxy[Any]") -> None:
        if shift is not None:
            await connection.execute(f"set leeway.shift = '{shift.by.total_seconds()} seconds'")

    try:
        pool = await asyncpg.create_pool(
            url,
            min_size=1,
            max_size=size,
            timeout=5,
            command_timeout=timeouts.statement + 1,
            server_settings=_settings(timeouts, role),
            setup=moved,
            reset=_keep_session,
            statement_cache_size=200,
            max_inactive_connection_lifetime=0,
        )
    except (*AWAY, asyncpg.PostgresError) as error:
        raise Unavailable(f"Postgres can't be reached: {kind_and_reason(error)}") from error
    return Database(pool, acquire_timeout=timeouts.statement, waited=waited)


async def connect(url: str, *, timeouts: Timeouts) -> "Session":
    """One connection of its own, for what must not share one: the lock that says a worker lives."""
    try:
        connection = await asyncpg.connect(
            url, timeout=5, command_timeout=timeouts.statement, server_settings=_settings(timeouts)
        )
    except (*AWAY, asyncpg.PostgresError) as error:
        raise Unavailable(f"Postgres can't be reached: {kind_and_reason(error)}") from error
    return Session(connection)


class Session:
    """A connection that is kept for what it holds."""

    def __init__(self, connection: "asyncpg.Connection[Any]") -> None:
        self._connection = connection
        self._closing = asyncio.Event()
        connection.add_termination_listener(lambda _: self._closing.set())

    @property
    def closed(self) -> bool:
        return self._connection.is_closed()

    async def closes(self, *, within_s: float) -> bool:
        """Wait for its end, from whichever side, and say whether it came."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._closing.wait()
        return self.closed

    async def fetch(self, query: str, *arguments: object) -> Sequence[Row]:
        try:
            rows: Sequence[Row] = await self._connection.fetch(query, *arguments)
        except AWAY as error:
            raise Unavailable(f"Postgres: {kind_and_reason(error)}") from error
        return rows

    async def close(self) -> None:
        try:
            await self._connection.close(timeout=2)
        except AWAY:
            self._connection.terminate()
