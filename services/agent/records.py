"""Records of tool calls, as they are stored and told to the model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid5

from services.agent.checks import ARGUMENT_CHARS_MAX
from services.agent.core.gate import Code, Deny, Passage
from services.agent.core.turn import StoredCall, Turn
from services.agent.ports import ToolRecord
from shared.digest import canonical
from shared.ids import ActionId
from shared.llm.port import ToolCall
from shared.packs import Pack, Refusal, Tool

RESULT_CHARS_MAX = 16_384
NAME_CHARS_MAX = 64
# The result of a call that was made outside, before its end
EXECUTING: Mapping[str, object] = {"status": "executing"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A call of a turn: the `position`-th of its `n`-th answer."""

    n: int
    position: int
    call: ToolCall

    def key(self, turn: Turn) -> ActionId:
        """What makes an allowed call's write and receipt single: the same call of the same turn, whoever works it.

        Another call in the same place, of a turn that began anew with another model, is another one.
        """
        call = f"{self.n}/{self.position}/{self.call.name}/{self.call.arguments}"
        return ActionId(uuid5(turn.id, call))


def record_of(place: Place, decision: str, reason: str | None, result: Mapping[str, Any]) -> ToolRecord:
    """The call with what it came to. A result that is too long is replaced by an error that says so."""
    text = canonical(result)
    if len(text) > RESULT_CHARS_MAX:
        text = canonical({"error": "too_long", "detail": f"more than {RESULT_CHARS_MAX} characters"})
    return ToolRecord(
        n=place.n,
        position=place.position,
        call_id=place.call.id,
        tool=place.call.name[:NAME_CHARS_MAX],
        arguments=place.call.arguments[:ARGUMENT_CHARS_MAX],
        decision=decision,
        reason=reason,
        result=text,
    )


def refused(place: Place, decision: str, refusal: Refusal) -> ToolRecord:
    return record_of(place, decision, refusal.code, refusal.told)


def denied(place: Place, tool: Tool | None, passage: Passage, pack: Pack) -> ToolRecord:
    """By the gate. Of a tool that is not there the model is told which there are."""
    code = passage.code if isinstance(passage, Deny) else Code.UNKNOWN_TOOL
    there = {} if tool else {"tools": [one.name for one in pack.tools]}
    return refused(place, "deny", Refusal(code=code, detail=there))


def stored_record(turn: Turn, place: Place) -> ToolRecord | None:
    """What the same call came to in an earlier attempt."""
    for one in turn.stored_calls:
        if _same(one, place):
            return ToolRecord(
                n=one.n,
                position=one.position,
                call_id=one.call_id,
                tool=one.tool,
                arguments=place.call.arguments,
                decision=one.decision,
                reason=one.reason,
                result=one.result,
            )
    return None


def _same(one: StoredCall, place: Place) -> bool:
    call = place.call
    return (one.n, one.position, one.call_id, one.tool) == (place.n, place.position, call.id, call.name)
