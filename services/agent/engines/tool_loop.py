"""The engine `tool_loop`: native tool calls. Reads run and go back to the model; a call that asks ends the loop."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec
import structlog
from pydantic import ValidationError

from services.agent.core.digest import canonical, digest
from services.agent.core.gate import Allow, Ask, Code, Deny, rule
from services.agent.core.turn import Turn
from services.agent.engines.calling import Calling, restored
from services.agent.engines.outcome import (
    Asks,
    FallbackReason,
    Falls,
    HandsOver,
    Outcome,
    Overtaken,
    Said,
    Stopped,
)
from services.agent.ports import Metered, NewAction, ToolRecord, Turns
from shared.errors import Unavailable
from shared.ids import ActionId, new_id
from shared.llm.port import Answer, AssistantCalls, Finish, Message, Request, ToolCall, ToolResult
from shared.packs import HAND_OVER, Pack, Proposal, Refusal, Tool, ToolContext

CALLS_MAX = 4
ARGUMENT_CHARS_MAX = 8_192
RESULT_CHARS_MAX = 16_384
REPLY_CHARS_MAX = 8_000

Result = TypeVar("Result")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a turn asks the model: the stable parts of its requests, and whom the tools are for."""

    turn: Turn
    pack: Pack
    request: Request  # its messages are the history
    context: ToolContext


class ToolLoop:
    def __init__(self, *, calling: Calling, turns: Turns) -> None:
        self._calling = calling
        self._turns = turns

    async def run(self, question: Question) -> Outcome:
        """At most four model calls; what each brought is stored before the next."""
        turn = question.turn
        messages = list(question.request.messages)
        earlier = list(turn.stored_answers)
        unstored: tuple[ToolRecord, ...] = ()
        for n in range(1, CALLS_MAX + 1):
            metered = await self._iteration(question, messages, n=n, earlier=earlier, unstored=unstored)
            if not isinstance(metered, Metered | Answer):
                return metered
            answer = metered if isinstance(metered, Answer) else metered.answer
            if not answer.calls:
                return _said(answer, metered, unstored)
            if isinstance(metered, Metered):
                await self._turns.end_call(turn, metered.record)
            handled = await self._handle(question, answer, n=n)
            if not isinstance(handled, tuple):
                return handled
            unstored = handled
            messages.append(AssistantCalls(text=answer.text, calls=answer.calls, raw=answer.raw))
            messages += [
                ToolResult(call_id=one.call_id, name=one.tool, content=one.result) for one in handled
            ]
        return Falls(reason=FallbackReason.CALLS_USED, tools=unstored)

    async def _iteration(
        self,
        question: Question,
        messages: Sequence[Message],
        *,
        n: int,
        earlier: list[str],
        unstored: tuple[ToolRecord, ...],
    ) -> Answer | Metered | Falls | Overtaken | Stopped:
        """A stored answer of an earlier attempt, which was paid for, or a fresh one."""
        if earlier:
            try:
                return restored(earlier.pop(0))
            except msgspec.ValidationError:
                earlier.clear()
        request = question.request if n == 1 else replace(question.request, messages=tuple(messages))
        return await self._calling.call(question.turn, request, n=n, tools=unstored)

    async def _handle(
        self, question: Question, answer: Answer, *, n: int
    ) -> tuple[ToolRecord, ...] | Asks | HandsOver | Falls:
        """The calls of one answer, in order, one at a time. The first that asks ends the loop, the others are refused."""
        records: list[ToolRecord] = []
        asks: tuple[NewAction, str] | None = None
        for position, call in enumerate(answer.calls):
            if call.name == HAND_OVER:
                record = _record(call, n, position, "allow", None, {"handed_over": True})
                return HandsOver(tools=(*records, record))
            stored = _stored(question.turn, call, n=n, position=position)
            if stored is not None:
                records.append(stored)
                continue
            record, asked = await self._one(question, call, n=n, position=position, asking=asks is not None)
            records.append(record)
            asks = asks or asked
        if asks is not None:
            action, prompt = asks
            return Asks(action=action, prompt=prompt, tools=tuple(records))
        return tuple(records)

    async def _one(
        self, question: Question, call: ToolCall, *, n: int, position: int, asking: bool
    ) -> tuple[ToolRecord, tuple[NewAction, str] | None]:
        tool = next((tool for tool in question.pack.tools if tool.name == call.name), None)
        passage = rule(tool, mode=question.turn.mode)
        if isinstance(passage, Deny) or tool is None:
            code = passage.code if isinstance(passage, Deny) else Code.UNKNOWN_TOOL
            return _record(call, n, position, "deny", code, {"error": code}), None
        if asking:
            code = Code.ONE_ACTION_AT_A_TIME
            return _record(call, n, position, "refuse", code, {"error": code}), None
        arguments = _arguments(tool, call.arguments)
        if isinstance(arguments, str):
            detail = {"error": Code.BAD_ARGUMENTS, "detail": arguments}
            return _record(call, n, position, "refuse", Code.BAD_ARGUMENTS, detail), None
        match passage:
            case Allow():
                result = await self._read(question, tool, arguments)
                return _record(call, n, position, "allow", None, result), None
            case Ask(confirmations=confirmations):
                return await self._propose(question, tool, call, arguments, n, position, confirmations)

    async def _read(self, question: Question, tool: Tool, arguments: object) -> dict[str, Any]:
        read = tool.read
        assert read is not None, f"{tool.name} is declared a read and has none"
        result = await self._checked(question, lambda context: read(context, arguments))
        if isinstance(result, Refusal):
            return {"error": result.code, **result.detail}
        return dict(result.data)

    async def _propose(
        self,
        question: Question,
        tool: Tool,
        call: ToolCall,
        arguments: object,
        n: int,
        position: int,
        confirmations: int,
    ) -> tuple[ToolRecord, tuple[NewAction, str] | None]:
        """The dry run of an action, and the question that the system asks about it."""
        result = await self.dry_run(question, tool, arguments)
        if isinstance(result, Refusal):
            detail = {"error": result.code, **result.detail}
            return _record(call, n, position, "refuse", result.code, detail), None
        action, prompt = new_action(tool, result, confirmations=confirmations, locale=question.turn.locale)
        return _record(call, n, position, "ask", None, {"status": "waiting_for_the_customer"}), (
            action,
            prompt,
        )

    async def dry_run(self, question: Question, tool: Tool, arguments: object) -> Proposal | Refusal:
        check = tool.check
        assert check is not None, f"{tool.name} is declared an action and has no check"
        return await self._checked(question, lambda context: check(context, arguments))

    async def _checked(
        self, question: Question, run: Callable[[ToolContext], Awaitable[Result | Refusal]]
    ) -> Result | Refusal:
        """Run a tool's SQL as the tenant. A tool that raises is a failed check, never an exception out of the turn."""
        turn = question.turn
        try:
            async with self._turns.tenant(turn.business.id, question.pack.name) as sql:
                return await run(replace(question.context, sql=sql))
        except Unavailable:
            raise
        except Exception:
            log.exception("tool failed", turn=str(turn.id))
            return Refusal(code=Code.CHECK_FAILED)


