"""Stand-ins for the providers of models: each on loopback, behind HTTP, with its own rules and its own way to answer.

A request that breaks a rule gets the provider's 400, which the test then sees as a failed call. Facts as of
November 2026; nothing here is shared with the code that is tested.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shared.llm.profiles import ANTHROPIC, COMPATIBLE, DEEPSEEK, GEMINI, OPENAI, OPENAI_CHAT, Profile

KEY = "sk-of-the-test-0123456789"
SIGNATURE = {"google": {"thought_signature": "c2lnbmVkIGJ5IGdvb2dsZQ=="}}
Wanted = tuple[str, str, dict]  # id, name, arguments
Body = dict[str, Any]

CHAT_FIELDS = frozenset({"model", "messages", "tools", "temperature", "max_tokens", "max_completion_tokens"})
OPENAI_FIELDS = {"store", "parallel_tool_calls", "prompt_cache_key", "safety_identifier", "temperature"}


class Broken(Exception):
    """A rule of the provider's that a request broke."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


@dataclass(kw_only=True)
class Provider:
    """One provider: its rules, what it will answer, and what it was asked."""

    profile: Profile
    model: str
    path: str = "/chat/completions"
    fields: frozenset[str] = CHAT_FIELDS
    check: Callable[[Body], None] = lambda body: None
    adorn: Callable[[Body], Body] = lambda message: message  # an assistant message of this provider
    usage: Body = field(
        default_factory=lambda: {"prompt_tokens": 2000, "completion_tokens": 150, "total_tokens": 2150}
    )
    list_of_errors: bool = False
    names_parameters: bool = True
    answered_as: str = ""
    answers: list[Response] = field(default_factory=list)
    asked: list[Body] = field(default_factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        body = await request.json()
        self.asked.append(body)
        try:
            self._refuse(request, body)
            response = self.answers.pop(0)
            self.gave(response)
        except Broken as broken:
            response = self.error(400, str(broken), param=broken.param)
        await response(scope, receive, send)

    def gave(self, response: Response) -> None:
        """An answer goes out; a provider may want it back."""

    def _refuse(self, request: Request, body: Body) -> None:
        if request.headers["authorization"] != f"Bearer {KEY}":
            raise Broken("wrong key")
        if request.url.path != f"/v1{self.path}" or body["model"] != self.model:
            raise Broken("no such model or address")
        for name in sorted(set(body) - self.fields):
            raise Broken(f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.', name)
        if "parallel_tool_calls" in body and not body.get("tools"):
            raise Broken("'parallel_tool_calls' is only allowed when 'tools' are", "parallel_tool_calls")
        if "messages" in body:
            check_rounds(body["messages"])
        self.check(body)

    def error(
        self, status: int, message: str, *, code: object = None, param: str | None = None, **headers: str
    ) -> Response:
        error: Body = {"message": message, "code": code, "type": code}
        if self.names_parameters:
            error["param"] = param
        said: Any = {"error": error}
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        return JSONResponse([said] if self.list_of_errors else said, status_code=status, headers=headers)

    # Answers

    def says(self, text: str | None, *, reason: str = "stop", **more: Any) -> Response:
        return self._chat({"content": text} | more, reason)

    def calls(self, *wanted: Wanted, reason: str = "tool_calls") -> Response:
        tool_calls = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for call_id, name, arguments in wanted
        ]
        return self._chat({"content": None, "tool_calls": tool_calls}, reason)

    def cut(self, text: str | None) -> Response:
        return self.says(text, reason="length")

    def filtered(self) -> Response:
        return self.says(None, reason="content_filter")

    def refuses(self) -> Response:
        return self.says(None, refusal="I can't help with that.")

    def untold(self, text: str) -> Response:
        """An answer without a word about its tokens."""
        body = json.loads(self.says(text).body)
        return JSONResponse({**body, "usage": None})

    def _chat(self, message: Body, reason: str) -> Response:
        told = self.adorn({"role": "assistant", "refusal": None} | message)
        return JSONResponse(
            {
                "id": "c",
                "object": "chat.completion",
                "created": 1,
                "model": self.answered_as or self.model,
                "choices": [{"index": 0, "message": told, "finish_reason": reason}],
                "usage": self.usage,
            }
        )


@dataclass(kw_only=True)
class ResponsesProvider(Provider):
    """OpenAI's Responses: other names for everything, and items instead of messages."""

    given: list[Body] = field(default_factory=list)  # the items of answers with calls: all have to come back

    def gave(self, response: Response) -> None:
        body = getattr(response, "body", b"")
        output = json.loads(body).get("output") if body[:1] == b"{" else None
        items = [item for item in output or () if isinstance(item, dict)]
        if any(item.get("type") == "function_call" for item in items):
            whole = [{name: value for name, value in item.items() if value is not None} for item in items]
            self.given += [one for one in whole if one["type"] != "reasoning" or "encrypted_content" in one]

    def _answer(self, output: list[Body], **more: Any) -> Response:
        body = {
            "id": "r",
            "object": "response",
            "created_at": 1,
            "model": self.answered_as or self.model,
            "status": "completed",
            "error": None,
            "incomplete_details": None,
            "output": output,
            "usage": self.usage,
        }
        return JSONResponse(body | more)

    def says(self, text: str | None, **more: Any) -> Response:
        part = {"type": "output_text", "text": text, "annotations": []}
        return self._answer([message_item(part, phase="final_answer")] if text else [], **more)

    def calls(self, *wanted: Wanted, reason: str = "") -> Response:
        thought = {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "encrypted_content": "b3BhcXVl",
            "status": None,
        }
        output = [thought, message_item({"type": "output_text", "text": "Let me look."}, phase="commentary")]
        for call_id, name, arguments in wanted:
            called = {"type": "function_call", "id": "fc_1", "call_id": call_id, "status": "completed"}
            output.append(called | {"name": name, "arguments": json.dumps(arguments)})
        return self._answer(output)

    def cut(self, text: str | None) -> Response:
        return self.says(text, status="incomplete", incomplete_details={"reason": "max_output_tokens"})

    def filtered(self) -> Response:
        return self.says(None, status="incomplete", incomplete_details={"reason": "content_filter"})

    def refuses(self) -> Response:
        return self._answer([message_item({"type": "refusal", "refusal": "I can't help with that."})])


def message_item(part: Body, **more: str) -> Body:
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "content": [part],
        "status": "completed",
    } | more


