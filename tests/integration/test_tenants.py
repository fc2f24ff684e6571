"""No tenant sees or touches another's rows, in any table of any schema; and each role writes only what is its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from shared.database import open_pool
from shared.database.migrate import migrate
from shared.database.queries import Queries
from shared.ids import BusinessId
from shared.packs import load_packs, migrations_of
from shared.settings import Timeouts
from tests.support.servers import Postgres

pytestmark = pytest.mark.postgres

SCHEMAS = ("leeway", "clinic", "expenses")
WITHOUT_BUSINESS = {"leeway.worker", "leeway.schema_migration"}
OF_ITSELF = "leeway.business"  # its id is the business

ONE_OF_EVERYTHING = """
with b as (insert into business (slug, name, mode, pack, locales, time_zone)
  values ('{slug}', '{slug}', 'auto', 'clinic', '{{en}}', 'UTC') returning id)
insert into channel_account (business, channel, address, secrets) select id, 'sim', '{slug}', 'sealed' from b;
create temporary table it on commit preserve rows as
  select id as account, business, gen_random_uuid() as customer, gen_random_uuid() as conversation, gen_random_uuid() as message,
    gen_random_uuid() as turn, gen_random_uuid() as outbound, gen_random_uuid() as action
  from channel_account where address = '{slug}';
insert into account_rate (account, business) select account, business from it;
insert into customer (id, business) select customer, business from it;
insert into conversation (id, business, account, customer) select conversation, business, account, customer from it;
insert into channel_identity (account, business, user_id, customer, conversation)
  select account, business, 'ana', customer, conversation from it;
insert into conversation_state (conversation, business) select conversation, business from it;
insert into inbound_message (id, business, conversation, account, external_id, kind, channel_at)
  select message, business, conversation, account, 'x', 'text', now() from it;
insert into inbound_payload (message, business, raw) select message, business, 'x' from it;
insert into media_part (message, business, n, kind) select message, business, 1, 'audio' from it;
insert into identity_change (id, business, account, old_user_id, new_user_id)
  select gen_random_uuid(), business, account, 'ana', 'anna' from it;
insert into turn (id, business, conversation, cause, seq_from, seq_to, engine, model)
  select turn, business, conversation, message, 1, 1, 'tool_loop', 'mock' from it;
insert into llm_call (id, business, conversation, turn, n, engine, provider, model)
  select gen_random_uuid(), business, conversation, turn, 1, 'tool_loop', 'mock', 'mock' from it;
insert into iteration (turn, business, attempt, n, answer) select turn, business, 1, 1, '' from it;
insert into tool_call (turn, business, n, position, call_id, tool, arguments, decision, result)
  select turn, business, 1, 0, 'x', 'find_slots', '', 'allow', '' from it;
insert into outbound (id, business, conversation, origin_kind, origin, basis_seq, epoch, mode, body)
  select outbound, business, conversation, 'turn', turn, 1, 0, 'auto', 'x' from it;
insert into send_attempt (id, business, conversation, outbound, part, account, at_send_seq, worker)
  select gen_random_uuid(), business, conversation, outbound, 1, account, 1, 1 from it;
insert into pending_action (id, business, conversation, customer, turn, tool, arguments, shown, digest,
  confirmations_needed, state, prompt, at_seq)
  select action, business, conversation, customer, turn, 'book', '', '', '', 1, 'customer', outbound, 1 from it;
insert into confirmation (action, business, message, step) select action, business, message, 1 from it;
insert into receipt (id, business, conversation, action, turn, tool, digest, result)
  select gen_random_uuid(), business, conversation, action, turn, 'book', '', '' from it;
insert into handoff (conversation, business, epoch, reason) select conversation, business, 1, 'loop' from it;
insert into flag (message, business, conversation, reason) select message, business, conversation, 'media' from it;
insert into held_status (id, business, account, status, due_at)
  select gen_random_uuid(), business, account, 'sent', now() from it;
insert into dead (id, business, stage, conversation, subject, reason)
  select gen_random_uuid(), business, 'guard', conversation, conversation, 'x' from it;
