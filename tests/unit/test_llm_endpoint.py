"""EndpointModel through the real openai client: what providers do, scripted, and what must come of it."""

import asyncio
import contextlib
import gc
import json
import logging
import traceback
from collections.abc import AsyncIterator, Callable

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from shared.llm.endpoint import EndpointModel
from shared.llm.port import (
    UNTOLD,
    Answer,
    AssistantCalls,
    AssistantText,
    FailureKind,
    Finish,
    ModelFailure,
    Request,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    UserText,
)
from shared.llm.profiles import COMPATIBLE, OPENAI, OPENAI_CHAT, Profile
from shared.llm.transport import ANSWER_BYTES_MAX, read_retry_after

KEY = "sk-test-0123456789abcdef"
HELLO = Request(system="Be kind.", messages=(UserText(text="Hello"),), tools=())
Handler = Callable[[httpx2.Request], httpx2.Response]


class Provider:
    """A scripted provider: answers in order, the last one for ever, and keeps what it was sent."""

    def __init__(self, *answers: httpx2.Response | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[httpx2.Request] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return httpx2.Response(answer.status_code, headers=answer.headers, content=answer.content)

    @property
    def sent(self) -> list[dict]:
        return [json.loads(request.content) for request in self.requests]


@contextlib.asynccontextmanager
async def openai_at(
    handler: Handler, name: str = "gpt-4.1-mini", *, profile: Profile = OPENAI_CHAT
) -> AsyncIterator[EndpointModel]:
    model = EndpointModel(
        profile, name, api_key=SecretStr(KEY), slots=4, transport=httpx2.MockTransport(handler)
    )
    try:
        yield model
    finally:
        await model.close()


@contextlib.asynccontextmanager
async def local_at(handler: Handler) -> AsyncIterator[EndpointModel]:
    model = server_at("http://127.0.0.1:1/v1/", slots=4, transport=httpx2.MockTransport(handler))
    yield model
    await model.close()


def server_at(url: str, *, slots: int = 1, transport: httpx2.MockTransport | None = None) -> EndpointModel:
    return EndpointModel(COMPATIBLE, "llama", api_key=None, base_url=url, slots=slots, transport=transport)


def chat(message: object, finish: object = "stop", **more: object) -> httpx2.Response:
    body = {"model": "gpt-4.1-mini-2025-04-14", "choices": [{"message": message, "finish_reason": finish}]}
    return httpx2.Response(200, json=body | more)


def call(call_id: object, name: object = "book", arguments: object = "{}", **more: object) -> dict:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}} | more


async def ask(answer: httpx2.Response | Exception, request: Request = HELLO) -> Answer:
    async with openai_at(Provider(answer)) as model:
        return await model.complete(request, timeout_s=5)


async def failure(answer: httpx2.Response | Exception) -> ModelFailure:
    with pytest.raises(ModelFailure) as caught:
        await ask(answer)
    return caught.value


@pytest.fixture(autouse=True)
def no_stray_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.delenv(name, raising=False)


# What goes out


async def test_a_request_goes_out_as_openai_documents_it() -> None:
    provider = Provider(chat({"content": "Hi"}))
    request = Request(
        system="Be kind.",
        messages=(
            UserText(text="Book me"),
            AssistantText(text="When?"),
            UserText(text="Ten"),
            AssistantCalls(text=None, calls=(ToolCall(id="a", name="book", arguments='{"at":10}'),)),
            ToolResult(call_id="a", name="book", content='{"refused":"taken"}'),
        ),
        tools=(ToolSpec(name="book", description="Book it", parameters={"type": "object"}),),
        max_output_tokens=77,
        cache_key="acme:1",
        customer="hash",
    )
    async with openai_at(provider) as model:
        await model.complete(request, timeout_s=5)
    assert str(provider.requests[0].url) == "https://api.openai.com/v1/chat/completions"
    assert provider.requests[0].headers["authorization"] == f"Bearer {KEY}"
    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    function = {"name": "book", "description": "Book it", "parameters": schema, "strict": True}
    assert provider.sent[0] == {
        "model": "gpt-4.1-mini",
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Book me"},
            {"role": "assistant", "content": "When?"},
            {"role": "user", "content": "Ten"},
            {"role": "assistant", "content": "", "tool_calls": [call("a", "book", '{"at":10}')]},
            {"role": "tool", "tool_call_id": "a", "content": '{"refused":"taken"}'},
        ],
        "tools": [{"type": "function", "function": function}],
        "parallel_tool_calls": False,
        "max_completion_tokens": 77,
        "store": False,
        "temperature": 0.2,
        "prompt_cache_key": "acme:1",
        "safety_identifier": "hash",
    }


