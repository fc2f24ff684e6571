"""What a turn comes to: match a pending action without a model, or let the engine understand; then one commit."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import assert_never

import structlog

from services.agent.commits import asking, ending, saying, silent
from services.agent.core.confirmation import Answer, match
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
    WaitForPrompt,
    meet,
)
from services.agent.core.turn import Pending, Turn
from services.agent.core.wording import PROMPT_CHARS_MAX, buttons_json
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
from services.agent.engines.tool_loop import ToolLoop, new_action
from services.agent.execution import Ended, Executor
from services.agent.ports import Commit, Committed, Turns, TurnState
from services.agent.questions import Questions, context_of
from shared.autonomy import Mode
from shared.broker.port import Broker
from shared.ids import OutboundId
from shared.locales import load
from shared.packs import Pack, Proposal
from shared.telemetry.metrics import Metrics, kind_of
from shared.tickets import Stage
from shared.work.stage import rings

RINGS_MOST = 100
UNSUPPORTED_AT_MOST_EVERY = timedelta(minutes=10)

log = structlog.get_logger(__name__)


class Answering:
    """The work of one turn, of any. `run` must run beside it."""

    def __init__(
        self,
        *,
        turns: Turns,
        questions: Questions,
        engine: ToolLoop,
        executor: Executor,
        packs: Mapping[str, Pack],
        broker: Broker,
        metrics: Metrics,
    ) -> None:
        self._turns = turns
        self._questions = questions
        self._engine = engine
        self._executor = executor
        self._packs = packs
        self._metrics = metrics
        self._rings = rings(broker, Stage.DISPATCH, most=RINGS_MOST)

    async def run(self) -> None:
        await self._rings.run()

    async def answer(self, turn: Turn) -> None:
        """Match, or understand; and commit. Raises Unavailable when what it needs is away."""
        if turn.taken.nothing_to_read and turn.taken.button is None:
            await self._cannot_read(turn)
            return
        meeting = self._met(turn)
        match meeting:
            case Confirmed():
                await self._execute(turn, _pending(turn), meeting)
            case Declined():
                await self._decline(turn)
            case Recheck():
                await self._recheck(turn, _pending(turn))
            case Repeat():
                await self._repeat(turn, _pending(turn))
            case WaitForPrompt():
                await self._turns.release(turn, WAIT)
            case PromptIsTheAnswer():
                await self._commit(silent(turn, "prompt_is_the_answer"))
            case NoLongerOpen():
                await self._is_not_open(turn)
            case NewRequest(clears=clears):
                await self._understand(turn, clears=clears)
            case _:
                assert_never(meeting)

    def _met(self, turn: Turn) -> Meeting:
        """What the turn's words or its press mean to the pending action; most turns meet none."""
        if turn.pending is None:
            return meet(None, turn.taken, Answer.OTHER)
        locales = [load(name) for name in turn.business.locales]
        meeting = meet(turn.pending, turn.taken, match(turn.taken.texts, locales))
        if not isinstance(meeting, Confirmed):  # what a confirmation came to is counted when it has
            self._metrics.confirmations.labels(kind_of(meeting)).inc()
        return meeting

    async def out_of_time(self, turn: Turn) -> None:
        """The turn's minute is over: the fixed reply, and people."""
        await self._fall(turn, Falls(reason=FallbackReason.OUT_OF_TIME))

    async def give_up(self, turn: Turn) -> None:
        """Five attempts brought nothing: people, an entry among the dead, one fixed message."""
        self._metrics.given_up.labels(Stage.AGENT.value).inc()
        commit = saying(turn, "processing_failed", _notice(turn, "processing_failed"))
        commit = replace(commit, state=TurnState.FAILED, handoff="processing_failed", dead=True)
        await self._commit(ending(commit, as_="cleared"))

    async def _understand(self, turn: Turn, *, clears: bool) -> None:
        if turn.mode is Mode.OFF:
            await self._commit(silent(turn, "autonomy_off"))
            return
        pack = self._packs.get(turn.business.pack)
        if pack is None:
            await self._without_pack(turn)
            return
        outcome = await self._engine.run(await self._questions.of(turn, pack))
        await self._conclude(turn, outcome, clears=clears)

    async def _conclude(self, turn: Turn, outcome: Outcome, *, clears: bool) -> None:
        match outcome:
            case Said(text=text, tools=tools, last_call=last_call):
                commit = replace(saying(turn, "reply", text), tools=tools, last_call=last_call)
                await self._commit(ending(commit, as_="cleared") if clears else commit)
            case Asks(prompt=summary) if len(summary) > PROMPT_CHARS_MAX:
                await self._fall(turn, Falls(reason=FallbackReason.PROMPT_TOO_LONG, tools=outcome.tools))
            case Asks(action=action, prompt=summary, tools=tools):
                await self._commit(replace(asking(turn, "asked", summary, action), tools=tools))
            case HandsOver(tools=tools):
                commit = saying(turn, "handed_over", _notice(turn, "handoff_requested"))
                await self._commit(ending(replace(commit, handoff="model", tools=tools), as_="cleared"))
            case Falls():
                await self._fall(turn, outcome)
            case Overtaken():
                await self._commit(silent(turn, "overtaken", state=TurnState.SUPERSEDED))
            case Stopped():
                await self._commit(silent(turn, "stopped"))
            case _:
                assert_never(outcome)

    async def _fall(self, turn: Turn, falls: Falls) -> None:
        """An honest fixed reply instead of silence, half an answer or a repaired guess; and people."""
        self._metrics.fallbacks.labels(falls.reason.value).inc()
        name = "budget" if falls.reason is FallbackReason.BUDGET else "fallback"
        commit = replace(
            saying(turn, falls.reason.value, _notice(turn, name)),
            handoff=falls.reason.value,
            tools=falls.tools,
            last_call=falls.last_call,
        )
        await self._commit(ending(commit, as_="cleared"))

    async def _without_pack(self, turn: Turn) -> None:
        log.error("business's pack is not installed", pack=turn.business.pack, business=turn.business.slug)
        await self._fall(turn, Falls(reason=FallbackReason.MODEL_FAILED))

    async def _execute(self, turn: Turn, pending: Pending, confirmed: Confirmed) -> None:
        pack = self._packs.get(turn.business.pack)
        if pack is None:
            await self._without_pack(turn)
            return
        result = await self._executor.execute(turn, pending, confirmed, pack, context_of(turn))
        self._metrics.confirmations.labels(result.ended.value).inc()
        if result.ended is Ended.STOPPED:
            await self._commit(silent(turn, "stopped"))
        elif result.committed is not None:
            self._committed(turn, result.ended.value, result.committed, result.outbound)

    async def _decline(self, turn: Turn) -> None:
        commit = saying(turn, "declined_by_customer", _notice(turn, "declined_by_customer"))
        await self._commit(ending(commit, as_="declined", because="declined_by_customer"))

    async def _recheck(self, turn: Turn, pending: Pending) -> None:
        """Too late a yes: the dry run again, and a new prompt, without a model call."""
        pack = self._packs.get(turn.business.pack)
        tool = next((tool for tool in pack.tools if tool.name == pending.tool), None) if pack else None
        if pack is None or tool is None:
            gone = saying(turn, "no_longer_open", _notice(turn, "no_longer_open"))
            await self._commit(ending(gone, as_="cleared"))
            return
        arguments = tool.arguments.model_validate_json(pending.arguments)
        result = await self._engine.dry_run(await self._questions.of(turn, pack), tool, arguments)
        if isinstance(result, Proposal):
            action, summary = new_action(
                tool, result, confirmations=pending.confirmations_needed, locale=turn.locale
            )
            await self._commit(asking(turn, "expired", f"{_notice(turn, 'expired')} {summary}", action))
            return
        assert tool.word_refusal is not None, f"{tool.name} words no refusal"
        refused = saying(turn, "expired", tool.word_refusal(result, turn.locale))
        await self._commit(ending(refused, as_="cleared"))

    async def _repeat(self, turn: Turn, pending: Pending) -> None:
        """The same action, asked again by a new message: nobody knows whether the first arrived."""
        commit = saying(turn, "repeated", pending.prompt_text)
        buttons = buttons_json(pending.id, load(turn.locale))
        await self._commit(replace(commit, buttons=buttons, asks_again=pending.id))

    async def _is_not_open(self, turn: Turn) -> None:
        """Said once: after a receipt, that nothing was changed would be the last that a double tap reads."""
        again = silent(turn, "pressed_again")
        said = saying(turn, "no_longer_open", _notice(turn, "no_longer_open"))
        await self._commit(again if turn.presses_again else said)

    async def _cannot_read(self, turn: Turn) -> None:
        """One fixed reply that says what works, at most one in ten minutes; a pending action is left alone."""
        text = _notice(turn, "unsupported")
        said_lately = any(
            reply.text == text and turn.now - reply.created_at < UNSUPPORTED_AT_MOST_EVERY
            for reply in turn.replies
        )
        await self._commit(
            silent(turn, "unsupported_again") if said_lately else saying(turn, "unsupported", text)
        )

    async def _commit(self, commit: Commit) -> None:
        committed = await self._turns.commit(commit)
        self._committed(commit.turn, commit.outcome, committed, commit.outbound)
        if commit.handoff and committed.live:
            business = self._metrics.business(commit.turn.business.slug)
            self._metrics.handoffs.labels(business, commit.handoff).inc()

    def _committed(self, turn: Turn, outcome: str, committed: Committed, outbound: OutboundId | None) -> None:
        if not committed.written:
            log.warning("turn not committed: its lease is another's", turn=str(turn.id))
            return
        business = self._metrics.business(turn.business.slug)
        self._metrics.turns.labels(business, outcome if committed.live else "cut_off").inc()
        if outbound is not None:
            self._rings.enqueue(outbound)


def _pending(turn: Turn) -> Pending:
    assert turn.pending is not None, "only a pending action can be met so"
    return turn.pending


def _notice(turn: Turn, name: str) -> str:
    return load(turn.locale).notice(name)
