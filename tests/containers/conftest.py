"""The stack of docker-compose.yml, brought up once for all tests of it, where this machine can."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.routing import Route

from shared.settings import load_settings
from shared.signing import decode_secret
from shared.telemetry.health import server
from tests.support.composed import CORE, WATCHING, ComposeChoice, Composed, docker
from tests.support.desk import Desk
from tests.support.eventually import eventually
from tests.support.stack import Receiver, Shop, Stack

HOST = "host.docker.internal"
SLUG = "composed"


class ReceiverOutside(Receiver):
    """On all of this machine's addresses, named as the containers know it."""

    @property
    def url(self) -> str:
        return super().url.replace("127.0.0.1", HOST)

    async def start(self) -> None:
        app = Starlette(routes=[Route("/replies", self._take, methods=["POST"])])
        self._server = server(app, host="0.0.0.0", port=self._port)
        self._serving = asyncio.create_task(self._server.serve())
        await eventually(lambda: self._server is not None and self._server.started)


@dataclass(frozen=True, slots=True)
class Place:
    """The project, and the tests' way to what runs in it: webhooks, replies, the database."""

    composed: Composed
    stack: Stack
    shop: Shop

    @contextlib.asynccontextmanager
    async def telling(self) -> AsyncIterator[None]:
        """A failure inside says what the containers said."""
        try:
            yield
        except Exception as error:
            error.add_note(await self.composed.evidence())
            raise

    async def prometheus(self, path: str) -> Any:
        """The data of an answer of its API."""
        async with httpx2.AsyncClient(trust_env=False, timeout=5) as client:
            answer = await client.get(f"http://127.0.0.1:{self.composed.prometheus_port}/api/v1/{path}")
        return answer.json()["data"]


@pytest.fixture(scope="session")
async def why_not() -> str | None:
    """Why the stack can't be brought up here."""
    choice = ComposeChoice.from_environment()
    why = await choice.why_not()
    if why and choice.wanted == "yes":
        pytest.fail(f"LEEWAY_TEST_COMPOSE=yes, but {why}", pytrace=False)
    return why


@pytest.fixture(scope="package")  # it is gone before other tests want the machine
async def place(
    why_not: str | None, tmp_path_factory: pytest.TempPathFactory, desk: Desk
) -> AsyncIterator[Place]:
    if why_not:
        pytest.skip(why_not)
    composed = Composed(ComposeChoice.from_environment().images, tmp_path_factory.mktemp("compose"))
    composed.watch()
    try:
        began = time.monotonic()
        await composed.compose("build", "--quiet", "init", within_s=180)
        built = time.monotonic()
        await composed.compose("up", "--detach", "--no-build", "--wait", *CORE, *WATCHING, within_s=100)
        up = time.monotonic()
        desk.note(f"compose: image built in {built - began:.0f} s, stack healthy {up - built:.0f} s later")
        async with contextlib.AsyncExitStack() as opened:
            yield await opened.enter_async_context(a_place(composed, tmp_path_factory))
    except Exception as error:
        error.add_note(await composed.evidence())
        raise
    finally:
        await composed.down()
    left = await docker(
        *("ps", "--all", "--quiet", "--filter", f"label=com.docker.compose.project={composed.project}"),
        within_s=30,
    )
    volumes = await docker("volume", "ls", "--quiet", "--filter", f"name={composed.project}", within_s=30)
    assert (left.out, volumes.out) == ("", "")


@contextlib.asynccontextmanager
async def a_place(composed: Composed, paths: pytest.TempPathFactory) -> AsyncIterator[Place]:
    """A business with a generic account, made by the commands in the container."""
    password = await composed.secret("LEEWAY_DATABASE_PASSWORD")
    settings = load_settings(
        database_url=SecretStr(f"postgresql://leeway:{password}@127.0.0.1:{composed.postgres_port}/leeway"),
        amqp_url=SecretStr("amqp://127.0.0.1:1"),  # not published
    )
    stack = Stack(settings, paths.mktemp("stack"), {})
    stack._ingest_port = composed.ingest_port
    stack.receiver = ReceiverOutside()
    await composed.leeway("business", "create", SLUG, "--name", "Composed", "--mode", "auto", "--demo-data")
    said = await composed.leeway(
        *("channel", "add", SLUG, "--channel", "generic", "--address", f"{SLUG}-generic"),
        *("--callback-url", stack.receiver.url),
    )
    inbound, outbound = (line_of(said, name) for name in ("signing secret", "reply secret"))
    stack.receiver.keys.append(decode_secret(outbound))
    await stack.receiver.start()
    try:
        yield Place(
            composed,
            stack,
            Shop(
                id=(await stack.ask("select id from leeway.business where slug = $1", SLUG))[0]["id"],
                slug=SLUG,
                secrets={"generic": decode_secret(inbound)},
                outbound=decode_secret(outbound),
            ),
        )
    finally:
        await stack.close()


def line_of(said: str, name: str) -> str:
    return next(line.removeprefix(name).strip() for line in said.splitlines() if line.startswith(name))
