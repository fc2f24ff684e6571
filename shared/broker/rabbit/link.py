"""One connection to RabbitMQ, kept up.

Plain connections and this one loop, not aio-pika's robust ones: those restore consumers from memory without
asking whether the broker still has them, and a queue that somebody deleted or declared otherwise ends in a
silent loop.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import structlog
from aio_pika import Connection
from aio_pika.abc import AbstractConnection
from yarl import URL

from shared.broker.rabbit.backoff import LONGEST_S, Chance, pause_s
from shared.broker.rabbit.declaring import declare
from shared.broker.rabbit.trouble import translated
from shared.errors import LeewayError, Misconfigured, Unavailable

HEARTBEAT_S = 10  # a link that was cut without a word is noticed after 33 s; aiormq's 60 would make it 183
CLOSING_TURNS = 3  # of the event loop, in which the driver's own tasks end once the connection is closed
_log = structlog.get_logger(__name__)


class Link:
    """A connection that comes back, with exchange, queues and bindings declared whenever it does."""

    def __init__(self, url: str, *, name: str, timeout_s: float, chance: Chance) -> None:
        self._url = _parsed(url)
        self._name = name
        self._timeout_s = timeout_s
        self._chance = chance
        self._connection: AbstractConnection | None = None
        self._up = asyncio.Event()
        self._lost = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Try once, then keep at it until `close`. Only what is Misconfigured is raised; away is no error."""
        try:
            await self._connect()
        except Unavailable as error:
            _log.warning("broker link not up yet", link=self._name, error=str(error))
        self._keeper = asyncio.create_task(self._keep(), name=f"broker link {self._name}")

    async def close(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
            self._keeper = None
        await self._drop()

    async def up(self) -> None:
        """Wait until the connection is there."""
        await self._up.wait()

    def connection(self) -> AbstractConnection:
        """The open connection. Raises Unavailable while there is none."""
        if self._connection is None or self._lost.is_set():
            raise Unavailable("RabbitMQ is away; connecting again")
        return self._connection

    async def declare(self) -> None:
        """Declare again what somebody may have deleted. Raises Unavailable, Misconfigured."""
        connection = self.connection()
        with translated("declaring queues"):
            async with asyncio.timeout(self._timeout_s):
                await declare(connection)

    @asynccontextmanager
    async def bare(self) -> AsyncIterator[AbstractConnection]:
        """A connection for one task, on which nothing was declared. Raises Unavailable, Misconfigured."""
        with translated("looking after its queues"):
            async with asyncio.timeout(self._timeout_s), await self._bare() as connection:
                yield connection

    async def _keep(self) -> None:
        clock = asyncio.get_running_loop().time
        failures = 0
        while True:
            if self._connection is not None:
                since = clock()
                await self._lost.wait()
                await self._drop()
                _log.warning("broker link lost", link=self._name)
                # A broker that accepts and hangs up at once is not back: only a link that lasted starts
                # afresh.
                failures = 0 if clock() - since > LONGEST_S else failures
            failures += 1
            await asyncio.sleep(pause_s(failures, self._chance()))
            try:
                await self._connect()
            except LeewayError as error:
                _log.warning("broker link still down", link=self._name, failures=failures, error=str(error))
            else:
                _log.info("broker link up again", link=self._name, failures=failures)

    async def _connect(self) -> None:
        lost = asyncio.Event()

        def on_close(*_: Any) -> None:
            lost.set()
            if lost is self._lost:
                self._up.clear()

        with translated("connecting"):
            async with asyncio.timeout(self._timeout_s):
                connection = await self._bare()
                try:
                    connection.close_callbacks.add(on_close)
                    await declare(connection)
                except BaseException:
                    await connection.close()
                    raise
        self._connection, self._lost = connection, lost
        if not lost.is_set():
            self._up.set()

    async def _bare(self) -> AbstractConnection:
        connection = Connection(self._url, client_properties={"connection_name": f"leeway {self._name}"})
        try:
            await connection.connect()
        except BaseException:
            await connection.close()  # or it would do so itself, in a task of its own, when it is collected
            raise
        return connection

    async def _drop(self) -> None:
        self._up.clear()
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Unavailable), translated("closing a connection"):
                async with asyncio.timeout(self._timeout_s):
                    await connection.close()
            for _ in range(CLOSING_TURNS):
                await asyncio.sleep(0)


def _parsed(text: str) -> URL:
    """The URL, with our heartbeat unless it says another. Raises Misconfigured, which does not repeat it."""
    try:
        url = URL(text)
        usable = url.scheme in {"amqp", "amqps"} and bool(url.host)
    except ValueError:
        usable = False
    if not usable:
        raise Misconfigured("LEEWAY_AMQP_URL is no URL of the form amqp://user:password@host:port/vhost")
    return url.with_query({"heartbeat": str(HEARTBEAT_S), **url.query})
