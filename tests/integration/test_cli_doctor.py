"""`leeway doctor` finds what is broken on purpose, and says what to do about it."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from aio_pika.abc import AbstractIncomingMessage
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route

from leeway.doctor_broker import broker_findings
from leeway.doctor_database import _connections, database_findings
from leeway.doctor_finding import Finding, Health, fix
from leeway.doctor_http import _certificate, traces_findings, webhook_findings
from leeway.installation import Installation
from leeway.twins.twin import serving
from shared.broker.rabbit import RabbitBroker
from shared.clock import SystemClock
from shared.database.migrate import migrate
from shared.errors import Misconfigured
from shared.ids import new_id
from shared.secrets import new_key
from shared.settings import Settings
from shared.tickets import Stage
from shared.topology import WORK_QUEUE
from tests.integration.test_ingest_http import web_on
from tests.support.brokers import raw_channel
from tests.support.commands import environment, leeway
from tests.support.factories import Ground, ground
from tests.support.servers import Postgres

pytestmark = pytest.mark.postgres


@pytest.fixture
async def rows(database_url: str) -> AsyncIterator[Ground]:
    async with ground(database_url) as made:
        yield made


@asynccontextmanager
async def somebody_plain(rows: Ground, url: str) -> AsyncIterator[str]:
    """A URL of a user who may become the services' roles, and from whom row-level security hides all rows."""
    name = f"leeway_test_{new_id().hex}"
    await rows.owner.execute(
        f"create role {name} noinherit login password 'x' in role leeway_pipeline, leeway_tenant"
    )
    await rows.owner.execute(f"grant usage on schema leeway to {name}")
    await rows.owner.execute(f"grant select on all tables in schema leeway to {name}")
    try:
        parts = urlsplit(url)
        yield urlunsplit(parts._replace(netloc=f"{name}:x@{parts.hostname}:{parts.port}"))
    finally:
        await rows.owner.execute(f"drop owned by {name}")
        await rows.owner.execute(f"drop role {name}")


async def of_database(url: str, *whats: str) -> list[Finding]:
    settings = Settings(database_url=SecretStr(url), secret_key=SecretStr(new_key()))
    return [one async for one in database_findings(settings) if one.what in whats]


async def test_work_that_no_service_takes_is_told_by_stage_with_its_age(
    rows: Ground, database_url: str
) -> None:
    long_ago = await rows.now() - timedelta(minutes=5)
    (healthy,) = await of_database(database_url, "owed")
    assert healthy.health is Health.OK
    await rows.wrote(await rows.conversation(), received_at=long_ago)
    for _ in range(2):
        conversation = await rows.conversation()
        await rows.said(conversation, due=False)
        await rows.set_state(conversation, due_at=long_ago)
    await rows.outbound(conversation, created_at=long_ago)

    found = await of_database(database_url, "owed")
    assert {one.health for one in found} == {Health.FIX}
    assert [one.said.partition(";")[0] for one in found] == [
        "overdue steps of guard: 1, the oldest for 5 min",
        "overdue steps of agent: 2, the oldest for 5 min",
        "overdue steps of dispatch: 1, the oldest for 5 min",
    ]


async def test_what_waits_by_design_is_not_overdue(rows: Ground, database_url: str) -> None:
    now = await rows.now()
    for state in (
        {"state": "handoff"},
        {"opted_out_at": now},
        {"lease_token": new_id(), "lease_until": now + timedelta(minutes=1)},
        {"due_at": now - timedelta(seconds=20)},
    ):
        conversation = await rows.conversation()
        await rows.set_state(conversation, **({"due_at": now - timedelta(minutes=5)} | state))
    (found,) = await of_database(database_url, "owed")
    assert found.health is Health.OK


async def test_what_waits_for_people_is_told_with_its_age(rows: Ground, database_url: str) -> None:
    conversation = await rows.conversation()
    await rows.outbound(conversation, state="draft", created_at=await rows.now() - timedelta(hours=5))
    (found,) = await of_database(database_url, "people")
    assert found.said == "1 drafts wait for a decision, the oldest for 5 h; see: leeway drafts list"


async def test_a_user_from_whom_rows_are_hidden_is_told_all_the_same(rows: Ground, database_url: str) -> None:
    conversation = await rows.conversation()
    await rows.outbound(conversation, state="draft")
    async with somebody_plain(rows, database_url) as url:
        assert not await rows_seen(url), "else this proves nothing"
        (found,) = await of_database(url, "people")
    assert "1 drafts wait for a decision" in found.said


async def test_a_database_that_takes_no_writes_is_told(database_url: str) -> None:
    separator = "&" if "?" in database_url else "?"
    url = f"{database_url}{separator}default_transaction_read_only=on"
    _, found = await of_database(url, "database")
    assert found == fix(
        "database", "it takes no writes; is it a standby? LEEWAY_DATABASE_URL must name the primary"
    )


