"""Chat Completions on the wire: requests out, answers in. No I/O, and no trust in what comes in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from shared.llm.calls import unique_calls
from shared.llm.port import (
    Answer,
    AssistantCalls,
    AssistantText,
    FailureKind,
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

TOKENS_MAX = 2**31 - 1  # what the metering table's columns hold
NAME_CHARS_MAX = 200
DETAIL_CHARS_MAX = 200

CUT = {"length": Finish.LENGTH, "content_filter": Finish.FILTER}
BROKEN_OFF = frozenset({"error", "abort"})  # what gateways and vLLM say when the model died under way


class _NoAnswerError(Exception):
    """A 200 without an answer in it; the text says what is missing."""


def messages_out(request: Request) -> list[dict[str, Any]]:
    """The conversation as Chat Completions takes it. An earlier answer's `raw` goes back as it came."""
    out: list[dict[str, Any]] = [{"role": "system", "content": request.system}]
    for message in request.messages:
        match message:
            case AssistantCalls(raw=raw) if raw:
                out.extend(dict(item) for item in raw)
            case AssistantCalls(text=text, calls=calls):
                # Some chat templates of vLLM fail without content.
                out.append(
                    {"role": "assistant", "content": text or "", "tool_calls": [call_out(c) for c in calls]}
                )
            case ToolResult(call_id=call_id, content=content):
                out.append({"role": "tool", "tool_call_id": call_id, "content": content})
            case UserText(text=text, role=role) | AssistantText(text=text, role=role):
                out.append({"role": role, "content": text})
    return out


def call_out(call: ToolCall) -> dict[str, Any]:
    """A tool call as Chat Completions spells it."""
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def tool_out(tool: ToolSpec) -> dict[str, Any]:
    """A tool's declaration as Chat Completions spells it."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def read_answer(body: bytes, *, earlier: Sequence[Message], asked: str) -> Answer:
    """The answer in the body of a 200. Raises ModelFailure (BAD_ANSWER, with the usage if it was told).

    `earlier` are the request's messages, whose calls' ids are taken; `asked` is the model's name where the
    answer tells none.
    """
    usage, model = Usage(), asked
    try:
        payload = _parsed(body)
        usage = read_usage(payload.get("usage"))
        told = payload.get("model")
        model = told[:NAME_CHARS_MAX] if isinstance(told, str) and told else asked
        return _answer(payload, earlier=earlier, usage=usage, model=model)
    except _NoAnswerError as why:
        detail = str(why)
    raise ModelFailure(FailureKind.BAD_ANSWER, detail, usage=usage, model=model)


def read_usage(usage: object) -> Usage:
    """Tokens as told, in whichever of the known places; what is missing or absurd counts as 0.

    Cached tokens are in `prompt_tokens_details`, at DeepSeek in `prompt_cache_hit_tokens`. Gemini leaves its
    thinking out of `completion_tokens`, so the output is what the total has beyond the prompt, if more.
    """
    if not isinstance(usage, dict):
        return Usage()
    prompt = _mapping(usage.get("prompt_tokens_details"))
    completion = _mapping(usage.get("completion_tokens_details"))
    read = _tokens(usage.get("prompt_tokens"))
    cached = min(_tokens(prompt.get("cached_tokens")) or _tokens(usage.get("prompt_cache_hit_tokens")), read)
    output = max(_tokens(usage.get("completion_tokens")), _tokens(usage.get("total_tokens")) - read)
    return Usage(
        input=read,
        cached=cached,
        output=output,
        reasoning=min(_tokens(completion.get("reasoning_tokens")), output),
        written=min(_tokens(prompt.get("cache_write_tokens")), read - cached),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What a provider says is wrong. All of it its own words, for logs."""

    codes: tuple[str, ...] = ()
    parameter: str = ""
    message: str = ""

    def __str__(self) -> str:
        said = [*self.codes, f"parameter {self.parameter}" if self.parameter else "", self.message]
        return ", ".join(part for part in said if part)