insert into sim_delivery (key, business, account, user_id, body) select 'x', business, account, 'ana', '' from it;
insert into tool_level (business, tool, level, set_by) select business, 'book', 2, 'ana' from it;
insert into draft_decision (outbound, business, round, decision, text_digest, decided_by)
  select outbound, business, 1, 'send', '', 'ana' from it;
insert into budget (business, day) select business, '2026-12-03' from it;
insert into envelope (turn, business, conversation, n, header, digest, parts) select turn, business, conversation, 1, '', '', '' from it;
insert into prompt_page (business, digest, body) select business, '', '' from it;
insert into reminder (id, business, conversation, tool, arguments, thanks)
  select gen_random_uuid(), business, conversation, 'cancel', '', '' from it;
insert into audit_log (business, n, actor, action, subject, detail, digest) select business, 1, 'ana', 'x', 'x', '', '' from it;
insert into audit_head (business, n, digest) select business, 1, '' from it;
insert into clinic.practice (business, address, phone, currency) select business, 'x', 'x', 'RON' from it;
insert into clinic.service (business, code, names, minutes, price) select business, 'c', '{{"en": "c"}}', 30, 1 from it;
insert into clinic.dentist (business, name) select business, 'Dr. X' from it;
insert into clinic.offer (business, dentist_no, service) select business, no, 'c' from clinic.dentist join it using (business);
insert into clinic.opening (business, weekday, opens, closes) select business, 1, '09:00', '17:00' from it;
insert into clinic.appointment (id, business, customer, dentist_no, service, starts_at, ends_at, idempotency_key)
  select gen_random_uuid(), business, customer, no, 'c', now(), now() + interval '30 min', 'k'
  from clinic.dentist join it using (business);
insert into clinic.holiday (business, day, names) select business, '2026-12-25', '{{"en": "h"}}' from it;
insert into clinic.time_off (business, dentist_no, starts_at, ends_at)
  select business, no, now(), now() + interval '1 day' from clinic.dentist join it using (business);
insert into clinic.hold (business, customer, dentist_no, starts_at, ends_at, expires_at)
  select business, customer, no, now(), now() + interval '30 min', now() from clinic.dentist join it using (business);
insert into clinic.patient (business, customer, name) select business, customer, 'x' from it;
insert into clinic.change (business, key, customer, kind) select business, 'k', customer, 'rename' from it;
insert into expenses.ledger (business, currency) select business, 'RON' from it;
insert into expenses.numbering (business, customer, last_no) select business, customer, 1 from it;
insert into expenses.expense (business, customer, no, item, amount, currency, added_at, added_key, state, deleted_at, deleted_key)
  select business, customer, 1, 'x', 1, 'RON', now(), 'k', 'deleted', now(), 'k' from it;
drop table it;
"""


@dataclass(frozen=True)
class Town:
    """Two businesses with one row each in every table."""

    url: str
    owner: Any
    ours: int
    theirs: int


@pytest.fixture(scope="module")
async def town(postgres: Postgres) -> AsyncIterator[Town]:
    url = await postgres.create_database()
    await migrate(url, packs=migrations_of(load_packs()))
    owner = await asyncpg.connect(url, server_settings={"search_path": "leeway, pg_temp"})
    for slug in ("ours", "theirs"):
        await owner.execute(ONE_OF_EVERYTHING.format(slug=slug))
    ids = {row["slug"]: row["id"] for row in await owner.fetch("select slug, id from business")}
    yield Town(url, owner, ids["ours"], ids["theirs"])
    await owner.close()
    await postgres.drop_database(url)


@asynccontextmanager
async def undone(town: Town) -> AsyncIterator[Any]:
    """The owner's connection in a transaction that is rolled back."""
    transaction = town.owner.transaction()
    await transaction.start()
    try:
        yield town.owner
    finally:
        await transaction.rollback()


async def as_tenant(connection: Any, business: int | None) -> None:
    await connection.execute("set local role leeway_tenant")
    if business is not None:
        await connection.execute(f"set local leeway.business = '{business}'")


