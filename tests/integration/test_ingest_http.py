"""Ingest over HTTP: the real app on a real Postgres, every answer of the specification, and whatever anybody may send."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr
from standardwebhooks import Webhook
from structlog.testing import capture_logs

from services.ingest.core.entrances import ENTRANCES
from services.ingest.wiring import WiredIngest, wire
from shared.broker.memory import MemoryBroker
from shared.clock import SystemClock
from shared.database import open_pool
from shared.secrets import Vault, new_key
from shared.settings import Settings, Timeouts
from shared.signing import decode_secret, sign
from shared.telemetry.metrics import Metrics
from shared.tickets import Stage
from shared.work.service import Parts
from tests.support.eventually import eventually
from tests.support.factories import ANA, Ground, ground
from tests.support.faulty_broker import FaultyBroker

BYTES_MAX = ENTRANCES["sim"].body_bytes_max

pytestmark = pytest.mark.postgres

KEY = new_key()
VAULT = Vault(KEY)
SECRET = "whsec_" + base64.b64encode(b"the current secret of this line!").decode()
OLD_SECRET = "whsec_" + base64.b64encode(b"the secret that was used before.").decode()
SIM, GENERIC = "/hooks/sim/line", "/hooks/generic/line"

_number = iter(range(1, 10**9))


def fresh(prefix: str = "m") -> str:
    return f"{prefix}-{next(_number)}"


@dataclass
class Web:
    """Ingest as the world sees it, and the rows behind it."""

    wired: WiredIngest
    place: Ground
    broker: FaultyBroker
    client: httpx2.AsyncClient = field(init=False)

    def __post_init__(self) -> None:
        transport = httpx2.ASGITransport(app=self.wired.app(), raise_app_exceptions=True)
        self.client = httpx2.AsyncClient(transport=transport, base_url="http://ingest.test")

    async def post(
        self,
        path: str,
        content: Any,
        *,
        secret: str = SECRET,
        headers: Mapping[str, str] | None = None,
        without: str | None = None,
        id_: str | None = None,
        late_s: int = 0,
    ) -> httpx2.Response:
        """A signed request; `headers` replace those of the signature, `without` leaves one out."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        at = int(datetime.now(UTC).timestamp()) - late_s  # noqa: TID251  what is signed is dated
        id_ = id_ or fresh("delivery")
        signed = {
            "webhook-id": id_,
            "webhook-timestamp": str(at),
            "webhook-signature": sign(decode_secret(secret), id_, at, body),
        } | dict(headers or {})
        if without:
            del signed[without]
        return await self.client.post(path, content=body, headers=signed)


def sim(*texts: str, **fields: Any) -> dict[str, Any]:
    return {"messages": [{"id": fresh(), "from": ANA, "text": text} | fields for text in texts or ("Hello",)]}


def event(**data: Any) -> dict[str, Any]:
    plain = {"message_id": fresh(), "from": {"id": "customer-12"}, "text": "Hello"}
    return {"type": "message.received", "data": plain | data}


@asynccontextmanager
async def web_on(url: str, *, pool: int = 4, timeouts: Timeouts | None = None) -> AsyncIterator[Web]:
    times = timeouts or Timeouts()
    async with ground(url) as place:
        business = await place.business()
        secrets = VAULT.seal({"inbound": [SECRET, OLD_SECRET], "outbound": None})
        for channel in ("sim", "generic"):
            await place.account(business, channel=channel, address="line", secrets=secrets)
        database = await open_pool(url, size=pool, timeouts=times)
        broker = FaultyBroker(MemoryBroker())
        parts = Parts(
            settings=Settings(secret_key=SecretStr(KEY), timeouts=times),
            clock=SystemClock(),
            broker=broker,
            database=database,
            metrics=Metrics(process=False),
        )
        wired = await wire(parts)
        async with asyncio.TaskGroup() as group:
            job = group.create_task(wired.service.run())
            web = Web(wired, place, broker)
            async with web.client:
                yield web
            job.cancel()
        await database.close()


@pytest.fixture
async def web(database_url: str) -> AsyncIterator[Web]:
    async with web_on(database_url) as made:
        yield made


async def rung(web: Web) -> list[str]:
    return [
        str(ticket) for stage, packet in web.broker.published if stage is Stage.GUARD for ticket in packet.ids
    ]


