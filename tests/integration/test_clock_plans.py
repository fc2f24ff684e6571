"""The clock's statements run every few seconds: on a full database none reads a growing table from end to end."""

import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from shared.database.pool import _settings
from shared.settings import Timeouts
from tests.integration.test_queries import GROWING, LOAD, QUERIES, Query, nodes
from tests.support.servers import Postgres

pytestmark = pytest.mark.postgres

FILE = "services/agent/adapters/clocks.sql"
OF_THE_CLOCK = [query for query in QUERIES if query.file == FILE]
# What is looked for, and by which indexes of the few rows that can be it.
FOUND_BY = {
    "expire_approvals": {"pending_action_approval"},
    "unset": {"handoff_open"},
    "unclaimed": {"handoff_open"},
    "release_takeovers": {"handoff_open"},
    "unsent": {"outbound_queued", "outbound_ring", "outbound_draft"},
}


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


async def plan(connection: Any, query: Query) -> list[dict[str, Any]]:
    await connection.execute(f"prepare asked as {query.text}")
    try:
        explained = await connection.fetchval(f"explain (format json) {query.asked}")
    finally:
        await connection.execute("deallocate asked")
    return list(nodes(json.loads(explained)[0]["Plan"]))


@pytest.mark.parametrize("query", OF_THE_CLOCK, ids=str)
async def test_no_growing_table_is_read_from_end_to_end(loaded: Any, query: Query) -> None:
    scans = [node for node in await plan(loaded, query) if node["Node Type"] == "Seq Scan"]
    assert not [node["Relation Name"] for node in scans if node["Relation Name"] in GROWING | {"reminder"}]


@pytest.mark.parametrize("query", OF_THE_CLOCK, ids=str)
async def test_no_index_is_walked_from_end_to_end_but_that_of_what_is_open(loaded: Any, query: Query) -> None:
    for node in await plan(loaded, query):
        index = node.get("Index Name")
        if index is None or index.startswith(("business_", "channel_account_")):
            continue
        if index in FOUND_BY.get(query.name, set()):
            continue
        assert "Index Cond" in node, (node["Node Type"], index)


@pytest.mark.parametrize("name", FOUND_BY)
async def test_what_is_open_is_found_by_its_index(loaded: Any, name: str) -> None:
    (query,) = [one for one in OF_THE_CLOCK if one.name == name]
    used = {node.get("Index Name") for node in await plan(loaded, query)}
    assert FOUND_BY[name] & used
