"""SQL: in .sql files only, each query ready to run under its role, and the hot ones going by key."""

import ast
import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from shared.database import load_queries
from shared.database.migrate import migrate
from shared.database.pool import _settings
from shared.packs import load_packs, migrations_of
from shared.settings import Timeouts
from tests.support.servers import Postgres

ROOT = Path(__file__).parents[2]
PRODUCT = ("leeway", "services", "packs", "shared")
TENANT_QUERIES = {"leeway/evidence.sql:appointments"}
OWNER_FILES = {
    "leeway/businesses.sql",
    "leeway/accounts.sql",
    "leeway/identities.sql",
}  # the work of commands, not of a service
SQL_IN_PYTHON = {  # what can't be a named query, and why
    "shared/database/migrate.py": "runs before there is a schema",
    "shared/database/restoring.py": "runs before there is a schema, and makes and drops one",
    "shared/database/pool.py": "steps down to a role, which takes no parameters",
}
SQL = re.compile(
    r"\bselect\b.+\bfrom\b|\bselect\s+(pg_|count|exists|\d)|\binsert\s+into\b|\bupdate\s+\w+\s+set\b|\bdelete\s+from\b"
    r"|\b(create|alter|drop)\s+(table|schema|role|index|policy|database|user)\b|\bset\s+local\b"
    r"|\bwith\s+\w+\s+as\s*\(|\bon\s+conflict\b|\bfor\s+(no\s+key\s+)?update\b|\bgrant\s+\w+\s+on\b",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class Query:
    file: str
    name: str
    text: str

    @property
    def role(self) -> str:
        if self.file in OWNER_FILES:
            return "none"
        as_tenant = self.file.startswith("packs/") or str(self) in TENANT_QUERIES
        return "leeway_tenant" if as_tenant else "leeway_pipeline"

    @property
    def asked(self) -> str:
        """The execution of the query, prepared as "asked", with nulls: a generic plan looks at no value."""
        numbers = {int(number) for number in re.findall(r"\$(\d+)", self.text)}
        return f"execute asked ({', '.join(['null'] * max(numbers))})" if numbers else "execute asked"

    def __str__(self) -> str:
        return f"{self.file}:{self.name}"


def sql_files() -> list[Path]:
    found = [path for package in PRODUCT for path in sorted((ROOT / package).rglob("*.sql"))]
    return [path for path in found if path.parent.name != "migrations" and path.name != "schema.sql"]


def queries() -> list[Query]:
    return [
        Query(str(path.relative_to(ROOT)), name, text)
        for path in sql_files()
        for name, text in load_queries(path).items()
    ]


QUERIES = queries()


def python_files() -> list[Path]:
    return [path for package in PRODUCT for path in sorted((ROOT / package).rglob("*.py"))]


def sql_texts(source: str) -> Iterator[str]:
    """The texts in a module that are SQL; docstrings speak of it, and are none."""
    tree = ast.parse(source)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in docstrings or not isinstance(node.value, str):
            continue
        if SQL.search(node.value):
            yield node.value


def test_there_are_queries_in_every_place_that_has_them() -> None:
    assert {query.file.split("/")[0] for query in QUERIES} == set(PRODUCT)
    assert len(QUERIES) > 50


@pytest.mark.parametrize("path", python_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_python_holds_no_sql(path: Path) -> None:
    found = list(sql_texts(path.read_text(encoding="utf-8")))
    if str(path.relative_to(ROOT)) in SQL_IN_PYTHON:
        assert found, "no exception is needed any more"
    else:
        assert not found


@pytest.mark.parametrize(
    "source",
    [
        'fetch("select id from outbound")',
        'fetch(f"select id from {table}")',
        'QUERY = """\nupdate outbound\n  set state = $1"""',
        'execute("INSERT INTO flag values (1)")',
        'execute("delete from held_status")',
        'execute("set local role leeway_tenant")',
        'execute("create index on flag (message)")',
        'fetch("with a as (select 1) table a")',
    ],
)
def test_sql_in_python_is_found(source: str) -> None:
    assert list(sql_texts(source))


@pytest.mark.parametrize(
    "source",
    ['"""We select rows from a table, and update state."""', 'log.info("select one of them")', 'f("update")'],
)
def test_sentences_are_not_taken_for_sql(source: str) -> None:
    assert not list(sql_texts(source))


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_a_query_is_used_by_the_code_beside_it(query: Query) -> None:
    folder = (ROOT / query.file).parent
    if (
        folder.name == "scripts"
    ):  # what a pack's scripts do to its tables: `add_things` is asked for by the word `things`
        thing = query.name.partition("_")[2]
        asked = [path.read_text(encoding="utf-8") for path in folder.glob("*.yaml")]
        assert any(f"{thing}:" in script for script in asked), f"no script names {thing}"
        return
    sources = [path.read_text(encoding="utf-8") for path in folder.glob("*.py")]
    pack = folder.name if query.file.startswith("packs/") else None
    wanted = f'"{pack}.{query.name}"' if pack else f'"{query.name}"'
    assert any(wanted in source for source in sources), f"nobody asks for {wanted}"


@pytest.fixture(scope="module")
async def url(postgres: Postgres) -> AsyncIterator[str]:
    url = await postgres.create_database()
    await migrate(url, packs=migrations_of(load_packs()))
    yield url
    await postgres.drop_database(url)


@pytest.mark.postgres
class TestAgainstTheSchema:
    @pytest.mark.parametrize("query", QUERIES, ids=str)
    async def test_a_query_runs_under_its_role(self, url: str, query: Query) -> None:
        """Prepared: names and types are right. Explained: the role may do all that it does."""
        connection = await asyncpg.connect(url, server_settings=_settings(Timeouts(), query.role))
        try:
            await connection.execute(f"prepare asked as {query.text}")
            plan = await connection.fetch(f"explain {query.asked}")
        finally:
            await connection.close()
        assert plan

    async def test_explaining_finds_what_a_role_may_not_do(self, url: str) -> None:
        connection = await asyncpg.connect(url, server_settings=_settings(Timeouts()))
        try:
            await connection.execute("prepare asked as delete from outbound")
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.fetch("explain execute asked")
        finally:
            await connection.close()


# Plans

GROWING = {
    "customer", "conversation", "channel_identity", "conversation_state", "inbound_message", "inbound_payload",
    "turn", "llm_call", "iteration", "tool_call", "outbound", "send_attempt", "pending_action", "confirmation",
    "receipt", "handoff", "flag", "held_status", "dead", "sim_delivery", "budget", "envelope", "media_part",
}  # fmt: skip
DUE_INDEXES = {
    "conversation_state_guard_due", "conversation_state_due", "outbound_ring", "send_attempt_open",
    "llm_call_open", "held_status_due", "dead_open", "flag_open", "pending_action_approval", "media_part_due",
}  # fmt: skip
# Queries that look for what is due: by their due index, and no other way.
BY_DUE_INDEX = {
    "services/guard/adapters/conversations.sql": {"anything_due", "ring_due"},
    "services/agent/adapters/turns.sql": {"due", "leaseholders", "void_leases", "lose_calls"},
    "services/dispatch/adapters/outbox.sql": {
        "anything_due",
        "ring_due",
        "senders",
        "abandon",
        "open_decisions",
    },
    "services/ingest/adapters/inbox.sql": {"held_due"},
    "services/ingest/adapters/standing.sql": {"standing"},
    "services/console/adapters/desk.sql": set(),
}
FILES_OF_STAGES = set(BY_DUE_INDEX)
HOT = [query for query in QUERIES if query.file in FILES_OF_STAGES]

LOAD = """
insert into business (slug, name, mode, pack, locales, time_zone) values ('a', 'A', 'auto', 'clinic', '{en}', 'UTC');
insert into channel_account (business, channel, address) values (1, 'sim', 'line');
create temporary table people as select gen_random_uuid() as customer, gen_random_uuid() as conversation, n
  from generate_series(1, 3000) n;
insert into customer (id, business) select customer, 1 from people;
insert into conversation (id, business, account, customer) select conversation, 1, 1, customer from people;
insert into channel_identity (account, business, user_id, customer, conversation)
  select 1, 1, n::text, customer, conversation from people;
insert into conversation_state (conversation, business, guarded_seq, customer_seq, handled_seq, due_at, guard_due_at)
  select conversation, 1, 4, 4, 3, now(), case when n % 10 = 0 then now() end from people;
insert into inbound_message (id, business, conversation, account, external_id, kind, channel_at, seq, verdict)
  select gen_random_uuid(), 1, conversation, 1, n || '-' || m, 'text', now(), m, 'turn' from people, generate_series(1, 4) m;
insert into inbound_payload (message, business, raw) select id, 1, 'x' from inbound_message;
insert into turn (id, business, conversation, cause, seq_from, seq_to, engine, model)
  select gen_random_uuid(), 1, conversation, id, seq, seq, 'tool_loop', 'mock' from inbound_message;
insert into llm_call (id, business, conversation, turn, n, engine, provider, model, state)
  select gen_random_uuid(), 1, conversation, id, 1, 'tool_loop', 'mock', 'mock', case when seq_to = 4 then 'started' else 'done' end from turn;
insert into iteration (turn, business, attempt, n, answer) select id, 1, 1, 1, '' from turn;
insert into tool_call (turn, business, n, position, call_id, tool, arguments, decision, result)
  select id, 1, 1, 0, 'x', 'find_slots', '', 'allow', '' from turn;
insert into outbound (id, business, conversation, origin_kind, origin, basis_seq, epoch, mode, body, state, ring_at)
  select gen_random_uuid(), 1, conversation, 'turn', id, seq_to, 0, 'auto', 'text', case when seq_to = 4 then 'queued' else 'sent' end,
    case when seq_to = 4 then now() end from turn;
insert into send_attempt (id, business, conversation, outbound, part, account, state, provider_id, at_send_seq, worker)
  select gen_random_uuid(), 1, conversation, id, 1, 1, case when basis_seq = 3 then 'sending' else 'sent' end, id::text, basis_seq, 1 from outbound;
insert into pending_action (id, business, conversation, customer, turn, tool, arguments, shown, digest, confirmations_needed, state, prompt, at_seq)
  select gen_random_uuid(), 1, t.conversation, p.customer, t.id, 'book', '', '', '', 1, case t.seq_to when 4 then 'customer' else 'executed' end, t.id, t.seq_to
  from turn t join people p using (conversation);
insert into confirmation (action, business, message, step) select id, 1, id, 1 from pending_action;
insert into receipt (id, business, conversation, action, turn, tool, digest, result)
  select id, 1, conversation, id, turn, 'book', '', '' from pending_action;
insert into handoff (conversation, business, epoch, reason) select conversation, 1, 1, 'loop' from people;
insert into flag (message, business, conversation, reason) select id, 1, conversation, 'media' from inbound_message;
insert into held_status (id, business, account, status, due_at) select customer, 1, 1, 'sent', now() from people;
insert into dead (id, business, stage, conversation, subject, reason) select customer, 1, 'guard', conversation, conversation, 'x' from people;
insert into budget (business, day) select 1, date '2020-01-01' + n from generate_series(1, 2000) n;
insert into tool_level (business, tool, level, set_by) select 1, 'tool_' || n, 2, 'test' from generate_series(1, 20) n;
insert into envelope (turn, business, conversation, n, header, digest, parts) select id, 1, conversation, row_number() over (partition by conversation), '', '', '' from turn;
insert into sim_delivery (key, business, account, user_id, body) select n::text, 1, 1, n::text, '' from people;
"""


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)


@pytest.fixture(scope="module", params=["never analyzed", "analyzed"])
async def loaded(postgres: Postgres, request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    url = await postgres.create_database()
    owner = await asyncpg.connect(url, server_settings={"search_path": "leeway, pg_temp"})
    await owner.execute(LOAD)
    if request.param == "analyzed":
        await owner.execute("analyze")
    await owner.close()
    connection = await asyncpg.connect(url, server_settings=_settings(Timeouts()), statement_cache_size=0)
    yield connection
    await connection.close()
    await postgres.drop_database(url)


@pytest.mark.postgres
class TestPlans:
    """On a database with some thousands of rows, its statistics once as a fresh installation has them (none; the due
    indexes taken for empty) and once fresh."""

    async def plan(self, connection: Any, query: Query) -> list[dict[str, Any]]:
        await connection.execute(f"prepare asked as {query.text}")
        try:
            explained = await connection.fetchval(f"explain (format json) {query.asked}")
        finally:
            await connection.execute("deallocate asked")
        return list(nodes(json.loads(explained)[0]["Plan"]))

    @pytest.mark.parametrize("query", HOT, ids=str)
    async def test_no_growing_table_is_read_from_end_to_end(self, loaded: Any, query: Query) -> None:
        scans = [node for node in await self.plan(loaded, query) if node["Node Type"] == "Seq Scan"]
        assert not [node["Relation Name"] for node in scans if node["Relation Name"] in GROWING]

    @pytest.mark.parametrize(
        "query", [query for query in HOT if query.name not in BY_DUE_INDEX[query.file]], ids=str
    )
    async def test_a_look_up_by_key_walks_no_index_of_what_is_due(self, loaded: Any, query: Query) -> None:
        for node in await self.plan(loaded, query):
            index = node.get("Index Name")
            if index is None or index.startswith(("business_", "channel_account_", "account_rate_")):
                continue  # some hundreds of rows at most
            assert index not in DUE_INDEXES, index
            walked = "Index Cond" not in node and node["Node Type"] != "Bitmap Heap Scan"
            assert not walked, index

    @pytest.mark.parametrize(
        "query", [query for query in HOT if query.name in BY_DUE_INDEX[query.file]], ids=str
    )
    async def test_what_is_due_is_found_by_its_index(self, loaded: Any, query: Query) -> None:
        used = {node.get("Index Name") for node in await self.plan(loaded, query)}
        assert used & DUE_INDEXES

    async def test_the_look_for_the_metrics_walks_what_is_open_and_nothing_else(self, loaded: Any) -> None:
        """Every ten seconds, over all businesses: whatever else a table holds must not matter."""
        (query,) = [query for query in HOT if query.name == "standing"]
        plan = await self.plan(loaded, query)
        walked = {node["Index Name"] for node in plan if "Index Name" in node and "Index Cond" not in node}
        of_few_rows = {name for name in walked if name.startswith(("business_", "channel_account_"))}
        assert walked - of_few_rows <= DUE_INDEXES | {"outbound_draft", "handoff_open"}
        read = {node["Relation Name"] for node in plan if "Relation Name" in node}
        assert read >= {"outbound", "conversation_state", "handoff", "dead"}
