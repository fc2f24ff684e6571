"""The mock's rules behind Chat Completions and Responses over HTTP, for tests that want the real client to work.

Translates a request to the port's form, asks MockModel, and translates the answer back. Takes what EndpointModel
sends and what any OpenAI client does; refuses the rest with a 400 in the usual form.
"""

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from itertools import count
from typing import Annotated, Any, Literal

import msgspec
from fastapi import FastAPI
from fastapi import Request as HttpRequest
from fastapi.responses import Response

from shared.llm import mock_responses
from shared.llm.chat_wire import call_out
from shared.llm.mock import MODEL, MockModel
from shared.llm.port import (
    Answer,
    AssistantCalls,
    AssistantText,
    Finish,
    Message,
    ModelFailure,
    Request,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    UserText,
)
from shared.packs import Pack

REQUEST_BYTES_MAX = 4_000_000
ANSWER_WITHIN_S = 600.0

REASONS: Mapping[Finish, str] = {
    Finish.END: "stop",
    Finish.TOOLS: "tool_calls",
    Finish.LENGTH: "length",
    Finish.FILTER: "content_filter",
    Finish.REFUSAL: "stop",
}


def app(packs: Mapping[str, Pack], *, latency_s: float = 0.0) -> FastAPI:
    """An ASGI application that answers by the packs' rules, each after `latency_s`. Any key will do."""
    model = MockModel(packs, latency_s=latency_s)
    numbers = count(1)
    server = FastAPI(title="Leeway mock model", openapi_url=None, max_body_size=REQUEST_BYTES_MAX)

    @server.get("/v1/models")
    async def models() -> Response:
        return _json(
            {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "leeway"}]}
        )

    async def answered(
        http: HttpRequest, read: Callable[[bytes], Request], write: Callable[[Answer, int], dict[str, Any]]
    ) -> Response:
        try:
            answer = await model.complete(read(await http.body()), timeout_s=ANSWER_WITHIN_S)
        except (ValueError, RecursionError) as error:
            return _refused(f"not a request: {error}")
        except ModelFailure as failure:
            return _refused(failure.detail)
        return _json(write(answer, next(numbers)))

    @server.post("/v1/chat/completions")
    async def chat_completions(http: HttpRequest) -> Response:
        return await answered(http, request_in, answer_out)

    @server.post("/v1/responses")
    async def responses(http: HttpRequest) -> Response:
        return await answered(http, mock_responses.request_in, mock_responses.answer_out)

    return server


class _Function(msgspec.Struct):
    name: str
    arguments: str = "{}"


class _Call(msgspec.Struct):
    id: str
    function: _Function


class _Part(msgspec.Struct):
    type: Literal["text"]
    text: str


class _Message(msgspec.Struct):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str = ""

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content)
        return self.content or ""


class _Declaration(msgspec.Struct):
    name: str
    description: str = ""
    parameters: dict[str, Any] = {}


class _Tool(msgspec.Struct):
    type: Literal["function"]
    function: _Declaration


class _Body(msgspec.Struct):
    model: str
    messages: Annotated[list[_Message], msgspec.Meta(min_length=1)]
    tools: list[_Tool] | None = None
    stream: Literal[False] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    prompt_cache_key: str = ""
    safety_identifier: str = ""


_BODY = msgspec.json.Decoder(_Body)


def request_in(body: bytes) -> Request:
    """The port's form of a Chat Completions body. Raises ValueError for anything else."""
    sent = _BODY.decode(body)
    limit = sent.max_completion_tokens or sent.max_tokens or 600
    return Request(
        system="\n\n".join(m.text for m in sent.messages if m.role in ("system", "developer")),
        messages=_messages_in(sent.messages),
        tools=tuple(_tool_in(tool.function) for tool in sent.tools or ()),
        max_output_tokens=limit,
        cache_key=sent.prompt_cache_key,
        customer=sent.safety_identifier,
    )


def answer_out(answer: Answer, number: int) -> dict[str, Any]:
    """The body of a 200, `number` telling it from the others of this server."""
    refused = answer.finish is Finish.REFUSAL
    message: dict[str, Any] = {
        "role": "assistant",
        "content": None if refused else answer.text,
        "refusal": (answer.text or "I can't help with that.") if refused else None,
    }
    if answer.calls:
        message["tool_calls"] = [call_out(call) for call in answer.calls]
    return {
        "id": f"chatcmpl-mock-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": answer.model,
        "choices": [{"index": 0, "message": message, "finish_reason": REASONS[answer.finish]}],
        "usage": _usage_out(answer.usage),
    }


def _tool_in(declared: _Declaration) -> ToolSpec:
    return ToolSpec(name=declared.name, description=declared.description, parameters=declared.parameters)


def _call_in(call: _Call) -> ToolCall:
    return ToolCall(id=call.id, name=call.function.name, arguments=call.function.arguments)


def _messages_in(sent: Sequence[_Message]) -> tuple[Message, ...]:
    messages: list[Message] = []
    names: dict[str, str] = {}
    for message in sent:
        match message.role:
            case "user":
                messages.append(UserText(text=message.text))
            case "assistant" if message.tool_calls:
                calls = tuple(_call_in(call) for call in message.tool_calls)
                names |= {call.id: call.name for call in calls}
                messages.append(AssistantCalls(text=message.text or None, calls=calls))
            case "assistant":
                messages.append(AssistantText(text=message.text))
            case "tool":
                if message.tool_call_id not in names:
                    raise ValueError("a tool message must answer a call of an earlier message")
                name = names[message.tool_call_id]
                messages.append(ToolResult(call_id=message.tool_call_id, name=name, content=message.text))
    return tuple(messages)


def _usage_out(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def _json(value: object, *, status: int = HTTPStatus.OK) -> Response:
    return Response(msgspec.json.encode(value), status_code=status, media_type="application/json")


def _refused(why: str) -> Response:
    error = {"message": why, "type": "invalid_request_error", "param": None, "code": None}
    return _json({"error": error}, status=HTTPStatus.BAD_REQUEST)
