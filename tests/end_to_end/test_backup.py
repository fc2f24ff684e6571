"""A back-up made under load, everything destroyed, and restored: what the back-up knows is answered once, and nothing it knows as
sent goes out again."""

import asyncio
import fcntl
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from pydantic import SecretStr

from leeway import restore
from leeway.backup import DUMP_OPTIONS, server_of
from leeway.embedded import embedded_postgres
from leeway.postgres_programs import program, run
from leeway.restore import WHOLE
from shared.database import open_pool
from shared.database.migrate import migrate, ready_for
from shared.database.restoring import MARK, begin
from shared.errors import Misconfigured, Unavailable
from shared.packs import load_packs, migrations_of
from shared.settings import Timeouts
from tests.support.commands import environment, leeway
from tests.support.eventually import eventually
from tests.support.factories import ground
from tests.support.process import Process, free_port
from tests.support.servers import Postgres, RabbitMQ
from tests.support.stack import ECHO, Stack

pytestmark = [pytest.mark.stack, pytest.mark.postgres, pytest.mark.rabbitmq]

REPLIES = """
select o.id, o.state, o.reason, o.round, i.user_id from leeway.outbound o join leeway.channel_identity i on i.conversation = o.conversation
"""
SENT = ("sent", "delivered", "read")


async def backed_up(url: str, directory: Path) -> None:
    """Into file.dump."""
    made = await leeway("backup", "file.dump", cwd=directory, env=environment(LEEWAY_DATABASE_URL=url))
    assert made.code == 0, made.err


async def replies_backed_up(replies: int, url: str, directory: Path) -> None:
    """That many which are due, each in a conversation of its own, into file.dump."""
    async with ground(url) as rows:
        for _ in range(replies):
            await rows.outbound(await rows.conversation())
    await backed_up(url, directory)


async def queued(stack: Stack) -> int:
    rows = await stack.ask("select count(*) as n from leeway.outbound where state = 'queued'")
    return int(rows[0]["n"])


def moved(stack: Stack, database_url: str, amqp_url: str) -> None:
    """The same installation on other servers; nothing of it runs."""
    for one in stack.every():
        one.send(signal.SIGKILL)
        one.kill()
    stack.running.clear()
    stack.settings = stack.settings.model_copy(
        update={"database_url": SecretStr(database_url), "amqp_url": SecretStr(amqp_url)}
    )
    urls = {"LEEWAY_DATABASE_URL": database_url, "LEEWAY_AMQP_URL": amqp_url}
    stack._environment = {**stack._environment, **urls}


async def test_what_a_back_up_knows_is_answered_once_and_nothing_it_knows_as_sent_goes_out_again(
    stack: Stack, postgres: Postgres, rabbitmq: RabbitMQ, empty_database_url: str, tmp_path: Path
) -> None:
    shop = await stack.shop()
    stack.make("agent", module=ECHO, LEEWAY_TEST_LATENCY_S="0.2")
    await stack.start()
    before = await stack.customers_write(shop, 8)
    await stack.answered(before)
    stack.one("dispatch").send(signal.SIGSTOP)
    unsent = await stack.customers_write(shop, 8)
    await eventually(lambda: enough(stack), within_s=30)
    writing = asyncio.create_task(stack.customers_write(shop, 24))
    file = tmp_path / "leeway.dump"
    made = await leeway(
        "backup", str(file), cwd=tmp_path, env=environment(LEEWAY_DATABASE_URL=stack.database_url)
    )
    assert made.code == 0, made.err
    assert file.stat().st_mode & 0o777 == 0o600
    stack.one("dispatch").send(signal.SIGCONT)
    await stack.answered([*before, *unsent, *await writing])
    requests = stack.receiver.requests.copy()

    moved(stack, empty_database_url, await rabbitmq.create_vhost())
    env = environment(LEEWAY_DATABASE_URL=empty_database_url)
    restored = await leeway("restore", str(file), "--as", "ana", cwd=tmp_path, env=env)
    assert restored.code == 0, restored.err
    known = await stack.ask(REPLIES)
    sent = {row["id"] for row in known if row["state"] in SENT}
    held = {row["id"] for row in known if (row["state"], row["reason"]) == ("draft", "may_have_arrived")}
    assert len(sent) >= len(before)
    assert len(held) >= len(unsent) // 2
    assert (
        f"Replies of demo that are drafts now, as they may have been sent since the back-up: {len(held)};"
        in restored.out
    )

    await stack.start()
    await stack.settled()
    after = await stack.ask(REPLIES)
    writers = await stack.ask("select count(*) as n from leeway.inbound_message")
    assert len(after) == len({row["user_id"] for row in after}) == writers[0]["n"]
    states = {row["id"]: row["state"] for row in after}
    assert {states[reply] for reply in held} == {"draft"}
    assert {state for reply, state in states.items() if reply not in held} <= set(SENT)
    again = {key for key, n in stack.receiver.requests.items() if n > requests[key]}
    assert not [reply for reply in sent | held if any(reply.hex in key for key in again)]
    log = await stack.ask(
        "select actor, action, detail from leeway.audit_log where action = 'business.restore'"
    )
    assert [(row["actor"], f'"held":{len(held)}' in row["detail"]) for row in log] == [("ana", True)]
    await rabbitmq.delete_vhost(stack.amqp_url)