async def test_a_compatible_server_is_sent_only_what_every_server_takes() -> None:
    provider = Provider(chat({"content": "Hi"}))
    async with local_at(provider) as model:
        await model.complete(
            Request(system="", messages=(), tools=(), cache_key="k", customer="c"), timeout_s=5
        )
    assert set(provider.sent[0]) == {"model", "messages", "max_tokens", "temperature"}
    assert str(provider.requests[0].url) == "http://127.0.0.1:1/v1/chat/completions"


@pytest.mark.parametrize(
    ("name", "effort"),
    [("gpt-6-luna", "none"), ("gpt-5.6-luna", "none"), ("gpt-4.1-mini", None), ("gpt-4o-mini", None)],
)
async def test_reasoning_is_off_where_tools_need_it_and_not_named_where_it_is_unknown(
    name: str, effort: str | None
) -> None:
    provider = Provider(chat({"content": "Hi"}))
    async with openai_at(provider, name) as model:
        await model.complete(HELLO, timeout_s=5)
    assert provider.sent[0].get("reasoning_effort") == effort


async def test_nothing_of_the_openai_environment_reaches_another_provider(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere.invalid/v1")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-x")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-x")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: token-x\nAuthorization: Bearer token-y")
    provider = Provider(chat({"content": "Hi"}))
    async with local_at(provider) as model:
        await model.complete(HELLO, timeout_s=5)
    sent = provider.requests[0]
    assert sent.url.host == "127.0.0.1"
    assert sent.headers["authorization"] == "Bearer none"
    assert not {"openai-organization", "openai-project", "x-gateway"} & set(sent.headers)


def refuses(parameter: str) -> httpx2.Response:
    error = {"message": "Unsupported", "param": parameter, "code": "unsupported_parameter"}
    return httpx2.Response(400, json={"error": error})


async def test_a_refused_parameter_is_left_out_at_once_and_from_then_on() -> None:
    provider = Provider(refuses("temperature"), refuses("prompt_cache_key"), chat({"content": "Hi"}))
    request = Request(system="", messages=(), tools=(), cache_key="k")
    async with openai_at(provider) as model:
        assert (await model.complete(request, timeout_s=5)).text == "Hi"
        assert (await model.complete(request, timeout_s=5)).text == "Hi"
    assert len(provider.sent) == 4
    assert "temperature" not in provider.sent[3]
    assert "prompt_cache_key" not in provider.sent[3]


async def test_the_limit_is_called_by_its_other_name_once_and_is_never_left_out() -> None:
    provider = Provider(
        refuses("max_completion_tokens"),
        refuses("max_tokens"),
        refuses("max_tokens"),
        chat({"content": "Hi"}),
    )
    async with openai_at(provider) as model:
        with pytest.raises(ModelFailure, match="max_tokens"):
            await model.complete(HELLO, timeout_s=5)
        assert len(provider.sent) == 2
        with contextlib.suppress(ModelFailure):
            await model.complete(HELLO, timeout_s=5)
    assert "max_completion_tokens" in provider.sent[2], "what was not taken is not remembered"


async def test_a_parameter_that_cannot_be_left_out_is_a_refusal() -> None:
    assert (await failure(refuses("messages"))).kind is FailureKind.REFUSED


# What comes back


async def test_a_text_answer() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    answer = await ask(chat({"role": "assistant", "content": "Hi", "refusal": None}, usage=usage))
    assert answer == Answer(
        text="Hi",
        finish=Finish.END,
        usage=Usage(input=100, cached=60, output=20, reasoning=5, written=30),
        model="gpt-4.1-mini-2025-04-14",
        raw=({"role": "assistant", "content": "Hi"},),
    )


