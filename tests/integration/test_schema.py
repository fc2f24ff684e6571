"""schema.sql is what the migrations make: two databases, one by each, have the same catalogs."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import shared.database
from shared.database.migrate import migrate
from tests.support.servers import Postgres

pytestmark = pytest.mark.postgres

SCHEMA = Path(shared.database.__file__).with_name("schema.sql")

# What a catalog says of the schema `leeway`, each row as text, sorted. Names of generated constraints are compared too: errors carry them.
CATALOGS = {
    "tables": """
        select format('%s %s persistence=%s rls=%s forced=%s options=%s comment=%s', c.relname, c.relkind, c.relpersistence,
          c.relrowsecurity, c.relforcerowsecurity, c.reloptions, obj_description(c.oid, 'pg_class'))
        from pg_class c where c.relnamespace = 'leeway'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S')""",
    "columns": """
        select format('%s.%s %s %s null=%s default=%s identity=%s generated=%s storage=%s comment=%s', c.relname, a.attnum, a.attname,
          format_type(a.atttypid, a.atttypmod), not a.attnotnull, pg_get_expr(d.adbin, d.adrelid), a.attidentity, a.attgenerated, a.attstorage,
          col_description(c.oid, a.attnum))
        from pg_attribute a join pg_class c on c.oid = a.attrelid left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
        where c.relnamespace = 'leeway'::regnamespace and c.relkind in ('r', 'p', 'v') and a.attnum > 0 and not a.attisdropped""",
    "constraints": """
        select format('%s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) from pg_constraint where connamespace = 'leeway'::regnamespace""",
    "indexes": """
        select format('%s options=%s valid=%s', pg_get_indexdef(i.indexrelid), c.reloptions, i.indisvalid)
        from pg_index i join pg_class c on c.oid = i.indexrelid where c.relnamespace = 'leeway'::regnamespace""",
    "policies": """
        select format('%s %s %s %s %s using %s check %s', tablename, policyname, permissive, roles, cmd, qual, with_check)
        from pg_policies where schemaname = 'leeway'""",
    "table grants": """
        select format('%s %s %s %s', table_name, grantee, privilege_type, is_grantable) from information_schema.role_table_grants
        where table_schema = 'leeway' and grantee in ('leeway_pipeline', 'leeway_tenant', 'PUBLIC')""",
    "column grants": """
        select format('%s.%s %s %s', table_name, column_name, grantee, privilege_type) from information_schema.role_column_grants
        where table_schema = 'leeway' and grantee in ('leeway_pipeline', 'leeway_tenant', 'PUBLIC')""",
    "schema grants": """
        select format('%s %s', a.grantee::regrole, a.privilege_type) from pg_namespace n, aclexplode(n.nspacl) a
        where n.nspname = 'leeway' and a.grantee <> n.nspowner""",
    "functions": """
        select format('%s(%s) %s %s', proname, pg_get_function_identity_arguments(oid), prosrc, proacl) from pg_proc where pronamespace = 'leeway'::regnamespace""",
    "triggers": """
        select format('%s %s', tgrelid::regclass, pg_get_triggerdef(oid)) from pg_trigger where not tgisinternal""",
    "types": """
        select format('%s %s', typname, typtype) from pg_type where typnamespace = 'leeway'::regnamespace and typtype in ('d', 'e', 'r')""",
}


@pytest.fixture
async def migrated(postgres: Postgres) -> AsyncIterator[Any]:
    """A database that the migrations made from nothing."""
    url = await postgres.create_database(migrated=False)
    await migrate(url)
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()
    await postgres.drop_database(url)


@pytest.fixture
async def described(empty_database_url: str) -> AsyncIterator[Any]:
    """A database that schema.sql made."""
    connection = await asyncpg.connect(empty_database_url)
    await connection.execute(SCHEMA.read_text(encoding="utf-8"))
    yield connection
    await connection.close()


async def rows_of(connection: Any, query: str) -> list[str]:
    await connection.execute("set search_path = leeway")
    return sorted(row[0] for row in await connection.fetch(query))


async def test_schema_sql_says_what_the_migrations_make(migrated: Any, described: Any) -> None:
    differences = {}
    for catalog, query in CATALOGS.items():
        made, said = await rows_of(migrated, query), await rows_of(described, query)
        if made != said:
            differences[catalog] = {
                "only in the migrations": [row for row in made if row not in said],
                "only in schema.sql": [row for row in said if row not in made],
            }
    assert not differences


@pytest.mark.parametrize(
    "change",
    [
        pytest.param("alter table flag add column note text", id="a column"),
        pytest.param("alter table flag alter column reason type varchar(9)", id="a type"),
        pytest.param("alter table flag alter column raised_at set default null", id="a default"),
        pytest.param("alter table flag alter column raised_at drop not null", id="a null"),
        pytest.param("alter table flag add check (reason <> '')", id="a constraint"),
        pytest.param("create index on flag (message)", id="an index"),
        pytest.param("drop policy tenant on flag", id="a policy"),
        pytest.param("alter table flag no force row level security", id="forced security"),
        pytest.param("grant update (reason) on flag to leeway_pipeline", id="a column grant"),
        pytest.param("grant delete on flag to leeway_tenant", id="a table grant"),
        pytest.param("comment on column flag.reason is 'why'", id="a comment"),
        pytest.param("alter table outbound set (fillfactor = 70)", id="a storage option"),
        pytest.param("alter table outbound reset (autovacuum_vacuum_threshold)", id="an autovacuum setting"),
    ],
)
async def test_the_comparison_sees(described: Any, change: str) -> None:
    await described.execute("set search_path = leeway")
    before = {catalog: await rows_of(described, query) for catalog, query in CATALOGS.items()}
    await described.execute(change)
    after = {catalog: await rows_of(described, query) for catalog, query in CATALOGS.items()}
    assert before != after


async def test_times_are_instants_everywhere(migrated: Any) -> None:
    naive = await migrated.fetch(
        "select table_name, column_name from information_schema.columns "
        "where table_schema = 'leeway' and data_type in ('timestamp without time zone', 'time without time zone', 'date')"
    )
    local_by_nature = {("business", "quiet_from"), ("business", "quiet_to"), ("budget", "day")}
    assert {tuple(row) for row in naive} == local_by_nature


async def test_conversation_state_is_indexed_by_key_and_due_times_alone(migrated: Any) -> None:
    """Each other index would be written at every step of a message: updates would no longer be heap-only."""
    indexes = await migrated.fetch(
        "select indexname from pg_indexes where schemaname = 'leeway' and tablename = 'conversation_state'"
    )
    assert {row["indexname"] for row in indexes} == {
        "conversation_state_pkey",
        "conversation_state_guard_due",
        "conversation_state_due",
    }


async def test_foreign_keys_carry_the_business(migrated: Any) -> None:
    rows = await migrated.fetch(
        """select c.conrelid::regclass::text as source, c.conname, c.confrelid::regclass::text as target,
             array(select a.attname::text from unnest(c.conkey) k join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k) as columns
           from pg_constraint c where c.contype = 'f' and c.connamespace = 'leeway'::regnamespace"""
    )
    lacking = [row["conname"] for row in rows if "business" not in row["columns"]]
    assert rows
    assert not lacking