async def enough(stack: Stack) -> bool:
    return await queued(stack) >= 4


async def test_an_embedded_installation_is_backed_up_while_none_runs_and_restored_beside_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "here").mkdir()
    with embedded_postgres(tmp_path / "here" / "postgres") as url:
        await migrate(url, packs=migrations_of(load_packs()))
        async with ground(url) as rows:
            await rows.said(await rows.conversation(), "Hello")
        before = await counted(url)
    made = await leeway("backup", "first.dump", "--data", "here", cwd=tmp_path)
    assert (made.code, made.out) == (0, "")
    assert "Keep here/secret.key apart from it" in made.err
    back = await leeway("restore", "first.dump", "--send", "--data", "there", cwd=tmp_path)
    assert back.code == 0, back.err
    with embedded_postgres(tmp_path / "there" / "postgres") as url:
        assert await counted(url) == before
        verified = await leeway("audit", "verify", cwd=tmp_path, env=environment(LEEWAY_DATABASE_URL=url))
    assert verified.code == 0, verified.out


async def test_a_back_up_is_never_written_over_and_one_of_a_newer_postgres_is_told(
    database_url: str, empty_database_url: str, tmp_path: Path
) -> None:
    env = environment(LEEWAY_DATABASE_URL=database_url)
    assert (await leeway("backup", "file.dump", cwd=tmp_path, env=env)).code == 0
    again = await leeway("backup", "file.dump", cwd=tmp_path, env=env)
    assert (again.code, again.err) == (
        1,
        "leeway: file.dump is there already; name another: a back-up is never written over.\n",
    )
    made = bytearray((tmp_path / "file.dump").read_bytes())
    made[6] = 99  # after PGDMP and 1: the archive's minor version
    (tmp_path / "file.dump").write_bytes(made)
    empty = environment(LEEWAY_DATABASE_URL=empty_database_url)
    ended = await leeway("restore", "file.dump", cwd=tmp_path, env=empty)
    assert ended.code == 1
    assert "made by a newer PostgreSQL than the server's" in ended.err


async def counted(url: str) -> dict[str, Any]:
    """Rows by table, but of the log that the restoring itself wrote."""
    connection = await asyncpg.connect(url)
    try:
        tables = await connection.fetch(
            "select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname in ('leeway', 'clinic', 'expenses')"
        )
        return {
            row["name"]: await connection.fetchval(f"select count(*) from {row['name']}")
            for row in tables
            if not row["name"].startswith("leeway.audit_")
        }
    finally:
        await connection.close()


async def test_replies_that_were_due_are_held_after_rows_were_loaded_by_hand(
    database_url: str, tmp_path: Path
) -> None:
    """After pg_restore, or a recovery to a moment. What is to go out later has not gone out yet."""
    async with ground(database_url) as rows:
        conversation = await rows.conversation()
        due = await rows.outbound(conversation, "due")
        later = await rows.outbound(
            conversation, "tomorrow", not_before=await rows.now() + timedelta(days=1), origin_kind="reminder"
        )
        sent = await rows.outbound(conversation, "sent", state="sent")
        version = (await rows.state(conversation))["version"]
        await rows.database.close()  # it would be taken for a service
        env = environment(LEEWAY_DATABASE_URL=database_url)
        ended = await leeway("restore", "--loaded", cwd=tmp_path, env=env)
        assert ended.code == 0, ended.err
        assert "since the back-up: 1; see: leeway drafts list --business" in ended.out
        found = {row["id"]: (row["state"], row["reason"]) for row in await rows.rows("outbound")}
        assert found == {due: ("draft", "may_have_arrived"), later: ("queued", None), sent: ("sent", None)}
        assert (await rows.state(conversation))["version"] > version

        await rows.set("outbound", {"id": due}, state="queued", reason=None)
        assert (await leeway("restore", "--loaded", "--send", cwd=tmp_path, env=env)).code == 0
        assert (await rows.row("outbound", id=due))["state"] == "queued"


