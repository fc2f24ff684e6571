"""Runs confirmed, approved and allowed actions: once, whole, or not at all."""

from services.agent.core.pending import Confirmed
from services.agent.core.turn import Pending, Turn
from services.agent.evidence import Sealing
from services.agent.performing import (
    Performed,
    denied_now,
    ended_outside,
    marked,
    perform,
    performed_by,
    reasons_of,
)
from services.agent.ports import Turns
from services.agent.records import Place
from services.agent.spans import tool_span
from services.agent.steps import Ended, Outside, Result, Steps
from services.agent.writing import call_outside
from shared.errors import Unavailable
from shared.packs import Pack, Proposal, Tool, ToolContext
from shared.telemetry.traces import UNTOLD, Traces
from shared.work.retry import retried


class Executor:
    """Runs confirmed, approved and allowed actions: once, whole, or not at all."""

    def __init__(self, turns: Turns, sealing: Sealing, traces: Traces = UNTOLD) -> None:
        self._turns = turns
        self._sealing = sealing
        self._traces = traces

    async def execute(
        self, turn: Turn, pending: Pending, confirmed: Confirmed | None, pack: Pack, context: ToolContext
    ) -> Result:
        """What one confirmation, or without one the operator's approval, brings about.

        Met another transaction: again whole, three times. Raises Unavailable only when it is sure that nothing was written.
        """
        with tool_span(self._traces, pending.tool, "write"):
            return await self._execute(turn, pending, confirmed, pack, context)

    async def _execute(
        self, turn: Turn, pending: Pending, confirmed: Confirmed | None, pack: Pack, context: ToolContext
    ) -> Result:
        steps = Steps(turn, pack, context, self._sealing)
        known = await self._turns.receipt_of(pending.id) if pending.executing else None

        async def once() -> Result | Outside:
            async with self._turns.execution(turn) as execution:
                return await steps.run(execution, pending, confirmed, known=known)

        try:
            result = await retried(once)
        except Unavailable:
            if await self._turns.receipt_of(pending.id) is not None:
                return Result(ended=Ended.EXECUTED)
            raise
        return (
            await self._outside(turn, pending, result, steps, context)
            if isinstance(result, Outside)
            else result
        )

    async def _outside(
        self, turn: Turn, pending: Pending, outside: Outside, steps: Steps, context: ToolContext
    ) -> Result:
        """The call outside, once; then its end in a transaction of its own."""
        written = await call_outside(outside.tool, outside.proposal, context, key=pending.id)

        async def once() -> Result:
            async with self._turns.execution(turn) as execution:
                return await steps.ended_outside(execution, pending, outside, written)

        return await retried(once)

    async def perform(
        self, turn: Turn, tool: Tool, proposal: Proposal, place: Place, context: ToolContext
    ) -> Performed | None:
        """An action that the level allows, in mid-turn. None: the turn is no longer ours. Raises Unavailable as `execute`."""
        with tool_span(self._traces, tool.name, "write"):
            return await self._perform(turn, tool, proposal, place, context)

    async def _perform(
        self, turn: Turn, tool: Tool, proposal: Proposal, place: Place, context: ToolContext
    ) -> Performed | None:
        async def once() -> Performed | None:
            async with self._turns.execution(turn) as execution:
                return await perform(execution, turn, tool, proposal, place, context)

        if tool.outside:
            return await self._perform_outside(turn, tool, proposal, place, context)
        try:
            return await retried(once)
        except Unavailable:
            result = await self._turns.receipt_of(place.key(turn))
            if result is None:
                raise
            return performed_by(turn, tool, proposal, place, result, reasons_of(tool, turn.dials))

    async def _perform_outside(
        self, turn: Turn, tool: Tool, proposal: Proposal, place: Place, context: ToolContext
    ) -> Performed | None:
        """Marked, called once, ended: what is found marked by a turn that is worked again is not repeated."""

        async def begin() -> Performed | None:
            async with self._turns.execution(turn) as execution:
                locked = await execution.lock(None)
                if locked is None:
                    return None
                if (denied := denied_now(tool, place, locked.dials)) is not None:
                    return denied
                mark = marked(tool, place, locked.dials)
                await execution.record(mark.record)
                return mark

        begun = await retried(begin)
        if begun is None or begun.record.decision == "deny":
            return begun
        written = await call_outside(tool, proposal, context, key=place.key(turn))

        async def ended() -> Performed:
            async with self._turns.execution(turn) as execution:
                return await ended_outside(execution, turn, tool, proposal, place, written)

        return await retried(ended)
