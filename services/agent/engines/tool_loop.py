"""The engine `tool_loop`: native tool calls. What is allowed runs and goes back to the model; a call that asks ends the loop."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import msgspec

from services.agent.checks import Checks, read_arguments
from services.agent.commits import new_action
from services.agent.core.claims import asks_to_confirm, claims_done
from services.agent.core.gate import Ask, Code, Deny, holds_the_reply, rule, why
from services.agent.core.turn import Turn, WaitsFor
from services.agent.engines.calling import Calling, restored
from services.agent.engines.outcome import (
    Asks,
    FallbackReason,
    Falls,
    HandsOver,
    Outcome,
    Overtaken,
    Said,
    SoFar,
    Stopped,
)
from services.agent.execution import Executor
from services.agent.performing import reasons_of
from services.agent.ports import Metered, NewAction, Receipt, ToolRecord, Trace, Turns
from services.agent.records import EXECUTING, Place, denied, record_of, refused, stored_record
from services.agent.writing import done_texts
from shared.digest import canonical
from shared.llm.port import (
    Answer,
    AssistantCalls,
    AssistantText,
    Finish,
    Message,
    Request,
    ToolResult,
    UserText,
)
from shared.locales import Locale, load
from shared.packs import HAND_OVER, Pack, Refusal, Tool, ToolContext, ToolKind, tool_of
from shared.words import is_blank

CALLS_MAX = 4
NOT_WHOLE = frozenset({Finish.LENGTH, Finish.FILTER, Finish.REFUSAL})  # none of its calls runs
REPLY_CHARS_MAX = 8_000

NOTHING_DONE = (
    "(Note of the system, not of the customer: nothing was done in this turn, and nothing waits for a confirmation. "
    "Your reply said otherwise. If the customer asked for something to be done and everything is known, call the tool. "
    "Else answer without saying that anything was done, and without asking for a confirmation.)"
)
NOTHING_ASKED = (
    "(Note of the system, not of the customer: what the tools say was done in this turn is done; don't call one for it "
    "again. Nothing waits for a confirmation, and your reply asked for one. Answer again without asking for it.)"
)

DONE_BEFORE = (
    "(Note of the system, not of the customer: done already for this request: {done} Don't ask for it again.)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a turn asks the model: the stable parts of its requests, and whom the tools are for."""

    turn: Turn
    pack: Pack
    request: Request  # its messages are the history
    context: ToolContext
    page: bytes  # digest of what the prompt says of the business


@dataclass(slots=True, kw_only=True)
class Work:
    """A turn's work as it goes on."""

    question: Question
    messages: list[Message]
    earlier: list[str]  # answers of an earlier attempt, not used yet
    answers: list[str] = field(default_factory=list)
    tools: list[ToolRecord] = field(default_factory=list)
    unstored: list[ToolRecord] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    asks: NewAction | None = None
    level_0: bool = False
    unknown: bool = False  # an effect outside the record has no known end

    @property
    def turn(self) -> Turn:
        return self.question.turn

    def so_far(self) -> SoFar:
        return SoFar(
            unstored=tuple(self.unstored),
            trace=Trace(
                page=self.question.page,
                answers=tuple(self.answers),
                tools=tuple(self.tools),
                receipts=tuple(self.receipts),
            ),
            level_0=self.level_0,
        )

    def note(self, record: ToolRecord, *, stored: bool = False) -> None:
        self.tools.append(record)
        if not stored:
            self.unstored.append(record)