@pytest.mark.parametrize("finish", ["tool_calls", "stop", "function_call", None, 7])
async def test_calls_are_told_by_their_presence_whatever_the_finish_reason(finish: object) -> None:
    answer = await ask(chat({"content": None, "tool_calls": [call("a", arguments='{"x":1}')]}, finish))
    assert answer.finish is Finish.TOOLS
    assert answer.calls == (ToolCall(id="a", name="book", arguments='{"x":1}'),)
    assert answer.text is None


@pytest.mark.parametrize(
    ("message", "finish", "expected"),
    [
        ({"content": "Hel"}, "length", Finish.LENGTH),
        ({"content": None, "tool_calls": [call("a", arguments='{"x":')]}, "length", Finish.LENGTH),
        ({"content": None, "tool_calls": [call("a", name=None)]}, "length", Finish.LENGTH),
        ({"content": ""}, "content_filter", Finish.FILTER),
        (None, "content_filter", Finish.FILTER),
        ({"content": None, "refusal": "I can't."}, "stop", Finish.REFUSAL),
        ({"content": "", "tool_calls": []}, "stop", Finish.END),
        ({}, None, Finish.END),
    ],
)
async def test_answers_that_are_none_say_why_and_hand_on_no_calls(
    message: object, finish: object, expected: Finish
) -> None:
    answer = await ask(chat(message, finish))
    assert (answer.finish, answer.calls) == (expected, ())


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}], "Hello"),
        ([{"type": "image"}, 7], None),
        (7, None),
        (" \n", None),
    ],
)
async def test_content_in_parts_or_of_no_use(content: object, text: str | None) -> None:
    assert (await ask(chat({"content": content}))).text == text


@pytest.mark.parametrize("arguments", [None, ""])
async def test_no_arguments_are_an_empty_object(arguments: object) -> None:
    answer = await ask(chat({"tool_calls": [call("a", arguments=arguments)]}))
    assert answer.calls[0].arguments == "{}"


async def test_arguments_that_are_an_object_become_text() -> None:
    answer = await ask(chat({"tool_calls": [call("a", arguments={"day": "luni"})]}))
    assert json.loads(answer.calls[0].arguments) == {"day": "luni"}


@pytest.mark.parametrize(
    "ids",
    [
        ("", ""),
        (None, None),
        ("a", "a"),
        ("a", ""),
        (7, 7),
        ("", "call00000"),
        ("earlier", "a"),
        ("x" * 999, "b"),
    ],
)
async def test_every_call_of_a_turn_has_an_id_of_its_own_in_both_places(ids: tuple[object, object]) -> None:
    earlier = ToolCall(id="earlier", name="book", arguments="{}")
    request = Request(system="", messages=(AssistantCalls(text=None, calls=(earlier,)),), tools=())
    answer = await ask(chat({"tool_calls": [call(ids[0]), call(ids[1], extra_content={"k": 1})]}), request)
    got = [each.id for each in answer.calls]
    assert len({"earlier", "", *got}) == 4
    assert [item["id"] for item in answer.raw[0]["tool_calls"]] == got
    assert answer.raw[0]["tool_calls"][1]["extra_content"] == {"k": 1}
    assert {"a", "b", "call00000"} & set(ids) <= set(got), "a good id is kept"
    assert ids != ("", "call00000") or got == ["call00001", "call00000"]


async def test_a_call_without_an_id_at_all_gets_one() -> None:
    answer = await ask(chat({"tool_calls": [{"function": {"name": "book"}}]}))
    assert answer.calls == (ToolCall(id="call00000", name="book", arguments="{}"),)


async def test_a_tool_round_sends_the_answer_back_unchanged() -> None:
    signed = call("a", extra_content={"google": {"thought_signature": "c2ln"}})
    message = {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [signed]}
    provider = Provider(chat(message), chat({"content": "Done"}))
    async with openai_at(provider) as model:
        first = await model.complete(HELLO, timeout_s=5)
        turn = (
            *HELLO.messages,
            AssistantCalls(text=first.text, calls=first.calls, raw=first.raw),
            ToolResult(call_id=first.calls[0].id, name="book", content="{}"),
        )
        await model.complete(Request(system="", messages=turn, tools=()), timeout_s=5)
    assert provider.sent[1]["messages"][2] == message | {"content": ""}


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, UNTOLD),
        ("lots", UNTOLD),
        ({}, UNTOLD),
        ({"prompt_tokens": None, "completion_tokens": "many"}, UNTOLD),
        ({"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 30}, Usage(input=10, output=20)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 0}, Usage(input=10, output=5)),
        ({"prompt_tokens": 10, "prompt_cache_hit_tokens": 7}, Usage(input=10, cached=7)),
        ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 99}}, Usage(input=10, cached=10)),
        ({"prompt_tokens": 10, "prompt_tokens_details": None}, Usage(input=10)),
        ({"prompt_tokens": -5, "completion_tokens": True}, Usage()),
        ({"prompt_tokens": 10.0, "completion_tokens": 1.5}, Usage(input=10)),
        ({"prompt_tokens": 10**15}, Usage(input=2**31 - 1)),
    ],
)
async def test_usage_is_read_wherever_it_is_and_never_absurd(usage: object, expected: Usage) -> None:
    assert (await ask(chat({"content": "Hi"}, usage=usage))).usage == expected