# Accounts that were not made by our commands


@pytest.mark.parametrize(
    ("channel", "inbound", "settings_"),
    [("whatsapp", ["secret"], "{}"), ("twilio", ["secret"], "no JSON"), ("generic", ["no whsec"], "{}"), ("sim", [7], "{}")],
)  # fmt: skip
async def test_an_account_that_can_not_be_read_is_503_and_never_500(
    web: Web, channel: str, inbound: list[Any], settings_: str
) -> None:
    sealed = VAULT.seal({"inbound": inbound, "outbound": None})
    await web.place.account(channel=channel, address="odd", secrets=sealed, settings=settings_)
    assert (await web.client.post(f"/hooks/{channel}/odd", content=b"{}")).status_code == 503
    assert (await web.post(SIM, sim())).status_code == 200, "the others are not touched"


# What is taken


@pytest.mark.parametrize(("path", "content"), [(SIM, sim()), (GENERIC, event())], ids=["sim", "generic"])
async def test_a_signed_message_is_committed_answered_200_and_rung(web: Web, path: str, content: Any) -> None:
    response = await web.post(path, content)
    assert (response.status_code, response.content) == (200, b"")
    message = await web.place.row("inbound_message")
    assert message["body"] == "Hello"
    await eventually(lambda: bool(web.broker.published))
    assert await rung(web) == [str(message["conversation"])]


async def test_the_official_library_s_requests_are_taken(web: Web) -> None:
    body = json.dumps(event())
    at = datetime.now(UTC)  # noqa: TID251  what is signed is dated
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(SECRET).sign("msg_1", at, body),
    }
    assert (await web.client.post(GENERIC, content=body, headers=headers)).status_code == 200


async def test_the_same_webhook_twenty_times_at_once_is_one_row(web: Web) -> None:
    content = sim()
    async with asyncio.TaskGroup() as group:
        posts = [group.create_task(web.post(SIM, content, id_="delivery")) for _ in range(20)]
    assert {post.result().status_code for post in posts} == {200}
    assert len(await web.place.rows("inbound_message")) == 1
    assert (await web.place.row("conversation_state"))["unguarded"] == 1


async def test_on_the_generic_channel_the_webhook_s_id_tells_what_is_new(web: Web) -> None:
    content = event()
    for id_ in ("msg_1", "msg_1", "msg_2"):
        assert (await web.post(GENERIC, content, id_=id_)).status_code == 200
    assert {row["external_id"] for row in await web.place.rows("inbound_message")} == {"msg_1", "msg_2"}


async def test_many_messages_in_one_request_are_stored_in_their_order(web: Web) -> None:
    assert (await web.post(SIM, sim("one", "two", "three"))).status_code == 200
    rows = await web.place.rows("inbound_message", order="received_at, id")
    assert [row["body"] for row in rows] == ["one", "two", "three"]
    assert (await web.place.row("conversation_state"))["unguarded"] == 3


async def test_one_that_can_t_be_read_does_not_stop_the_others(web: Web) -> None:
    content = sim("one", "two")
    content["messages"].insert(1, {"id": 5})
    assert (await web.post(SIM, content)).status_code == 200
    assert len(await web.place.rows("inbound_message")) == 2


async def test_a_kind_nobody_has_seen_is_stored_raw_as_unsupported(web: Web) -> None:
    content = sim("hum", kind="hologram", depth=3)
    assert (await web.post(SIM, content)).status_code == 200
    assert (await web.place.row("inbound_message"))["kind"] == "unsupported"
    assert json.loads((await web.place.row("inbound_payload"))["raw"]) == content["messages"][0]


async def test_an_event_of_another_type_is_answered_200_and_stores_nothing(web: Web) -> None:
    assert (await web.post(GENERIC, {"type": "conversation.closed", "data": {}})).status_code == 200
    assert not await web.place.rows("inbound_message")


@pytest.mark.parametrize("secret", [SECRET, OLD_SECRET], ids=["current", "previous"])
async def test_during_a_rotation_either_secret_signs(web: Web, secret: str) -> None:
    assert (await web.post(GENERIC, event(), secret=secret)).status_code == 200


