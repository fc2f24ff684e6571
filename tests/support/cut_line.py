"""A line to a server that can be cut where a test needs it: the server took what was sent, and its answer never came."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from yarl import URL


class CutLine:
    """Carries bytes to a server and back. While it is `deaf` nothing comes back; `cut` ends what is connected."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.deaf = False
        self._server = URL(url)
        self._ends: list[asyncio.StreamWriter] = []

    async def listen(self) -> asyncio.Server:
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        self.url = str(self._server.with_host("127.0.0.1").with_port(port))
        return server

    def cut(self) -> None:
        for end in self._ends:
            end.transport.abort()
        self._ends.clear()
        self.deaf = False

    async def _carry(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(self._server.host, self._server.port)
        self._ends += [to_client, to_server]
        try:
            async with asyncio.TaskGroup() as both_ways:
                both_ways.create_task(_pump(from_client, to_server, lambda: True))
                both_ways.create_task(_pump(from_server, to_client, lambda: not self.deaf))
        except* ConnectionError:
            pass  # it was cut, by us or by an end


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, hears: Callable[[], bool]
) -> None:
    while taken := await reader.read(65536):
        if hears():
            writer.write(taken)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def line_to(url: str) -> AsyncIterator[CutLine]:
    line = CutLine(url)
    server = await line.listen()
    try:
        yield line
    finally:
        line.cut()
        server.close()
        await server.wait_closed()