async def test_the_configured_name_stands_in_for_one_that_is_not_told() -> None:
    assert (await ask(chat({"content": "Hi"}, model=None))).model == "gpt-4.1-mini"


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"<!doctype html><p>Welcome", "HTML"),
        (b"", "JSON"),
        (b"\xff\xfe", "JSON"),
        (b'data: {"choices": []}', "JSON"),
        (b"[" * 100_000, "JSON"),
        (b'"text"', "no JSON object"),
        (b"null", "no JSON object"),
        (b"[]", "list"),
        (b'[{"error": {"code": 503, "message": "busy"}}]', "503, busy"),
        (b'{"error": {"message": "no credit"}}', "no credit"),
        (b"{}", "no choice"),
        (b'{"choices": []}', "no choice"),
        (b'{"choices": null}', "no choice"),
        (b'{"choices": {"0": 1}}', "no choice"),
        (b'{"choices": [null]}', "no choice"),
        (b'{"choices": [{}]}', "no choice"),
        (b'{"choices": [{"message": "Hi"}]}', "no message"),
        (b'{"choices": [{"message": {"content": "Hi"}, "finish_reason": "error"}]}', "broken off"),
        (b'{"choices": [{"message": {"tool_calls": {}}}]}', "no list"),
        (b'{"choices": [{"message": {"tool_calls": [null]}}]}', "without a name"),
        (b'{"choices": [{"message": {"tool_calls": [{"function": {"name": ""}}]}}]}', "without a name"),
        (
            b'{"choices": [{"message": {"tool_calls": [{"function": {"name": "f", "arguments": 7}}]}}]}',
            "no text",
        ),
        (b'{"choices": [{"message": {"content": "a\\u0000b"}}]}', "NUL"),
        (b'{"choices": [{"message": {"content": "half a face: \\ud83d"}}]}', "JSON"),
        (b'{"choices": [{"message": {"content": "half a face: \\ud83d, and more of the same"}}]}', "JSON"),
        (b'{"choices": [{"message": {"content": "\\ude00 the other half, and more"}}]}', "JSON"),
    ],
)
async def test_a_200_without_an_answer_in_it(body: bytes, detail: str) -> None:
    failed = await failure(httpx2.Response(200, content=body))
    assert failed.kind is FailureKind.BAD_ANSWER
    assert detail in failed.detail


async def test_a_useless_answer_is_billed_all_the_same() -> None:
    failed = await failure(
        httpx2.Response(200, json={"model": "m", "choices": [], "usage": {"prompt_tokens": 9}})
    )
    assert (failed.usage, failed.model) == (Usage(input=9), "m")


async def test_blank_lines_before_the_body_do_no_harm() -> None:
    body = b"\n\n\n" + chat({"content": "Hi"}).content
    assert (await ask(httpx2.Response(200, content=body))).text == "Hi"