@pytest.mark.parametrize(
    "late_s", [280, -280]
)  # room for a busy machine; the second itself is test_signing's
async def test_five_minutes_off_are_tolerated(web: Web, late_s: int) -> None:
    assert (await web.post(GENERIC, event(), late_s=late_s)).status_code == 200


TEXTS = {
    "NUL": ("a\x00b", "a\ufffdb"),
    "a lone surrogate": ("a\ud83db", "a\ufffdb"),
    "surrogates in the wrong order": ("\udc4d\ud83d", "\ufffd\ufffd"),
    "a pair": ("\ud83d\udc4d", "👍"),
    "every script": ("Bună שלום 你好 👩‍👩‍👧", "Bună שלום 你好 👩‍👩‍👧"),
    "control characters": ("\x01\x1b[31m\x7f", "\x01\x1b[31m\x7f"),
    "SQL": ("'; drop table outbound; --", "'; drop table outbound; --"),
}


@pytest.mark.parametrize(("text", "stored"), TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("path", [SIM, GENERIC], ids=["sim", "generic"])
async def test_a_text_is_stored_as_received_but_for_what_postgres_cannot_hold(
    web: Web, path: str, text: str, stored: str
) -> None:
    content = sim(text) if path == SIM else event(text=text)
    body = json.dumps(content).encode()
    assert (await web.post(path, body)).status_code == 200
    assert (await web.place.row("inbound_message"))["body"] == stored
    raw = (await web.place.row("inbound_payload"))["raw"]
    assert raw == (body if path == GENERIC else json.dumps(content["messages"][0]).encode())


async def test_names_and_ids_with_nul_are_stored_too(web: Web) -> None:
    content = {
        "messages": [{"id": "a\x00", "from": "b\x00", "name": "c\x00", "text": "x", "button": "d\x00"}]
    }
    assert (await web.post(SIM, content)).status_code == 200
    assert (await web.place.row("channel_identity"))["user_id"] == "b\ufffd"


# What is refused


REFUSED: dict[str, tuple[int, Callable[[Web], Any]]] = {
    "a wrong signature": (401, lambda web: web.post(SIM, sim(), headers={"webhook-signature": "v1,AAAA"})),
    "a signature that is garbage": (401, lambda web: web.post(SIM, sim(), headers={"webhook-signature": "garbage"})),
    "another version's signature": (401, lambda web: web.post(SIM, sim(), headers={"webhook-signature": "v1a,AAAA"})),
    "no signature": (401, lambda web: web.post(SIM, sim(), without="webhook-signature")),
    "another account's secret": (
        401, lambda web: web.post(SIM, sim(), secret="whsec_" + base64.b64encode(b"y" * 32).decode())),
    "no id": (400, lambda web: web.post(SIM, sim(), without="webhook-id")),
    "no timestamp": (400, lambda web: web.post(SIM, sim(), without="webhook-timestamp")),
    "too late": (400, lambda web: web.post(SIM, sim(), late_s=301)),
    "too early": (400, lambda web: web.post(SIM, sim(), late_s=-330)),
    "no JSON": (400, lambda web: web.post(SIM, b"hello")),
    "an empty body": (400, lambda web: web.post(SIM, b"")),
    "an empty object": (400, lambda web: web.post(SIM, {})),
    "a list": (400, lambda web: web.post(GENERIC, [])),
    "deep nesting": (400, lambda web: web.post(GENERIC, b"[" * 100_000)),
    "an unknown channel": (404, lambda web: web.post("/hooks/pigeon/line", sim())),
    "an unknown account": (404, lambda web: web.post("/hooks/sim/other", sim())),
    "an address with a NUL": (404, lambda web: web.post("/hooks/sim/a%00b", sim())),
    "an address that is no UTF-8": (404, lambda web: web.post("/hooks/sim/%ff%fe", sim())),
    "an address without end": (404, lambda web: web.post("/hooks/sim/" + "x" * 5_000, sim())),
    "no account": (404, lambda web: web.post("/hooks/sim", sim())),
    "a longer path": (404, lambda web: web.post("/hooks/sim/line/more", sim())),
    "a GET": (405, lambda web: web.client.get(SIM)),
    "a DELETE": (405, lambda web: web.client.delete(SIM)),
    "too much": (413, lambda web: web.post(SIM, b"x" * (BYTES_MAX + 1))),
    "too much, as it says": (413, lambda web: web.post(SIM, sim(), headers={"content-length": str(10**9)})),
    "too much, in digits without end": (413, lambda web: web.post(SIM, sim(), headers={"content-length": "9" * 5_000})),
}  # fmt: skip


@pytest.mark.parametrize(("status", "ask"), REFUSED.values(), ids=REFUSED)
async def test_what_is_refused_stores_nothing_and_says_why(
    web: Web, status: int, ask: Callable[[Web], Any]
) -> None:
    response = await ask(web)
    assert response.status_code == status
    assert response.text, "a sentence"
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert not await web.place.rows("inbound_message")
    assert not await web.place.rows("customer")
    counted = web.wired.parts.metrics.webhooks
    assert sum(sample.value for metric in counted.collect() for sample in metric.samples
               if sample.name.endswith("_total") and sample.labels["outcome"] == str(status)) == 1  # fmt: skip


async def test_a_get_is_told_what_is_allowed(web: Web) -> None:
    assert (await web.client.get(SIM)).headers["allow"] == "POST"


async def test_the_largest_body_is_taken(web: Web) -> None:
    content = json.dumps(sim("")).encode()
    padded = content[:-1] + b" " * (BYTES_MAX - len(content)) + b"}"
    assert len(padded) == BYTES_MAX
    assert (await web.post(SIM, padded)).status_code == 200


async def test_a_body_that_comes_in_pieces_has_the_same_limit(web: Web) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(300):
            yield b"x" * 1024

    response = await web.client.post(SIM, content=pieces())
    assert response.status_code == 413


async def test_an_account_without_secrets_accepts_nothing(web: Web) -> None:
    await web.place.account(address="bare", channel="sim")
    assert (await web.post("/hooks/sim/bare", sim())).status_code == 401


async def test_secrets_sealed_with_another_key_are_our_fault_not_the_channel_s(web: Web) -> None:
    sealed = Vault(new_key()).seal({"inbound": [SECRET]})
    await web.place.account(address="sealed", channel="sim", secrets=sealed)
    assert (await web.post("/hooks/sim/sealed", sim())).status_code == 503


async def test_the_same_address_on_two_channels_is_two_accounts(web: Web) -> None:
    assert (await web.post(SIM, sim())).status_code == 200
    assert (await web.post(GENERIC, event())).status_code == 200
    accounts = {row["account"] for row in await web.place.rows("inbound_message")}
    assert len(accounts) == 2


# What is away


async def test_a_broker_that_is_away_is_no_reason_to_refuse(web: Web) -> None:
    web.broker.refusing = True
    assert (await web.post(SIM, sim())).status_code == 200
    state = await web.place.row("conversation_state")
    assert state["guard_due_at"] is not None, "the row owes it"


async def test_the_answer_does_not_wait_for_the_broker(web: Web) -> None:
    web.broker.hold_confirms()
    assert (await web.post(SIM, sim())).status_code == 200
    web.broker.release_confirms()


async def test_an_exhausted_pool_answers_503_in_time_and_recovers(database_url: str) -> None:
    """All of three connections held: bounded 503s, and afterwards all three work."""
    async with web_on(database_url, pool=3, timeouts=Timeouts(lock=0.2, statement=0.4)) as web:
        assert (await web.post(SIM, sim())).status_code == 200
        conversation = (await web.place.row("conversation_state"))["conversation"]
        clock = asyncio.get_running_loop().time
        async with web.place.held("conversation_state", "conversation", [conversation]):
            began = clock()
            async with asyncio.TaskGroup() as group:
                posts = [group.create_task(web.post(SIM, sim())) for _ in range(100)]
            assert {post.result().status_code for post in posts} == {503}
            assert {post.result().headers["retry-after"] for post in posts} == {"5"}
            assert clock() - began < 10
        async with asyncio.TaskGroup() as group:
            posts = [group.create_task(web.post(SIM, sim())) for _ in range(10)]
        assert {post.result().status_code for post in posts} == {200}
        assert (await web.place.row("conversation_state"))["unguarded"] == 11


async def test_a_lost_connection_is_503_and_the_redelivery_is_taken(web: Web, postgres: Any) -> None:
    content = sim()
    assert (await web.post(SIM, sim())).status_code == 200
    await web.place.owner.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where datname = current_database() and application_name = 'leeway' and pid <> pg_backend_pid()"
    )
    statuses = [(await web.post(SIM, content)).status_code for _ in range(6)]
    assert set(statuses) <= {200, 503}
    assert statuses[-1] == 200
    assert len(await web.place.rows("inbound_message")) == 2


