"""Chat Completions on the wire: requests out, answers in."""

from collections.abc import Mapping, Sequence
from typing import Any

from shared.llm.calls import unique_calls
from shared.llm.dialect import Dialect
from shared.llm.port import (
    UNTOLD,
    Answer,
    AssistantCalls,
    AssistantText,
    Finish,
    Message,
    Request,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    UserMedia,
    UserText,
)
from shared.llm.wire import (
    NoAnswerError,
    audio_out,
    data_url,
    mapping,
    no_answer,
    problem_of,
    read_arguments,
    read_id,
    read_model,
    read_name,
    read_payload,
    read_text,
    read_usage,
)

# Endings other than the usual ones, in small letters and without what some append after a colon
CUT: Mapping[str, Finish] = {
    "length": Finish.LENGTH,
    "max_tokens": Finish.LENGTH,
    "model_length": Finish.LENGTH,
    "content_filter": Finish.FILTER,
    "safety": Finish.FILTER,  # Gemini's own words, now and then
    "recitation": Finish.FILTER,
    "blocklist": Finish.FILTER,
    "prohibited_content": Finish.FILTER,
    "spii": Finish.FILTER,
    "refusal": Finish.REFUSAL,
}
BROKEN_OFF = frozenset(
    {"error", "abort"}  # what gateways and vLLM say when the model died under way
    | {"insufficient_system_resource"}  # DeepSeek
    # Gemini: a call in bad form
    | {"function_call_filter", "malformed_function_call", "unexpected_tool_call"}
)


def body_out(request: Request, *, model: str, dialect: Dialect) -> dict[str, Any]:
    """The request's body, but for what the dialect adds."""
    body: dict[str, Any] = {"model": model, "messages": messages_out(request)}
    if request.tools:
        body["tools"] = [tool_out(tool, dialect) for tool in request.tools]
    return body


def messages_out(request: Request) -> list[dict[str, Any]]:
    """The conversation as Chat Completions takes it. An earlier answer's `raw` goes back as it came."""
    out: list[dict[str, Any]] = [{"role": "system", "content": request.system}]
    for message in request.messages:
        match message:
            case AssistantCalls(raw=raw) if is_ours(raw):
                out.extend(dict(item) for item in raw)
            case AssistantCalls(text=text, calls=calls):
                # Some chat templates of vLLM fail without content.
                out.append(
                    {"role": "assistant", "content": text or "", "tool_calls": [call_out(c) for c in calls]}
                )
            case ToolResult(call_id=call_id, content=content):
                out.append({"role": "tool", "tool_call_id": call_id, "content": content})
            case UserMedia():
                out.append({"role": "user", "content": media_out(message)})
            case UserText(text=text, role=role) | AssistantText(text=text, role=role):
                out.append({"role": role, "content": text})
    return out


def media_out(message: UserMedia) -> list[dict[str, Any]]:
    """Our words and the recording or picture, as Chat Completions spells them."""
    told: dict[str, Any] = {"type": "text", "text": message.text}
    if message.is_audio:
        return [told, {"type": "input_audio", "input_audio": audio_out(message)}]
    return [told, {"type": "image_url", "image_url": {"url": data_url(message)}}]


def is_ours(raw: Sequence[Mapping[str, Any]]) -> bool:
    """Whether an earlier answer came through this interface; another's is told anew from its calls."""
    return len(raw) == 1 and raw[0].get("role") == "assistant" and "type" not in raw[0]


def call_out(call: ToolCall) -> dict[str, Any]:
    """A tool call as Chat Completions spells it."""
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def tool_out(tool: ToolSpec, dialect: Dialect) -> dict[str, Any]:
    """A tool's declaration as Chat Completions spells it."""
    schema, is_strict = dialect.schema(tool)
    function: dict[str, Any] = {"name": tool.name, "description": tool.description, "parameters": schema}
    if is_strict is not None:
        function["strict"] = is_strict
    return {"type": "function", "function": function}


def read_answer(body: bytes, *, earlier: Sequence[Message], asked: str) -> Answer:
    """The answer in the body of a 200. Raises ModelFailure (BAD_ANSWER, with the usage if it was told).

    `earlier` are the request's messages, whose calls' ids are taken; `asked` is the model's name where the
    answer tells none.
    """
    usage, model = UNTOLD, asked
    try:
        payload = read_payload(body)
        usage, model = _usage(payload), read_model(payload, asked=asked)
        if payload.get("error"):
            raise NoAnswerError(f"an error instead of an answer: {problem_of(payload['error'])}")
        return _answer(payload, earlier=earlier, usage=usage, model=model)
    except NoAnswerError as why:
        failure = no_answer(why, usage=usage, model=model)
    raise failure


def _usage(payload: Mapping[str, Any]) -> Usage:
    """The usage where it belongs, or in the choice, where some servers put it."""
    told = read_usage(payload.get("usage"))
    return told if told.told else read_usage(_choice(payload).get("usage"))


def _choice(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = payload.get("choices")
    return mapping(choices[0]) if isinstance(choices, list) and choices else {}


def _answer(payload: Mapping[str, Any], *, earlier: Sequence[Message], usage: Usage, model: str) -> Answer:
    choice = _choice(payload)
    if not choice:
        raise NoAnswerError("no choice")
    reason = _reason(choice.get("finish_reason"))
    if reason in BROKEN_OFF:
        raise NoAnswerError(f"broken off: {reason}")
    cut = CUT.get(reason)
    message = choice.get("message")
    if not isinstance(message, dict):
        if cut is not Finish.FILTER:
            raise NoAnswerError("no message")
        message = {}
    text = read_text(message.get("content"))
    if cut is not None:
        return Answer(text=text, finish=cut, usage=usage, model=model)
    told = _calls(message.get("tool_calls"))
    calls = unique_calls(told, earlier)
    refused = bool(read_text(message.get("refusal"))) and not calls
    finish = Finish.TOOLS if calls else Finish.REFUSAL if refused else Finish.END
    raw = (_raw(message, told, calls),)
    return Answer(text=text, calls=calls, finish=finish, usage=usage, model=model, raw=raw)


def _reason(told: object) -> str:
    return told.partition(":")[0].strip().lower() if isinstance(told, str) else ""


def _calls(told: object) -> list[ToolCall]:
    """The calls, with the ids as they came. One that can't be read spoils the answer: no half of it runs."""
    if told is None:
        return []
    if not isinstance(told, list):
        raise NoAnswerError("tool calls that are no list")
    calls = []
    for item in told:
        function = mapping(mapping(item).get("function"))
        name, arguments = read_name(function.get("name")), read_arguments(function.get("arguments"))
        calls.append(ToolCall(id=read_id(mapping(item).get("id")), name=name, arguments=arguments))
    return calls


def _raw(message: Mapping[str, Any], told: Sequence[ToolCall], calls: Sequence[ToolCall]) -> dict[str, Any]:
    """The message as it has to go back: what came, but for nulls, a missing content, and made ids."""
    raw = {key: value for key, value in message.items() if value is not None}
    raw["role"] = "assistant"
    raw.setdefault("content", "")
    if any(before.id != after.id for before, after in zip(told, calls, strict=True)):
        items = zip(message["tool_calls"], calls, strict=True)
        raw["tool_calls"] = [{**item, "id": call.id} for item, call in items]
    return raw
