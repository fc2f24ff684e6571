"""Today's schema still serves the release before it: while an installation is upgraded, its services run on both sides."""

import re
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from shared.database import migrate as migrations
from shared.database.pool import _settings
from shared.settings import Timeouts
from tests.integration.test_queries import LOAD
from tests.support.releases import PastQuery, queries_of, releases

pytestmark = pytest.mark.postgres

ROLES = ("leeway_pipeline", "leeway_tenant", "none")


@pytest.fixture
async def connections(database_url: str) -> AsyncIterator[Mapping[str, Any]]:
    """One for each role, with the settings of services."""
    async with AsyncExitStack() as closing:
        made = {}
        for role in ROLES:
            made[role] = await asyncpg.connect(database_url, server_settings=_settings(Timeouts(), role))
            closing.push_async_callback(made[role].close)
        yield made


async def why_not(connection: Any, query: PastQuery) -> str | None:
    """Why the query doesn't run any more. Prepared: its names and types are there. Explained: its role may do all of it."""
    numbers = {int(number) for number in re.findall(r"\$(\d+)", query.text)}
    arguments = f"({', '.join(['null'] * max(numbers))})" if numbers else ""
    try:
        await connection.execute(f"prepare asked as {query.text}")
        await connection.execute(f"explain execute asked{arguments}")
    except asyncpg.PostgresError as error:
        return f"{query}: {type(error).__name__}: {error}"
    finally:
        await connection.execute("deallocate all")
    return None


@pytest.mark.parametrize("release", releases())
async def test_every_query_of_a_past_release_runs_on_todays_schema(
    connections: Mapping[str, Any], release: str
) -> None:
    queries = queries_of(release)
    assert len(queries) > 200
    assert {query.role for query in queries} == set(ROLES)
    broken = [why for query in queries if (why := await why_not(connections[query.role], query))]
    assert not broken


@pytest.mark.parametrize(
    "change",
    [
        pytest.param("alter table outbound drop column held", id="a column that is gone"),
        pytest.param("alter table outbound rename column held to kept_back", id="a column renamed"),
        pytest.param("drop table leeway.flag", id="a table that is gone"),
        pytest.param("revoke insert on flag from leeway_pipeline", id="a right taken away"),
        pytest.param("alter table held_status alter column tries type text", id="another type"),
    ],
)
async def test_a_change_that_breaks_the_release_before_is_found(
    connections: Mapping[str, Any], change: str
) -> None:
    await connections["none"].execute(change)
    queries = queries_of(releases()[-1])
    assert any([await why_not(connections[query.role], query) for query in queries])


FIRST = 3  # the last migration of the first release


@pytest.fixture
async def first_release(
    empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Any]:
    """A database of the first release with rows in every table and state, over its owner's connection."""
    folder = tmp_path / "migrations"
    folder.mkdir()
    for path in sorted(migrations.PIPELINE.glob("*.sql"))[:FIRST]:
        shutil.copy(path, folder)
    with monkeypatch.context() as patched:
        patched.setattr(migrations, "PIPELINE", folder)
        await migrations.migrate(empty_database_url)
    owner = await asyncpg.connect(empty_database_url, server_settings={"search_path": "leeway, pg_temp"})
    await owner.execute(LOAD.replace("generate_series(1, 3000)", "generate_series(1, 60)"))
    yield owner
    await owner.close()


async def columns_of(owner: Any) -> list[tuple[str, str]]:
    rows = await owner.fetch(
        "select table_name, column_name from information_schema.columns "
        "where table_schema = 'leeway' and table_name <> 'schema_migration' order by 1, ordinal_position"
    )
    return [tuple(row) for row in rows]


async def contents(owner: Any, columns: list[tuple[str, str]]) -> dict[str, tuple[int, str]]:
    """Of each table: how many rows, and a digest of them all in those columns."""
    found = {}
    for table in dict.fromkeys(table for table, _ in columns):
        named = ", ".join(f"x.{column}" for of, column in columns if of == table)
        query = f"select count(*), md5(coalesce(string_agg(r, ',' order by r), '')) from (select row({named})::text as r from {table} x) rows"
        found[table] = tuple((await owner.fetch(query))[0])
    return found


async def test_no_row_of_the_first_release_is_lost_or_changed_by_an_upgrade(
    first_release: Any, empty_database_url: str
) -> None:
    columns = await columns_of(first_release)
    before = await contents(first_release, columns)
    assert sum(count for count, _ in before.values()) > 1_000
    applied = await migrations.migrate(empty_database_url)
    assert applied[0].number == FIRST + 1
    assert await contents(first_release, columns) == before
