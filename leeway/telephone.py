"""A simulated telephone: signed messages over a business's sim channel, and what arrives."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

import httpx2

from leeway.one_process import OneProcess
from shared.clock import Clock
from shared.database import Database, load_queries
from shared.errors import LeewayError
from shared.ids import new_id
from shared.signing import decode_secret, sign

QUERIES = load_queries(Path(__file__).with_suffix(".sql"))


class NotTaken(LeewayError):
    """A message was not stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """A message on the telephone's screen."""

    key: str
    text: str
    buttons: tuple[tuple[str, str], ...]  # id and title


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A business's sim channel: where its webhook is, who signs, and where deliveries are read."""

    database: Database
    clock: Clock
    address: str
    secret: str
    client: httpx2.AsyncClient


def line_of(installation: OneProcess) -> Line:
    """The demo business's line. Requests go through the real app, without a socket."""
    return Line(
        database=installation.parts.database,
        clock=installation.parts.clock,
        address=installation.sim_address,
        secret=installation.sim_secret,
        client=httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=installation.app), base_url="http://leeway.invalid"
        ),
    )


class Telephone:
    """One customer's telephone."""

    def __init__(self, line: Line | OneProcess, number: str) -> None:
        self._line = line if isinstance(line, Line) else line_of(line)
        self.number = number
        self.last = ""  # the id of the message sent last
        self._seen: set[str] = set()

    async def close(self) -> None:
        await self._line.client.aclose()

    @property
    def seen(self) -> bool:
        """Whether anything ever arrived, as far as it was looked at."""
        return bool(self._seen)

    async def write(self, text: str, *, message_id: str | None = None, **more: object) -> str:
        """Send a message; its id. The same id again is the channel delivering it again."""
        self.last = message_id = message_id or f"sim-{new_id().hex}"
        status = await self.post(
            {"messages": [{"id": message_id, "from": self.number, "text": text, **more}]}
        )
        if status != 200:
            raise NotTaken(f"The business's webhook answered {status}.")
        return message_id

    async def write_again(self, message_id: str, text: str) -> int:
        """The channel delivers a message a second time; the status answered."""
        return await self.post({"messages": [{"id": message_id, "from": self.number, "text": text}]})

    async def press(self, button: str, title: str) -> str:
        """Press a button that arrived."""
        return await self.write(title, kind="button", button=button)

    async def post(self, event: dict[str, object]) -> int:
        """Deliver a signed event; the status answered."""
        body = json.dumps(event).encode()
        now = int(self._line.clock.now().timestamp())
        delivery = f"delivery-{new_id().hex}"
        secret = decode_secret(self._line.secret)
        response = await self._line.client.post(
            f"/hooks/sim/{self._line.address}",
            content=body,
            headers={
                "webhook-id": delivery,
                "webhook-timestamp": str(now),
                "webhook-signature": sign(secret, delivery, now, body),
            },
        )
        return response.status_code

    async def arrived(self) -> list[Arrived]:
        """What arrived since the last look, in order."""
        rows = await self._line.database.fetch(QUERIES["deliveries"], self._line.address, self.number)
        fresh = [row for row in rows if row["key"] not in self._seen]
        self._seen |= {row["key"] for row in fresh}
        return [
            Arrived(
                key=row["key"],
                text=row["body"],
                buttons=tuple((one["id"], one["title"]) for one in json.loads(row["buttons"] or "[]")),
            )
            for row in fresh
        ]

    async def wait(self, *, within_s: float = 20.0) -> list[Arrived]:
        """The next messages; none when nothing comes in time."""
        until = self._line.clock.monotonic() + within_s
        while self._line.clock.monotonic() < until:
            if found := await self.arrived():
                return found
            await asyncio.sleep(0.05)
        return []