def new_action(tool: Tool, proposal: Proposal, *, confirmations: int, locale: str) -> tuple[NewAction, str]:
    """A pending action with the digest of what its prompt shows, and the summary that the prompt asks about."""
    assert tool.word_prompt is not None, f"{tool.name} is an action and words no prompt"
    arguments, shown = canonical(proposal.arguments), canonical(proposal.shown)
    action = NewAction(
        id=ActionId(new_id()),
        tool=tool.name,
        arguments=arguments,
        shown=shown,
        digest=digest(tool.name, arguments, shown),
        confirmations_needed=confirmations,
    )
    return action, tool.word_prompt(proposal.shown, locale)


def _said(answer: Answer, metered: Answer | Metered, unstored: tuple[ToolRecord, ...]) -> Said | Falls:
    """The model's last word, if it is one that a customer may get: whole, not empty, not a refusal."""
    text = (answer.text or "").strip()
    record = metered.record if isinstance(metered, Metered) else None
    reason = None
    if answer.finish in (Finish.LENGTH, Finish.FILTER):
        reason = FallbackReason.CUT_OFF
    elif answer.finish is Finish.REFUSAL:
        reason = FallbackReason.REFUSED
    elif not text or len(text) > REPLY_CHARS_MAX:
        reason = FallbackReason.EMPTY_ANSWER
    if reason is not None:
        return Falls(reason=reason, tools=unstored, last_call=record)
    return Said(text=text, last_call=record, tools=unstored)


def _arguments(tool: Tool, text: str) -> Any:
    """The call's arguments as the tool's model, or what was wrong with them. Never a repaired guess."""
    if len(text) > ARGUMENT_CHARS_MAX:
        return f"arguments of more than {ARGUMENT_CHARS_MAX} characters"
    try:
        return tool.arguments.model_validate_json(text or "{}", strict=False)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False, include_context=False)
        return "; ".join(
            f"{'.'.join(map(str, one['loc'])) or 'arguments'}: {one['msg']}" for one in problems[:5]
        )


def _record(
    call: ToolCall, n: int, position: int, decision: str, reason: str | None, result: dict[str, Any]
) -> ToolRecord:
    return ToolRecord(
        n=n,
        position=position,
        call_id=call.id,
        tool=call.name[:64],
        arguments=call.arguments[:ARGUMENT_CHARS_MAX],
        decision=decision,
        reason=reason,
        result=canonical(result)[:RESULT_CHARS_MAX],
    )


def _stored(turn: Turn, call: ToolCall, *, n: int, position: int) -> ToolRecord | None:
    """What the same call came to in an earlier attempt."""
    for one in turn.stored_calls:
        if (one.n, one.position, one.call_id, one.tool) == (n, position, call.id, call.name):
            return ToolRecord(
                n=n,
                position=position,
                call_id=call.id,
                tool=call.name,
                arguments=call.arguments,
                decision="allow",
                reason=None,
                result=one.result,
            )
    return None
