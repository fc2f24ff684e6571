"""Ids of tool calls: an answer to a call finds it by its id, so within a turn there is one of each."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from shared.llm.port import AssistantCalls, Message, ToolCall


def unique_calls(calls: Sequence[ToolCall], earlier: Iterable[Message]) -> tuple[ToolCall, ...]:
    """The calls, each with an id that no other call of the turn has. A good id stays as it came.

    Local servers leave ids out, or begin again with ``call_0`` in every answer. Made ids are nine letters and
    digits, the one form that every chat template takes (Mistral's refuses others).
    """
    if not calls:
        return ()
    taken = {call.id for message in earlier if isinstance(message, AssistantCalls) for call in message.calls}
    coming = {call.id for call in calls}
    unique: list[ToolCall] = []
    number = 0
    for call in calls:
        kept = call
        if not call.id or call.id in taken:
            while (made := f"call{number:05d}") in taken or made in coming:
                number += 1
            kept = replace(call, id=made)
        taken.add(kept.id)
        unique.append(kept)
    return tuple(unique)
