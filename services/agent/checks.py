"""Runs what a tool may do without anybody's leave: reads, and the dry run of an action. Never an exception out of a turn."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

import structlog
from pydantic import ValidationError

from services.agent.core.gate import Code
from services.agent.core.turn import Turn
from services.agent.ports import Turns
from services.agent.spans import tool_span
from shared.errors import Unavailable
from shared.packs import Established, Proposal, Refusal, Tool, ToolContext
from shared.telemetry.traces import UNTOLD, Traces

ARGUMENT_CHARS_MAX = 8_192

Result = TypeVar("Result")

log = structlog.get_logger(__name__)


class Checks:
    """Each in a transaction of its own, as the tenant."""

    def __init__(self, turns: Turns, traces: Traces = UNTOLD) -> None:
        self._turns = turns
        self._traces = traces

    async def read(
        self, turn: Turn, tool: Tool, arguments: object, context: ToolContext
    ) -> Established | Refusal:
        read = tool.read
        assert read is not None, f"{tool.name} is declared a read and has none"
        with tool_span(self._traces, tool.name, "read"):
            return await self._run(turn, context, lambda here: read(here, arguments))

    async def dry_run(
        self, turn: Turn, tool: Tool, arguments: object, context: ToolContext
    ) -> Proposal | Refusal:
        check = tool.check
        assert check is not None, f"{tool.name} is declared an action and has no check"
        with tool_span(self._traces, tool.name, "dry run"):
            return await self._run(turn, context, lambda here: check(here, arguments))

    async def _run(
        self, turn: Turn, context: ToolContext, run: Callable[[ToolContext], Awaitable[Result | Refusal]]
    ) -> Result | Refusal:
        try:
            async with self._turns.tenant(turn.business.id, turn.business.pack) as sql:
                return await run(replace(context, sql=sql))
        except Unavailable:
            raise
        except Exception:
            log.exception("tool failed", turn=str(turn.id))
            return Refusal(code=Code.CHECK_FAILED)


def read_arguments(tool: Tool, text: str) -> Any:
    """A call's arguments as the tool's model, or what was wrong with them, as a text. Never a repaired guess."""
    if len(text) > ARGUMENT_CHARS_MAX:
        return f"arguments of more than {ARGUMENT_CHARS_MAX} characters"
    try:
        return tool.arguments.model_validate_json(text or "{}", strict=True)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False, include_context=False)
        return "; ".join(
            f"{'.'.join(map(str, one['loc'])) or 'arguments'}: {one['msg']}" for one in problems[:5]
        )
