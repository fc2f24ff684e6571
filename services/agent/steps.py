"""The steps of one confirmation or approval, inside its transaction: everything as it is now, the write, the turn's end."""

import json
from dataclasses import dataclass, replace
from enum import StrEnum

from services.agent.commits import asking, asking_the_next, ending, new_action, refusing, saying
from services.agent.core.gate import Allow, Ask, Code, Deny, rule
from services.agent.core.pending import Confirmed
from services.agent.core.turn import Decided, Pending, Turn
from services.agent.evidence import Sealing
from services.agent.ports import Commit, Committed, Execution, Locked, Receipt, Trace
from services.agent.writing import done_text, proposal_digest, write
from shared.autonomy import Asked
from shared.digest import canonical, digest
from shared.ids import OutboundId
from shared.locales import load
from shared.packs import Done, Pack, Proposal, Refusal, Tool, ToolContext, tool_of


class Ended(StrEnum):
    """What came of a confirmation or an approval."""

    EXECUTED = "executed"
    NEXT_STEP = "next_step"  # one more confirmation is needed
    TO_OPERATOR = "to_operator"  # the customer confirmed; an operator must approve
    CHANGED = "changed"  # what the prompt showed is no longer so: asked again
    REFUSED = "refused"  # a check no longer holds: the customer is told why, and what else is possible
    NOT_PERMITTED = "not_permitted"
    UNKNOWN = "unknown"  # its effect lies outside the record, and nobody knows whether it came about
    STOPPED = "stopped"  # the turn or the action is no longer ours


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    ended: Ended
    outbound: OutboundId | None = None
    committed: Committed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """Everything permits an action whose effect lies outside the record; it is marked, and called for next."""

    tool: Tool
    proposal: Proposal
    passage: Allow | Ask


class Steps:
    """The steps of one confirmation or approval, for one turn."""

    def __init__(self, turn: Turn, pack: Pack, context: ToolContext, sealing: Sealing) -> None:
        self._turn = turn
        self._pack = pack
        self._context = context
        self._sealing = sealing

    async def run(
        self, execution: Execution, pending: Pending, confirmed: Confirmed | None, *, known: str | None
    ) -> Result | Outside:
        """`known`: the result in the receipt of an action that was found under way, if it has one."""
        locked = await execution.lock(pending.id)
        if locked is None or locked.pending is None:
            return Result(ended=Ended.STOPPED)
        stored = locked.pending
        if stored.executing:
            return await self._found(execution, stored, known)
        if confirmed is not None and confirmed.settles and stored.prompt is not None:
            await execution.settle_prompt(stored.prompt.outbound)
        tool = tool_of(self._pack, stored.tool)
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
    ) -> Result | Outside:
        needed, by_operator = _needs(stored, passage)
        approved = stored.decision is not None and stored.decision.decided is Decided.APPROVED
        unasked = approves and had < needed  # no approval stands for a customer's yes
        if approves and (not approved or (unasked and stored.asked is not Asked.OPERATOR)):
            return await self._not_permitted(execution, stored)
        waits = had < needed or (by_operator and not approved)
        key = None if waits or tool.outside else stored.id
        written = await write(execution, tool, stored.arguments, stored.digest, self._context, key=key)
        as_shown = isinstance(written, Proposal) and proposal_digest(tool, written) == stored.digest
        if isinstance(written, Proposal) and as_shown and not unasked:
            if waits:
                return await self._goes_on(execution, stored, had=had, needed=needed)
            await execution.executing(stored.id)
            return Outside(tool=tool, proposal=written, passage=passage)
        return await self._end(execution, tool, stored, written, passage)

    async def ended_outside(
        self, execution: Execution, pending: Pending, outside: Outside, written: Done | Refusal | None
    ) -> Result:
        """What was called for outside has ended. Its receipt is stored even when the turn is another's by now."""
        locked = await execution.lock(pending.id)
        if locked is None or locked.pending is None:
            if isinstance(written, Done):
                result = canonical(written.result)
                await execution.receipt(
                    Receipt(action=pending.id, tool=pending.tool, digest=pending.digest, result=result)
                )
            return Result(ended=Ended.STOPPED)
        if written is None:
            return await self._unknown(execution, locked.pending)
        return await self._end(execution, outside.tool, locked.pending, written, outside.passage)

    async def _found(self, execution: Execution, stored: Pending, known: str | None) -> Result:
        """An effect outside was called for by an earlier attempt, which stored its receipt or did not live to."""
        tool = tool_of(self._pack, stored.tool)
        if known is None or tool is None:
            return await self._unknown(execution, stored)
        receipt = Receipt(action=stored.id, tool=stored.tool, digest=stored.digest, result=known)
        return await self._executed(execution, tool, receipt)

    async def _unknown(self, execution: Execution, stored: Pending) -> Result:
        """Nobody can tell whether it went through: people look, and it is never repeated by itself."""
        text = load(self._turn.locale).notice("action_unknown", summary=stored.summary)
        commit = ending(
            saying(self._turn, Ended.UNKNOWN, text), as_="unknown", result=canonical({"error": "unknown"})
        )
        commit = replace(commit, handoff="action_unknown", flag="action_unknown")
        return await self._commit(execution, Ended.UNKNOWN, commit)

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
                return await self._executed(execution, tool, receipt)
            case Refusal():
                commit = refusing(turn, Ended.REFUSED, tool, written)
                return await self._commit(execution, Ended.REFUSED, commit)
            case Proposal():
                ask = passage if isinstance(passage, Ask) else Ask(max(stored.confirmations_needed, 1))
                action = new_action(tool, written, ask, locale=turn.locale)
                changed = load(turn.locale).notice("changed")
                commit = asking(turn, Ended.CHANGED, action, before=changed)
                return await self._commit(execution, Ended.CHANGED, commit)

    async def _executed(self, execution: Execution, tool: Tool, receipt: Receipt) -> Result:
        text = done_text(tool, receipt.result, self._turn.locale)
        done = canonical({"done": json.loads(receipt.result), "said": text})
        commit = ending(saying(self._turn, Ended.EXECUTED, text), as_="executed", result=done)
        commit = replace(commit, receipt=True, trace=Trace(receipts=(receipt,)))
        return await self._commit(execution, Ended.EXECUTED, commit)

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
        max(stored.confirmations_needed, passage.confirmations),
        stored.asked in by_operator or passage.asked in by_operator,
    )
