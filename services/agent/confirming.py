"""What becomes of a pending action: by the customer's words, a press of a button, an operator's decision. No model call."""

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from services.agent.checks import Checks, read_arguments
from services.agent.commits import asking, ending, new_action, refusing, repeating, saying, silent
from services.agent.committing import Committer
from services.agent.core.confirmation import Answer, match
from services.agent.core.gate import Allow, Ask, Code, Deny, rule
from services.agent.core.heard import Taken, take
from services.agent.core.pending import (
    WAIT,
    Confirmed,
    Declined,
    Meeting,
    NewRequest,
    NoLongerOpen,
    PromptIsTheAnswer,
    Recheck,
    Repeat,
    StillWaiting,
    WaitForPrompt,
    Withdrawn,
    meet,
)
from services.agent.core.turn import Decided, Decision, Pending, Turn
from services.agent.execution import Executor
from services.agent.ports import Turns
from services.agent.questions import context_of
from services.agent.steps import Ended
from shared.digest import canonical
from shared.locales import load
from shared.packs import Pack, Proposal, Tool, tool_of
from shared.telemetry.metrics import Metrics, kind_of

REASON_CHARS_MAX = 300


class Confirming:
    def __init__(
        self,
        *,
        turns: Turns,
        checks: Checks,
        executor: Executor,
        committer: Committer,
        packs: Mapping[str, Pack],
        metrics: Metrics,
    ) -> None:
        self._turns = turns
        self._checks = checks
        self._executor = executor
        self._committer = committer
        self._packs = packs
        self._metrics = metrics

    def meets(self, turn: Turn) -> Meeting:
        """What the turn's words or its press mean to the pending action; most turns meet none."""
        answer = _answer(turn, turn.taken, asked=turn.pending is not None)
        meeting = meet(turn.pending, turn.taken, answer, said_since=turn.said_since_the_prompt)
        counted = turn.pending is not None or not isinstance(meeting, NewRequest)
        # What a confirmation came to is counted when it has.
        if counted and not isinstance(meeting, Confirmed):
            self._metrics.confirmations.labels(kind_of(meeting)).inc()
        return meeting

    def is_bare_answer(self, turn: Turn) -> bool:
        """Whether the turn is nothing but a press, or a yes or no of any kind."""
        bare = (Answer.YES, Answer.SOFT_YES, Answer.NO)
        return turn.taken.button is not None or _answer(turn, turn.taken) in bare

    async def conclude(self, turn: Turn, meeting: Meeting) -> None:
        """Everything but a new request, which is the engine's."""
        match meeting:
            case Confirmed():
                await self._execute(turn, _pending(turn), meeting)
            case Declined() | Withdrawn():
                await self._decline(turn, withdrawn=isinstance(meeting, Withdrawn))
            case StillWaiting():
                await self._commit_saying(turn, "still_waiting", "still_waiting")
            case Recheck():
                await self._recheck(turn, _pending(turn))
            case Repeat():
                await self._repeat(turn, _pending(turn), meeting)
            case WaitForPrompt():
                await self._turns.release(turn, WAIT)
            case PromptIsTheAnswer():
                await self._committer.commit(silent(turn, "prompt_is_the_answer"))
            case NoLongerOpen():
                await self._is_not_open(turn)
            case NewRequest():
                raise AssertionError("a new request is for the engine")
            case _:
                assert_never(meeting)

    async def found_executing(self, turn: Turn) -> None:
        """An effect outside the record was called for and its end is not known: a person's task, whatever was said."""
        await self._execute(turn, _pending(turn), None)

    async def decide(self, turn: Turn) -> None:
        """A decision was made on the pending action. One that has ended meanwhile is decided for nobody."""
        pending = turn.pending
        if pending is None or pending.decision is None:
            await self._committer.commit(silent(turn, "decided_too_late"))
            return
        decision = pending.decision
        match decision.decided:
            case Decided.APPROVED:
                await self._approved(turn, pending)
            case Decided.DECLINED | Decided.EXPIRED:
                await self._declined_by_operator(turn, decision)
            case _:
                assert_never(decision.decided)

    async def _execute(self, turn: Turn, pending: Pending, confirmed: Confirmed | None) -> None:
        pack = self._packs.get(turn.business.pack)
        if pack is None:
            await self._no_tool(turn)
            return
        result = await self._executor.execute(turn, pending, confirmed, pack, context_of(turn))
        self._metrics.confirmations.labels(result.ended.value).inc()
        if result.ended is Ended.STOPPED:
            await self._committer.commit(silent(turn, "stopped"))
        elif result.committed is not None:
            self._committer.committed(turn, result.ended.value, result.committed, result.outbound)

    async def _approved(self, turn: Turn, pending: Pending) -> None:
        """It runs, unless the customer has taken it back: a no that was said before waits for its turn no longer."""
        waiting = take(turn.messages, after=turn.handled_seq)
        said = meet(pending, waiting, _answer(turn, waiting)) if waiting.messages else None
        if isinstance(said, Withdrawn) and not pending.executing:
            await self._decline(turn, withdrawn=True, seq_to=waiting.seq_to)
        else:
            await self._execute(turn, pending, None)

    async def _decline(self, turn: Turn, *, withdrawn: bool, seq_to: int | None = None) -> None:
        """`seq_to`: the last message that is answered with it, where that is none of the turn's own."""
        notice = "withdrawn" if withdrawn else "declined_by_customer"
        commit = saying(turn, "declined_by_customer", load(turn.locale).notice(notice))
        commit = replace(commit, seq_to=commit.seq_to if seq_to is None else seq_to)
        result = canonical({"error": Code.DECLINED_BY_CUSTOMER})
        await self._committer.commit(
            ending(commit, as_="declined", because=Code.DECLINED_BY_CUSTOMER, result=result)
        )

    async def _declined_by_operator(self, turn: Turn, decision: Decision) -> None:
        locale = load(turn.locale)
        reason = " ".join((decision.reason or "").split())[:REASON_CHARS_MAX]
        if decision.decided is Decided.EXPIRED:
            text = locale.notice("approval_expired")
        elif reason:
            text = locale.notice("declined_by_operator_because", reason=_sentence(reason))
        else:
            text = locale.notice("declined_by_operator")
        because = "approval_expired" if decision.decided is Decided.EXPIRED else Code.DECLINED_BY_OPERATOR
        result = canonical({"error": Code.DECLINED_BY_OPERATOR, "reason": reason or because})
        commit = ending(saying(turn, because, text), as_="declined", because=because, result=result)
        await self._committer.commit(commit)

    async def _recheck(self, turn: Turn, pending: Pending) -> None:
        """Too late a yes: the dry run again, and a new prompt, without a model call."""
        tool = self._tool(turn, pending)
        passage = rule(tool, turn.dials)
        if tool is None or isinstance(passage, Deny):
            await self._no_tool(turn)
            return
        if isinstance(passage, Allow):  # the level was raised meanwhile; it was asked about, and is again
            passage = Ask(max(pending.confirmations_needed, 1), pending.asked)
        arguments = read_arguments(tool, pending.arguments)
        if isinstance(arguments, str):
            await self._no_tool(turn)
            return
        result = await self._checks.dry_run(turn, tool, arguments, context_of(turn))
        if isinstance(result, Proposal):
            action = new_action(tool, result, passage, locale=turn.locale)
            expired = load(turn.locale).notice("expired")
            await self._committer.commit(asking(turn, "expired", action, before=expired))
            return
        await self._committer.commit(refusing(turn, "expired", tool, result))

    async def _repeat(self, turn: Turn, pending: Pending, repeat: Repeat) -> None:
        """The same question once more; not for a button that was pressed just before, which is the same press."""
        if turn.presses_again:
            await self._committer.commit(silent(turn, "pressed_again"))
        else:
            await self._committer.commit(repeating(turn, pending, repeat))

    async def _is_not_open(self, turn: Turn) -> None:
        """Said once: after a receipt, that nothing was changed would be the last that a double tap reads."""
        if turn.presses_again:
            await self._committer.commit(silent(turn, "pressed_again"))
        else:
            await self._commit_saying(turn, "no_longer_open", "no_longer_open")

    async def _no_tool(self, turn: Turn) -> None:
        gone = saying(turn, "no_longer_open", load(turn.locale).notice("no_longer_open"))
        await self._committer.commit(ending(gone, as_="cleared"))

    async def _commit_saying(self, turn: Turn, outcome: str, notice: str) -> None:
        await self._committer.commit(saying(turn, outcome, load(turn.locale).notice(notice)))

    def _tool(self, turn: Turn, pending: Pending) -> Tool | None:
        return tool_of(self._packs.get(turn.business.pack), pending.tool)


def _answer(turn: Turn, taken: Taken, *, asked: bool = True) -> Answer:
    return match(taken.spoken, [load(name) for name in turn.business.locales], asked=asked)


def _pending(turn: Turn) -> Pending:
    assert turn.pending is not None, "only a pending action can be met so"
    return turn.pending


def _sentence(text: str) -> str:
    return text if text[-1] in ".!?…" else f"{text}."