async def tables(town: Town) -> list[str]:
    rows = await town.owner.fetch(
        "select format('%s.%s', schemaname, tablename) from pg_tables where schemaname = any ($1) order by 1",
        list(SCHEMAS),
    )
    return [row[0] for row in rows]


async def tenants_tables(town: Town) -> list[tuple[str, str]]:
    """Each with the column that names its business."""
    return [
        (table, "id" if table == OF_ITSELF else "business")
        for table in await tables(town)
        if table not in WITHOUT_BUSINESS
    ]


async def test_the_walk_meets_every_schema_of_ours(town: Town) -> None:
    rows = await town.owner.fetch(
        "select nspname from pg_namespace where nspname !~ '^pg_' and nspname not in ('information_schema', 'public')"
    )
    assert {row["nspname"] for row in rows} == set(SCHEMAS)
    assert len(await tables(town)) > 25


async def test_every_table_has_a_business_column_that_is_never_empty(town: Town) -> None:
    for table, column in await tenants_tables(town):
        found = await town.owner.fetchval(
            "select attnotnull from pg_attribute where attrelid = $1::text::regclass and attname = $2 and not attisdropped",
            table,
            column,
        )
        assert found is True, table


async def test_row_level_security_is_on_and_forced_in_every_table(town: Town) -> None:
    for table, _ in await tenants_tables(town):
        row = await town.owner.fetchrow(
            "select relrowsecurity, relforcerowsecurity from pg_class where oid = $1::text::regclass", table
        )
        assert tuple(row) == (True, True), table


async def test_every_table_has_one_policy_for_each_role_and_no_other(town: Town) -> None:
    for table, _ in await tenants_tables(town):
        rows = await town.owner.fetch(
            "select roles::text[] as roles, permissive, cmd, qual, with_check from pg_policies "
            "where format('%s.%s', schemaname, tablename) = $1",
            table,
        )
        policies = {tuple(row["roles"]): row for row in rows}
        assert set(policies) == {("leeway_pipeline",), ("leeway_tenant",)}, table
        tenant = policies["leeway_tenant",]
        assert tenant["cmd"] == "ALL", table
        assert tenant["qual"] == tenant["with_check"], table
        assert "leeway.business" in tenant["qual"], table


async def test_a_tenant_reads_its_own_rows_and_no_other(town: Town) -> None:
    for table, column in await tenants_tables(town):
        async with undone(town) as connection:
            await as_tenant(connection, town.ours)
            seen = {row[0] for row in await connection.fetch(f"select {column} from {table}")}
        assert seen == {town.ours}, table


@pytest.mark.parametrize("setting", [None, ""], ids=["not set", "empty"])
async def test_without_the_setting_a_tenant_sees_nothing(town: Town, setting: str | None) -> None:
    for table, column in await tenants_tables(town):
        async with undone(town) as connection:
            await as_tenant(connection, None)
            if setting is not None:
                await connection.execute("set local leeway.business = ''")
            assert not await connection.fetch(f"select {column} from {table}"), table


async def test_a_tenant_with_every_right_still_can_t_change_another_s_rows(town: Town) -> None:
    """The policies hold by themselves, whatever a later migration grants."""
    for table, column in await tenants_tables(town):
        async with undone(town) as connection:
            await connection.execute(f"grant all on {table} to leeway_tenant")
            await as_tenant(connection, town.ours)
            where = f"where {column} = {town.theirs}"
            assert await connection.execute(f"delete from {table} {where}") == "DELETE 0", table
            changed = await connection.execute(f"update {table} set {column} = {column} {where}")
            assert changed == "UPDATE 0", table


async def test_a_tenant_with_every_right_can_t_insert_for_another(town: Town) -> None:
    for table, column in await tenants_tables(town):
        theirs = await town.owner.fetchrow(f"select * from {table} where {column} = $1", town.theirs)
        places = ", ".join(f"${at}" for at in range(1, len(theirs) + 1))
        async with undone(town) as connection:
            await connection.execute(f"grant all on {table} to leeway_tenant")
            await as_tenant(connection, town.ours)
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
                await connection.execute(
                    f"insert into {table} ({', '.join(theirs.keys())}) overriding system value values ({places})",
                    *theirs.values(),
                )


