"""Migrations: applied once, in order, by as many processes as start at the same time; a changed or lost file is refused."""

import asyncio
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from packs.clinic import PACK
from shared.database.migrate import PIPELINE, migrate, pending, read_migrations
from shared.errors import Misconfigured, Unavailable

TIMES = 4
OURS = [("leeway", one.number) for one in read_migrations("leeway", PIPELINE)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A pack's migrations: two, which depend on each other."""
    (tmp_path / "0001_first.sql").write_text("create table kiosk.first (id int primary key);")
    (tmp_path / "0002_second.sql").write_text("create table kiosk.second (id int references kiosk.first);")
    return tmp_path


async def ledger(url: str) -> list[tuple[str, int, str]]:
    connection = await asyncpg.connect(url)
    try:
        rows = await connection.fetch(
            "select schema, number, name from leeway.schema_migration order by schema, number"
        )
    finally:
        await connection.close()
    return [tuple(row) for row in rows]


@pytest.mark.postgres
class TestAgainstPostgres:
    async def test_everything_is_applied_once_and_in_order(
        self, empty_database_url: str, folder: Path
    ) -> None:
        packs = {"kiosk": folder}
        applied = await migrate(empty_database_url, packs=packs)
        assert [(one.schema, one.number) for one in applied] == [*OURS, ("kiosk", 1), ("kiosk", 2)]
        assert await migrate(empty_database_url, packs=packs) == []
        assert await ledger(empty_database_url) == [
            ("kiosk", 1, "first"),
            ("kiosk", 2, "second"),
            *(("leeway", one.number, one.name) for one in read_migrations("leeway", PIPELINE)),
        ]

    async def test_processes_that_start_together_apply_each_file_once(
        self, empty_database_url: str, folder: Path
    ) -> None:
        async with asyncio.TaskGroup() as group:
            runs = [
                group.create_task(migrate(empty_database_url, packs={"kiosk": folder})) for _ in range(TIMES)
            ]
        assert sorted(len(run.result()) for run in runs) == [0] * (TIMES - 1) + [len(OURS) + 2]

    async def test_databases_of_one_server_are_migrated_at_once(
        self, empty_database_url: str, postgres: Any
    ) -> None:
        """The two roles belong to the whole server: whoever makes them second is not in the way."""
        other = await postgres.create_database(migrated=False)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(migrate(empty_database_url))
                group.create_task(migrate(other))
        finally:
            await postgres.drop_database(other)

    async def test_pending_tells_what_would_be_applied(self, empty_database_url: str, folder: Path) -> None:
        packs = {"kiosk": folder}
        assert len(await pending(empty_database_url, packs=packs)) == len(OURS) + 2
        await migrate(empty_database_url)
        assert [one.schema for one in await pending(empty_database_url, packs=packs)] == ["kiosk", "kiosk"]
        await migrate(empty_database_url, packs=packs)
        assert await pending(empty_database_url, packs=packs) == []

    async def test_a_file_changed_after_it_was_applied_is_refused(
        self, empty_database_url: str, folder: Path
    ) -> None:
        await migrate(empty_database_url, packs={"kiosk": folder})
        (folder / "0001_first.sql").write_text("create table kiosk.first (id bigint primary key);")
        with pytest.raises(Misconfigured, match="kiosk 0001 first was changed after it was applied"):
            await migrate(empty_database_url, packs={"kiosk": folder})

    async def test_a_database_newer_than_the_code_is_refused(
        self, empty_database_url: str, folder: Path
    ) -> None:
        await migrate(empty_database_url, packs={"kiosk": folder})
        (folder / "0002_second.sql").unlink()
        with pytest.raises(Misconfigured, match="newer"):
            await migrate(empty_database_url, packs={"kiosk": folder})

    async def test_a_pack_that_is_not_installed_any_more_is_left_alone(
        self, empty_database_url: str, folder: Path
    ) -> None:
        await migrate(empty_database_url, packs={"kiosk": folder})
        assert await migrate(empty_database_url) == []

    async def test_a_migration_that_fails_leaves_nothing_behind(
        self, empty_database_url: str, folder: Path
    ) -> None:
        (folder / "0002_second.sql").write_text("create table kiosk.half (id int); select 1 / 0;")
        with pytest.raises(asyncpg.DivisionByZeroError):
            await migrate(empty_database_url, packs={"kiosk": folder})
        assert ("kiosk", 2, "second") not in await ledger(empty_database_url)
        connection = await asyncpg.connect(empty_database_url)
        try:
            assert await connection.fetchval("select to_regclass('kiosk.half')") is None
        finally:
            await connection.close()

    async def test_migrations_analyze_no_empty_table(self, database_url: str) -> None:
        """Plans made on the statistics of empty tables walk whole indexes, and are kept."""
        connection = await asyncpg.connect(database_url)
        try:
            analyzed = await connection.fetch(
                "select relname from pg_stat_all_tables where schemaname = 'leeway' and last_analyze is not null"
            )
        finally:
            await connection.close()
        assert not analyzed


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="can't be reached"):
        await migrate("postgresql://leeway:leeway@127.0.0.1:1/leeway")
    with pytest.raises(Unavailable, match="can't be reached"):
        await pending("postgresql://leeway:leeway@127.0.0.1:1/leeway")


@pytest.mark.parametrize(
    "name", ["1_first.sql", "0001-first.sql", "0001_First.sql", "first.sql", "00011_x.sql"]
)
def test_a_file_name_out_of_form_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(Misconfigured, match=r"is not called NNNN_some_name\.sql"):
        read_migrations("kiosk", tmp_path)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(["0002_second.sql"], id="no first"),
        pytest.param(["0001_first.sql", "0003_third.sql"], id="a gap"),
        pytest.param(["0001_first.sql", "0001_other.sql"], id="a number twice"),
        pytest.param(["0000_none.sql", "0001_first.sql"], id="a nought"),
    ],
)
def test_numbers_go_up_by_one_from_one(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(Misconfigured, match="numbered 0001, 0002"):
        read_migrations("kiosk", tmp_path)


def test_other_files_beside_them_are_no_migrations(folder: Path) -> None:
    (folder / "README.md").touch()
    assert [one.name for one in read_migrations("kiosk", folder)] == ["first", "second"]


@pytest.mark.parametrize(("schema", "path"), [("leeway", PIPELINE), ("clinic", PACK.migrations)])
def test_the_product_s_own_files_are_in_form(schema: str, path: Path) -> None:
    assert read_migrations(schema, path)
