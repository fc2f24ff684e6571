"""Records of tool calls, as they are stored and told to the model."""

from typing import Any

from services.agent.checks import ARGUMENT_CHARS_MAX
from services.agent.core.gate import Code, Deny, Passage
from services.agent.core.turn import StoredCall, Turn
from services.agent.performing import Place
from services.agent.ports import ToolRecord
from shared.digest import canonical
from shared.packs import Pack, Refusal, Tool

RESULT_CHARS_MAX = 16_384


def denied(place: Place, tool: Tool | None, passage: Passage, pack: Pack) -> ToolRecord:
    code = passage.code if isinstance(passage, Deny) else Code.UNKNOWN_TOOL
    detail: dict[str, Any] = {"error": code}
    if tool is None:
        detail["tools"] = [one.name for one in pack.tools]
    return record_of(place, "deny", code, detail)


def refused(place: Place, decision: str, refusal: Refusal) -> ToolRecord:
    return record_of(place, decision, refusal.code, {"error": refusal.code, **refusal.detail})


def record_of(place: Place, decision: str, reason: str | None, result: dict[str, Any]) -> ToolRecord:
    text = canonical(result)
    if len(text) > RESULT_CHARS_MAX:
        text = canonical({"error": "too_long", "detail": f"more than {RESULT_CHARS_MAX} characters"})
    return ToolRecord(
        n=place.n,
        position=place.position,
        call_id=place.call.id,
        tool=place.call.name[:64],
        arguments=place.call.arguments[:ARGUMENT_CHARS_MAX],
        decision=decision,
        reason=reason,
        result=text,
    )


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