# Rules


def check_rounds(messages: Sequence[Body]) -> None:
    """Every call is answered once, at once, in its order, by its own id."""
    ids: list[str] = []
    for at, message in enumerate(messages):
        if message["role"] == "assistant" and message.get("content") is None:
            raise Broken("an assistant message without content")
        calls = [call["id"] for call in message.get("tool_calls") or ()]
        results = [one.get("tool_call_id") for one in messages[at + 1 : at + 1 + len(calls)]]
        if calls and calls != results:
            raise Broken(
                "number of function response parts is not equal to the number of function call parts"
            )
        ids += calls
    if len(set(ids)) != len(ids) or not all(ids):
        raise Broken("tool calls need ids of their own")
    if sum(message["role"] == "tool" for message in messages) != len(ids):
        raise Broken("a tool message must answer a call")


def assistant_calls(body: Body) -> list[Body]:
    return [message for message in body["messages"] if message.get("tool_calls")]


def check_gemini(body: Body) -> None:
    for message in assistant_calls(body):
        if message["tool_calls"][0].get("extra_content") != SIGNATURE:
            raise Broken("Function call is missing a thought_signature in functionCall parts.")
    for tool in body.get("tools", ()):
        if "strict" in tool["function"]:
            raise Broken('Unknown name "strict" at tools[0].function: Cannot find field.')
        if any(word in json.dumps(tool) for word in ("anyOf", "$ref", '"default"', "null")):
            raise Broken("schema too complex")
    if "temperature" in body:
        raise Broken("temperature is not supported for this model")


def check_deepseek(body: Body) -> None:
    if body.get("thinking") != {"type": "disabled"}:
        raise Broken("this stand-in wants no thinking")
    if any("strict" in tool["function"] for tool in body.get("tools", ())):
        raise Broken("strict needs the beta address")
    if any("reasoning_content" not in message for message in assistant_calls(body)):
        raise Broken("Missing `reasoning_content` field in the assistant message")


def check_strict(schema: Mapping[str, Any], name: str = "tools[0].function.parameters") -> None:
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False or schema["required"] != list(
            schema["properties"]
        ):
            raise Broken("Invalid schema for function: every key must be required", name)
        for inner in schema["properties"].values():
            check_strict(inner)
    if {"default", "maxLength", "minLength", "title"} & set(schema):
        raise Broken("Invalid schema for function: a keyword is not permitted", name)
    for inner in schema.get("anyOf", ()):
        check_strict(inner)


def check_openai_chat(body: Body) -> None:
    if body.get("store") is not False:
        raise Broken("this stand-in keeps nothing")
    if "max_tokens" in body:
        raise Broken("Unsupported parameter: use 'max_completion_tokens' instead", "max_tokens")
    if body.get("tools") and body.get("reasoning_effort") != "none":
        raise Broken("Function tools with reasoning_effort are not supported here", "reasoning_effort")
    for tool in body.get("tools", ()):
        if not tool["function"].get("strict"):
            raise Broken("this stand-in wants strict tools")
        check_strict(tool["function"]["parameters"])


