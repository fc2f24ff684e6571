"""Real RabbitMQ and Postgres as tests see them; choice.py says where they come from.

Nothing here blocks the event loop, except `close`.
"""

import asyncio
import contextlib
import secrets
import urllib.error
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from tests.support.choice import Bringer
from tests.support.nodes import (
    ManagementApi,
    Node,
    PostgresNode,
    RabbitMQNode,
    ServersUnavailableError,
    postgres_answers,
    rabbitmq_answers,
)

# Alike on every server, whatever encoding and locale its cluster was made with.
NOTHING = "template0 ENCODING 'UTF8' LOCALE 'C'"
MEMORY_WATERMARK = "0.6"
LISTED_SECONDS = 15
# RabbitMQ 3.10 and 4.0 keep a new quorum queue's name in memory for about a second: killed before that, the
# queue has no leader afterwards and its confirmed messages are gone. Measured; older queues lose nothing.
NEW_QUEUE_SECONDS = 1.5


class Server:
    """What Postgres and RabbitMQ have in common."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def description(self) -> str:
        return self._node.address.description

    @property
    def url(self) -> str:
        """The administrator's."""
        return self._node.address.url

    @property
    def metrics_url(self) -> str:
        """Where RabbitMQ's exporter answers; empty of a server that somebody named by URL, and of Postgres."""
        return self._node.address.metrics_url

    async def start(self) -> None:
        """Returns when the server answers, at the same address as before."""
        await asyncio.to_thread(self._node.start)

    async def stop(self) -> None:
        """Orderly: clients are told."""
        await asyncio.to_thread(self._node.stop)

    async def kill(self) -> None:
        """SIGKILL: clients see a broken connection, or nothing."""
        await asyncio.to_thread(self._node.kill)

    async def restart(self, *, hard: bool = False) -> None:
        await (self.kill() if hard else self.stop())
        await self.start()

    async def restore(self) -> None:
        """Leaves a running server as a test wants to find it."""
        if not await asyncio.to_thread(self._answers):
            await self.restart(hard=True)

    def close(self) -> None:
        """Ends it for good and removes its data. Blocks."""
        self._node.close()

    def _answers(self) -> bool:
        raise NotImplementedError


class Postgres(Server):
    """`template` names the database that new ones are copied from; one per server and run."""

    def __init__(self, node: PostgresNode, *, template: str | None = None) -> None:
        super().__init__(node)
        self.template = template or f"leeway_template_{secrets.token_hex(4)}"

    async def create_database(self, *, migrated: bool = True) -> str:
        """A new database of its own name, all migrations applied, the packs' too; returns its URL."""
        name = f"leeway_{secrets.token_hex(6)}"
        async with self._admin() as admin:
            if migrated:
                await self._ensure_template(admin)
            source = self.template if migrated else NOTHING
            await admin.execute(f"CREATE DATABASE {name} TEMPLATE {source}")
        return self._url_of(name)

    async def drop_database(self, url: str) -> None:
        """Also when somebody is connected to it."""
        async with self._admin() as admin:
            await admin.execute(f"DROP DATABASE IF EXISTS {database_of(url)} WITH (FORCE)")

    async def force_close_connections(self, url: str) -> int:
        """Ends every session in this database; returns how many there were."""
        async with self._admin() as admin:
            ended = await admin.fetch(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", database_of(url)
            )
        return len(ended)

    async def drop_template(self) -> None:
        await self.drop_database(self._url_of(self.template))

    async def _ensure_template(self, admin: Any) -> None:
        """Made once, by whichever worker comes first; the others wait for it."""
        await admin.execute("SELECT pg_advisory_lock(hashtext($1))", self.template)
        try:
            if not await admin.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", self.template):
                await self._make_template(admin)
        finally:
            await admin.execute("SELECT pg_advisory_unlock(hashtext($1))", self.template)

    async def _make_template(self, admin: Any) -> None:
        from shared.database.migrate import migrate
        from shared.packs import load_packs, migrations_of

        unfinished = f"{self.template}_unfinished"
        await admin.execute(f"DROP DATABASE IF EXISTS {unfinished} WITH (FORCE)")
        await admin.execute(f"CREATE DATABASE {unfinished} TEMPLATE {NOTHING}")
        await migrate(self._url_of(unfinished), packs=migrations_of(load_packs()))
        await admin.execute(f"ALTER DATABASE {unfinished} RENAME TO {self.template}")

    def _answers(self) -> bool:
        return postgres_answers(self.url)

    @contextlib.asynccontextmanager
    async def _admin(self) -> AsyncIterator[Any]:
        import asyncpg

        connection = await asyncpg.connect(self.url, timeout=30)
        try:
            yield connection
        finally:
            await connection.close()

    def _url_of(self, database: str) -> str:
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{database}"))


