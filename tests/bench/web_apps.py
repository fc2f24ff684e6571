"""The three FastAPI applications that the webhook is measured against, for `uvicorn --factory`."""

import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, Field

from tests.bench.job import META_SECRET, JobSettings

POOL_SIZE = 10
WEB_SCHEMA = """
CREATE TABLE message (
    id text PRIMARY KEY,
    sender text NOT NULL,
    kind text NOT NULL,
    body text NOT NULL,
    sent_at bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
)
"""
INSERT_SQL = """
INSERT INTO message (id, sender, kind, body, sent_at) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING
"""


class Message(BaseModel):
    """A message as it comes in."""

    id: str = Field(max_length=64)
    sender: str = Field(max_length=64)
    kind: str = Field(max_length=16)
    body: str = Field(max_length=4096)
    sent_at: int


def make_bare() -> FastAPI:
    """FastAPI with nothing in it: no body, no work, a small answer."""
    app = FastAPI()

    @app.post("/messages")
    async def take() -> dict[str, str]:
        return {"status": "ok"}

    return app


def make_usual() -> FastAPI:
    """FastAPI as most would write it: a pydantic body and one committed INSERT a request."""
    app = FastAPI(lifespan=_pool)

    @app.post("/messages")
    async def take(message: Message, request: Request) -> dict[str, str]:
        await request.app.state.pool.execute(
            INSERT_SQL, message.id, message.sender, message.kind, message.body, message.sent_at
        )
        return {"status": "ok"}

    return app


def make_signed() -> FastAPI:
    """FastAPI at its barest that may answer WhatsApp: Meta's signature over the raw body, and one committed INSERT."""
    app = FastAPI(lifespan=_pool)
    key = META_SECRET.encode()

    @app.post("/messages")
    async def take(request: Request) -> Response:
        body = await request.body()
        wanted = "sha256=" + hmac.new(key, body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(wanted, request.headers.get("x-hub-signature-256", "")):
            return Response(status_code=401)
        message = json.loads(body)["entry"][0]["changes"][0]["value"]["messages"][0]
        await request.app.state.pool.execute(
            INSERT_SQL,
            message["id"],
            message["from_user_id"],
            message["type"],
            message["text"]["body"],
            int(message["timestamp"]),
        )
        return Response(status_code=200)

    return app


@asynccontextmanager
async def _pool(app: FastAPI) -> AsyncIterator[None]:
    settings = JobSettings.told()
    async with asyncpg.create_pool(
        settings.database_url,
        min_size=POOL_SIZE,
        max_size=POOL_SIZE,
        server_settings={"search_path": settings.run},
    ) as app.state.pool:
        yield
