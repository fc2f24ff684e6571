"""What a turn comes to: match a pending action without a model, or let the engine understand; then one commit."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import structlog

from services.agent.core.confirmation import Answer, match
from services.agent.core.pending import (
    WAIT,
    Confirmed,
    Declined,
    NewRequest,
    NoLongerOpen,
    PromptIsTheAnswer,
    Recheck,
    Repeat,
    WaitForPrompt,
    meet,
)
from services.agent.core.prompt import VERSION, system_prompt, tool_specs
from services.agent.core.turn import Pending, Turn, history
from services.agent.core.wording import PROMPT_CHARS_MAX, buttons_json, prompt
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
from services.agent.engines.tool_loop import Question, ToolLoop, new_action
from services.agent.execution import Ended, Executor
from services.agent.ports import CallRecord, Commit, Committed, NewAction, ToolRecord, Turns, TurnState
from shared.autonomy import Mode
from shared.broker.port import Broker
from shared.clock import Clock
from shared.ids import BusinessId, OutboundId, new_id
from shared.llm.port import Request, ToolSpec
from shared.locales import load
from shared.packs import NO_SQL, Pack, Proposal, ToolContext
from shared.telemetry.metrics import Metrics
from shared.tickets import Stage
from shared.work.batches import Batcher
from shared.work.stage import ring

FACTS_CACHED_S = 5.0
RINGS_MOST = 100
UNSUPPORTED_AT_MOST_EVERY = timedelta(minutes=10)

log = structlog.get_logger(__name__)


class Answering:
    """The work of one turn, of any. `run` must run beside it."""

    def __init__(
        self,
        *,
        turns: Turns,
        engine: ToolLoop,
        executor: Executor,
        packs: Mapping[str, Pack],
        broker: Broker,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._turns = turns
        self._engine = engine
        self._executor = executor
        self._packs = packs
        self._broker = broker
        self._metrics = metrics
        self._clock = clock
        self._facts: dict[tuple[BusinessId, str], tuple[float, str]] = {}
        self._specs: dict[str, list[ToolSpec]] = {}
        self._rings: Batcher[OutboundId, None] = Batcher(self._ring, most=RINGS_MOST)

    async def run(self) -> None:
        await self._rings.run()

    async def answer(self, turn: Turn) -> None:
        """Match, or understand; and commit. Raises Unavailable when what it needs is away."""
        taken = turn.taken
        if taken.nothing_to_read and taken.button is None:
            await self._cannot_read(turn)
            return
        answer = Answer.OTHER
        if turn.pending is not None:
            answer = match(taken.texts, [load(name) for name in turn.business.locales])
        meeting = meet(turn.pending, taken, answer)
        if turn.pending is not None:
            self._metrics.confirmations.labels(type(meeting).__name__).inc()
        match meeting:
            case Confirmed():
                await self._execute(turn, _pending(turn), meeting)
            case Declined():
                await self._say(
                    turn, "declined_by_customer", ends_as="declined", because="declined_by_customer"
                )
            case Recheck():
                await self._recheck(turn, _pending(turn))
            case Repeat():
                await self._repeat(turn, _pending(turn))
            case WaitForPrompt():
                await self._turns.release(turn, WAIT)
            case PromptIsTheAnswer():
                await self._finish(turn, outcome="prompt_is_the_answer")
            case NoLongerOpen():
                await self._say(turn, "no_longer_open")
            case NewRequest(clears=clears):
                await self._understand(turn, clears=clears)

    async def out_of_time(self, turn: Turn) -> None:
        """The turn's minute is over: the fixed reply, and people."""
        await self._fall(turn, Falls(reason=FallbackReason.OUT_OF_TIME), clears=True)

    async def give_up(self, turn: Turn) -> None:
        """Five attempts brought nothing: people, an entry among the dead, one fixed message."""
        self._metrics.given_up.labels(Stage.AGENT.value).inc()
        await self._say(
            turn,
            "processing_failed",
            state=TurnState.FAILED,
            handoff="processing_failed",
            dead=True,
            ends_as="cleared",
        )

    async def _understand(self, turn: Turn, *, clears: bool) -> None:
        if turn.mode is Mode.OFF:
            await self._finish(turn, outcome="autonomy_off")
            return
        pack = self._packs.get(turn.business.pack)
        if pack is None:
            log.error(
                "business's pack is not installed", pack=turn.business.pack, business=turn.business.slug
            )
            await self._fall(turn, Falls(reason=FallbackReason.MODEL_FAILED), clears=clears)
            return
        outcome = await self._engine.run(await self._question(turn, pack))
        await self._commit_outcome(turn, outcome, clears=clears)

    async def _commit_outcome(self, turn: Turn, outcome: Outcome, *, clears: bool) -> None:
        match outcome:
            case Said():
                await self._reply(turn, outcome, clears=clears)
            case Asks():
                await self._ask(turn, outcome, clears=clears)
            case HandsOver(tools=tools):
                await self._commit(
                    self._made(turn, "handed_over", clears=clears, text=_notice(turn, "handoff_requested"),
                               handoff="model", tools=tools)
                )  # fmt: skip
            case Falls():
                await self._fall(turn, outcome, clears=clears)
            case Overtaken():
                await self._finish(turn, outcome="overtaken", state=TurnState.SUPERSEDED)
            case Stopped():
                await self._finish(turn, outcome="stopped")

    async def _reply(self, turn: Turn, said: Said, *, clears: bool) -> None:
        commit = self._made(
            turn, "reply", clears=clears, text=said.text, tools=said.tools, last_call=said.last_call
        )
        await self._commit(commit)

    async def _ask(self, turn: Turn, asks: Asks, *, clears: bool) -> None:
        if len(asks.prompt) > PROMPT_CHARS_MAX:
            await self._fall(
                turn, Falls(reason=FallbackReason.PROMPT_TOO_LONG, tools=asks.tools), clears=clears
            )
            return
        await self._commit(self._asked(turn, asks.action, asks.prompt, clears=clears, tools=asks.tools))

    async def _fall(self, turn: Turn, falls: Falls, *, clears: bool) -> None:
        """An honest fixed reply instead of silence, half an answer or a repaired guess."""
        self._metrics.fallbacks.labels(falls.reason.value).inc()
        name = "budget" if falls.reason is FallbackReason.BUDGET else "fallback"
        await self._commit(
            self._made(
                turn,
                falls.reason.value,
                clears=clears,
                text=_notice(turn, name),
                handoff=falls.reason.value,
                tools=falls.tools,
                last_call=falls.last_call,
            )
        )

    async def _execute(self, turn: Turn, pending: Pending, confirmed: Confirmed) -> None:
        pack = self._packs.get(turn.business.pack)
        if pack is None:
            await self._fall(turn, Falls(reason=FallbackReason.MODEL_FAILED), clears=True)
            return
        result = await self._executor.execute(turn, pending, confirmed, pack, self._context(turn))
        self._metrics.confirmations.labels(result.ended.value).inc()
        if result.ended is Ended.STOPPED:
            await self._finish(turn, outcome="stopped")
        elif result.committed is not None:
            self._committed(turn, result.ended.value, result.committed, result.outbound)

    async def _recheck(self, turn: Turn, pending: Pending) -> None:
        """Too late a yes: the dry run again, and a new prompt, without a model call."""
        pack = self._packs.get(turn.business.pack)
        tool = next((tool for tool in pack.tools if tool.name == pending.tool), None) if pack else None
        if pack is None or tool is None:
            await self._say(turn, "no_longer_open", ends_as="cleared")
            return
        question = await self._question(turn, pack)
        arguments = tool.arguments.model_validate_json(pending.arguments)
        result = await self._engine.dry_run(question, tool, arguments)
        if isinstance(result, Proposal):
            action, summary = new_action(
                tool, result, confirmations=pending.confirmations_needed, locale=turn.locale
            )
            text = f"{_notice(turn, 'expired')} {summary}"
            await self._commit(self._asked(turn, action, text, clears=True, tools=()))
            return
        assert tool.word_refusal is not None, f"{tool.name} words no refusal"
        text = tool.word_refusal(result, turn.locale)
        await self._commit(self._made(turn, "expired", clears=True, text=text))

    async def _repeat(self, turn: Turn, pending: Pending) -> None:
        """The same action, asked again by a new message: nobody knows whether the first arrived."""
        await self._commit(
            self._made(
                turn,
                "repeated",
                clears=False,
                text=pending.prompt_text,
                buttons=buttons_json(pending.id, load(turn.locale)),
                asks_again=True,
            )
        )

    async def _cannot_read(self, turn: Turn) -> None:
        """One fixed reply that says what works, at most one in ten minutes; a pending action is left alone."""
        text = _notice(turn, "unsupported")
        said_lately = any(
            reply.text == text and turn.now - reply.created_at < UNSUPPORTED_AT_MOST_EVERY
            for reply in turn.replies
        )
        if said_lately:
            await self._finish(turn, outcome="unsupported_again")
        else:
            await self._commit(self._made(turn, "unsupported", clears=False, text=text))

    async def _say(
        self,
        turn: Turn,
        notice: str,
        *,
        ends_as: str | None = None,
        because: str | None = None,
        state: TurnState = TurnState.DONE,
        handoff: str | None = None,
        dead: bool = False,
    ) -> None:
        pending = turn.pending if ends_as else None
        await self._commit(
            Commit(
                turn=turn,
                seq_to=turn.taken.seq_to,
                state=state,
                outcome=notice,
                outbound=OutboundId(new_id()),
                text=_notice(turn, notice),
                held="late" if turn.is_late else None,
                ends=pending.id if pending else None,
                ends_as=ends_as,
                ends_because=because,
                handoff=handoff,
                dead=dead,
            )
        )

    async def _finish(self, turn: Turn, *, outcome: str, state: TurnState = TurnState.DONE) -> None:
        await self._commit(Commit(turn=turn, seq_to=turn.taken.seq_to, state=state, outcome=outcome))

    def _made(
        self,
        turn: Turn,
        outcome: str,
        *,
        clears: bool,
        text: str,
        buttons: str | None = None,
        handoff: str | None = None,
        asks_again: bool = False,
        tools: tuple[ToolRecord, ...] = (),
        last_call: CallRecord | None = None,
    ) -> Commit:
        pending = turn.pending
        ends = pending if pending and clears else None
        return Commit(
            turn=turn,
            seq_to=turn.taken.seq_to,
            state=TurnState.DONE,
            outcome=outcome,
            outbound=OutboundId(new_id()),
            text=text,
            buttons=buttons,
            held="late" if turn.is_late else None,
            ends=ends.id if ends else None,
            ends_as="cleared" if ends else None,
            asks_again=pending.id if pending and asks_again else None,
            handoff=handoff,
            tools=tools,
            last_call=last_call,
        )

    def _asked(
        self, turn: Turn, action: NewAction, summary: str, *, clears: bool, tools: tuple[ToolRecord, ...]
    ) -> Commit:
        ends = turn.pending if turn.pending and clears else None
        return Commit(
            turn=turn,
            seq_to=turn.taken.seq_to,
            state=TurnState.DONE,
            outcome="asked",
            outbound=OutboundId(new_id()),
            text=prompt(summary, load(turn.locale)),
            buttons=buttons_json(action.id, load(turn.locale)),
            held="late" if turn.is_late else None,
            ends=ends.id if ends else None,
            ends_as="replaced" if ends else None,
            asks=action,
            tools=tools,
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

    async def _ring(self, outbounds: Sequence[OutboundId]) -> Sequence[None]:
        await ring(self._broker, Stage.DISPATCH, outbounds)
        return [None] * len(outbounds)

    async def _question(self, turn: Turn, pack: Pack) -> Question:
        if pack.name not in self._specs:
            self._specs[pack.name] = tool_specs(pack.tools)
        context = self._context(turn)
        system = system_prompt(
            business=turn.business.name,
            languages=turn.business.locales,
            tools=pack.tools,
            facts=await self._pack_facts(turn, pack, context),
            now=turn.now.astimezone(turn.business.zone),
        )
        request = Request(
            system=system,
            messages=tuple(history(turn)),
            tools=self._specs[pack.name],
            cache_key=f"{turn.business.slug}:{VERSION}",
            customer=_pseudonym(turn.customer),
        )
        return Question(turn=turn, pack=pack, request=request, context=context)

    async def _pack_facts(self, turn: Turn, pack: Pack, context: ToolContext) -> str:
        """The pack's page, looked up again every few seconds rather than in every turn."""
        key = (turn.business.id, turn.locale)
        known = self._facts.get(key)
        if known and known[0] > self._clock.monotonic():
            return known[1]
        if known:  # whoever comes meanwhile takes the page known: else all turns under way look it up at once
            self._facts[key] = (self._clock.monotonic() + FACTS_CACHED_S, known[1])
        async with self._turns.tenant(turn.business.id, pack.name) as sql:
            facts = await pack.prompt_facts(replace(context, sql=sql))
        self._facts[key] = (self._clock.monotonic() + FACTS_CACHED_S, facts)
        return facts

    def _context(self, turn: Turn) -> ToolContext:
        return ToolContext(
            sql=NO_SQL,
            business=turn.business.id,
            customer=turn.customer,
            now=turn.now,
            zone=turn.business.zone,
            locale=turn.locale,
            said="\n".join(turn.taken.texts),
        )


def _pending(turn: Turn) -> Pending:
    assert turn.pending is not None, "only a pending action can be met so"
    return turn.pending


def _notice(turn: Turn, name: str) -> str:
    return load(turn.locale).notice(name)


def _pseudonym(customer: UUID) -> str:
    """The same for one customer each time, and nobody outside can tell whose."""
    return hashlib.sha256(b"leeway" + customer.bytes).hexdigest()[:32]
