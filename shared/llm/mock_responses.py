"""The mock server's other interface, OpenAI's Responses: a body to the port's form, and an answer back."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from shared.llm.port import (
    Answer,
    AssistantCalls,
    AssistantText,
    Finish,
    Message,
    Request,
    ToolCall,
    ToolResult,
    ToolSpec,
    UserText,
)

REASONS = {Finish.LENGTH: "max_output_tokens", Finish.FILTER: "content_filter"}


class _Part(msgspec.Struct):
    type: Literal["input_text", "output_text"]
    text: str


class _Item(msgspec.Struct):
    type: Literal["message", "function_call", "function_call_output", "reasoning"] = "message"
    role: Literal["system", "developer", "user", "assistant"] = "user"
    content: str | list[_Part] = ""
    call_id: str = ""
    name: str = ""
    arguments: str = "{}"
    output: str = ""

    @property
    def text(self) -> str:
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class _Tool(msgspec.Struct):
    type: Literal["function"]
    name: str
    description: str = ""
    parameters: dict[str, Any] = {}


class _Body(msgspec.Struct):
    model: str
    input: str | list[_Item]
    store: Literal[False]  # what Leeway asks for always, so a body without it is a mistake
    instructions: str = ""
    tools: list[_Tool] | None = None
    stream: Literal[False] | None = None
    max_output_tokens: int | None = None
    prompt_cache_key: str = ""
    safety_identifier: str = ""


_BODY = msgspec.json.Decoder(_Body)


def request_in(body: bytes) -> Request:
    """The port's form of a Responses body. Raises ValueError for anything else."""
    sent = _BODY.decode(body)
    items = [_Item(content=sent.input)] if isinstance(sent.input, str) else sent.input
    rules = [item.text for item in items if item.role in ("system", "developer")]
    return Request(
        system="\n\n".join(text for text in (sent.instructions, *rules) if text),
        messages=_messages_in(items),
        tools=tuple(
            ToolSpec(name=tool.name, description=tool.description, parameters=tool.parameters)
            for tool in sent.tools or ()
        ),
        max_output_tokens=sent.max_output_tokens or 600,
        cache_key=sent.prompt_cache_key,
        customer=sent.safety_identifier,
    )


def answer_out(answer: Answer, number: int) -> dict[str, Any]:
    """The body of a 200, `number` telling it from the others of this server."""
    reason = REASONS.get(answer.finish)
    output: list[dict[str, Any]] = []
    if answer.finish is Finish.REFUSAL:
        output = [_message({"type": "refusal", "refusal": answer.text or "I can't help with that."}, number)]
    elif answer.text:
        output = [_message({"type": "output_text", "text": answer.text, "annotations": []}, number)]
    for at, call in enumerate(answer.calls):
        called = {"type": "function_call", "id": f"fc_mock_{number}_{at}", "status": "completed"}
        output.append(called | {"call_id": call.id, "name": call.name, "arguments": call.arguments})
    usage = answer.usage
    return {
        "id": f"resp_mock_{number}",
        "object": "response",
        "created_at": 0,
        "model": answer.model,
        "status": "incomplete" if reason else "completed",
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "output": output,
        "usage": {
            "input_tokens": usage.input,
            "input_tokens_details": {"cached_tokens": usage.cached},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.input + usage.output,
        },
    }


def _message(part: dict[str, Any], number: int) -> dict[str, Any]:
    return {
        "type": "message",
        "id": f"msg_mock_{number}",
        "status": "completed",
        "role": "assistant",
        "content": [part],
    }


def _messages_in(items: Sequence[_Item]) -> tuple[Message, ...]:
    """The items as messages: calls that follow each other, with the text before them, are one answer's."""
    messages: list[Message] = []
    names: dict[str, str] = {}
    for item in items:
        match item.type:
            case "message" if item.role == "user":
                messages.append(UserText(text=item.text))
            case "message" if item.role == "assistant":
                messages.append(AssistantText(text=item.text))
            case "function_call":
                names[item.call_id] = item.name
                _add_call(messages, ToolCall(id=item.call_id, name=item.name, arguments=item.arguments))
            case "function_call_output":
                if item.call_id not in names:
                    raise ValueError("an output must answer a call of an earlier item")
                name = names[item.call_id]
                messages.append(ToolResult(call_id=item.call_id, name=name, content=item.output))
            case _:
                pass  # rules are told apart above, and thinking is none of the mock's
    return tuple(messages)


def _add_call(messages: list[Message], call: ToolCall) -> None:
    match messages[-1] if messages else None:
        case AssistantCalls(text=text, calls=calls):
            messages[-1] = AssistantCalls(text=text, calls=(*calls, call))
        case AssistantText(text=text):
            messages[-1] = AssistantCalls(text=text, calls=(call,))
        case _:
            messages.append(AssistantCalls(text=None, calls=(call,)))