class ToolLoop:
    def __init__(self, *, calling: Calling, turns: Turns, checks: Checks, executor: Executor) -> None:
        self._calling = calling
        self._turns = turns
        self._checks = checks
        self._executor = executor

    async def run(self, question: Question) -> Outcome:
        """At most four model calls; what each brought is stored before the next."""
        work = Work(
            question=question,
            messages=list(question.request.messages),
            earlier=list(question.turn.stored_answers),
        )
        await self._remember(work)
        corrected = False
        last = CALLS_MAX - question.turn.calls_to_hear
        for n in range(1, last + 1):
            got = await self._iteration(work, n=n)
            if not isinstance(got, Metered | Answer):
                return got
            answer = got if isinstance(got, Answer) else got.answer
            if not answer.calls or answer.finish in NOT_WHOLE:
                ending = _ending(work, answer, got)
                if corrected or n == last or not (isinstance(ending, Said) and ending.unbacked):
                    return ending
                corrected = True
                note = NOTHING_ASKED if work.receipts else NOTHING_DONE
                work.messages += [AssistantText(text=ending.text), UserText(text=note)]
            if isinstance(got, Metered):
                await self._turns.end_call(work.turn, got.record)
            if answer.calls and (ended := await self._handle(work, answer, n=n)) is not None:
                return ended
        return Falls(reason=FallbackReason.CALLS_USED, so_far=work.so_far())

    async def _iteration(self, work: Work, *, n: int) -> Answer | Metered | Falls | Overtaken | Stopped:
        """A stored answer of an earlier attempt, which was paid for, or a fresh one."""
        if work.earlier:
            text = work.earlier.pop(0)
            try:
                answer = restored(text)
            except msgspec.ValidationError:
                work.earlier.clear()
            else:
                work.answers.append(text)
                return answer
        request = replace(work.question.request, messages=tuple(work.messages))
        got = await self._calling.call(work.turn, request, n=n, so_far=work.so_far())
        if isinstance(got, Metered):
            work.answers.append(got.record.answer or "")
            work.unstored.clear()
        return got

    async def _handle(
        self, work: Work, answer: Answer, *, n: int
    ) -> Asks | HandsOver | Falls | Stopped | None:
        """The calls of one answer, in order, one at a time. One that asks ends the loop when all were handled."""
        records: list[ToolRecord] = []
        for position, call in enumerate(answer.calls):
            place = Place(n=n, position=position, call=call)
            if call.name == HAND_OVER:
                handed_over = record_of(place, "allow", None, {"handed_over": True})
                self._calling.count(handed_over)
                work.note(handed_over)
                return HandsOver(so_far=work.so_far())
            record = await self._one(work, place)
            if record is None:
                return Stopped()
            if work.unknown:
                return Falls(reason=FallbackReason.ACTION_UNKNOWN, so_far=work.so_far())
            records.append(record)
        if work.asks is not None:
            return Asks(action=work.asks, so_far=work.so_far())
        work.messages.append(AssistantCalls(text=answer.text, calls=answer.calls, raw=answer.raw))
        work.messages += [
            ToolResult(call_id=one.call_id, name=one.tool, content=one.result) for one in records
        ]
        return None

    async def _one(self, work: Work, place: Place) -> ToolRecord | None:
        """What a call came to; None when the turn is no longer ours."""
        turn = work.turn
        tool = tool_of(work.question.pack, place.call.name)
        work.level_0 = work.level_0 or holds_the_reply(tool, turn.dials)
        if (stored := stored_record(turn, place)) is not None:
            work.note(stored, stored=True)
            work.unknown = work.unknown or stored.result == canonical(EXECUTING)
            return stored
        record = await self._ruled(work, place, tool)
        if record is not None:
            self._calling.count(record)
        return record

    async def _ruled(self, work: Work, place: Place, tool: Tool | None) -> ToolRecord | None:
        """What the gate makes of a call, and the call of it."""
        turn = work.turn
        passage = rule(tool, turn.dials)
        if tool is None or isinstance(passage, Deny):
            record = denied(place, tool, passage, work.question.pack)
        elif isinstance(passage, Ask) and (busy := _busy(work)) is not None:
            record = refused(place, "refuse", Refusal(code=busy))
        elif isinstance(arguments := read_arguments(tool, place.call.arguments), str):
            bad = Refusal(code=Code.BAD_ARGUMENTS, detail={"detail": arguments})
            record = refused(place, "refuse", bad)
        elif isinstance(passage, Ask):
            record = await self._propose(work, place, tool, arguments, passage)
        elif tool.kind is ToolKind.READ:
            record = await self._read(work, place, tool, arguments)
        else:
            return await self._perform(work, place, tool, arguments)
        record = replace(record, why=canonical(why(tool, turn.dials, passage)))
        work.note(record)
        return record

    async def _read(self, work: Work, place: Place, tool: Tool, arguments: object) -> ToolRecord:
        result = await self._checks.read(work.turn, tool, arguments, work.question.context)
        if isinstance(result, Refusal):
            return refused(place, "allow", result)
        return record_of(place, "allow", None, result.data)

    async def _propose(
        self, work: Work, place: Place, tool: Tool, arguments: object, passage: Ask
    ) -> ToolRecord:
        """The dry run of an action; what it came to waits for whom the gate names."""
        result = await self._checks.dry_run(work.turn, tool, arguments, work.question.context)
        if isinstance(result, Refusal):
            return refused(place, "refuse", result)
        action = new_action(tool, result, passage, locale=work.turn.locale)
        work.asks = replace(action, call_n=place.n, call_position=place.position)
        return record_of(place, "ask", None, {"status": f"waiting_for_the_{action.waits_for}"})

    async def _perform(self, work: Work, place: Place, tool: Tool, arguments: object) -> ToolRecord | None:
        """An allowed action: the dry run here, then again with the write, in one transaction with its receipt."""
        turn, context = work.turn, work.question.context
        result = await self._checks.dry_run(turn, tool, arguments, context)
        if isinstance(result, Refusal):
            record = replace(refused(place, "refuse", result), why=reasons_of(tool, turn.dials))
            work.note(record)
            return record
        performed = await self._executor.perform(turn, tool, result, place, context)
        if performed is None:
            return None
        record, work.unknown = performed.record, performed.unknown
        called = tool.outside and record.decision != "deny"  # what was denied was never marked
        work.note(record, stored=performed.receipt is not None or called)
        work.receipts += [performed.receipt] if performed.receipt else []
        return record

    async def _remember(self, work: Work) -> None:
        """What an earlier attempt did. One that began with another model starts anew from the text, and is told."""
        if work.turn.attempt == 1:
            return
        work.receipts += await self._turns.receipts_of(work.turn)
        if work.receipts and not work.turn.stored_calls:
            done = done_texts(work.question.pack, work.receipts, work.turn.locale)
            work.messages.append(UserText(text=DONE_BEFORE.format(done=done)))


