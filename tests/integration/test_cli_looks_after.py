"""`leeway migrate`, `doctor`, `business` and `channel` on real servers, as a person would call them."""

import asyncio
import json
import os
from datetime import timedelta
from pathlib import Path

import aio_pika
import asyncpg
import pytest

from shared.database.migrate import PIPELINE, read_migrations
from shared.packs import load_packs, migrations_of
from shared.secrets import new_key
from shared.topology import DEAD_QUEUE, DEAD_QUEUE_ARGUMENTS, WORK_QUEUE
from tests.support.commands import LEEWAY, environment, leeway
from tests.support.factories import ground

pytestmark = pytest.mark.postgres

NOWHERE = "amqp://127.0.0.1:1"

MIGRATIONS = len(read_migrations("leeway", PIPELINE)) + sum(
    len(read_migrations(name, folder)) for name, folder in migrations_of(load_packs()).items()
)


async def test_two_that_migrate_at_once_apply_each_file_once(empty_database_url: str, tmp_path: Path) -> None:
    env = environment(LEEWAY_DATABASE_URL=empty_database_url)
    pending = await leeway("migrate", "--check", cwd=tmp_path, env=env)
    assert pending.code == 1
    assert "pending leeway 0001 pipeline" in pending.out
    assert "pending clinic 0001 clinic" in pending.out
    async with asyncio.TaskGroup() as tasks:
        both = [tasks.create_task(leeway("migrate", cwd=tmp_path, env=env)) for _ in range(2)]
    ended = sorted((one.result() for one in both), key=lambda one: len(one.out), reverse=True)
    assert [one.code for one in ended] == [0, 0], ended
    applied = [line for one in ended for line in one.out.splitlines() if line.startswith("applied")]
    assert len(applied) == len(set(applied)) == pending.out.count("pending ")
    assert (await leeway("migrate", "--check", cwd=tmp_path, env=env)).code == 0


@pytest.mark.rabbitmq
async def test_queues_with_other_arguments_are_found_and_made_anew(
    database_url: str, amqp_url: str, tmp_path: Path
) -> None:
    env = environment(LEEWAY_DATABASE_URL=database_url, LEEWAY_AMQP_URL=amqp_url, LEEWAY_SECRET_KEY=new_key())
    (work, *others), dead = list(WORK_QUEUE.values()), list(DEAD_QUEUE.values())
    async with await aio_pika.connect(amqp_url) as connection, connection.channel() as channel:
        await channel.declare_queue(work, durable=True)
        for name in others:
            await channel.declare_queue(name, durable=True, arguments={"x-queue-type": "quorum"})
        for name in dead:
            await channel.declare_queue(name, durable=True, arguments=dict(DEAD_QUEUE_ARGUMENTS))
    ill = await leeway("doctor", cwd=tmp_path, env=env)
    assert ill.code == 1
    assert f"FIX  broker         The queue {work} exists with other arguments." in ill.out
    assert "leeway migrate --rebuild-broker" in ill.out

    rebuilt = await leeway("migrate", "--rebuild-broker", cwd=tmp_path, env=env)
    assert rebuilt.code == 0, rebuilt.err
    well = await leeway("doctor", cwd=tmp_path, env=env)
    assert "ok   queues         6, with the right arguments" in well.out


@pytest.mark.rabbitmq
async def test_doctor_says_what_to_do(empty_database_url: str, amqp_url: str, tmp_path: Path) -> None:
    env = environment(LEEWAY_DATABASE_URL=empty_database_url, LEEWAY_AMQP_URL=amqp_url)
    ended = await leeway("doctor", cwd=tmp_path, env=env)
    assert ended.code == 1
    assert ended.err == ""
    for line in (
        "FIX  secret key     LEEWAY_SECRET_KEY is not set; make one with: leeway doctor --new-key",
        f"FIX  migrations     {MIGRATIONS} are pending; run: leeway migrate",
        "note queues         leeway.guard, leeway.agent, leeway.dispatch,",
        "ok   broker         RabbitMQ ",
        "ok   clock          as the database's",
    ):
        assert line in ended.out
    async with await aio_pika.connect(amqp_url) as connection, connection.channel() as channel:
        with pytest.raises(aio_pika.exceptions.ChannelNotFoundEntity):  # looking makes nothing
            await channel.get_queue(WORK_QUEUE[next(iter(WORK_QUEUE))])