# Failures


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (302, FailureKind.GONE),
        (308, FailureKind.GONE),
        (400, FailureKind.REFUSED),
        (401, FailureKind.AUTH),
        (402, FailureKind.AUTH),
        (403, FailureKind.AUTH),
        (404, FailureKind.GONE),
        (405, FailureKind.GONE),
        (408, FailureKind.TIMEOUT),
        (409, FailureKind.SERVER),
        (410, FailureKind.GONE),
        (413, FailureKind.REFUSED),
        (418, FailureKind.REFUSED),
        (422, FailureKind.REFUSED),
        (429, FailureKind.RATE),
        (500, FailureKind.SERVER),
        (502, FailureKind.SERVER),
        (503, FailureKind.SERVER),
        (529, FailureKind.SERVER),
    ],
)
@pytest.mark.parametrize("body", [b"", b"<html>", b'{"error": {"message": "m", "code": null}}', b"[[]]"])
async def test_every_status_has_its_kind_whatever_the_body(
    status: int, kind: FailureKind, body: bytes
) -> None:
    headers = {"location": "https://elsewhere.invalid/"} if status < 400 else {}
    provider = Provider(httpx2.Response(status, headers=headers, content=body))
    async with openai_at(provider) as model:
        with pytest.raises(ModelFailure) as caught:
            await model.complete(HELLO, timeout_s=5)
    assert caught.value.kind is kind
    assert f"status {status}" in caught.value.detail
    assert len(provider.requests) == 1, "one call is one attempt"


@pytest.mark.parametrize(
    "error",
    [
        {"code": "insufficient_quota"},
        {"type": "insufficient_quota", "code": None},
        {"code": "billing_not_active"},
    ],
)
async def test_an_empty_account_is_no_rate_limit(error: dict) -> None:
    assert (await failure(httpx2.Response(429, json={"error": error}))).kind is FailureKind.AUTH
    assert (await failure(httpx2.Response(429, json=[{"error": error}]))).kind is FailureKind.AUTH


async def test_an_error_as_a_list_is_read() -> None:
    body = [{"error": {"code": 400, "message": "API key not valid.\nSorry", "status": "INVALID_ARGUMENT"}}]
    failed = await failure(httpx2.Response(400, json=body))
    assert failed.detail == "status 400, 400, INVALID_ARGUMENT, API key not valid. Sorry"


async def test_the_wait_that_a_provider_asks_for_is_handed_on() -> None:
    failed = await failure(httpx2.Response(429, headers={"retry-after": "7"}))
    assert failed.retry_after_s == 7.0


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({}, None),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Mon, 30 Nov 2026 10:00:30 GMT"}, None),
        ({"retry-after": "Mon, 30 Nov 2026 10:00:30 GMT", "date": "Mon, 30 Nov 2026 10:00:00 GMT"}, 30.0),
        ({"retry-after": "Mon, 30 Nov 2026 09:00:00 GMT", "date": "Mon, 30 Nov 2026 10:00:00 GMT"}, 0.0),
        ({"retry-after": "Mon, 30 Nov 2026 10:00:30 -0000", "date": "Mon, 30 Nov 2026 10:00:00 GMT"}, None),
    ],
)
def test_retry_after_is_seconds_milliseconds_or_a_date(headers: dict, wait_s: float | None) -> None:
    assert read_retry_after(httpx2.Headers(headers)) == wait_s


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (httpx2.ConnectError("refused"), FailureKind.CONNECTION),
        (httpx2.ConnectTimeout("slow"), FailureKind.CONNECTION),
        (httpx2.RemoteProtocolError("gone"), FailureKind.CONNECTION),
        (httpx2.ReadError("reset"), FailureKind.CONNECTION),
        (httpx2.ReadTimeout("slow"), FailureKind.TIMEOUT),
        (httpx2.PoolTimeout("full"), FailureKind.TIMEOUT),
        (httpx2.DecodingError("no gzip"), FailureKind.BAD_ANSWER),
        (OSError("odd"), FailureKind.CONNECTION),
        (RuntimeError("odder"), FailureKind.CONNECTION),
    ],
)
async def test_failures_below_http(error: Exception, kind: FailureKind) -> None:
    failed = await failure(error)
    assert failed.kind is kind
    assert type(error).__name__ in failed.detail


@pytest.mark.parametrize("status", [200, 500])
async def test_an_endless_body_is_cut_by_its_size(status: int) -> None:
    given = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal given
        while True:
            given += 100_000
            yield b" " * 100_000

    async with openai_at(lambda _: httpx2.Response(status, content=endless())) as model:
        with pytest.raises(ModelFailure) as caught:
            await model.complete(HELLO, timeout_s=30)
    assert caught.value.kind is FailureKind.BAD_ANSWER
    assert given <= ANSWER_BYTES_MAX + 100_000


# Secrets


