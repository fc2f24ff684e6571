"""Databases lent to one test after another: emptied in a millisecond, where copying the template takes seventy.

A database goes back into the pool only if the test left its schema, its settings and the planner's statistics as they were; whatever
else it did, it is dropped and the next test gets a fresh copy.
"""

from typing import Any
from urllib.parse import urlsplit

from tests.support import log_scan
from tests.support.servers import Postgres

# Catalogs a test may change for those that come after: each row's identity and the transaction that wrote it. Vacuum writes in place.
CATALOGS = (
    "pg_class", "pg_attribute", "pg_attrdef", "pg_constraint", "pg_index", "pg_proc", "pg_trigger", "pg_policy", "pg_namespace",
    "pg_type", "pg_enum", "pg_db_role_setting", "pg_rewrite", "pg_extension", "pg_default_acl",
)  # fmt: skip
FINGERPRINT = "select concat_ws(' ', {}, (select count(*) from pg_statistic where starelid >= 16384))".format(
    ", ".join(
        f"(select count(*) || ':' || coalesce(sum(hashtext(c.tableoid || c.xmin::text || c.cmin::text)::bigint), 0) from {name} c)"
        for name in CATALOGS
    )
)
TABLES = """
    select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind = 'r' and n.nspname !~ '^pg_|^information_schema$' and c.relname <> 'schema_migration'"""
# By setval: a RESTART would write the catalog.
RESTARTS = """
    select setval(format('%I.%I', schemaname, sequencename)::regclass, start_value, false) from pg_sequences where last_value is not null"""
OTHERS = "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"


class Lending:
    """The databases of one worker's tests, one at a time."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._free: tuple[str, str] | None = None  # URL and fingerprint

    async def lend(self) -> tuple[str, str]:
        """A database with all migrations applied and no rows, and what `give_back` compares."""
        if self._free is not None:
            lent, self._free = self._free, None
            return lent
        url = await self._postgres.create_database()
        connection = await _connect(url)
        try:
            return url, await connection.fetchval(FINGERPRINT)
        finally:
            await connection.close()

    async def give_back(self, url: str, fingerprint: str) -> None:
        """Empty it for the next test, or drop it when it is another than it was."""
        if self._free is None and await self._emptied(url, fingerprint):
            self._free = (url, fingerprint)
        else:
            await self._postgres.drop_database(url)

    async def close(self) -> None:
        if self._free is not None:
            await self._postgres.drop_database(self._free[0])

    async def _emptied(self, url: str, fingerprint: str) -> bool:
        import asyncpg

        try:
            connection = await _connect(url)
        except (OSError, asyncpg.PostgresError):
            return False  # the test renamed, dropped or locked it
        try:
            await connection.execute(OTHERS)
            if await connection.fetchval(FINGERPRINT) != fingerprint:
                return False
            await log_scan.learn_from(connection)
            deletes = [f"delete from {row['name']}" for row in await connection.fetch(TABLES)]
            await connection.execute(
                "; ".join(["begin", "set local session_replication_role = 'replica'", *deletes, "commit"])
            )
            await connection.fetch(RESTARTS)
            await connection.execute("select pg_stat_reset()")
            return True
        except asyncpg.PostgresError:
            return False
        finally:
            await connection.close()


async def _connect(url: str) -> Any:
    import asyncpg

    return await asyncpg.connect(url, timeout=30, user=urlsplit(url).username)
