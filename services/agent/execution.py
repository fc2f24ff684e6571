"""A confirmed action's execution: one transaction, with every check as it is now, the write, the receipt and the turn's end."""

from dataclasses import dataclass, replace
from enum import StrEnum

from pydantic import ValidationError

from services.agent.commits import asking, saying
from services.agent.core.digest import canonical, digest
from services.agent.core.gate import Ask, rule
from services.agent.core.pending import Confirmed
from services.agent.core.turn import Pending, Turn
from services.agent.engines.tool_loop import new_action
from services.agent.ports import Committed, Execution, NewAction, Turns
from shared.errors import Unavailable
from shared.ids import OutboundId
from shared.locales import load
from shared.packs import Done, Pack, Proposal, Refusal, Tool, ToolContext
from shared.work.retry import retried


class Ended(StrEnum):
    """What came of a confirmation."""

    EXECUTED = "executed"
    CHANGED = "changed"  # what the prompt showed is no longer so: asked again
    REFUSED = "refused"  # a check no longer holds: the customer is told why, and what else is possible
    NOT_PERMITTED = "not_permitted"
    STOPPED = "stopped"  # the turn or the action is no longer ours


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    ended: Ended
    outbound: OutboundId | None = None
    committed: Committed | None = None


class Executor:
    """Runs confirmed actions. The only place in the product that writes for a customer."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    async def execute(
        self, turn: Turn, pending: Pending, confirmed: Confirmed, pack: Pack, context: ToolContext
    ) -> Result:
        """Once, whole, or not at all. Met another transaction: again whole, three times. Raises Unavailable only when it is
        sure that nothing was written."""

        async def once() -> Result:
            async with self._turns.execution(turn) as execution:
                return await self._inside(execution, turn, pending, confirmed, pack, context)

        try:
            return await retried(once)
        except Unavailable:
            if await self._turns.executed(pending.id):
                return Result(ended=Ended.EXECUTED)
            raise

    async def _inside(
        self,
        execution: Execution,
        turn: Turn,
        pending: Pending,
        confirmed: Confirmed,
        pack: Pack,
        context: ToolContext,
    ) -> Result:
        stored = await execution.lock(pending.id)
        if stored is None:
            return Result(ended=Ended.STOPPED)
        if confirmed.by_button:
            await execution.settle_prompt(pending.prompt)
        tool = next((tool for tool in pack.tools if tool.name == stored.tool), None)
        passage = rule(tool, mode=turn.mode)
        whole = digest(stored.tool, stored.arguments, stored.shown) == stored.digest
        if tool is None or not isinstance(passage, Ask) or not whole:
            return await self._not_permitted(execution, turn, stored)
        had = await execution.confirm(stored.id, confirmed.message)
        if had < max(stored.confirmations_needed, passage.confirmations):
            return await self._not_permitted(execution, turn, stored)
        written = await self._write(execution, tool, stored, context)
        return await self._end(execution, turn, tool, stored, written, confirmations=passage.confirmations)

    async def _write(
        self, execution: Execution, tool: Tool, stored: Pending, context: ToolContext
    ) -> Done | Refusal | Proposal:
        """The dry run as things are now, and the write if what was shown still holds; else the new proposal or refusal."""
        assert tool.check is not None, f"{tool.name} is an action without a check"
        assert tool.execute is not None, f"{tool.name} is an action without an execution"
        try:
            arguments = tool.arguments.model_validate_json(stored.arguments)
        except ValidationError:
            return Refusal(code="bad_arguments")
        async with execution.tenant() as sql:
            here = replace(context, sql=sql)
            proposal = await tool.check(here, arguments)
            if isinstance(proposal, Refusal):
                return proposal
            now = digest(tool.name, canonical(proposal.arguments), canonical(proposal.shown))
            if now != stored.digest:
                return proposal
            return await tool.execute(here, proposal, str(stored.id))

    async def _end(
        self,
        execution: Execution,
        turn: Turn,
        tool: Tool,
        stored: Pending,
        written: Done | Refusal | Proposal,
        *,
        confirmations: int,
    ) -> Result:
        match written:
            case Done(result=result):
                await execution.receipt(stored, canonical(result))
                assert tool.word_done is not None, f"{tool.name} words nothing that was done"
                text = tool.word_done(result, turn.locale)
                return await self._commit(execution, turn, stored, Ended.EXECUTED, text, ends_as="executed")
            case Refusal():
                assert tool.word_refusal is not None, f"{tool.name} words no refusal"
                text = tool.word_refusal(written, turn.locale)
                return await self._commit(
                    execution, turn, stored, Ended.REFUSED, text, ends_as="refused", because=written.code
                )
            case Proposal():
                action, summary = new_action(tool, written, confirmations=confirmations, locale=turn.locale)
                text = f"{load(turn.locale).notice('changed')} {summary}"
                return await self._commit(
                    execution, turn, stored, Ended.CHANGED, text, ends_as="replaced", asks=action
                )

    async def _not_permitted(self, execution: Execution, turn: Turn, stored: Pending) -> Result:
        text = load(turn.locale).notice("fallback")
        return await self._commit(
            execution, turn, stored, Ended.NOT_PERMITTED, text, ends_as="refused", because="not_permitted"
        )

    async def _commit(
        self,
        execution: Execution,
        turn: Turn,
        stored: Pending,
        ended: Ended,
        text: str,
        *,
        ends_as: str,
        because: str | None = None,
        asks: NewAction | None = None,
    ) -> Result:
        commit = asking(turn, ended.value, text, asks) if asks else saying(turn, ended.value, text)
        commit = replace(
            commit,
            receipt=ended is Ended.EXECUTED,
            ends=stored.id,
            ends_as=ends_as,
            ends_because=because,
            handoff="not_permitted" if ended is Ended.NOT_PERMITTED else None,
        )
        committed = await execution.commit(commit)
        return Result(ended=ended, outbound=commit.outbound, committed=committed)
