"""What a turn comes to: a decision, words to a pending action, or a request for the engine; then one commit."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import assert_never

import structlog

from services.agent.commits import asking, ending, saying, silent
from services.agent.committing import Committer
from services.agent.confirming import Confirming
from services.agent.core.gate import holds_the_reply
from services.agent.core.pending import NewRequest, PromptIsTheAnswer
from services.agent.core.turn import Turn, WaitsFor
from services.agent.edited import EDITED, must_be_told
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
from services.agent.engines.tool_loop import ToolLoop
from services.agent.listening import Listening
from services.agent.ports import Commit, Receipt, Turns, TurnState
from services.agent.questions import Questions
from services.agent.reminded import Reminded
from services.agent.writing import done_texts
from shared.autonomy import Mode
from shared.locales import load
from shared.messages import PROMPT_CHARS_MAX
from shared.packs import Pack
from shared.telemetry.metrics import Metrics
from shared.tickets import Stage

UNSUPPORTED_AT_MOST_EVERY = timedelta(minutes=10)
UNBACKED = "unbacked_claim"

log = structlog.get_logger(__name__)


class Answering:
    """The work of one turn, of any."""

    def __init__(  # noqa: PLR0913  one argument for each collaborator, all by keyword; only wiring calls it
        self,
        *,
        turns: Turns,
        questions: Questions,
        engine: ToolLoop,
        confirming: Confirming,
        committer: Committer,
        packs: Mapping[str, Pack],
        metrics: Metrics,
        reminded: Reminded | None = None,  # None: no reminders are sent, and their buttons are nobody's
        listening: Listening | None = None,  # None: the model is given text alone
    ) -> None:
        self._turns = turns
        self._questions = questions
        self._engine = engine
        self._confirming = confirming
        self._committer = committer
        self._packs = packs
        self._metrics = metrics
        self._reminded = reminded
        self._listening = listening

    async def answer(self, turn: Turn) -> None:
        """Decide, match, or understand; and commit. Raises Unavailable when what it needs is away."""
        if turn.decides:
            await self._confirming.decide(turn)
            return
        if turn.pending is not None and turn.pending.executing:
            await self._confirming.found_executing(turn)
            return
        if turn.taken.is_taken_back:
            await self._committer.commit(silent(turn, "deleted"))
            return
        if self._listening is not None:
            if self._listening.waits(turn):
                await self._listening.let_wait(turn)
                return
            heard = await self._listening.hear(turn)
            if isinstance(heard, Stopped):
                await self._conclude(turn, heard, clears=False)
                return
            turn = heard
        if turn.taken.nothing_to_read and turn.taken.button is None and not turn.left_unsaid:
            await self._cannot_read(turn)
            return
        if self._reminded is not None and self._reminded.is_answered_by(turn):
            await self._reminded.conclude(turn)
            return
        meeting = self._confirming.meets(turn)
        if isinstance(meeting, PromptIsTheAnswer) and turn.left_unsaid and turn.taken.button is None:
            meeting = NewRequest(clears=True)  # a reaction to something else came before our answer left
        if must_be_told(turn) and self._confirming.is_bare_answer(turn):
            # A yes or no to what was dropped: that is said in front of this.
            await self._committer.commit(saying(turn, EDITED, load(turn.locale).notice("write_again")))
            return
        if isinstance(meeting, NewRequest):
            await self._understand(turn, clears=meeting.clears)
        else:
            await self._confirming.conclude(turn, meeting)

    async def out_of_time(self, turn: Turn) -> None:
        """The turn's minute is over: the fixed reply, and people."""
        so_far = SoFar(level_0=await self._called_at_level_0(turn))
        await self._fall(turn, Falls(reason=FallbackReason.OUT_OF_TIME, so_far=so_far))

    async def give_up(self, turn: Turn) -> None:
        """Five attempts brought nothing: people, an entry among the dead, one fixed message."""
        self._metrics.given_up.labels(Stage.AGENT.value).inc()
        receipts = await self._turns.receipts_of(turn)
        text = self._with_receipts(turn, receipts, "processing_failed")
        commit = replace(
            saying(turn, "processing_failed", text),
            state=TurnState.FAILED,
            handoff="processing_failed",
            dead=True,
            receipt=bool(receipts),
        )
        if commit.held is None and await self._called_at_level_0(turn):
            commit = replace(commit, held="level_0")
        await self._commit(commit, clears=True)

    async def _understand(self, turn: Turn, *, clears: bool) -> None:
        if turn.mode is Mode.OFF:
            await self._commit(silent(turn, "autonomy_off"), clears=clears)
            return
        pack = self._packs.get(turn.business.pack)
        if pack is None:
            log.error(
                "business's pack is not installed", pack=turn.business.pack, business=turn.business.slug
            )
            await self._fall(turn, Falls(reason=FallbackReason.NO_PACK))
            return
        outcome = await self._engine.run(await self._questions.of(turn, pack))
        await self._conclude(turn, outcome, clears=clears)

    async def _conclude(self, turn: Turn, outcome: Outcome, *, clears: bool) -> None:
        """One commit. What the words did not confirm is cleared by every one: the next turn's yes is to something else."""
        match outcome:
            case Said():
                await self._say(turn, outcome, clears=clears)
            case Asks():
                await self._ask(turn, outcome)
            case HandsOver(so_far=so_far):
                text = self._with_receipts(turn, so_far.trace.receipts, "handoff_requested")
                commit = _after(saying(turn, "handed_over", text), so_far)
                await self._commit(replace(commit, handoff="model"), clears=True)
            case Falls():
                await self._fall(turn, outcome)
            case Overtaken(so_far=so_far):
                commit = _after(silent(turn, "overtaken", state=TurnState.SUPERSEDED), so_far)
                await self._commit(commit, clears=clears)
            case Stopped():
                await self._commit(silent(turn, "stopped"), clears=clears)
            case _:
                assert_never(outcome)

    async def _say(self, turn: Turn, said: Said, *, clears: bool) -> None:
        commit = _after(saying(turn, "reply", said.text), said.so_far)
        commit = replace(commit, last_call=said.last_call)
        if said.unbacked:
            self._metrics.blocked_claims.labels(self._metrics.business(turn.business.slug)).inc()
            commit = replace(commit, held=commit.held or UNBACKED, flag=UNBACKED)
        await self._commit(commit, clears=clears)

    async def _ask(self, turn: Turn, asks: Asks) -> None:
        done = self._done(turn, asks.so_far.trace.receipts)
        commit = asking(turn, "asked", asks.action, before=done)
        if len(commit.text or "") > PROMPT_CHARS_MAX:
            await self._fall(turn, Falls(reason=FallbackReason.PROMPT_TOO_LONG, so_far=asks.so_far))
            return
        await self._committer.commit(_after(commit, asks.so_far))

    async def _fall(self, turn: Turn, falls: Falls) -> None:
        """An honest fixed reply instead of silence, half an answer or a repaired guess; and people."""
        self._metrics.fallbacks.labels(falls.reason.value).inc()
        receipts = await self._turns.receipts_of(turn)
        notice = "budget" if falls.reason is FallbackReason.BUDGET else "fallback"
        commit = _after(
            saying(turn, falls.reason.value, self._with_receipts(turn, receipts, notice)), falls.so_far
        )
        commit = replace(
            commit,
            handoff=falls.reason.value,
            last_call=falls.last_call,
            receipt=bool(receipts),
            trace=replace(commit.trace, receipts=tuple(receipts)),
        )
        await self._commit(commit, clears=True)

    async def _cannot_read(self, turn: Turn) -> None:
        """One fixed reply that says what works, at most one in ten minutes; a pending action is left alone."""
        text = load(turn.locale).notice("unsupported")
        said_lately = any(
            reply.text == text and turn.now - reply.created_at < UNSUPPORTED_AT_MOST_EVERY
            for reply in turn.replies
        )
        commit = silent(turn, "unsupported_again") if said_lately else saying(turn, "unsupported", text)
        await self._committer.commit(commit)

    async def _commit(self, commit: Commit, *, clears: bool) -> None:
        """With what the customer had not fully confirmed cleared; what waits for an operator stays."""
        pending = commit.turn.pending
        ends = clears and pending is not None and pending.waits_for is WaitsFor.CUSTOMER
        await self._committer.commit(ending(commit, as_="cleared") if ends else commit)

    async def _called_at_level_0(self, turn: Turn) -> bool:
        """Whether a call that was stored holds the reply, of a turn whose work is lost."""
        pack = self._packs.get(turn.business.pack)
        held = {tool.name for tool in pack.tools if holds_the_reply(tool, turn.dials)} if pack else set()
        return bool(held) and not held.isdisjoint(await self._turns.called(turn))

    def _with_receipts(self, turn: Turn, receipts: Sequence[Receipt], notice: str) -> str:
        """The fixed reply, which names what was done before."""
        done = self._done(turn, receipts)
        locale = load(turn.locale)
        if not done:
            return locale.notice(notice)
        return locale.notice("fallback_done", done=done.rstrip("."))

    def _done(self, turn: Turn, receipts: Sequence[Receipt]) -> str:
        return done_texts(self._packs.get(turn.business.pack), receipts, turn.locale)


def _after(commit: Commit, so_far: SoFar) -> Commit:
    """The commit of a turn that did this on its way."""
    return replace(
        commit,
        tools=so_far.unstored,
        trace=so_far.trace,
        receipt=bool(so_far.trace.receipts),
        held=commit.held or ("level_0" if so_far.level_0 and commit.outbound else None),
    )