# Health


async def test_it_is_alive_and_ready_and_shows_its_metrics(web: Web) -> None:
    await web.post(SIM, sim())
    assert (await web.client.get("/healthz")).status_code == 200
    await eventually(lambda: web.wired.service.why_not() is None)
    assert (await web.client.get("/readyz")).status_code == 200
    shown = (await web.client.get("/metrics")).text
    assert 'leeway_webhooks_total{channel="sim",outcome="200"} 1.0' in shown


async def test_an_unknown_channel_is_no_label_of_its_own(web: Web) -> None:
    for n in range(5):
        await web.post(f"/hooks/made-up-{n}/line", sim())
    shown = (await web.client.get("/metrics")).text
    assert 'leeway_webhooks_total{channel="unknown",outcome="404"} 5.0' in shown
    assert "made-up" not in shown


async def test_an_account_that_is_refused_all_the_time_is_counted_and_named(web: Web) -> None:
    """Whatever is wrong: the secret, or the clock. Good ones of the channel's other accounts change nothing."""
    await web.place.account(address="bare", channel="sim")
    unheard = 'leeway_webhook_accounts_refused{channel="sim"}'
    assert f"{unheard} 0.0" in (await web.client.get("/metrics")).text
    with capture_logs() as told:
        for late_s in (0, 0, 4000, 4000):
            assert (await web.post("/hooks/sim/bare", sim(), late_s=late_s)).status_code in (400, 401)
            assert (await web.post(SIM, sim())).status_code == 200
    assert f"{unheard} 1.0" in (await web.client.get("/metrics")).text
    assert [(line["account"], line["in_a_row"]) for line in told if line["event"] == "webhook refused"] == [
        ("bare", 1),
        ("bare", 4),
    ]


