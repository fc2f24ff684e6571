"""A process shows that it lives by a session-level advisory lock on its worker number, over a connection of its own.

Whoever gets the lock of a worker that holds leases knows that it is dead: its leases are void at once.
"""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import structlog

from shared.database import connect, load_queries
from shared.database.pool import Session
from shared.errors import Unavailable
from shared.ids import WorkerNumber
from shared.settings import Timeouts
from shared.tickets import Stage

QUERIES = load_queries(Path(__file__).with_suffix(".sql"))
CHECK_EVERY_S = 5.0
AGAIN_EVERY_S = 0.25

log = structlog.get_logger(__name__)


class Presence:
    """This process's worker number, held while it lives. `keep` guards the connection; the number may change after a loss.

    Nothing may be claimed under a number that is not held: others void it at once, again and again.
    """

    def __init__(self, url: str, stage: Stage, timeouts: Timeouts) -> None:
        self._url = url
        self._stage = stage
        self._timeouts = timeouts
        self._session: Session | None = None
        self._number: WorkerNumber | None = None

    @property
    def number(self) -> WorkerNumber:
        """Raises Unavailable while it is not held."""
        assert self._number is not None, "presence was not entered"
        if not self.held:
            raise Unavailable("the worker number is not held: its connection to Postgres was lost")
        return self._number

    @property
    def held(self) -> bool:
        return self._session is not None and not self._session.closed

    async def enter(self) -> None:
        """Connect and hold a number; the old one where nobody found us dead meanwhile. Raises Unavailable."""
        session = await connect(self._url, timeouts=self._timeouts)
        if self._number is not None:
            rows = await session.fetch(QUERIES["hold"], self._number)
            if rows[0]["held"]:
                self._session = session
                return
        rows = await session.fetch(QUERIES["register"], self._stage.value, socket.gethostname(), os.getpid())
        self._number = WorkerNumber(rows[0]["number"])
        self._session = session

    async def keep(self) -> None:
        """Until cancelled: notice a lost connection at once, and hold a number again."""
        while True:
            try:
                if self._session is None or await self._session.closes(within_s=CHECK_EVERY_S):
                    await self.leave()
                    await self.enter()
                else:
                    await self._session.fetch(QUERIES["alive"])
            except Unavailable as error:
                log.warning("worker number not held", stage=self._stage, error=str(error))
                await self.leave()
                await asyncio.sleep(AGAIN_EVERY_S)

    async def leave(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()


class Undertaker:
    """Finds dead workers and clears up after them, over a connection of its own so that locks are its alone."""

    def __init__(self, url: str, timeouts: Timeouts) -> None:
        self._url = url
        self._timeouts = timeouts
        self._session: Session | None = None

    async def bury(self, suspects: Sequence[int], clear: Callable[[int], Awaitable[object]]) -> None:
        """Of `suspects` (workers that hold something), run `clear` for each dead one."""
        if not suspects:
            return
        if self._session is None or self._session.closed:
            self._session = await connect(self._url, timeouts=self._timeouts)
        rows = await self._session.fetch(QUERIES["try_dead"], list(suspects))
        dead = [int(row["number"]) for row in rows]
        try:
            for number in dead:
                log.warning("worker is dead, its leases are void", worker=number)
                await clear(number)
        finally:
            if dead:
                await self._session.fetch(QUERIES["let_go"], dead)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
