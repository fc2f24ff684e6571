"""What providers refuse us for is told by every service, and what it was, by none: neither in a log line nor in a metric."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from shared.secrets import vault_of
from shared.telemetry.health import server
from tests.support.eventually import eventually
from tests.support.factories import ground
from tests.support.stack import SERVICES, Shop, Stack, stack_on

pytestmark = [pytest.mark.postgres, pytest.mark.rabbitmq, pytest.mark.stack, pytest.mark.time_limit(150)]

SECRETS = {"model": "sk-TEST-123", "whatsapp": "EAAG-TEST", "twilio": "tw-TEST"}
TEXT = "I would like a table for seven, please"
REPLY = "A reply to a person that a provider refuses"
SETTINGS = {
    "whatsapp": {"phone_number_id": "1060000000"},
    "twilio": {"account_sid": f"AC{7:032}", "number": "+40200000007"},
}


class Refusing:
    """Every provider at once: 401 and 429 in turn, quoting what it was sent, as some do."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def refuse(self, request: Request) -> Response:
        sent = (await request.body()).decode()
        keys = request.headers.get("authorization", "")
        self.asked.append(keys)
        status = 401 if len(self.asked) % 2 else 429
        quoted = REPLY if REPLY in sent else TEXT
        error = {"message": f"Not with {keys}; about “{quoted}”; you sent {sent}", "code": status}
        return JSONResponse(
            {"error": error, "code": status, "message": quoted + keys + sent}, status_code=status
        )


@asynccontextmanager
async def refusing() -> AsyncIterator[tuple[Refusing, str]]:
    provider = Refusing()
    http = server(
        Starlette(routes=[Route("/{path:path}", provider.refuse, methods=["GET", "POST"])]),
        host="127.0.0.1",
        port=0,
    )
    serving = asyncio.create_task(http.serve())
    await eventually(lambda: http.started)
    yield provider, http.address
    http.should_exit = True
    await serving


async def owed_on(stack: Stack, shop: Shop, channel: str) -> None:
    """A reply that waits to be sent over that channel, whose account has a secret for it."""
    sealed = vault_of(stack.settings).seal({"outbound": SECRETS[channel]})
    async with ground(stack.database_url) as place:
        account = await place.account(
            shop.id, channel=channel, address=f"{shop.slug}-{channel}", secrets=sealed,
            settings=json.dumps(SETTINGS[channel]), provider_address=f"p-{channel}",
        )  # fmt: skip
        now = await place.now()
        conversation = await place.conversation(account, last_customer_at=now)
        await place.outbound(conversation, REPLY, ring_at=now)


async def metrics_of(stack: Stack) -> str:
    async with httpx2.AsyncClient(trust_env=False) as client:
        answers = [await client.get(f"http://127.0.0.1:{stack.one(name).port}/metrics") for name in SERVICES]
    return "\n".join(answer.text for answer in answers)


async def test_ops_10_no_secret_in_any_log_line_or_metric(database_url: str, amqp_url: str) -> None:
    async with refusing() as (provider, url):
        environment = {
            "LLM": f"openai-compatible:some-model@{url}/v1",
            "OPENAI_COMPATIBLE_API_KEY": SECRETS["model"],
            "LEEWAY_WHATSAPP_URL": url,
            "LEEWAY_TWILIO_URL": url,
            "LEEWAY_LOG_LEVEL": "debug",
        }
        async with stack_on(database_url, amqp_url, **environment) as stack:
            shop = await stack.shop(window_ms=0)
            await stack.start()
            for channel in SETTINGS:
                await owed_on(stack, shop, channel)
            for sender in ("c-1", "c-2"):
                await stack.deliver(shop, "sim", sender, TEXT)

            async def all_refused() -> bool:
                rows = await stack.ask(
                    "select (select count(*) from leeway.llm_call where state = 'failed') as calls,"
                    " (select count(*) from leeway.outbound where body = $1 and state = 'draft') as drafts,"
                    " (select count(*) from leeway.channel_account where state = 'disabled') as off",
                    REPLY,
                )
                return (
                    rows[0]["calls"] >= 2
                    and rows[0]["drafts"] + rows[0]["off"] >= 1
                    and len(provider.asked) >= 4
                )

            await eventually(all_refused, within_s=60, every_s=0.2)
            shown = await metrics_of(stack)
            logs = {one.name: one.log.read_text(errors="replace") for one in stack.every()}
        assert any(SECRETS["model"] in keys for keys in provider.asked)
        assert any(SECRETS["whatsapp"] in keys for keys in provider.asked)
        for name, text in {"metrics": shown, **logs}.items():
            for secret in (*SECRETS.values(), TEXT, REPLY, "table for seven"):
                assert secret not in text, f"{secret} in {name}"
        lines = [json.loads(line) for text in logs.values() for line in text.splitlines()]
        assert "model call failed" in {line["event"] for line in lines}
        check_lines(lines)


def check_lines(lines: list[dict[str, Any]]) -> None:
    """Each says of which service it is and when; those of a turn or a send, what about."""
    assert {line["service"] for line in lines} == set(SERVICES)
    assert all({"timestamp", "level", "event"} <= line.keys() for line in lines)
    of_turns = [line for line in lines if line["event"] == "model call failed"]
    assert all({"trace", "message", "turn", "conversation"} <= line.keys() for line in of_turns)
    of_sends = [
        line for line in lines if "account disabled" in line["event"] or "send refused" in line["event"]
    ]
    assert of_sends
    assert all({"outbound", "conversation"} <= line.keys() for line in of_sends)