# Whatever anybody may send

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
ITEM = st.fixed_dictionaries(
    {"id": st.text(min_size=1, max_size=20) | JSON, "from": st.text(min_size=1, max_size=20) | JSON},
    optional=dict.fromkeys(
        ("text", "name", "kind", "button", "quoted", "locale", "auto_reply", "opt_word", "at"), JSON
    ),
)
ANYTHING = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@ANYTHING
@given(st.binary(max_size=300) | JSON)
async def test_no_body_under_a_valid_signature_is_a_5xx(web: Web, content: Any) -> None:
    for path in (SIM, GENERIC):
        assert (await web.post(path, content)).status_code in (200, 400)


@ANYTHING
@given(before=st.lists(ITEM, max_size=3), after=st.lists(ITEM, max_size=3))
async def test_a_well_formed_message_is_stored_whatever_lies_beside_it(
    web: Web, *, before: list[Any], after: list[Any]
) -> None:
    wanted = {"id": fresh("wanted"), "from": ANA, "text": "Hello"}
    response = await web.post(SIM, {"messages": [*before, wanted, *after]})
    assert response.status_code == 200
    assert len(await web.place.rows("inbound_message", external_id=wanted["id"])) == 1


@ANYTHING
@given(
    st.dictionaries(
        st.sampled_from([b"webhook-id", b"webhook-timestamp", b"webhook-signature", b"content-length"]),
        st.binary(),
    ),
    st.binary(),
    st.text(),
)
async def test_no_header_or_path_is_a_5xx(
    web: Web, headers: dict[bytes, bytes], body: bytes, address: str
) -> None:
    """Straight to the mounted app: a server in front would already refuse some of these."""
    answers: list[Any] = []
    sent = False

    async def receive() -> dict[str, Any]:
        nonlocal sent
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        answers.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": f"/sim/{address}",
        "root_path": "",
        "headers": list(headers.items()),
    }
    await web.wired.hooks(scope, receive, send)
    assert 400 <= answers[0]["status"] < 500
