"""An upgrade while everything runs: the database first, then the services one by one. Nobody outside notices."""

import asyncio
import json
import shutil
import signal
from pathlib import Path

import httpx2
import pytest

from shared.database import migrate as migrations
from shared.ids import new_id
from shared.packs import load_packs, migrations_of
from shared.secrets import new_key
from tests.support.commands import environment, started
from tests.support.eventually import eventually
from tests.support.stack import ECHO, Running, Shop, Stack

pytestmark = [pytest.mark.stack, pytest.mark.postgres, pytest.mark.rabbitmq]

# What a next release might bring: columns and constraints on the tables that every message touches, and indexes on them.
COLUMNS = """
alter table conversation_state add column later text, add column later_at timestamptz not null default now();
alter table inbound_message add column later text not null default '';
alter table outbound add column later int, add constraint outbound_later check (later > 0) not valid;
alter table turn add column later boolean not null default false;
alter table send_attempt add column later text;
alter table channel_account add column later text;
create table later (id uuid, business int not null references business, primary key (id, business));
select secure_table('later', 'business');
"""
VALIDATED = "alter table outbound validate constraint outbound_later;"
INDEXES = """-- concurrently
create index concurrently if not exists outbound_later on outbound (later, id);
create index concurrently if not exists inbound_message_later on inbound_message (later, conversation);
"""


@pytest.fixture
def next_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The migrations of a release after this one, for who migrates in this process; the services' code is this one's."""
    folder = tmp_path / "migrations"
    shutil.copytree(migrations.PIPELINE, folder)
    number = len(list(folder.glob("*.sql")))
    for n, text in enumerate((COLUMNS, VALIDATED, INDEXES), start=number + 1):
        (folder / f"{n:04}_later.sql").write_text(text)
    monkeypatch.setattr(migrations, "PIPELINE", folder)
    return folder


async def customers(stack: Stack, shop: Shop, until: asyncio.Event, statuses: list[int]) -> list[str]:
    """Somebody new writes all the time, on two channels; each once, whatever is answered."""
    senders: list[str] = []
    async with asyncio.TaskGroup() as writing:
        while not until.is_set():
            channel = ("sim", "generic")[len(senders) % 2]
            senders.append(f"{channel}-{new_id().hex}")

            async def say(channel: str = channel, sender: str = senders[-1]) -> None:
                statuses.append(await stack.say(shop, channel, sender, "hello"))

            writing.create_task(say())
            await asyncio.sleep(0.03)
    return senders


def errors_of(one: Running) -> list[str]:
    lines = [json.loads(line) for line in one.log.read_text().splitlines() if line.startswith("{")]
    return [line["event"] for line in lines if line["level"] == "error"]


async def test_a_newer_database_under_running_services_and_then_one_service_after_the_other(
    stack: Stack, next_release: Path
) -> None:
    shop = await stack.shop()
    stack.make("agent", module=ECHO, LEEWAY_TEST_LATENCY_S="0.2")
    await stack.start()
    until, statuses = asyncio.Event(), list[int]()
    writing = asyncio.create_task(customers(stack, shop, until, statuses))
    await eventually(lambda: len(statuses) > 20)
    applied = await migrations.migrate(stack.database_url, packs=migrations_of(load_packs()))
    assert [one.name for one in applied] == ["later"] * 3
    while_it_was_migrated = len(statuses)
    await eventually(lambda: len(statuses) > while_it_was_migrated + 20)
    for name in (
        "guard",
        "agent",
        "dispatch",
    ):  # as a rolling restart does: the new one beside the old one first
        newer = stack.make(name, module=ECHO if name == "agent" else None, LEEWAY_TEST_LATENCY_S="0.2")
        newer.start()
        await newer.ready()
        await stack.one(name).stop()
    until.set()
    await stack.answered(await writing)
    assert set(statuses) == {200}
    assert {one.name: errors for one in stack.every() if (errors := errors_of(one))} == {}
    attempts = await stack.ask("select distinct state from leeway.send_attempt")
    assert {row["state"] for row in attempts} == {"sent"}


async def test_services_that_find_an_older_database_wait_for_it_and_say_why(
    empty_database_url: str, amqp_url: str, tmp_path: Path
) -> None:
    env = environment(
        LEEWAY_DATABASE_URL=empty_database_url, LEEWAY_AMQP_URL=amqp_url, LEEWAY_SECRET_KEY=new_key()
    )
    async with started("run", "agent", cwd=tmp_path, env=env, says="of its migrations") as agent:
        (line,) = {json.loads(line)["error"] for line in agent.log.read_text().splitlines()}
        assert line.endswith("of its migrations; run: leeway migrate")
        await migrations.migrate(empty_database_url)
        await eventually(lambda: "lacks 3 of" in agent.log.read_text(), within_s=20)  # the packs'
        await migrations.migrate(empty_database_url, packs=migrations_of(load_packs()))
        await eventually(lambda: '"running"' in agent.log.read_text(), within_s=20)


async def test_a_worker_that_is_asked_to_stop_says_so_until_it_has_drained(stack: Stack) -> None:
    shop = await stack.shop()
    stack.make("agent", module=ECHO)
    await stack.start()
    assert await stack.say(shop, "sim", "sim-slow", "slow 3 please") == 200
    agent = stack.one("agent")
    await eventually(lambda: under_way(stack), within_s=20)
    agent.send(signal.SIGTERM)
    await eventually(lambda: says(agent, "agent is stopping"))
    async with httpx2.AsyncClient(trust_env=False, base_url=f"http://127.0.0.1:{agent.port}") as client:
        assert (await client.get("/healthz")).status_code == 200
        assert "leeway_" in (await client.get("/metrics")).text
    await eventually(lambda: not agent.is_running, within_s=25)
    assert agent.process is not None
    assert agent.process.exit_code == 0
    assert len(await stack.replies("sim-slow")) == 1


async def says(one: Running, reason: str) -> bool:
    return await one.why_not() == reason


async def under_way(stack: Stack) -> bool:
    return bool(await stack.ask("select from leeway.llm_call where state = 'started'"))