def _ending(work: Work, answer: Answer, got: Answer | Metered) -> Said | Falls:
    """The model's last word, if it is one that a customer may get: whole, not empty, not a refusal."""
    text = (answer.text or "").strip()
    record = got.record if isinstance(got, Metered) else None
    reason = None
    if answer.finish in (Finish.LENGTH, Finish.FILTER):
        reason = FallbackReason.CUT_OFF
    elif answer.finish is Finish.REFUSAL:
        reason = FallbackReason.REFUSED
    elif is_blank("".join(filter(str.isprintable, text))) or len(text) > REPLY_CHARS_MAX:
        reason = FallbackReason.EMPTY_ANSWER
    if reason is not None:
        return Falls(reason=reason, so_far=work.so_far(), last_call=record)
    locales = [load(name) for name in work.turn.business.locales]
    return Said(text=text, so_far=work.so_far(), last_call=record, unbacked=_is_unbacked(text, work, locales))


def _is_unbacked(text: str, work: Work, locales: Sequence[Locale]) -> bool:
    """Whether it claims what no receipt of the turn shows, or asks for a confirmation while nothing waits for one."""
    return (not work.receipts and claims_done(text, locales)) or asks_to_confirm(text, locales)


def _busy(work: Work) -> Code | None:
    """Why nothing more can be asked now."""
    if work.asks is not None:
        return Code.ONE_ACTION_AT_A_TIME
    pending = work.turn.pending
    return Code.WAITING_FOR_OPERATOR if pending and pending.waits_for is WaitsFor.OPERATOR else None
