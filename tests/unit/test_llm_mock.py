"""The mock model, in process and over HTTP, with a toy pack: the two give the same answers."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from shared.ids import BusinessId
from shared.llm import mock_responses
from shared.llm.endpoint import EndpointModel
from shared.llm.mock import MockModel
from shared.llm.mock_server import app, request_in
from shared.llm.port import (
    Answer,
    AssistantCalls,
    AssistantText,
    FailureKind,
    Finish,
    Message,
    Model,
    ModelFailure,
    Request,
    ToolCall,
    ToolResult,
    ToolSpec,
    UserText,
)
from shared.llm.profiles import COMPATIBLE, OPENAI, Profile
from shared.packs import Pack, Sql, Tool, ToolContext, ToolKind

WITHIN_S = 10


class Nothing(BaseModel):
    pass


class ToyPack:
    """Rules: `table N` calls the tool, a result is told, some words end the answer otherwise, others echo."""

    queries: tuple[Path, ...] = ()
    migrations = Path()

    def __init__(self, name: str = "tables", *tools: str) -> None:
        self.name = name
        self.tools = tuple(
            Tool(
                name=tool,
                description="",
                arguments=Nothing,
                kind=ToolKind.READ,
                risk=None,
                wrong_call_costs="",
            )
            for tool in tools or ("reserve_table",)
        )
        self.asked: list[Request] = []

    async def prompt_facts(self, context: ToolContext) -> str:
        return ""

    async def seed(self, sql: Sql, business: BusinessId, *, now: datetime) -> None:
        return None

    def mock_answer(self, request: Request) -> Answer:
        self.asked.append(request)
        last = request.messages[-1]
        if isinstance(last, ToolResult):
            return Answer(text=f"{self.name}: {last.name} gave {last.content}")
        text = last.text or ""
        if text.startswith("table"):
            return Answer(
                text=None,
                calls=(ToolCall(id="1", name="reserve_table", arguments=json.dumps({"seats": text[6:]})),),
            )
        finish = {"no": Finish.REFUSAL, "long": Finish.LENGTH, "bad": Finish.FILTER}.get(text, Finish.END)
        return Answer(text=f"{self.name}: {text}" if finish is Finish.END else None, finish=finish)


def spec(name: str = "reserve_table") -> ToolSpec:
    schema = {
        "additionalProperties": False,
        "properties": {"seats": {"type": "string"}},
        "required": ["seats"],
        "type": "object",
    }
    return ToolSpec(name=name, description="Reserve a table", parameters=schema)


def request(*messages: Message, tools: tuple[ToolSpec, ...] = (spec(),)) -> Request:
    return Request(system="You work for a café.", messages=messages, tools=tools)


@contextlib.asynccontextmanager
async def in_process(pack: Pack) -> AsyncIterator[Model]:
    yield MockModel({pack.name: pack})


def behind_http(profile: Profile, *packs: Pack) -> EndpointModel:
    return EndpointModel(
        profile,
        "mock-rules",
        api_key=None,
        base_url="http://mock.invalid/v1",
        slots=4,
        transport=httpx2.ASGITransport(app({pack.name: pack for pack in packs})),
    )


@contextlib.asynccontextmanager
async def over_chat(pack: Pack) -> AsyncIterator[Model]:
    model = behind_http(COMPATIBLE, pack)
    yield model
    await model.close()


@contextlib.asynccontextmanager
async def over_responses(pack: Pack) -> AsyncIterator[Model]:
    model = behind_http(OPENAI, pack)
    yield model
    await model.close()


every_way = pytest.mark.parametrize("model_with", [in_process, over_chat, over_responses])


@every_way
async def test_text_comes_back_with_usage_that_the_text_decides(model_with) -> None:
    async with model_with(ToyPack()) as model:
        first = await model.complete(request(UserText(text="bună ziua")), timeout_s=WITHIN_S)
        again = await model.complete(request(UserText(text="bună ziua")), timeout_s=WITHIN_S)
    assert replace(first, raw=()) == replace(again, raw=())
    assert (first.text, first.finish, first.model) == ("tables: bună ziua", Finish.END, "mock-rules")
    assert (first.usage.input, first.usage.output) == (42, 5)  # 165 characters, 17 characters


@every_way
async def test_a_conversation_with_tools_reaches_the_rules_as_it_was(model_with) -> None:
    pack = ToyPack()
    turn: list[Message] = [AssistantText(text="Hello!"), UserText(text="table 4")]
    async with model_with(pack) as model:
        for content in ('{"free":true}', '{"free":false}'):
            asked = await model.complete(request(*turn), timeout_s=WITHIN_S)
            assert asked.finish is Finish.TOOLS
            assert [(c.name, c.arguments) for c in asked.calls] == [("reserve_table", '{"seats": "4"}')]
            turn.append(AssistantCalls(text=asked.text, calls=asked.calls, raw=asked.raw))
            turn.append(ToolResult(call_id=asked.calls[0].id, name="reserve_table", content=content))
            told = await model.complete(request(*turn), timeout_s=WITHIN_S)
            assert told.text == f"tables: reserve_table gave {content}"
            turn.append(UserText(text="table 4"))
    bare = [
        AssistantCalls(text=m.text, calls=m.calls) if isinstance(m, AssistantCalls) else m for m in turn[:-1]
    ]
    seen = pack.asked[-1]
    assert (seen.system, list(seen.tools)) == ("You work for a café.", [spec()])
    assert [
        AssistantCalls(text=m.text, calls=m.calls) if isinstance(m, AssistantCalls) else m
        for m in seen.messages
    ] == bare
    ids = [call.id for m in turn if isinstance(m, AssistantCalls) for call in m.calls]
    assert len(set(ids)) == 2, "the rules say 1 each time"


@every_way
@pytest.mark.parametrize(
    ("text", "finish"), [("no", Finish.REFUSAL), ("long", Finish.LENGTH), ("bad", Finish.FILTER)]
)
async def test_the_rules_can_fail_as_models_do(model_with, text: str, finish: Finish) -> None:
    async with model_with(ToyPack()) as model:
        answer = await model.complete(request(UserText(text=text)), timeout_s=WITHIN_S)
    assert (answer.finish, answer.text) == (finish, None)


async def test_the_pack_is_the_one_whose_tools_the_request_carries() -> None:
    packs = {"a": ToyPack("a", "x", "shared"), "b": ToyPack("b", "y", "z", "shared")}
    model = MockModel(packs)

    async def answering(*tools: str) -> str | None:
        asked = request(UserText(text="hi"), tools=tuple(spec(name) for name in tools))
        return (await model.complete(asked, timeout_s=WITHIN_S)).text

    assert await answering("y", "z", "handoff") == "b: hi"
    assert await answering("x") == "a: hi"
    assert await answering("shared") == "a: hi"
    assert await answering("shared", "y") == "b: hi"
    with pytest.raises(ModelFailure) as caught:
        await answering("handoff")
    assert caught.value.kind is FailureKind.REFUSED


async def test_the_only_pack_answers_without_tools() -> None:
    answer = await MockModel({"a": ToyPack("a")}).complete(
        request(UserText(text="hi"), tools=()), timeout_s=WITHIN_S
    )
    assert answer.text == "a: hi"


async def test_it_is_free_and_called_mock() -> None:
    model = MockModel({})
    answer = await MockModel({"a": ToyPack()}).complete(request(UserText(text="hi")), timeout_s=WITHIN_S)
    assert model.price(answer.usage, model=answer.model) == Decimal(0)
    assert (model.provider, model.name) == ("mock", "mock-rules")
    await model.close()


async def test_a_latency_beyond_the_time_is_a_timeout() -> None:
    model = MockModel({"a": ToyPack()}, latency_s=0.02)
    assert (await model.complete(request(UserText(text="hi")), timeout_s=WITHIN_S)).text
    with pytest.raises(ModelFailure) as caught:
        await model.complete(request(UserText(text="hi")), timeout_s=0.001)
    assert caught.value.kind is FailureKind.TIMEOUT


# The server


def client() -> httpx2.AsyncClient:
    pack = ToyPack()
    return httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app({pack.name: pack})), base_url="http://mock.invalid"
    )


async def test_the_server_names_its_model() -> None:
    async with client() as http:
        listed = (await http.get("/v1/models")).json()
    assert [each["id"] for each in listed["data"]] == ["mock-rules"]


async def test_contents_in_parts_are_read() -> None:
    body = {
        "model": "mock-rules",
        "messages": [
            {"role": "developer", "content": "Be kind."},
            {"role": "user", "content": [{"type": "text", "text": "he"}, {"type": "text", "text": "llo"}]},
        ],
    }
    async with client() as http:
        answered = (await http.post("/v1/chat/completions", json=body)).json()
    assert answered["choices"][0]["message"]["content"] == "tables: hello"


@pytest.mark.parametrize(
    "body",
    [
        b'{"model": "m", "input": [], "store": true}',
        b'{"model": "m", "input": [{"role": "king", "content": "x"}], "store": false}',
        b'{"model": "m", "input": [{"type": "function_call_output", "call_id": "never"}], "store": false}',
    ],
)
async def test_what_is_no_request_for_a_response_is_a_400_too(body: bytes) -> None:
    async with client() as http:
        answered = await http.post("/v1/responses", content=body)
    assert answered.status_code == 400
    assert answered.json()["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[" * 100_000,
        b"{}",
        b'{"model": "m", "messages": []}',
        b'{"model": "m", "messages": [{"role": "king", "content": "x"}]}',
        b'{"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": true}',
        b'{"model": "m", "messages": [{"role": "tool", "tool_call_id": "never", "content": "x"}]}',
    ],
)
async def test_what_is_no_request_is_a_400_in_the_usual_form(body: bytes) -> None:
    async with client() as http:
        answered = await http.post("/v1/chat/completions", content=body)
    assert answered.status_code == 400
    assert answered.json()["error"]["message"]


@pytest.mark.parametrize("profile", [COMPATIBLE, OPENAI], ids=["chat", "responses"])
async def test_a_refusal_of_the_mock_reaches_the_client_as_one(profile: Profile) -> None:
    model = behind_http(profile, ToyPack("a"), ToyPack("b", "y"))
    with pytest.raises(ModelFailure, match="no installed pack") as caught:
        await model.complete(request(UserText(text="hi"), tools=()), timeout_s=WITHIN_S)
    assert caught.value.kind is FailureKind.REFUSED
    await model.close()


@settings(max_examples=200, deadline=None)
@given(
    st.binary(max_size=300)
    | st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["model", "messages", "role", "content", "tools", "input", "type", "call_id"]
                ),
                inner,
                max_size=4,
            )
        ),
    ).map(lambda value: json.dumps(value).encode())
)
def test_any_body_is_a_request_or_a_value_error(body: bytes) -> None:
    for read in (request_in, mock_responses.request_in):
        with contextlib.suppress(ValueError):
            assert isinstance(read(body), Request)


async def test_many_at_once_are_told_apart() -> None:
    async with over_chat(ToyPack()) as model, asyncio.TaskGroup() as tasks:
        asked = [
            tasks.create_task(model.complete(request(UserText(text=f"n{i}")), timeout_s=WITHIN_S))
            for i in range(50)
        ]
        await asyncio.wait(asked)
    assert [each.result().text for each in asked] == [f"tables: n{i}" for i in range(50)]