async def test_a_user_who_may_not_look_is_told(postgres: Postgres, database_url: str) -> None:
    async with postgres._admin() as admin:
        await admin.execute("create role leeway_test_nobody login password 'x'")
    try:
        parts = urlsplit(database_url)
        nobody = urlunsplit(parts._replace(netloc=f"leeway_test_nobody:x@{parts.hostname}:{parts.port}"))
        (*_, found) = await of_database(nobody, "database")
        with pytest.raises(Misconfigured, match=r"^LEEWAY_DATABASE_URL's user may not do that: permission"):
            await migrate(nobody)
    finally:
        async with postgres._admin() as admin:
            await admin.execute("drop role leeway_test_nobody")
    assert found == fix(
        "database", "LEEWAY_DATABASE_URL's user may not do that: permission denied for schema leeway"
    )


async def test_a_database_that_stops_answering_is_told(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.database.migrate.ANSWERS_WITHIN_S", 0.3)
    holder = await asyncpg.connect(database_url)
    try:
        await holder.execute("begin; lock table leeway.schema_migration in access exclusive mode")
        async with asyncio.timeout(10):
            (*_, found) = await of_database(database_url, "database")
    finally:
        await holder.close()
    assert found == fix("database", "Postgres: TimeoutError")


async def test_a_database_of_a_newer_release_is_told(rows: Ground, database_url: str) -> None:
    (now,) = await of_database(database_url, "migrations")
    assert (now.health, now.said) == (Health.OK, "up to date")
    await rows.owner.execute(
        "insert into schema_migration (schema, number, name, digest) values ('leeway', 9999, 'x', '')"
    )
    try:
        (found,) = await of_database(database_url, "migrations")
    finally:
        await rows.owner.execute("delete from schema_migration where number = 9999")
    assert found.health is Health.NOTE
    assert "newer than this version of Leeway, which does not know its migrations leeway 9999" in found.said


async def rows_seen(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval("select count(*) from leeway.outbound"))
    finally:
        await connection.close()


async def test_a_bot_whose_messages_nobody_fetches_any_more_is_found(rows: Ground, database_url: str) -> None:
    business = await rows.business()
    polled = await rows.account(
        business, channel="telegram", address="bot", settings='{"bot_id": "1", "polling": true}'
    )
    await rows.set("channel_account", {"id": polled}, looked_at=await rows.now() - timedelta(minutes=10))
    said = [one.said for one in await of_database(database_url, "channels") if one.health is Health.FIX]
    assert (
        "telegram bot was last asked for messages 10 min ago; does ingest run, and what do its logs say?"
        in said
    )
    await rows.set("channel_account", {"id": polled}, looked_at=await rows.now())
    assert not [one for one in await of_database(database_url, "channels") if "last asked" in one.said]


@pytest.mark.parametrize(
    ("used", "pool", "health"),
    [(10, 4, Health.OK), (91, 4, Health.OK), (92, 4, Health.FIX), (10, 100, Health.FIX), (97, 1, Health.FIX)],
)
def test_connections_that_leave_no_room_for_one_more_process_are_told(
    used: int, pool: int, health: Health
) -> None:
    found = _connections({"most": 97, "used": used, "ours": 8}, pool)
    assert found.health is health
    assert found.said.startswith(f"{used} of 97 in use, 8 of them by Leeway")


@pytest.mark.rabbitmq
async def test_a_queue_that_nobody_takes_from_is_told_by_its_service(amqp_url: str) -> None:
    broker = RabbitBroker(amqp_url, confirm_s=5)
    await broker.open()
    await broker.close()
    installation = Installation(settings=Settings(amqp_url=SecretStr(amqp_url)), embedded=False)

    async def services() -> Finding:
        (found,) = [one async for one in broker_findings(installation) if one.what == "services"]
        return found

    assert (await services()).health is Health.NOTE
    async with raw_channel(amqp_url) as channel:
        for stage in (Stage.GUARD, Stage.DISPATCH):
            queue = await channel.get_queue(WORK_QUEUE[stage])
            await queue.consume(nothing_comes)
        found = await services()
        assert found.health is Health.FIX
        assert found.said == "no agent runs; start: docker compose up -d agent, or leeway run agent"
        queue = await channel.get_queue(WORK_QUEUE[Stage.AGENT])
        await queue.consume(nothing_comes)
        assert (await services()).said == "1 of guard, 1 of agent, 1 of dispatch"


async def nothing_comes(message: AbstractIncomingMessage) -> None:
    raise AssertionError(message)


class TestTheWayIn:
    async def said(self, base: str) -> Finding:
        (found,) = [
            one async for one in webhook_findings(Settings(public_base_url=base)) if one.what == "webhooks"
        ]
        return found

    async def test_our_ingest_is_known(self, database_url: str) -> None:
        async with web_on(database_url) as web, serving(web.wired.app()) as address:
            found = await self.said(address)
        assert (found.health, found.said) == (
            Health.OK,
            f"{address}/hooks leads to our ingest (asked from here)",
        )

    async def test_somebody_else_s_answer_is_not_taken_for_ours(self) -> None:
        for status, said in ((404, "answers 404 and is not our ingest"), (503, "answers 503: ingest")):
            other = Starlette(
                routes=[Route("/{path:path}", lambda _, status=status: PlainTextResponse("no", status))]
            )
            async with serving(other) as address:
                found = await self.said(address)
            assert found.health is Health.FIX
            assert said in found.said

    async def test_nobody_there_is_told(self) -> None:
        found = await self.said("http://127.0.0.1:1")
        assert found.health is Health.FIX
        assert "http://127.0.0.1:1 can't be reached from here" in found.said

    @pytest.mark.parametrize("pause_s", [0.05, 0], ids=["slow", "fast"])
    async def test_an_answer_without_an_end_is_not_heard_to_its_end(
        self, pause_s: float, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def parts() -> AsyncIterator[bytes]:
            while True:
                yield b"."
                await asyncio.sleep(pause_s)

        endless = Starlette(routes=[Route("/{path:path}", lambda _: StreamingResponse(parts(), 404))])
        monkeypatch.setattr("leeway.doctor_http.ASK_S", 0.5)
        async with serving(endless) as address:
            async with asyncio.timeout(5):
                found = await self.said(address)
                (traces,) = [one async for one in traces_findings(Settings(otlp_endpoint=address))]
        assert found.health is Health.FIX
        assert ("TimeoutError" if pause_s else "answers 404 and is not our ingest") in found.said
        assert traces.health is (Health.NOTE if pause_s else Health.OK)

    async def test_without_a_public_url_nothing_is_asked(self) -> None:
        assert not [one async for one in webhook_findings(Settings())]

    @pytest.mark.parametrize(
        ("days", "health"), [(90, Health.OK), (5, Health.NOTE), (-1, None)], ids=["long", "soon", "over"]
    )
    async def test_the_days_that_a_certificate_lasts_are_told(
        self, days: int, health: Health | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with certified(tmp_path, days) as (port, trusted):
            monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
            found = await _certificate(f"https://localhost:{port}")
        if health is None:
            assert found is None
        else:
            assert found is not None
            assert (found.health, f"lasts for {days - 1} days more" in found.said) == (health, True)

    async def test_a_certificate_that_nobody_vouches_for_is_told(self, tmp_path: Path) -> None:
        async with certified(tmp_path, 90) as (port, _):
            found = await self.said(f"https://localhost:{port}")
        assert found.health is Health.FIX
        assert "certificate" in found.said


async def test_whether_somebody_takes_traces_is_told() -> None:
    async def traces(endpoint: str) -> list[Finding]:
        return [one async for one in traces_findings(Settings(otlp_endpoint=endpoint))]

    assert await traces("") == []
    async with serving(Starlette()) as address:
        assert [one.health for one in await traces(address)] == [Health.OK]
    (locked,) = await traces("http://collector:not-for-all@127.0.0.1:1")
    assert "not-for-all" not in locked.said
    (gone,) = await traces("http://127.0.0.1:1")
    assert gone.health is Health.NOTE
    assert "nobody takes them at http://127.0.0.1:1" in gone.said


@asynccontextmanager
async def certified(directory: Path, days: int) -> AsyncIterator[tuple[int, Path]]:
    """A server whose certificate lasts for so long; its port, and who vouches for it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = SystemClock().now()
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=10))
        .not_valid_after(now + timedelta(days=days) - timedelta(minutes=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    trusted, secret = directory / "certificate.pem", directory / "key.pem"
    trusted.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(trusted, secret)

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    listening = await asyncio.start_server(hang_up, "localhost", 0, ssl=context)
    async with listening:
        yield listening.sockets[0].getsockname()[1], trusted


async def test_for_programs_it_is_one_list(database_url: str, tmp_path: Path) -> None:
    env = environment(
        LEEWAY_DATABASE_URL=database_url, LEEWAY_AMQP_URL="amqp://127.0.0.1:1", LEEWAY_SECRET_KEY=new_key()
    )
    ended = await leeway("doctor", "--json", cwd=tmp_path, env=env)
    assert (ended.code, ended.err) == (1, "")
    found = {one["what"]: one["health"] for one in json.loads(ended.out)}
    assert (found["database"], found["migrations"], found["broker"], found["model"]) == (
        "ok",
        "ok",
        "FIX",
        "note",
    )