def check_responses(provider: ResponsesProvider, body: Body) -> None:
    if body.get("store") is not False or body.get("include") != ["reasoning.encrypted_content"]:
        raise Broken("nothing is stored here, so the reasoning must be asked for")
    if "temperature" in body and body.get("reasoning") != {"effort": "none"}:
        raise Broken("Unsupported parameter: temperature", "temperature")
    if not isinstance(body.get("instructions"), str):
        raise Broken("no instructions")
    for tool in body.get("tools", ()):
        if tool.get("type") != "function" or not tool.get("strict") or "function" in tool:
            raise Broken("a tool in no form of Responses", "tools[0]")
        check_strict(tool["parameters"], "tools[0].parameters")
    ours = [item for item in body["input"] if item.get("type") not in (None, "function_call_output")]
    if ours != provider.given[: len(ours)] or len(ours) != len(provider.given):
        raise Broken("Item was provided without its required items, or not as it was given")
    wanted = [item["call_id"] for item in ours if item["type"] == "function_call"]
    outputs = [item for item in body["input"] if item.get("type") == "function_call_output"]
    if [item["call_id"] for item in outputs] != wanted:
        raise Broken("No tool output found for function call")
    if not all(isinstance(item["output"], str) for item in outputs):
        raise Broken("an output is a string")


# The providers


def openai() -> Provider:
    details = {
        "input_tokens_details": {"cached_tokens": 1500},
        "output_tokens_details": {"reasoning_tokens": 20},
    }
    provider = ResponsesProvider(
        profile=OPENAI,
        model="gpt-6-luna",
        path="/responses",
        fields=frozenset(
            {"model", "instructions", "input", "tools", "max_output_tokens", "reasoning", "include"}
            | OPENAI_FIELDS
        ),
        usage={"input_tokens": 2000, "output_tokens": 150, "total_tokens": 2150} | details,
        answered_as="gpt-6-luna-2026-09-01",
    )
    provider.check = lambda body: check_responses(provider, body)
    return provider


def openai_chat() -> Provider:
    return Provider(
        profile=OPENAI_CHAT,
        model="gpt-6-luna",
        fields=CHAT_FIELDS | OPENAI_FIELDS | {"reasoning_effort"},
        check=check_openai_chat,
        usage={
            "prompt_tokens": 2000,
            "completion_tokens": 150,
            "prompt_tokens_details": {"cached_tokens": 1500},
        },
        answered_as="gpt-6-luna-2026-09-01",
    )


def gemini() -> Provider:
    def signed(message: Body) -> Body:
        for call in (message.get("tool_calls") or ())[:1]:
            call["extra_content"] = SIGNATURE
        return message

    return Provider(
        profile=GEMINI,
        model="gemini-3.5-flash-lite",
        fields=(CHAT_FIELDS | {"reasoning_effort"}) - {"max_completion_tokens"},
        check=check_gemini,
        adorn=signed,
        usage={"prompt_tokens": 2000, "completion_tokens": 50, "total_tokens": 2150},  # without its thinking
        list_of_errors=True,
        names_parameters=False,
    )


def deepseek() -> Provider:
    return Provider(
        profile=DEEPSEEK,
        model="deepseek-flash",
        fields=(CHAT_FIELDS | {"thinking"}) - {"max_completion_tokens"},
        check=check_deepseek,
        adorn=lambda message: (
            message | {"reasoning_content": "The customer wants a slot." if message.get("tool_calls") else ""}
        ),
        usage={
            "prompt_tokens": 2000,
            "completion_tokens": 150,
            "prompt_cache_hit_tokens": 1500,
            "prompt_cache_miss_tokens": 500,
        },
        names_parameters=False,
    )


def anthropic() -> Provider:
    return Provider(profile=ANTHROPIC, model="claude-haiku-5-5", names_parameters=False)


def compatible() -> Provider:
    """A server of one's own, like vLLM."""
    return Provider(
        profile=COMPATIBLE,
        model="llama",
        fields=CHAT_FIELDS,
        adorn=lambda message: message | {"reasoning": "Hm.", "function_call": None},
        answered_as="/srv/models/llama",
    )


PROVIDERS: Mapping[str, Callable[[], Provider]] = {
    "openai": openai,
    "openai-chat": openai_chat,
    "gemini": gemini,
    "deepseek": deepseek,
    "anthropic": anthropic,
    "openai-compatible": compatible,
}