async def test_a_database_is_prepared_for_pg_restore_unless_it_holds_an_installation(
    database_url: str, tmp_path: Path
) -> None:
    env = environment(LEEWAY_DATABASE_URL=database_url)
    ended = await leeway("restore", "--prepare", cwd=tmp_path, env=env)
    assert ended.code == 0, ended.err
    with pytest.raises(asyncpg.UndefinedTableError):
        await counted_businesses(database_url)
    assert (await leeway("migrate", cwd=tmp_path, env=env)).code == 0
    async with ground(database_url) as rows:
        await rows.business()
    again = await leeway("restore", "--prepare", cwd=tmp_path, env=env)
    assert again.code == 1
    assert "There is an installation in that database already" in again.err
    assert await counted_businesses(database_url) == 1


async def test_a_database_without_an_installation_makes_no_back_up(
    empty_database_url: str, tmp_path: Path
) -> None:
    env = environment(LEEWAY_DATABASE_URL=empty_database_url)
    ended = await leeway("backup", "file.dump", cwd=tmp_path, env=env)
    assert ended.code == 1
    assert "There is no installation in that database; is LEEWAY_DATABASE_URL right?" in ended.err
    assert not (tmp_path / "file.dump").exists()


async def test_of_two_that_write_the_same_back_up_one_does(database_url: str, tmp_path: Path) -> None:
    (tmp_path / "file.dump.unfinished").write_bytes(b"of one that was killed" * 100_000)
    env = environment(LEEWAY_DATABASE_URL=database_url)
    async with asyncio.TaskGroup() as tasks:
        both = [tasks.create_task(leeway("backup", "file.dump", cwd=tmp_path, env=env)) for _ in range(2)]
    assert sorted(one.result().code for one in both) == [0, 1], both
    assert os.listdir(tmp_path) == ["file.dump"]  # noqa: PTH208  a Path's own iterdir blocks no less
    major, _ = await server_of(database_url)
    listed = await asyncio.create_subprocess_exec(
        program("pg_restore", server=major), "--list", tmp_path / "file.dump", stdout=asyncio.subprocess.PIPE
    )
    assert b"TABLE DATA leeway schema_migration" in (await listed.communicate())[0]
    with (tmp_path / "other.dump.unfinished").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.write(b"theirs")
        held.flush()
        ended = await leeway("backup", "other.dump", cwd=tmp_path, env=env)
    assert (ended.code, ended.err) == (
        1,
        "leeway: Another leeway writes other.dump just now; name another.\n",
    )
    assert (tmp_path / "other.dump.unfinished").read_bytes() == b"theirs"


async def test_what_is_no_back_up_of_ours_is_not_called_one(
    postgres: Postgres, empty_database_url: str, tmp_path: Path
) -> None:
    theirs = await postgres.create_database(migrated=False)
    connection = await asyncpg.connect(theirs)
    try:
        await connection.execute("create table customer (id int)")
    finally:
        await connection.close()
    command = [str(program("pg_dump", server=(await server_of(theirs))[0])), *DUMP_OPTIONS]
    with (tmp_path / "theirs.dump").open("wb") as writes:
        await asyncio.to_thread(run, command, theirs, reads=None, writes=writes)
    await postgres.drop_database(theirs)
    env = environment(LEEWAY_DATABASE_URL=empty_database_url)
    ended = await leeway("restore", "theirs.dump", cwd=tmp_path, env=env)
    assert ended.code == 1
    assert "That held no installation, so it was no back-up of one" in ended.err


