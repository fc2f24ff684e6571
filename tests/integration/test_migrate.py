"""Migrations: applied once, in order, by as many processes as start at the same time; a changed or lost file is refused."""

import asyncio
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from packs.clinic import PACK
from shared.database.migrate import PIPELINE, migrate, pending, read_migrations, ready_for
from shared.database.restoring import closed
from shared.errors import Misconfigured, Unavailable
from tests.support.eventually import eventually

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

    async def test_a_migration_lets_others_pass_until_its_locks_are_free(
        self, empty_database_url: str, folder: Path
    ) -> None:
        """Somebody reads a table in a long transaction: whoever comes after the migration is not held up behind it."""
        await migrate(empty_database_url, packs={"kiosk": folder})
        (folder / "0003_third.sql").write_text("alter table kiosk.first add column note text;")
        reader = await asyncpg.connect(empty_database_url)
        writer = await asyncpg.connect(empty_database_url)
        try:
            await reader.execute("begin; select from kiosk.first")
            migrating = asyncio.create_task(migrate(empty_database_url, packs={"kiosk": folder}))
            await eventually(lambda: waiting(writer), within_s=20)
            for n in range(10):
                await writer.execute("insert into kiosk.first values ($1)", n, timeout=5)
            assert not migrating.done()
            await reader.execute("commit")
            assert [one.number for one in await migrating] == [3]
        finally:
            await reader.close()
            await writer.close()

    async def test_a_migration_that_gets_no_lock_gives_up_in_one_sentence(
        self, empty_database_url: str, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shared.database.migrate.LOCKS_WITHIN_S", 0)
        await migrate(empty_database_url, packs={"kiosk": folder})
        (folder / "0003_third.sql").write_text("alter table kiosk.first add column note text;")
        reader = await asyncpg.connect(empty_database_url)
        try:
            await reader.execute("begin; select from kiosk.first")
            with pytest.raises(Unavailable, match=r"kiosk 0003 third got no lock .* changed nothing"):
                await migrate(empty_database_url, packs={"kiosk": folder})
        finally:
            await reader.close()
        assert ("kiosk", 3, "third") not in await ledger(empty_database_url)

    async def test_indexes_are_made_while_writers_write_and_others_wait_to_migrate(
        self, empty_database_url: str, folder: Path
    ) -> None:
        """An index that is made concurrently waits for older transactions: those who wait for us must hold none."""
        await migrate(empty_database_url, packs={"kiosk": folder})
        (folder / "0003_third.sql").write_text(MADE_CONCURRENTLY)
        writer = await asyncpg.connect(empty_database_url)
        try:
            await writer.execute("begin; insert into kiosk.first values (1)")
            both = [
                asyncio.create_task(migrate(empty_database_url, packs={"kiosk": folder})) for _ in range(2)
            ]
            await asyncio.wait(both, timeout=0.5)
            await writer.execute("insert into kiosk.first values (2)", timeout=5)
            await writer.execute("commit")
            assert sorted([len(await one) for one in both]) == [0, 1]
            assert await valid_indexes(writer) == ["first_pkey", "first_twice", "second_by_id"]
        finally:
            await writer.close()

    async def test_an_index_that_older_transactions_hold_up_is_given_up_in_one_sentence(
        self, empty_database_url: str, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And made by the next run, whatever time-outs the database gives to everybody."""
        await migrate(empty_database_url, packs={"kiosk": folder})
        (folder / "0003_third.sql").write_text(MADE_CONCURRENTLY)
        older = await asyncpg.connect(empty_database_url)
        try:
            name = await older.fetchval("select current_database()")
            await older.execute(f"alter database {name} set statement_timeout = '100ms'")
            await older.execute("begin; insert into kiosk.first values (1)")
            with monkeypatch.context() as patched:
                patched.setattr("shared.database.migrate.LOCKS_WITHIN_S", 1.0)
                with pytest.raises(
                    Unavailable, match="kiosk 0003 third waited for 1 s in vain: a transaction"
                ):
                    await asyncio.wait_for(migrate(empty_database_url, packs={"kiosk": folder}), 20)
            again = asyncio.create_task(migrate(empty_database_url, packs={"kiosk": folder}))
            await asyncio.wait([again], timeout=0.5)
            await older.execute("rollback")
            assert len(await again) == 1
            assert await valid_indexes(older) == ["first_pkey", "first_twice", "second_by_id"]
        finally:
            await older.close()

    async def test_an_index_left_half_made_is_made_anew(self, empty_database_url: str, folder: Path) -> None:
        """What a migration that was killed in the middle leaves behind: an index that nobody uses and everybody writes."""
        await migrate(empty_database_url, packs={"kiosk": folder})
        connection = await asyncpg.connect(empty_database_url)
        try:
            await connection.execute("insert into kiosk.first values (1)")
            with pytest.raises(asyncpg.DivisionByZeroError):
                await connection.execute(
                    "create index concurrently first_twice on kiosk.first ((1 / (id - 1)))"
                )
            assert await valid_indexes(connection) == ["first_pkey"]
            (folder / "0003_third.sql").write_text(MADE_CONCURRENTLY)
            assert len(await migrate(empty_database_url, packs={"kiosk": folder})) == 1
            assert await valid_indexes(connection) == ["first_pkey", "first_twice", "second_by_id"]
        finally:
            await connection.close()

    async def test_a_database_that_lacks_migrations_is_not_ready_and_a_newer_one_is(
        self, empty_database_url: str, folder: Path
    ) -> None:
        packs = {"kiosk": folder}
        lacking = r"^The database lacks \d+ of its migrations; run: leeway migrate$"
        with pytest.raises(Unavailable, match=lacking):
            await ready_for(empty_database_url)
        await migrate(empty_database_url)
        await ready_for(empty_database_url)
        with pytest.raises(Unavailable, match=lacking):
            await ready_for(empty_database_url, packs=packs)
        await migrate(empty_database_url, packs=packs)
        (folder / "0002_second.sql").unlink()
        await ready_for(empty_database_url, packs=packs)

    async def test_a_closed_database_keeps_services_waiting(self, empty_database_url: str) -> None:
        await migrate(empty_database_url)
        async with closed(empty_database_url):
            with pytest.raises(Unavailable, match=r"^A back-up is being read into the database$"):
                await ready_for(empty_database_url)
            with pytest.raises(Misconfigured, match="Another leeway restore works on that database"):
                async with closed(empty_database_url):
                    pass
        await ready_for(empty_database_url)


MADE_CONCURRENTLY = """-- concurrently
-- What for.
create index concurrently if not exists first_twice
  on kiosk.first (id, id);
create index concurrently if not exists second_by_id on kiosk.second (id);
"""


async def waiting(connection: Any) -> bool:
    """Whether somebody in this database waits for a lock."""
    query = "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')"
    return bool(await connection.fetchval(query))


async def valid_indexes(connection: Any) -> list[str]:
    rows = await connection.fetch(
        "select c.relname from pg_index i join pg_class c on c.oid = i.indexrelid "
        "where c.relnamespace = 'kiosk'::regnamespace and i.indisvalid order by 1"
    )
    return [row["relname"] for row in rows]


@pytest.mark.parametrize(
    "statement",
    [
        "create index concurrently first_twice on kiosk.first (id)",
        "create index if not exists first_twice on kiosk.first (id)",
        "drop index first_twice",
        "alter table kiosk.first add column note text",
    ],
)
def test_a_file_that_runs_concurrently_holds_indexes_alone(tmp_path: Path, statement: str) -> None:
    (tmp_path / "0001_first.sql").write_text(f"-- concurrently\n{statement};")
    (one,) = read_migrations("kiosk", tmp_path)
    with pytest.raises(Misconfigured, match="kiosk 0001 first runs concurrently: it may only"):
        one.indexes()


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
