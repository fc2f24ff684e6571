"""OpenAI's Responses on the wire: requests out, answers in. Nothing is kept at the provider, all of it is sent."""

from collections.abc import Mapping, Sequence
from typing import Any

from shared.llm.calls import unique_calls
from shared.llm.dialect import Dialect
from shared.llm.port import (
    UNTOLD,
    Answer,
    AssistantCalls,
    AssistantText,
    FailureKind,
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
    RESPONSES_NAMES,
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

DONE = frozenset({"completed", ""})  # some servers tell no status
FAILED: Mapping[str, FailureKind] = {
    "server_error": FailureKind.SERVER,
    "rate_limit_exceeded": FailureKind.RATE,
}


def body_out(request: Request, *, model: str, dialect: Dialect) -> dict[str, Any]:
    """The request's body, but for what the dialect adds."""
    body: dict[str, Any] = {"model": model, "instructions": request.system, "input": items_out(request)}
    if request.tools:
        body["tools"] = [tool_out(tool, dialect) for tool in request.tools]
    return body


def items_out(request: Request) -> list[dict[str, Any]]:
    """The conversation as Responses takes it. An earlier answer's items go back as they came."""
    out: list[dict[str, Any]] = []
    for message in request.messages:
        match message:
            case AssistantCalls(raw=raw) if is_ours(raw):
                out.extend(dict(item) for item in raw)
            case AssistantCalls(text=text, calls=calls):
                out += [{"role": "assistant", "content": text}] if text else []
                out += [call_out(call) for call in calls]
            case ToolResult(call_id=call_id, content=content):
                out.append({"type": "function_call_output", "call_id": call_id, "output": content})
            case UserMedia():
                out.append({"role": "user", "content": media_out(message)})
            case UserText(text=text, role=role) | AssistantText(text=text, role=role):
                out.append({"role": role, "content": text})
    return out


def media_out(message: UserMedia) -> list[dict[str, Any]]:
    """Our words and the recording or picture, as Responses spells them."""
    told: dict[str, Any] = {"type": "input_text", "text": message.text}
    if message.is_audio:
        return [told, {"type": "input_audio", "input_audio": audio_out(message)}]
    return [told, {"type": "input_image", "image_url": data_url(message), "detail": "auto"}]


def is_ours(raw: Sequence[Mapping[str, Any]]) -> bool:
    """Whether an earlier answer came through this interface; another's is told anew from its calls."""
    return bool(raw) and all(isinstance(item.get("type"), str) for item in raw)


def call_out(call: ToolCall) -> dict[str, Any]:
    """A tool call as Responses spells it."""
    return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}


def tool_out(tool: ToolSpec, dialect: Dialect) -> dict[str, Any]:
    """A tool's declaration as Responses spells it. Strictness is always told: unsaid, it would be tried."""
    schema, is_strict = dialect.schema(tool)
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": schema,
        "strict": bool(is_strict),
    }


def read_answer(body: bytes, *, earlier: Sequence[Message], asked: str) -> Answer:
    """The answer in the body of a 200. Raises ModelFailure, with the usage if it was told; see chat_wire."""
    usage, model = UNTOLD, asked
    try:
        payload = read_payload(body)
        usage = read_usage(payload.get("usage"), RESPONSES_NAMES)
        model = read_model(payload, asked=asked)
        return _answer(payload, earlier=earlier, usage=usage, model=model)
    except NoAnswerError as why:
        failure = no_answer(why, usage=usage, model=model)
    raise failure


def _answer(payload: Mapping[str, Any], *, earlier: Sequence[Message], usage: Usage, model: str) -> Answer:
    cut = _cut(payload)
    output = payload.get("output")
    if not isinstance(output, list) or not all(isinstance(item, dict) for item in output):
        raise NoAnswerError("no output")
    text, refusal = _said(output)
    if cut is not None:
        return Answer(text=text, finish=cut, usage=usage, model=model)
    told = [_call(item) for item in output if item.get("type") == "function_call"]
    calls = unique_calls(told, earlier)
    finish = Finish.TOOLS if calls else Finish.REFUSAL if refusal and not text else Finish.END
    return Answer(text=text, calls=calls, finish=finish, usage=usage, model=model, raw=_raw(output, calls))


def _cut(payload: Mapping[str, Any]) -> Finish | None:
    """How the answer was cut off; None if it is whole. Raises NoAnswerError if there is none."""
    status = payload.get("status")
    status = status if isinstance(status, str) else ""
    if payload.get("error") or status == "failed":
        problem = problem_of(payload.get("error"))
        kind = next((FAILED[code] for code in problem.codes if code in FAILED), FailureKind.BAD_ANSWER)
        raise NoAnswerError(f"an error instead of an answer: {problem}", kind)
    if status == "incomplete":
        reason = mapping(payload.get("incomplete_details")).get("reason")
        return Finish.FILTER if reason == "content_filter" else Finish.LENGTH
    if status not in DONE:
        raise NoAnswerError("an answer that is not done")
    return None


def _said(output: Sequence[Mapping[str, Any]]) -> tuple[str | None, bool]:
    """The text, and whether anything was refused. Where a final answer is marked, only that is the text."""
    messages = [item for item in output if item.get("type") == "message"]
    final = [item for item in messages if item.get("phase") == "final_answer"]
    parts: list[Any] = []
    for item in final or messages:
        content = item.get("content")
        parts += content if isinstance(content, list) else [{"text": content}]
    refused = any(mapping(part).get("type") == "refusal" for part in parts)
    return read_text(parts), refused


def _call(item: Mapping[str, Any]) -> ToolCall:
    return ToolCall(
        id=read_id(item.get("call_id")),
        name=read_name(item.get("name")),
        arguments=read_arguments(item.get("arguments")),
    )


def _raw(output: Sequence[Mapping[str, Any]], calls: Sequence[ToolCall]) -> tuple[dict[str, Any], ...]:
    """The items as they have to go back: what came, but for nulls, made ids, and arguments that were no text.

    Reasoning without its encrypted content can't go back: nothing is stored, and its id names nothing.
    """
    coming = iter(calls)
    raw: list[dict[str, Any]] = []
    for item in output:
        kept = {key: value for key, value in item.items() if value is not None}
        if kept.get("type") == "function_call":
            call = next(coming)
            kept |= {"call_id": call.id, "arguments": call.arguments}
        if kept.get("type") != "reasoning" or kept.get("encrypted_content"):
            raw.append(kept)
    return tuple(raw)