async def test_a_back_up_of_a_newer_version_is_not_left_without_a_word_about_its_replies(
    database_url: str, empty_database_url: str, tmp_path: Path
) -> None:
    async with ground(database_url) as rows:
        await rows.business()
    newer = await asyncpg.connect(database_url)
    restored = await asyncpg.connect(empty_database_url)
    there = environment(LEEWAY_DATABASE_URL=empty_database_url)
    try:
        await newer.execute(
            "insert into leeway.schema_migration (schema, number, name, digest) values ('leeway', 99, 'x', 'x')"
        )
        await backed_up(database_url, tmp_path)
        ended = await leeway("restore", "file.dump", cwd=tmp_path, env=there)
        assert ended.code == 1
        assert "The database is newer than this version of Leeway" in ended.err
        assert "then run leeway restore --loaded, before any service starts" in ended.err
        await waits_for_the_end_of_a_restore(empty_database_url)
        await restored.execute("delete from leeway.schema_migration where number = 99")
        assert (await leeway("restore", "--loaded", cwd=tmp_path, env=there)).code == 0
    finally:
        await newer.execute("delete from leeway.schema_migration where number = 99")
        await newer.close()
        await restored.close()


async def test_nothing_is_restored_where_somebody_else_has_a_schema_of_our_name(
    database_url: str, empty_database_url: str, tmp_path: Path
) -> None:
    await backed_up(database_url, tmp_path)
    theirs = await asyncpg.connect(empty_database_url)
    try:
        await theirs.execute("create schema clinic; create table clinic.patient as select 7 as id")
        env = environment(LEEWAY_DATABASE_URL=empty_database_url)
        ended = await leeway("restore", "file.dump", cwd=tmp_path, env=env)
        assert ended.code == 1
        assert "in the schema clinic of that database that are not Leeway's" in ended.err
        assert await theirs.fetchval("select id from clinic.patient") == 7
    finally:
        await theirs.close()


async def test_nothing_is_restored_under_running_services(
    database_url: str, empty_database_url: str, tmp_path: Path
) -> None:
    """They would send what waits in it before it was decided about."""
    await backed_up(database_url, tmp_path)
    await migrate(empty_database_url, packs=migrations_of(load_packs()))
    env = environment(LEEWAY_DATABASE_URL=empty_database_url)
    service = await open_pool(empty_database_url, size=1, timeouts=Timeouts())
    try:
        ended = await leeway("restore", "file.dump", cwd=tmp_path, env=env)
        assert ended.code == 1
        assert "Leeway works on that database just now, over 1 connections; stop its services" in ended.err
        assert await counted_businesses(empty_database_url) == 0
        by_hand = await leeway("restore", "--loaded", cwd=tmp_path, env=env)
        assert (by_hand.code, by_hand.err) == (1, ended.err)
    finally:
        await service.close()
    assert (await leeway("restore", "file.dump", cwd=tmp_path, env=env)).code == 0


async def test_a_service_that_waits_for_the_database_starts_when_replies_were_decided_about(
    database_url: str, empty_database_url: str, tmp_path: Path
) -> None:
    await replies_backed_up(3, database_url, tmp_path)
    to_fill = environment(LEEWAY_DATABASE_URL=empty_database_url)
    restoring = asyncio.create_task(leeway("restore", "file.dump", cwd=tmp_path, env=to_fill))
    waited = await until_ready(empty_database_url)
    connection = await asyncpg.connect(empty_database_url)
    try:
        states = await connection.fetch("select state from leeway.outbound")
    finally:
        await connection.close()
    assert (await restoring).code == 0
    assert [row["state"] for row in states] == ["draft"] * 3
    assert "A back-up is being read into the database" in waited


async def waits_for_the_end_of_a_restore(url: str) -> None:
    with pytest.raises(
        Unavailable,
        match=r"^A restore of the database was begun and not brought to its end: run it again, or",
    ):
        await ready_for(url, packs=migrations_of(load_packs()))


KILLED_AT = """
import os, signal
from leeway import cli, restore
restore.STEP = lambda *of, **how: os.kill(os.getpid(), signal.SIGKILL)
cli.app()
"""


async def killed(step: str, url: str, directory: Path) -> None:
    command = (sys.executable, "-c", KILLED_AT.replace("STEP", step), "restore", "file.dump")
    restoring = await asyncio.create_subprocess_exec(
        *command, cwd=directory, env=environment(LEEWAY_DATABASE_URL=url)
    )
    assert await restoring.wait() == -signal.SIGKILL