async def test_doctor_goes_on_when_one_thing_is_away(empty_database_url: str, tmp_path: Path) -> None:
    env = environment(
        LEEWAY_DATABASE_URL=empty_database_url,
        LEEWAY_AMQP_URL=NOWHERE,
        LEEWAY_SECRET_KEY="x",
        LLM="openai:gpt",
    )
    ended = await leeway("doctor", cwd=tmp_path, env=env)
    assert ended.code == 1
    assert ended.err == ""
    for what in ("secret key", "model", "migrations", "broker"):
        assert f"FIX  {what:<14} " in ended.out
    assert "OPENAI_API_KEY" in ended.out
    assert "RabbitMQ is away" in ended.out


async def test_doctor_says_nothing_when_its_reader_goes_away(database_url: str, tmp_path: Path) -> None:
    """As `leeway doctor | head -6` does, between two findings about the database."""
    env = environment(LEEWAY_DATABASE_URL=database_url, LEEWAY_AMQP_URL=NOWHERE, LEEWAY_SECRET_KEY=new_key())
    env |= {"PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONUNBUFFERED": "1"}
    reads, writes = os.pipe()
    process = await asyncio.create_subprocess_exec(
        *LEEWAY, "doctor", cwd=tmp_path, env=env, stdout=writes, stderr=asyncio.subprocess.PIPE
    )
    os.close(writes)
    with os.fdopen(reads, "rb") as printed:
        while not (await asyncio.to_thread(printed.readline)).startswith(b"ok   database"):
            pass
    _, err = await process.communicate()
    assert (process.returncode, err.decode()) == (1, "")


async def test_the_key_that_does_not_open_the_secrets_is_found(database_url: str, tmp_path: Path) -> None:
    env = environment(LEEWAY_DATABASE_URL=database_url, LEEWAY_AMQP_URL=NOWHERE, LEEWAY_SECRET_KEY=new_key())
    assert (await leeway("migrate", cwd=tmp_path, env=env)).code == 0
    assert (await leeway("business", "create", "kiosk", "--name", "Kiosk", cwd=tmp_path, env=env)).code == 0
    assert (await leeway("channel", "add", "kiosk", "--channel", "sim", cwd=tmp_path, env=env)).code == 0
    other = env | {"LEEWAY_SECRET_KEY": new_key()}
    ended = await leeway("doctor", cwd=tmp_path, env=other)
    assert "FIX  channels       LEEWAY_SECRET_KEY is not the key" in ended.out


async def test_an_account_whose_credentials_were_refused_is_found_and_switched_on_again(
    database_url: str, tmp_path: Path
) -> None:
    env = environment(LEEWAY_DATABASE_URL=database_url, LEEWAY_AMQP_URL=NOWHERE, LEEWAY_SECRET_KEY=new_key())
    assert (await leeway("migrate", cwd=tmp_path, env=env)).code == 0
    async with ground(database_url) as place:
        conversation = await place.conversation()
        await place.set("channel_account", {"channel": "sim"}, state="disabled", address="desk")
        now = await place.now()
        for body, age in (("yesterday's", timedelta(hours=2)), ("today's", timedelta(minutes=2))):
            later = now + timedelta(minutes=1)
            await place.outbound(conversation, body, created_at=now - age, not_before=later, ring_at=later)
        version = (await place.state(conversation))["version"]
        ill = await leeway("doctor", cwd=tmp_path, env=env)
        assert "FIX  channels       sim desk is off, its credentials were refused" in ill.out

        enable = ("channel", "enable", "desk", "--channel", "sim")
        ended = await leeway(*enable, cwd=tmp_path, env=env)
        assert (ended.code, ended.err) == (0, "")
        replies = {row["body"]: row for row in await place.rows("outbound")}
        old, new = replies["yesterday's"], replies["today's"]
        assert (old["state"], old["reason"], old["ring_at"]) == ("draft", "late", None)
        assert (new["state"], new["not_before"]) == ("queued", None)
        assert new["ring_at"] <= await place.now()
        assert (await place.state(conversation))["version"] > version
        again = await leeway(*enable, cwd=tmp_path, env=env)
        assert (again.code, again.err) == (1, "leeway: The sim account desk is on.\n")
        assert "is off" not in (await leeway("doctor", cwd=tmp_path, env=env)).out