async def test_a_tenant_with_every_right_can_t_give_its_rows_away(town: Town) -> None:
    for table, column in await tenants_tables(town):
        generated = await town.owner.fetchval(
            "select attidentity = 'a' from pg_attribute where attrelid = $1::text::regclass and attname = $2",
            table,
            column,
        )
        assert not generated
        async with undone(town) as connection:
            await connection.execute(f"grant all on {table} to leeway_tenant")
            await as_tenant(connection, town.ours)
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
                await connection.execute(f"update {table} set {column} = {town.theirs}")


async def test_the_pool_s_tenant_sees_the_business_it_is_for(town: Town) -> None:
    database = await open_pool(town.url, size=1, timeouts=Timeouts())
    queries = Queries({"slugs": "select slug from business"})
    try:
        for business, slug in ((town.ours, "ours"), (town.theirs, "theirs")):
            async with database.tenant(BusinessId(business), queries) as sql:
                assert [row["slug"] for row in await sql.fetch("slugs")] == [slug]
        rows = await database.fetch("select slug from business order by slug")
        assert [row["slug"] for row in rows] == ["ours", "theirs"]
        assert (await database.fetch("show leeway.business"))[0][0] == ""
    finally:
        await database.close()


async def test_the_pipeline_serves_all_tenants(town: Town) -> None:
    async with undone(town) as connection:
        await connection.execute("set local role leeway_pipeline")
        rows = await connection.fetch("select business from conversation_state")
    assert {row["business"] for row in rows} == {town.ours, town.theirs}


# Grants

FACTS = {  # what no service may change once it is written
    "business": ["id", "slug", "mode", "day_cap_usd", "rate_per_10_min"],
    "channel_account": ["business", "channel", "address", "mode", "secrets", "callback_url", "verifies_phones", "carrier_takes_cancel",
        "provider_address", "own_number", "settings"],
    "account_rate": ["account", "business"],
    "customer": ["id", "business", "created_at"],
    "conversation": ["id", "business", "account", "created_at"],
    "channel_identity": ["account", "business", "conversation", "created_at"],
    "conversation_state": ["conversation", "business", "mode"],
    "inbound_message": ["id", "business", "conversation", "external_id", "button", "channel_at", "received_at"],
    "inbound_payload": ["message", "business", "received_at"],  # raw is blanked when a customer takes a message back
    "media_part": ["message", "business", "n", "kind", "mime", "name", "reference"],
    "identity_change": ["id", "business", "account", "old_user_id", "new_user_id", "decided", "decided_by"],
    "turn": ["id", "business", "conversation", "cause_kind", "seq_from", "engine", "model", "started_at"],
    "llm_call": ["id", "business", "turn", "n", "attempt", "provider", "model", "reserved_usd", "started_at"],
    "iteration": ["turn", "business", "attempt", "n", "answer", "stored_at"],
    "tool_call": ["turn", "tool", "arguments", "decision", "reason", "why", "at"],
    "outbound": ["id", "business", "conversation", "origin_kind", "origin", "part", "mode", "held", "receipt", "action"],
    "send_attempt": ["id", "business", "outbound", "part", "at_send_seq", "worker", "started_at"],
    "pending_action": ["id", "tool", "arguments", "shown", "digest", "confirmations_needed", "customer", "asked", "summary"],
    "confirmation": ["action", "business", "message", "step", "at"],
    "receipt": ["id", "action", "turn", "tool", "digest", "result", "at"],
    "handoff": ["conversation", "business", "epoch", "reason", "opened_at"],
    "flag": ["message", "business", "reason", "raised_at"],
    "held_status": ["id", "business", "account", "correlation", "provider_id", "status"],
    "dead": ["id", "business", "stage", "conversation", "subject"],
    "tool_level": ["business", "tool", "level", "asked", "set_by"],
    "draft_decision": ["outbound", "business", "round", "decision", "text_digest", "decided_by", "decided_at"],
    "budget": ["business", "day"],
    "envelope": ["turn", "business", "conversation", "n", "header", "digest", "parts"],
    "prompt_page": ["business", "digest", "body"],
    "reminder": ["id", "business", "conversation", "tool", "arguments", "thanks"],
    "audit_log": ["business", "n", "at", "actor", "action", "subject", "detail", "digest"],
    "audit_head": ["business"],
    "worker": ["number", "stage", "host", "pid"],
    "sim_delivery": ["key", "business", "account", "user_id", "body"],
    "schema_migration": ["schema", "number", "digest"],
}  # fmt: skip
MAY_DELETE = {"held_status", "worker"}