async def test_a_restore_that_was_killed_lets_no_service_start_until_replies_were_decided_about(
    database_url: str, empty_database_url: str, tmp_path: Path
) -> None:
    await replies_backed_up(1, database_url, tmp_path)
    to_fill = environment(LEEWAY_DATABASE_URL=empty_database_url)
    await killed("_settled", empty_database_url, tmp_path)
    await waits_for_the_end_of_a_restore(empty_database_url)
    asked = await leeway("doctor", cwd=tmp_path, env=to_fill)
    assert "A restore of the database was begun and not brought to its end" in asked.out
    assert (await leeway("backup", "again.dump", cwd=tmp_path, env=to_fill)).code == 0
    ended = await leeway("restore", "--loaded", cwd=tmp_path, env=to_fill)
    assert (ended.code, "since the back-up: 1;" in ended.out) == (0, True), ended.err
    await ready_for(empty_database_url, packs=migrations_of(load_packs()))
    assert MARK.encode() not in (tmp_path / "again.dump").read_bytes()


async def test_a_restore_that_was_killed_before_its_rows_is_not_taken_for_done(
    database_url: str, empty_database_url: str, tmp_path: Path
) -> None:
    """Also where migrations ran since, as a stack does that is started."""
    await replies_backed_up(1, database_url, tmp_path)
    to_fill = environment(LEEWAY_DATABASE_URL=empty_database_url)
    await killed("_load", empty_database_url, tmp_path)
    await waits_for_the_end_of_a_restore(empty_database_url)
    await migrate(empty_database_url, packs=migrations_of(load_packs()))
    ended = await leeway("restore", "--loaded", cwd=tmp_path, env=to_fill)
    assert (ended.code, "No business is there, so no back-up's rows" in ended.err) == (1, True)
    await waits_for_the_end_of_a_restore(empty_database_url)
    again = await leeway("restore", "file.dump", cwd=tmp_path, env=to_fill)
    assert (again.code, "since the back-up: 1;" in again.out) == (0, True), again.err
    await ready_for(empty_database_url, packs=migrations_of(load_packs()))


async def test_by_hand_no_service_starts_between_the_rows_and_the_end(
    database_url: str, empty_database_url: str, tmp_path: Path
) -> None:
    """Nor where the end was said too early."""
    async with ground(database_url) as rows:
        await rows.business()
    await backed_up(database_url, tmp_path)
    env = environment(LEEWAY_DATABASE_URL=empty_database_url)
    assert (await leeway("restore", "--prepare", cwd=tmp_path, env=env)).code == 0
    assert (await leeway("restore", "--loaded", cwd=tmp_path, env=env)).code == 1
    major, _ = await server_of(empty_database_url)
    command = [str(program("pg_restore", server=major)), *WHOLE]
    with (tmp_path / "file.dump").open("rb") as reads:
        await asyncio.to_thread(run, command, empty_database_url, reads=reads, writes=None)
    await waits_for_the_end_of_a_restore(empty_database_url)
    assert (await leeway("restore", "--loaded", cwd=tmp_path, env=env)).code == 0
    await ready_for(empty_database_url, packs=migrations_of(load_packs()))