async def test_a_newcomer_connects_the_signed_webhook(database_url: str, tmp_path: Path) -> None:
    env = environment(LEEWAY_DATABASE_URL=database_url, LEEWAY_SECRET_KEY=new_key())
    assert (await leeway("migrate", cwd=tmp_path, env=env)).code == 0
    made = await leeway(
        "business", "create", "corner", "--name", "Corner Clinic", "--locale", "ro", "--locale", "en", "--demo-data",
        cwd=tmp_path, env=env,
    )  # fmt: skip
    assert made.code == 0, made.err
    add = (
        "channel",
        "add",
        "corner",
        "--callback-url",
        "https://example.com/leeway",
        "--verifies-phones",
        "--carrier-takes-cancel",
    )
    added = await leeway(*add, cwd=tmp_path, env=env)
    assert added.code == 0, added.err
    assert "http://127.0.0.1:8000/hooks/generic/corner" in added.out
    inbound, outbound = (line.split()[-1] for line in added.out.splitlines() if line.split()[1] == "secret")
    assert inbound.startswith("whsec_")
    assert outbound.startswith("whsec_")
    assert inbound != outbound

    again = await leeway(*add, cwd=tmp_path, env=env)
    assert (again.code, again.out) == (1, "")
    assert again.err == "leeway: There is a generic account corner already; choose another --address.\n"

    assert (await leeway("business", "set", "corner", "--mode", "auto", cwd=tmp_path, env=env)).code == 0
    shown = await leeway("business", "show", "corner", "--json", cwd=tmp_path, env=env)
    found = json.loads(shown.out)
    assert (found["mode"], found["locales"], found["name"]) == ("auto", ["ro", "en"], "Corner Clinic")
    assert [one["callback_url"] for one in found["accounts"]] == ["https://example.com/leeway"]
    assert "whsec_" not in shown.out

    connection = await asyncpg.connect(database_url)
    sealed = await connection.fetchval("select secrets from leeway.channel_account")
    assert await connection.fetchval(
        "select verifies_phones and carrier_takes_cancel from leeway.channel_account"
    )
    await connection.close()
    assert inbound.encode() not in sealed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("business", "create", "Bad Slug", "--name", "X"), "no short name"),
        (("business", "create", "x", "--name", "X", "--pack", "nope"), "There is no pack 'nope'"),
        (("business", "create", "x", "--name", "X", "--time-zone", "Mars"), "There is no time zone 'Mars'"),
        (("business", "create", "x", "--name", "X", "--locale", "xx"), "There is no locale 'xx'"),
        (("business", "set", "nobody", "--mode", "off"), "There is no business nobody"),
        (("business", "show", "nobody"), "There is no business nobody"),
        (
            ("channel", "add", "nobody", "--callback-url", "https://example.com"),
            "There is no business nobody",
        ),
        (("channel", "add", "x", "--callback-url", "http://example.com"), "must be https"),
        (("channel", "add", "x", "--channel", "sim", "--address", "a/b"), "can't stand in a URL"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
async def test_what_can_not_be_is_said_in_one_line(
    words: tuple[str, ...], said: str, database_url: str, tmp_path: Path
) -> None:
    env = environment(LEEWAY_DATABASE_URL=database_url, LEEWAY_SECRET_KEY=new_key())
    ended = await leeway(*words, cwd=tmp_path, env=env)
    assert (ended.code, ended.out) == (1, "")
    (line,) = ended.err.splitlines()
    assert said in line
