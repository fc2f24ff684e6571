"""What an allowed call comes to in mid-turn: the write with its receipt and its record, in one transaction."""

import json
from dataclasses import dataclass, replace

from services.agent.core.gate import Allow, Code, Dials, rule, why
from services.agent.core.turn import Turn
from services.agent.ports import Execution, Receipt, ToolRecord
from services.agent.records import EXECUTING, Place, record_of, refused
from services.agent.writing import done_text, proposal_digest, write
from shared.digest import canonical
from shared.packs import Done, Proposal, Refusal, Tool, ToolContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Performed:
    """What an allowed call came to. With a receipt it ran, and its record is stored."""

    record: ToolRecord
    receipt: Receipt | None
    unknown: bool = False  # nobody can tell whether it ran


async def perform(
    execution: Execution, turn: Turn, tool: Tool, proposal: Proposal, place: Place, context: ToolContext
) -> Performed | None:
    """None: the turn is no longer ours."""
    locked = await execution.lock(None)
    if locked is None:
        return None
    if (now_denied := denied_now(tool, place, locked.dials)) is not None:
        return now_denied
    arguments, expected = canonical(proposal.arguments), proposal_digest(tool, proposal)
    written = await write(execution, tool, arguments, expected, context, key=place.key(turn))
    reasons = reasons_of(tool, locked.dials)
    match written:
        case Done(result=result):
            performed = performed_by(turn, tool, proposal, place, canonical(result), reasons)
            await _store(execution, performed)
            return performed
        case Refusal():
            return _unperformed(place, written, reasons)
        case Proposal():
            changed = Refusal(code="changed", detail={"now": dict(written.shown)})
            return _unperformed(place, changed, reasons)


def denied_now(tool: Tool, place: Place, dials: Dials) -> Performed | None:
    """What an allowed call comes to when the level was lowered since the turn began; None where it was not."""
    if isinstance(rule(tool, dials), Allow):
        return None
    refusal = Refusal(code=Code.NOT_PERMITTED_AT_LEVEL)
    return _unperformed(place, refusal, reasons_of(tool, dials), decision="deny")


def marked(tool: Tool, place: Place, dials: Dials) -> Performed:
    """A call that is made outside next: who finds it so does not repeat it."""
    record = record_of(place, "allow", None, EXECUTING)
    return Performed(record=replace(record, why=reasons_of(tool, dials)), receipt=None)


async def ended_outside(
    execution: Execution,
    turn: Turn,
    tool: Tool,
    proposal: Proposal,
    place: Place,
    written: Done | Refusal | None,
) -> Performed:
    reasons = reasons_of(tool, turn.dials)
    match written:
        case Done(result=result):
            performed = performed_by(turn, tool, proposal, place, canonical(result), reasons)
        case Refusal():
            performed = _unperformed(place, written, reasons)
        case None:
            unknown = _unperformed(place, Refusal(code="unknown"), reasons)
            performed = replace(unknown, unknown=True)
    await _store(execution, performed)
    return performed


def performed_by(
    turn: Turn, tool: Tool, proposal: Proposal, place: Place, result: str, reasons: str
) -> Performed:
    receipt = Receipt(
        action=place.key(turn), tool=tool.name, digest=proposal_digest(tool, proposal), result=result
    )
    done = {"done": json.loads(result), "said": done_text(tool, result, turn.locale)}
    # Whole, however long: cut short it would read as not done.
    record = replace(record_of(place, "allow", None, {}), result=canonical(done), why=reasons)
    return Performed(record=record, receipt=receipt)


def reasons_of(tool: Tool, dials: Dials) -> str:
    """What the gate decides by, as it is stored."""
    return canonical(why(tool, dials, rule(tool, dials)))


async def _store(execution: Execution, performed: Performed) -> None:
    if performed.receipt is not None:
        await execution.receipt(performed.receipt)
    await execution.record(performed.record)


def _unperformed(place: Place, refusal: Refusal, reasons: str, *, decision: str = "refuse") -> Performed:
    return Performed(record=replace(refused(place, decision, refusal), why=reasons), receipt=None)