async def test_what_runs_in_one_process_does_not_start_either(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    with embedded_postgres(tmp_path / "here" / "postgres") as url:
        await migrate(url, packs=migrations_of(load_packs()))
        connection = await asyncpg.connect(url)
        try:
            await begin(connection)
        finally:
            await connection.close()
    ended = await leeway("up", "--data", "here", "--port", "0", cwd=tmp_path)
    assert (ended.code, "was begun and not brought to its end" in ended.err) == (1, True), ended


async def test_a_file_that_can_not_be_read_leaves_a_database_as_a_new_one(
    empty_database_url: str, tmp_path: Path
) -> None:
    (tmp_path / "file.dump").write_bytes(b"PGDMP, and then nothing that makes sense")
    env = environment(LEEWAY_DATABASE_URL=empty_database_url)
    assert (await leeway("restore", "file.dump", cwd=tmp_path, env=env)).code == 1
    await migrate(empty_database_url, packs=migrations_of(load_packs()))
    await ready_for(empty_database_url, packs=migrations_of(load_packs()))


def test_why_a_back_up_was_not_read_is_told_though_the_server_is_gone_by_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_room(file: Path, url: str) -> None:
        raise Misconfigured("no room")

    monkeypatch.setattr(restore, "_load", no_room)
    with pytest.raises(Misconfigured, match=r"^no room$"):
        restore._read(Path("file.dump"), f"postgresql://nobody@127.0.0.1:{free_port()}/gone")


async def until_ready(url: str) -> set[str]:
    """Look all the time, as a service does now and then; what was said until then."""
    waited = set[str]()
    async with asyncio.timeout(60):
        while True:
            try:
                await ready_for(url, packs=migrations_of(load_packs()))
            except Unavailable as error:
                waited.add(str(error))
            else:
                return waited


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "echo 'WARNING:  collation' >&2; echo 'pg_dump: error: no room' >&2; exit 1",
            "pg_dump: error: no room",
        ),
        ("echo 'Killed' >&2; exit 1", "Killed"),
        ("exit 3", "/bin/sh ended with 3"),
    ],
)
def test_the_error_of_a_program_is_told_not_its_warnings(said: str, told: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        run(["/bin/sh", "-c", said], "postgresql:///leeway", reads=None, writes=None)
    assert str(caught.value) == told


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ana:p%40%2F@db:5432/leeway?sslmode=require",
        "postgresql://ana@db:5432/leeway?sslmode=require&password=p%40%2F",
        "postgresql://ana@db:5432/leeway?password=p%40%2F&sslmode=require",
    ],
)
def test_no_password_is_among_the_words_of_a_program(url: str, tmp_path: Path) -> None:
    """Which everybody on the machine sees."""
    script = f'echo "$PGPASSWORD $*" > {tmp_path}/seen'
    run(["/bin/sh", "-c", script, "pg_dump"], url, reads=None, writes=None)
    assert (tmp_path / "seen").read_text() == (
        "p@/ --no-password --dbname=postgresql://ana@db:5432/leeway?sslmode=require\n"
    )


async def test_a_program_ends_with_who_ran_it(tmp_path: Path) -> None:
    """Else a load would be finished after a `leeway restore` that was killed, and nobody would decide about its replies."""
    runs = (
        "from leeway.postgres_programs import run; "
        f"run(['/bin/sh', '-c', 'echo $$ > {tmp_path}/pid; exec sleep 60'], 'postgresql:///x', reads=None, writes=None)"
    )
    process = Process(
        [sys.executable, "-c", runs],
        log=tmp_path / "log",
        environment=environment(PYTHONPATH=str(Path(__file__).parents[2])),
        directory=tmp_path,
    )
    noted = tmp_path / "pid"
    await eventually(lambda: noted.exists() and noted.read_text().endswith("\n"))
    place = Path(f"/proc/{noted.read_text().strip()}")
    await eventually(place.exists)
    process.send(signal.SIGKILL)
    await eventually(lambda: not place.exists())
    process.kill()


async def counted_businesses(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval("select count(*) from leeway.business"))
    finally:
        await connection.close()


async def test_a_user_who_does_not_see_all_rows_makes_no_back_up(
    postgres: Postgres, database_url: str, tmp_path: Path
) -> None:
    async with postgres._admin() as admin:
        await admin.execute("create role leeway_test_limited login password 'x' in role leeway_pipeline")
    try:
        parts = urlsplit(database_url)
        limited = urlunsplit(parts._replace(netloc=f"leeway_test_limited:x@{parts.hostname}:{parts.port}"))
        ended = await leeway(
            "backup", "file.dump", cwd=tmp_path, env=environment(LEEWAY_DATABASE_URL=limited)
        )
    finally:
        async with postgres._admin() as admin:
            await admin.execute("drop role leeway_test_limited")
    assert ended.code == 1
    assert "subject to row-level security" in ended.err
    assert not (tmp_path / "file.dump").exists()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("restore",), 2, "name a file, or say --prepare or --loaded"),
        (("restore", "x.dump", "--loaded"), 2, "name a file, or say --prepare or --loaded"),
        (("restore", "x.dump"), 1, "There is no file x.dump."),
        (("backup", "x.dump", "--data", "nowhere"), 1, "no `leeway up` is running on nowhere"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
async def test_what_can_not_be_is_said(words: tuple[str, ...], code: int, said: str, tmp_path: Path) -> None:
    ended = await leeway(*words, cwd=tmp_path)
    assert ended.code == code
    assert said in ended.err
    assert not (tmp_path / "nowhere").exists()
