"""What an allowed call comes to in mid-turn: the write with its receipt and its record, in one transaction."""

import json
from dataclasses import dataclass, replace
from uuid import uuid5

from services.agent.core.gate import Allow, Code, rule, why
from services.agent.core.turn import Turn
from services.agent.ports import Execution, Receipt, ToolRecord
from services.agent.writing import done_text, write
from shared.digest import canonical, digest
from shared.ids import ActionId
from shared.llm.port import ToolCall
from shared.packs import Done, Proposal, Refusal, Tool, ToolContext

EXECUTING: dict[str, object] = {
    "status": "executing"
}  # the record of a call that was made outside, before its end


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Performed:
    """What an allowed call came to. With a receipt it ran, and its record is stored."""

    record: ToolRecord
    receipt: Receipt | None
    unknown: bool = False  # nobody can tell whether it ran


async def perform(
    execution: Execution, turn: Turn, tool: Tool, proposal: Proposal, place: Place, context: ToolContext
) -> Performed | None:
    locked = await execution.lock(None)
    if locked is None:
        return None
    if not isinstance(rule(tool, locked.dials), Allow):  # the level was lowered since the turn began
        denied = unperformed(place, Code.NOT_PERMITTED_AT_LEVEL, {}, decision="deny")
        now = why(tool, locked.dials, rule(tool, locked.dials))
        return replace(denied, record=replace(denied.record, why=canonical(now)))
    arguments, shown = canonical(proposal.arguments), canonical(proposal.shown)
    expected = digest(tool.name, arguments, shown)
    key = place.key(turn)
    written = await write(execution, tool, arguments, expected, context, key=key)
    match written:
        case Done(result=result):
            performed = performed_by(turn, tool, proposal, place, canonical(result))
            assert performed.receipt is not None, "what ran has a receipt"
            await execution.receipt(performed.receipt)
            await execution.record(performed.record)
            return performed
        case Refusal(code=code, detail=detail):
            return unperformed(place, code, dict(detail))
        case Proposal():
            return unperformed(place, "changed", {"now": dict(written.shown)})


async def ended_outside(
    execution: Execution,
    turn: Turn,
    tool: Tool,
    proposal: Proposal,
    place: Place,
    written: Done | Refusal | None,
) -> Performed:
    match written:
        case Done(result=result):
            performed = performed_by(turn, tool, proposal, place, canonical(result))
            assert performed.receipt is not None, "what ran has a receipt"
            await execution.receipt(performed.receipt)
        case Refusal(code=code, detail=detail):
            performed = unperformed(place, code, dict(detail))
        case None:
            performed = replace(unperformed(place, "unknown", {}), unknown=True)
    await execution.record(performed.record)
    return performed


def performed_by(turn: Turn, tool: Tool, proposal: Proposal, place: Place, result: str) -> Performed:
    arguments, shown = canonical(proposal.arguments), canonical(proposal.shown)
    receipt = Receipt(
        action=place.key(turn), tool=tool.name, digest=digest(tool.name, arguments, shown), result=result
    )
    record = record_of(
        place, "allow", None, {"done": json.loads(result), "said": done_text(tool, result, turn.locale)}
    )
    return Performed(record=record, receipt=receipt)


def unperformed(place: Place, code: str, detail: dict[str, object], *, decision: str = "refuse") -> Performed:
    return Performed(record=record_of(place, decision, code, {"error": code, **detail}), receipt=None)


def record_of(place: Place, decision: str, reason: str | None, result: dict[str, object]) -> ToolRecord:
    return ToolRecord(
        n=place.n,
        position=place.position,
        call_id=place.call.id,
        tool=place.call.name,
        arguments=place.call.arguments,
        decision=decision,
        reason=reason,
        result=canonical(result),
    )
