"""The agent through the real openai client, against an HTTP server that speaks like a provider: the mock's rules, or trouble."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from leeway.one_process import DEMO, OneProcess, one_process, running
from leeway.telephone import Telephone
from shared.llm.mock_server import app as mock_app
from shared.locales import load
from shared.packs import load_packs
from shared.settings import load_settings
from shared.telemetry.health import server
from tests.support.process import make_directory, remove_directory

pytestmark = [pytest.mark.stack]

ANA = "+40700000001"
QUICK = replace(DEMO, window_ms=0)

Answerer = Callable[[Request], Response]


@pytest.fixture
def directory() -> Iterator[Path]:
    made = make_directory("real-client")
    yield made
    remove_directory(made)


@asynccontextmanager
async def provider(app: ASGIApp) -> AsyncIterator[str]:
    """The app on a free port, as the base URL of an OpenAI-compatible endpoint."""
    http = server(app, host="127.0.0.1", port=0)
    serving = asyncio.create_task(http.serve())
    while not http.started:
        await asyncio.sleep(0.01)
    try:
        yield f"{http.address}/v1"
    finally:
        http.should_exit = True
        await serving


@asynccontextmanager
async def installed(directory: Path, app: ASGIApp) -> AsyncIterator[tuple[OneProcess, Telephone]]:
    async with provider(app) as url:
        settings = load_settings(
            llm=f"openai-compatible:mock-rules@{url}", openai_compatible_api_key="sk-of-the-test"
        )
        async with (
            one_process(settings, directory, demo=QUICK, keeps=False) as installation,
            running(installation),
        ):
            telephone = Telephone(installation, ANA)
            yield installation, telephone
            await telephone.close()


class Scripted:
    """A provider that answers by a script: one response a request, the last one again and again."""

    def __init__(self, *responses: Response) -> None:
        self._responses = list(responses)
        self.asked = 0

    async def __call__(self, scope: object, receive: object, send: object) -> None:
        self.asked += 1
        response = self._responses.pop(0) if len(self._responses) > 1 else self._responses[0]
        await response(scope, receive, send)  # type: ignore[arg-type]


def said(text: str | None, *, finish: str = "stop") -> Response:
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    return JSONResponse(
        {
            "id": "c",
            "object": "chat.completion",
            "created": 1,
            "model": "scripted",
            "choices": [{"index": 0, "finish_reason": finish, "message": message}],
            "usage": usage,
        }
    )


async def fetch(installation: OneProcess, query: str) -> list[dict[str, object]]:
    return [dict(row) for row in await installation.parts.database.fetch(query)]


async def test_a_booking_goes_all_the_way(directory: Path) -> None:
    async with installed(directory, mock_app(load_packs())) as (installation, telephone):
        await telephone.write("Book a cleaning tomorrow at 10")
        [prompt] = await telephone.wait()
        assert "Reply YES" in prompt.text
        await telephone.write("yes")
        [receipt] = await telephone.wait()
        assert receipt.text.startswith("Booked")
        [call] = await fetch(
            installation, "select provider, model, state, input_tokens, output_tokens, cost_usd from llm_call"
        )
        assert call["provider"] == "openai-compatible"
        assert call["state"] == "done"
        assert call["input_tokens"]
        assert call["cost_usd"] is None, "nobody knows what such a server costs"
        assert len(await fetch(installation, "select id from receipt")) == 1


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param(
            [JSONResponse({"error": {"message": "req_011 broke"}}, status_code=500)], id="always down"
        ),
        pytest.param(
            [JSONResponse({"error": {"code": "insufficient_quota"}}, status_code=429)], id="no quota"
        ),
        pytest.param([Response("<html>hello</html>", media_type="text/html")], id="a web page"),
        pytest.param([said(None)], id="empty"),
        pytest.param([said("I have half a", finish="length")], id="cut off"),
        pytest.param([said("", finish="content_filter")], id="filtered"),
    ],
)
async def test_no_usable_answer_is_one_honest_sentence_and_people(
    directory: Path, answers: list[Response]
) -> None:
    async with installed(directory, Scripted(*answers)) as (installation, telephone):
        await telephone.write("Hello")
        arrived = await telephone.wait(within_s=30)
        assert [one.text for one in arrived] == [load("en").notice("fallback")]
        assert [
            row["state"] for row in await fetch(installation, "select state from conversation_state")
        ] == ["handoff"]
        await telephone.write("Are you there?")
        assert await telephone.wait(within_s=1.5) == [], "people have it now"


async def test_a_brief_failure_is_tried_once_more_and_both_attempts_are_metered(directory: Path) -> None:
    scripted = Scripted(
        JSONResponse({"error": {"message": "try again"}}, status_code=503), said("Good morning!")
    )
    async with installed(directory, scripted) as (installation, telephone):
        await telephone.write("Hello")
        assert [one.text for one in await telephone.wait()] == ["Good morning!"]
        calls = await fetch(installation, "select state, n, try, error from llm_call order by started_at")
        assert [(call["state"], call["n"], call["try"]) for call in calls] == [
            ("failed", 1, 1),
            ("done", 1, 2),
        ]
        assert scripted.asked == 2
