"""An action's execution: one transaction, with every check as it is now, the write, the receipt and, of a confirmed one, the
turn's end. The only place in the product that writes for a customer."""

import json
from dataclasses import dataclass, replace
from enum import StrEnum
from uuid import uuid5

from pydantic import ValidationError

from services.agent.commits import asking, asking_the_next, ending, new_action, saying
from services.agent.core.gate import Allow, Ask, Code, Deny, rule
from services.agent.core.pending import Confirmed
from services.agent.core.turn import Decided, Pending, Turn
from services.agent.evidence import Sealing
from services.agent.ports import (
    Commit,
    Committed,
    Execution,
    Locked,
    Receipt,
    ToolRecord,
    Trace,
    Turns,
)
from shared.autonomy import Asked
from shared.digest import canonical, digest
from shared.errors import Unavailable
from shared.ids import ActionId, OutboundId
from shared.llm.port import ToolCall
from shared.locales import load
from shared.packs import Done, Pack, Proposal, Refusal, Tool, ToolContext
from shared.work.retry import retried


class Ended(StrEnum):
    """What came of a confirmation or an approval."""

    EXECUTED = "executed"
    NEXT_STEP = "next_step"  # one more confirmation is needed
    TO_OPERATOR = "to_operator"  # the customer confirmed; an operator must approve
    CHANGED = "changed"  # what the prompt showed is no longer so: asked again
    REFUSED = "refused"  # a check no longer holds: the customer is told why, and what else is possible
    NOT_PERMITTED = "not_permitted"
    STOPPED = "stopped"  # the turn or the action is no longer ours


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    ended: Ended
    outbound: OutboundId | None = None
    committed: Committed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A call of a turn: the `position`-th of its `n`-th answer."""

    n: int
    position: int
    call: ToolCall

    def key(self, turn: Turn) -> ActionId:
        """What makes an allowed call's write and receipt single: the same call of the same turn, whoever works it."""
        return ActionId(uuid5(turn.id, f"{self.n}/{self.position}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Performed:
    """What an allowed call came to. With a receipt it ran, and its record is stored."""

    record: ToolRecord
    receipt: Receipt | None


class Executor:
    """Runs confirmed, approved and allowed actions: once, whole, or not at all."""

    def __init__(self, turns: Turns, sealing: Sealing) -> None:
        self._turns = turns
        self._sealing = sealing

    async def execute(
        self, turn: Turn, pending: Pending, confirmed: Confirmed | None, pack: Pack, context: ToolContext
    ) -> Result:
        """What one confirmation, or without one the operator's approval, brings about.

        Met another transaction: again whole, three times. Raises Unavailable only when it is sure that nothing was written.
        """
        steps = _Steps(turn, pack, context, self._sealing)

        async def once() -> Result:
            async with self._turns.execution(turn) as execution:
                return await steps.run(execution, pending, confirmed)

        try:
            return await retried(once)
        except Unavailable:
            if await self._turns.receipt_of(pending.id) is not None:
                return Result(ended=Ended.EXECUTED)
            raise

    async def perform(
        self, turn: Turn, tool: Tool, proposal: Proposal, place: Place, context: ToolContext
    ) -> Performed | None:
        """An action that the level allows, in mid-turn. None: the turn is no longer ours. Raises Unavailable as `execute`."""

        async def once() -> Performed | None:
            async with self._turns.execution(turn) as execution:
                return await _perform(execution, turn, tool, proposal, place, context)

        try:
            return await retried(once)
        except Unavailable:
            result = await self._turns.receipt_of(place.key(turn))
            if result is None:
                raise
            return _performed(turn, tool, proposal, place, result)


async def _perform(
    execution: Execution, turn: Turn, tool: Tool, proposal: Proposal, place: Place, context: ToolContext
) -> Performed | None:
    locked = await execution.lock(None)
    if locked is None:
        return None
    if not isinstance(rule(tool, locked.dials), Allow):  # the level was lowered since the turn began
        return _unperformed(place, Code.NOT_PERMITTED_AT_LEVEL, {}, decision="deny")
    arguments, shown = canonical(proposal.arguments), canonical(proposal.shown)
    expected = digest(tool.name, arguments, shown)
    key = place.key(turn)
    written = await _write(execution, tool, arguments, expected, context, key=key)
    match written:
        case Done(result=result):
            performed = _performed(turn, tool, proposal, place, canonical(result))
            assert performed.receipt is not None, "what ran has a receipt"
            await execution.receipt(performed.receipt)
            await execution.record(performed.record)
            return performed
        case Refusal(code=code, detail=detail):
            return _unperformed(place, code, dict(detail))
        case Proposal():
            return _unperformed(place, "changed", {"now": dict(written.shown)})


def _performed(turn: Turn, tool: Tool, proposal: Proposal, place: Place, result: str) -> Performed:
    arguments, shown = canonical(proposal.arguments), canonical(proposal.shown)
    receipt = Receipt(
        action=place.key(turn), tool=tool.name, digest=digest(tool.name, arguments, shown), result=result
    )
    record = _record(
        place, "allow", None, {"done": json.loads(result), "said": done_text(tool, result, turn.locale)}
    )
    return Performed(record=record, receipt=receipt)


def _unperformed(
    place: Place, code: str, detail: dict[str, object], *, decision: str = "refuse"
) -> Performed:
    return Performed(record=_record(place, decision, code, {"error": code, **detail}), receipt=None)


def _record(place: Place, decision: str, reason: str | None, result: dict[str, object]) -> ToolRecord:
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


def done_text(tool: Tool, result: str, locale: str) -> str:
    """What a receipt's result says was done."""
    assert tool.word_done is not None, f"{tool.name} words nothing that was done"
    return tool.word_done(json.loads(result), locale)


async def _write(
    execution: Execution,
    tool: Tool,
    arguments: str,
    expected: bytes,
    context: ToolContext,
    *,
    key: ActionId | None,
) -> Done | Refusal | Proposal:
    """The dry run as things are now, and the write if what was shown still holds; else the new proposal or refusal.

    Without a `key` only the dry run: a proposal that is as expected is returned as it is.
    """
    assert tool.check is not None, f"{tool.name} is an action without a check"
    assert tool.execute is not None, f"{tool.name} is an action without an execution"
    try:
        given = tool.arguments.model_validate_json(arguments)
    except ValidationError:
        return Refusal(code=Code.BAD_ARGUMENTS)
    async with execution.tenant() as sql:
        here = replace(context, sql=sql)
        proposal = await tool.check(here, given)
        if isinstance(proposal, Refusal) or key is None or _digest(tool, proposal) != expected:
            return proposal
        return await tool.execute(here, proposal, str(key))


def _digest(tool: Tool, proposal: Proposal) -> bytes:
    return digest(tool.name, canonical(proposal.arguments), canonical(proposal.shown))


class _Steps:
    """The steps of one confirmation or approval, for one turn."""

    def __init__(self, turn: Turn, pack: Pack, context: ToolContext, sealing: Sealing) -> None:
        self._turn = turn
        self._pack = pack
        self._context = context
        self._sealing = sealing

    async def run(self, execution: Execution, pending: Pending, confirmed: Confirmed | None) -> Result:
        locked = await execution.lock(pending.id)
        if locked is None or locked.pending is None:
            return Result(ended=Ended.STOPPED)
        stored = locked.pending
        if confirmed is not None and confirmed.settles and stored.prompt is not None:
            await execution.settle_prompt(stored.prompt.outbound)
        tool = next((tool for tool in self._pack.tools if tool.name == stored.tool), None)
        passage = rule(tool, locked.dials)
        whole = digest(stored.tool, stored.arguments, stored.shown) == stored.digest
        if tool is None or isinstance(passage, Deny) or not whole:
            return await self._not_permitted(execution, stored)
        had = locked.confirmations
        if confirmed is not None:
            had = await execution.confirm(stored.id, confirmed.message)
        return await self._permitted(
            execution, tool, stored, passage, locked, had=had, approves=confirmed is None
        )

    async def _permitted(
        self,
        execution: Execution,
        tool: Tool,
        stored: Pending,
        passage: Allow | Ask,
        locked: Locked,
        *,
        had: int,
        approves: bool,
    ) -> Result:
        needed, by_operator = _needs(stored, passage)
        approved = stored.decision is not None and stored.decision.decided is Decided.APPROVED
        if approves and (had < needed or not approved):
            return await self._not_permitted(execution, stored)  # no approval stands for a customer's yes
        waits = had < needed or (by_operator and not approved)
        written = await _write(
            execution, tool, stored.arguments, stored.digest, self._context, key=None if waits else stored.id
        )
        unchanged = isinstance(written, Proposal) and _digest(tool, written) == stored.digest
        if waits and unchanged:
            return await self._goes_on(execution, stored, had=had, needed=needed)
        return await self._end(execution, tool, stored, written, passage)

    async def _goes_on(self, execution: Execution, stored: Pending, *, had: int, needed: int) -> Result:
        if had < needed:
            stored = replace(stored, confirmations_needed=needed)
            commit = asking_the_next(self._turn, stored, step=had + 1, outcome=Ended.NEXT_STEP)
            return await self._commit(execution, Ended.NEXT_STEP, commit)
        text = load(self._turn.locale).notice("waiting_for_operator")
        commit = replace(saying(self._turn, Ended.TO_OPERATOR, text), to_operator=stored.id)
        return await self._commit(execution, Ended.TO_OPERATOR, commit)

    async def _end(
        self,
        execution: Execution,
        tool: Tool,
        stored: Pending,
        written: Done | Refusal | Proposal,
        passage: Allow | Ask,
    ) -> Result:
        turn = self._turn
        match written:
            case Done(result=result):
                receipt = Receipt(
                    action=stored.id, tool=tool.name, digest=stored.digest, result=canonical(result)
                )
                await execution.receipt(receipt)
                text = done_text(tool, receipt.result, turn.locale)
                done = canonical({"done": dict(result), "said": text})
                commit = ending(saying(turn, Ended.EXECUTED, text), as_="executed", result=done)
                commit = replace(commit, receipt=True, trace=Trace(receipts=(receipt,)))
                return await self._commit(execution, Ended.EXECUTED, commit)
            case Refusal():
                assert tool.word_refusal is not None, f"{tool.name} words no refusal"
                commit = saying(turn, Ended.REFUSED, tool.word_refusal(written, turn.locale))
                refused = canonical({"error": written.code, **written.detail})
                commit = ending(commit, as_="refused", because=written.code, result=refused)
                return await self._commit(execution, Ended.REFUSED, commit)
            case Proposal():
                ask = passage if isinstance(passage, Ask) else Ask(max(stored.confirmations_needed, 1))
                action = new_action(tool, written, ask, locale=turn.locale)
                changed = load(turn.locale).notice("changed")
                commit = asking(turn, Ended.CHANGED, action, before=changed)
                return await self._commit(execution, Ended.CHANGED, commit)

    async def _not_permitted(self, execution: Execution, stored: Pending) -> Result:
        """The dials or the record say no by now: nothing is written, and people take over."""
        commit = saying(self._turn, Ended.NOT_PERMITTED, load(self._turn.locale).notice("fallback"))
        denied = canonical({"error": Code.NOT_PERMITTED_AT_LEVEL})
        commit = ending(commit, as_="refused", because="not_permitted", result=denied)
        return await self._commit(execution, Ended.NOT_PERMITTED, replace(commit, handoff="not_permitted"))

    async def _commit(self, execution: Execution, ended: Ended, commit: Commit) -> Result:
        committed = await execution.commit(self._sealing.seal(commit))
        return Result(ended=ended, outbound=commit.outbound, committed=committed)


def _needs(stored: Pending, passage: Allow | Ask) -> tuple[int, bool]:
    """How many confirmations, and whether an operator's approval: by what was asked, and by the gate as it is now."""
    by_operator = {Asked.OPERATOR, Asked.BOTH}
    if isinstance(passage, Allow):
        return stored.confirmations_needed, stored.asked in by_operator
    return (
        max(stored.confirmations_needed, passage.confirmations if stored.asked is not Asked.OPERATOR else 0),
        stored.asked in by_operator or passage.asked in by_operator,
    )