def read_problem(body: bytes) -> Problem:
    """The error in a body: an object, a list of them (Gemini), a bare text, or none that can be read."""
    try:
        said = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return Problem()
    if isinstance(said, list) and said:
        said = said[0]
    error = _mapping(said).get("error", said)
    if isinstance(error, str):
        return Problem(message=_one_line(error))
    fields = _mapping(error)
    codes = (_one_line(fields.get(name)) for name in ("code", "type", "status"))
    return Problem(
        codes=tuple(dict.fromkeys(code for code in codes if code)),
        parameter=_one_line(fields.get("param")),
        message=_one_line(fields.get("message")),
    )


def _parsed(body: bytes) -> dict[str, Any]:
    if rb"\u0000" in body:
        raise _NoAnswerError("a NUL character, which Postgres can't keep")
    try:
        payload = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        kind = "HTML" if body.lstrip()[:1] == b"<" else "something else"
        raise _NoAnswerError(f"{kind} instead of JSON") from None
    if isinstance(payload, list):
        raise _NoAnswerError(f"a list instead of an answer: {read_problem(body)}")
    if not isinstance(payload, dict):
        raise _NoAnswerError("no JSON object")
    if payload.get("error"):
        raise _NoAnswerError(f"an error instead of an answer: {read_problem(body)}")
    return payload


def _answer(payload: Mapping[str, Any], *, earlier: Sequence[Message], usage: Usage, model: str) -> Answer:
    choices = payload.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        raise _NoAnswerError("no choice")
    told_reason = choice.get("finish_reason")
    reason = told_reason if isinstance(told_reason, str) else ""
    if reason in BROKEN_OFF:
        raise _NoAnswerError(f"broken off: {reason}")
    cut = CUT.get(reason)
    message = choice.get("message")
    if not isinstance(message, dict):
        if cut is not Finish.FILTER:
            raise _NoAnswerError("no message")
        message = {}
    text = _text(message.get("content"))
    if cut is not None:
        return Answer(text=text, finish=cut, usage=usage, model=model)
    told = _calls(message.get("tool_calls"))
    calls = unique_calls(told, earlier)
    refused = bool(_text(message.get("refusal"))) and not calls
    finish = Finish.TOOLS if calls else Finish.REFUSAL if refused else Finish.END
    raw = (_raw(message, told, calls),)
    return Answer(text=text, calls=calls, finish=finish, usage=usage, model=model, raw=raw)


def _text(content: object) -> str | None:
    """The text of a content field: a string, or a list of parts. None if there is nothing to read."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) and content.strip() else None


def _calls(told: object) -> list[ToolCall]:
    """The calls, with the ids as they came. One that can't be read spoils the answer: no half of it runs."""
    if told is None:
        return []
    if not isinstance(told, list):
        raise _NoAnswerError("tool calls that are no list")
    calls = []
    for item in told:
        function = _mapping(_mapping(item).get("function"))
        name, arguments, call_id = function.get("name"), function.get("arguments"), _id(item)
        if not isinstance(name, str) or not name:
            raise _NoAnswerError("a tool call without a name")
        if isinstance(arguments, dict):  # some local servers forget to make it text
            arguments = msgspec.json.encode(arguments).decode()
        if not isinstance(arguments, str | None):
            raise _NoAnswerError("a tool call whose arguments are no text")
        calls.append(ToolCall(id=call_id, name=name, arguments=arguments or "{}"))
    return calls


def _id(item: object) -> str:
    """The id that a call came with, or an empty one."""
    told = _mapping(item).get("id")
    return told if isinstance(told, str) and len(told) <= NAME_CHARS_MAX else ""


def _raw(message: Mapping[str, Any], told: Sequence[ToolCall], calls: Sequence[ToolCall]) -> dict[str, Any]:
    """The message as it has to go back: what came, but for nulls, a missing content, and made ids."""
    raw = {key: value for key, value in message.items() if value is not None}
    raw["role"] = "assistant"
    raw.setdefault("content", "")
    if any(before.id != after.id for before, after in zip(told, calls, strict=True)):
        items = zip(message["tool_calls"], calls, strict=True)
        raw["tool_calls"] = [{**item, "id": call.id} for item, call in items]
    return raw


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _tokens(value: object) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return max(0, min(value, TOKENS_MAX))


def _one_line(value: object) -> str:
    """A provider's word for a log: one printable line, cut."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    line = " ".join(str(value)[: 4 * DETAIL_CHARS_MAX].split())
    return "".join(char if char.isprintable() else "�" for char in line)[:DETAIL_CHARS_MAX]
