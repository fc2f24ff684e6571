"""The write of an action: its checks as things are now, then its effect, here or outside. Nothing else in the product writes for
a customer."""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import replace

import structlog
from pydantic import ValidationError

from services.agent.core.gate import Code
from services.agent.ports import Execution, Receipt
from shared.digest import canonical, digest
from shared.ids import ActionId
from shared.packs import Done, Pack, Proposal, Refusal, Tool, ToolContext, tool_of

OUTSIDE_S = 15.0

log = structlog.get_logger(__name__)


async def write(
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
        if isinstance(proposal, Refusal) or key is None or proposal_digest(tool, proposal) != expected:
            return proposal
        return await tool.execute(here, proposal, str(key))


def proposal_digest(tool: Tool, proposal: Proposal) -> bytes:
    return digest(tool.name, canonical(proposal.arguments), canonical(proposal.shown))


async def call_outside(
    tool: Tool, proposal: Proposal, context: ToolContext, *, key: ActionId
) -> Done | Refusal | None:
    """An effect outside the record, called for once with its idempotency key. None: nobody knows what came of it."""
    assert tool.execute is not None, f"{tool.name} is an action without an execution"
    try:
        async with asyncio.timeout(OUTSIDE_S):
            return await tool.execute(context, proposal, str(key))
    except Exception:  # whatever a pack's client raises: the call may have arrived
        log.exception("an effect outside has no known end", tool=tool.name, key=str(key))
        return None


def done_texts(pack: Pack | None, receipts: Iterable[Receipt], locale: str) -> str:
    """What receipts say was done, one sentence after another."""
    ran = ((tool_of(pack, receipt.tool), receipt.result) for receipt in receipts)
    return " ".join(done_text(tool, result, locale) for tool, result in ran if tool)


def refusal_text(tool: Tool, refusal: Refusal, locale: str) -> str:
    """Why not, and what else is possible, in the pack's words."""
    assert tool.word_refusal is not None, f"{tool.name} words no refusal"
    return tool.word_refusal(refusal, locale)


def done_text(tool: Tool, result: str, locale: str) -> str:
    """What a receipt's result says was done."""
    assert tool.word_done is not None, f"{tool.name} words nothing that was done"
    return tool.word_done(json.loads(result), locale)