@pytest.mark.parametrize("table", FACTS)
async def test_the_pipeline_can_t_change_facts(town: Town, table: str) -> None:
    for column in FACTS[table]:
        async with undone(town) as connection:
            await connection.execute("set local role leeway_pipeline")
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(f"update {table} set {column} = {column}")


async def test_facts_are_listed_for_every_table(town: Town) -> None:
    assert {f"leeway.{table}" for table in FACTS} == {
        table for table in await tables(town) if table.startswith("leeway.")
    }


async def test_the_pipeline_deletes_only_what_it_may_and_truncates_nothing(town: Town) -> None:
    for table in await tables(town):
        for right in ("delete", "truncate", "references", "trigger"):
            allowed = await town.owner.fetchval(
                "select has_table_privilege('leeway_pipeline', $1, $2)", table, right
            )
            expected = right == "delete" and table.removeprefix("leeway.") in MAY_DELETE
            assert allowed is expected, (table, right)


async def test_the_pipeline_has_no_access_to_a_pack_s_tables(town: Town) -> None:
    for table in await tables(town):
        if not table.startswith("leeway."):
            async with undone(town) as connection:
                await connection.execute("set local role leeway_pipeline")
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await connection.fetch(f"select from {table}")


async def test_a_tenant_writes_nothing_in_the_pipeline_s_tables(town: Town) -> None:
    for table in await tables(town):
        if table.startswith("leeway."):
            for right in ("insert", "update", "delete", "truncate"):
                allowed = await town.owner.fetchval(
                    "select has_table_privilege('leeway_tenant', $1, $2)", table, right
                )
                assert allowed is False, (table, right)


async def test_a_tenant_can_t_read_channel_secrets(town: Town) -> None:
    for columns in ("secrets", "*"):
        async with undone(town) as connection:
            await as_tenant(connection, town.ours)
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.fetch(f"select {columns} from channel_account")


@pytest.mark.parametrize("table", sorted(WITHOUT_BUSINESS))
async def test_a_tenant_can_t_read_what_belongs_to_no_business(town: Town, table: str) -> None:
    async with undone(town) as connection:
        await as_tenant(connection, town.ours)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.fetch(f"select from {table}")


@pytest.mark.parametrize("role", ["leeway_pipeline", "leeway_tenant"])
async def test_the_roles_own_nothing_and_pass_no_policy(town: Town, role: str) -> None:
    row = await town.owner.fetchrow(
        "select rolsuper, rolbypassrls, rolcreaterole, rolcanlogin from pg_roles where rolname = $1", role
    )
    assert not any(row)
    owned = await town.owner.fetch("select relname from pg_class where relowner = $1::text::regrole", role)
    assert not owned


async def test_a_foreign_key_can_t_cross_businesses(town: Town) -> None:
    """Even the owner can't hang one tenant's message on another's conversation."""
    conversation = await town.owner.fetchval("select id from conversation where business = $1", town.theirs)
    account = await town.owner.fetchval("select id from channel_account where business = $1", town.ours)
    async with undone(town) as connection:
        with pytest.raises(asyncpg.ForeignKeyViolationError):
            await connection.execute(
                "insert into inbound_message (id, business, conversation, account, external_id, kind, channel_at) "
                "values (gen_random_uuid(), $1, $2, $3, 'y', 'text', now())",
                town.ours,
                conversation,
                account,
            )