@pytest.mark.parametrize("status", [200, 400, 401, 429, 500])
async def test_the_key_and_the_customers_words_stay_out_of_failures_and_logs(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    echo = {"error": {"message": f"{'x' * 190} Incorrect API key: {KEY}", "code": KEY, "param": KEY}}
    provider = Provider(httpx2.Response(status, json=echo))
    async with openai_at(provider) as model:
        with pytest.raises(ModelFailure) as caught:
            await model.complete(
                Request(system="", messages=(UserText(text="my-private-words"),), tools=()), timeout_s=5
            )
        shown = repr(model) + str(model) + caplog.text
    failed = caught.value
    shown += "".join(traceback.format_exception(failed)) + repr(failed) + repr(vars(failed))
    assert KEY[:12] not in shown
    assert "my-private-words" not in shown
    assert failed.__cause__ is None
    assert failed.__context__ is None


# Arbitrary answers

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
ANSWER_NAMES = ("choices", "message", "content", "tool_calls", "function", "name", "arguments", "id", "text")
OTHER_NAMES = ("refusal", "finish_reason", "model", "error", "usage", "prompt_tokens", "total_tokens")
NAMES = st.sampled_from((*ANSWER_NAMES, *OTHER_NAMES))
NEAR_JSON = st.recursive(
    st.none()
    | st.integers()
    | st.text(max_size=4)
    | st.sampled_from(["stop", "length", "content_filter", "{}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=30,
)


@st.composite
def near_answers(draw: st.DrawFn) -> dict:
    """An answer's outline, with anything at all in its places."""
    function = st.fixed_dictionaries({}, optional={"name": NEAR_JSON, "arguments": NEAR_JSON}) | NEAR_JSON
    calls = st.lists(
        st.fixed_dictionaries({}, optional={"id": NEAR_JSON, "function": function}) | NEAR_JSON, max_size=3
    )
    message = st.fixed_dictionaries(
        {}, optional={"content": NEAR_JSON, "refusal": NEAR_JSON, "tool_calls": calls}
    )
    choice = st.fixed_dictionaries({"message": message}, optional={"finish_reason": NEAR_JSON})
    return {"choices": [draw(choice)], "usage": draw(NEAR_JSON), "model": draw(NEAR_JSON)}


@st.composite
def near_responses(draw: st.DrawFn) -> dict:
    """The same of a Responses answer."""
    part = st.fixed_dictionaries(
        {"type": st.sampled_from(["output_text", "refusal", "thinking"])}, optional={"text": NEAR_JSON}
    )
    item = st.fixed_dictionaries(
        {"type": st.sampled_from(["message", "function_call", "reasoning"]) | NEAR_JSON},
        optional={
            "content": st.lists(part | NEAR_JSON, max_size=3) | NEAR_JSON,
            "call_id": NEAR_JSON,
            "name": NEAR_JSON,
            "arguments": NEAR_JSON,
            "phase": st.sampled_from(["commentary", "final_answer"]) | NEAR_JSON,
        },
    )
    status = st.sampled_from(["completed", "completed", "incomplete", "failed"]) | NEAR_JSON
    output = st.lists(item | NEAR_JSON, max_size=3) | NEAR_JSON
    return {"output": draw(output), "status": draw(status), "usage": draw(NEAR_JSON)}


def run(body: bytes, status: int, profile: Profile = OPENAI_CHAT) -> Answer | ModelFailure:
    async def attempt() -> Answer | ModelFailure:
        provider = Provider(httpx2.Response(status, content=body))
        async with openai_at(provider, profile=profile) as model:
            try:
                return await model.complete(HELLO, timeout_s=30)
            except ModelFailure as failed:
                return failed

    with asyncio.Runner() as runner:
        return runner.run(attempt())


@settings(deadline=None, max_examples=300)
@given(
    payload=JSON | NEAR_JSON | near_answers() | near_responses(),
    status=st.sampled_from([200, 200, 200, 400, 429, 500]),
    profile=st.sampled_from([OPENAI, OPENAI_CHAT]),
)
def test_any_json_at_all_is_an_answer_or_a_model_failure(
    payload: object, status: int, profile: Profile
) -> None:
    outcome = run(json.dumps(payload).encode(), status, profile)
    if isinstance(outcome, Answer):
        ids = [each.id for each in outcome.calls]
        assert len(set(ids)) == len(ids)
        assert all(ids)
        assert (outcome.finish is Finish.TOOLS) == bool(outcome.calls)
        assert outcome.usage.cached + outcome.usage.written <= outcome.usage.input
        json.dumps(outcome.raw).encode()


@settings(deadline=None, max_examples=100)
@given(body=st.binary(max_size=200), status=st.integers(min_value=200, max_value=599))
def test_any_bytes_at_all_are_an_answer_or_a_model_failure(body: bytes, status: int) -> None:
    assert isinstance(run(body, status), ModelFailure)


@settings(deadline=None, max_examples=100)
@given(cut=st.integers(min_value=0), junk=st.binary(max_size=3))
def test_an_answer_cut_at_any_byte_is_a_failure(cut: int, junk: bytes) -> None:
    whole = chat({"content": "Bună ziua", "tool_calls": [call("a")]}, usage={"prompt_tokens": 3}).content
    outcome = run(whole[: cut % len(whole)] + junk, 200)
    assert isinstance(outcome, ModelFailure)
    assert outcome.kind is FailureKind.BAD_ANSWER


# Time


@contextlib.asynccontextmanager
async def dripping(prefix: bytes) -> AsyncIterator[tuple[str, asyncio.Event, asyncio.Event]]:
    """A server that sends a byte now and then for ever: its address, whether reached, whether left."""
    reached, left = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(prefix)
            reached.set()
            hung_up = asyncio.ensure_future(reader.read())
            while not hung_up.done():
                writer.write(b" ")
                await writer.drain()
                await asyncio.wait([hung_up], timeout=0.005)
            hung_up.exception()
        left.set()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", reached, left
    finally:
        server.close()
        await server.wait_closed()


SLOW_BODY = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n"
SLOW_HEADERS = b"HTTP/1.1 200 OK\r\nx-slow: "


@pytest.mark.parametrize("prefix", [SLOW_BODY, SLOW_HEADERS, b""], ids=["body", "headers", "silence"])
async def test_a_drip_that_never_ends_is_cut_by_the_budget(prefix: bytes) -> None:
    async with dripping(prefix) as (url, _, left):
        model = server_at(url)
        for _ in range(2):  # the one connection there may be is free again
            with pytest.raises(ModelFailure) as caught:
                await model.complete(HELLO, timeout_s=0.1)
            assert caught.value.kind in (FailureKind.TIMEOUT, FailureKind.CONNECTION)
            assert prefix != SLOW_BODY or caught.value.kind is FailureKind.TIMEOUT
        await asyncio.wait_for(left.wait(), timeout=5)
        await model.close()


async def test_a_cancelled_call_is_cancelled_and_leaves_nothing_behind() -> None:
    async with dripping(SLOW_BODY) as (url, reached, left):
        model = server_at(url)
        before = asyncio.all_tasks()
        calling = asyncio.ensure_future(model.complete(HELLO, timeout_s=60))
        await asyncio.wait_for(reached.wait(), timeout=5)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await asyncio.wait_for(left.wait(), timeout=5)
        assert asyncio.all_tasks() - before <= {calling}
        await model.close()
    gc.collect()  # an unclosed socket would be a ResourceWarning, and so an error


@pytest.mark.parametrize("timeout_s", [0.0, -1.0])
async def test_no_time_left_is_a_timeout(timeout_s: float) -> None:
    async with openai_at(Provider(chat({"content": "Hi"}))) as model:
        with pytest.raises(ModelFailure) as caught:
            await model.complete(HELLO, timeout_s=timeout_s)
    assert caught.value.kind is FailureKind.TIMEOUT


async def test_calls_beyond_the_slots_wait_and_all_are_answered() -> None:
    at_once = most = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal at_once, most
        body = chat({"content": "Hi"}).content
        at_once += 1
        most = max(most, at_once)
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        at_once -= 1
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    model = server_at(url, slots=2)
    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(model.complete(HELLO, timeout_s=10)) for _ in range(20)]
    assert {each.result().text for each in asked} == {"Hi"}
    assert most <= 2
    await model.close()
    server.close()
    await server.wait_closed()


async def test_warming_up_needs_no_network() -> None:
    def never(_: httpx2.Request) -> httpx2.Response:
        raise AssertionError("a call went out")

    async with openai_at(never) as model:
        await model.warm_up()