class RabbitMQ(Server):
    """Each test has a virtual host of its own, since the names of queues and exchanges are fixed."""

    def __init__(self, node: RabbitMQNode) -> None:
        super().__init__(node)
        self._rabbitmq = node
        self._vhosts: set[str] = set()
        self._is_alarmed = False

    async def create_vhost(self) -> str:
        """Returns its URL."""
        name = f"leeway-{secrets.token_hex(6)}"
        await self._create_vhost(name)
        self._vhosts.add(name)
        return urlunsplit(urlsplit(self.url)._replace(path="/" + quote(name, safe="")))

    async def delete_vhost(self, vhost: str) -> None:
        """By its name or its URL, with everything in it and every connection to it."""
        name = vhost_of(vhost)
        self._vhosts.discard(name)
        await self._call("DELETE", "vhosts", name)

    async def delete_queue(self, vhost: str, name: str) -> None:
        """`vhost` by its name or its URL; consumers are told that they are cancelled."""
        await self._call("DELETE", "queues", vhost_of(vhost), name)

    async def force_close_connections(self, vhost: str | None = None) -> None:
        """Of one virtual host (its name or URL), or of the whole server; clients see CONNECTION_FORCED."""
        which = ["--global"] if vhost is None else ["--vhost", vhost_of(vhost)]
        try:
            await self.ctl("close_all_connections", *which, "closed by a test")
        except ServersUnavailableError:  # somebody else's server
            await self._close_listed_connections([] if vhost is None else ["vhosts", vhost_of(vhost)])

    async def set_memory_alarm(self, on: bool) -> None:
        """While it is on, all publishers are blocked (connection.blocked); consumers are not."""
        self._is_alarmed = on
        await self.ctl("set_vm_memory_high_watermark", "0" if on else MEMORY_WATERMARK)

    async def wipe(self) -> None:
        """Stops the server, deletes its data, starts it: virtual hosts are there again, and empty."""
        await self.stop()
        await asyncio.to_thread(self._node.wipe)
        await self.start()
        for name in self._vhosts:
            await self._create_vhost(name)

    async def kill(self) -> None:
        """SIGKILL: clients see a broken connection, or nothing. Queues declared before are safe by then."""
        await asyncio.sleep(NEW_QUEUE_SECONDS)
        await super().kill()

    async def restore(self) -> None:
        await super().restore()
        if self._is_alarmed:
            await self.set_memory_alarm(False)

    async def ctl(self, *arguments: str) -> str:
        """rabbitmqctl; returns what it printed."""
        return await asyncio.to_thread(self._rabbitmq.ctl, *arguments)

    def _answers(self) -> bool:
        return rabbitmq_answers(self.url) and ManagementApi(self._node.address.api_url).answers()

    async def _close_listed_connections(self, scope: list[str]) -> None:
        """The management API lists a connection only some seconds after it was opened."""
        async with asyncio.timeout(LISTED_SECONDS):
            while not (listed := await self._call("GET", *scope, "connections")):
                await asyncio.sleep(0.2)
        for connection in listed:
            await self._call("DELETE", "connections", connection["name"])

    async def _create_vhost(self, name: str) -> None:
        await self._call("PUT", "vhosts", name)
        user = unquote(urlsplit(self.url).username or "guest")
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        await self._call("PUT", "permissions", name, user, body=everything)

    async def _call(self, method: str, *path: str, body: dict[str, str] | None = None) -> Any:
        api = ManagementApi(self._node.address.api_url)
        try:
            return await asyncio.to_thread(api.call, method, *path, body=body)
        except urllib.error.HTTPError as error:
            with error:
                detail = error.read().decode(errors="replace")[:300]
            raise RuntimeError(f"RabbitMQ refused {method} {'/'.join(path)}: {error.code} {detail}") from None


@dataclass(frozen=True, slots=True)
class Servers:
    postgres: Postgres
    rabbitmq: RabbitMQ


def database_of(url: str) -> str:
    return urlsplit(url).path.lstrip("/")


def vhost_of(vhost: str) -> str:
    """The name of a virtual host, given as such or as an AMQP URL."""
    return unquote(urlsplit(vhost).path[1:]) if "://" in vhost else vhost


@contextlib.asynccontextmanager
async def private_servers(*, durable: bool = False) -> AsyncIterator[Servers]:
    """A pair that belongs to the caller alone, outside pytest too; `durable` keeps Postgres' fsync on."""
    bringer = Bringer()
    async with contextlib.AsyncExitStack() as stack:
        postgres = Postgres(await asyncio.to_thread(bringer.postgres, private=True, durable=durable))
        stack.callback(postgres.close)
        rabbitmq = RabbitMQ(await asyncio.to_thread(bringer.rabbitmq, private=True))
        stack.callback(rabbitmq.close)
        yield Servers(postgres, rabbitmq)
