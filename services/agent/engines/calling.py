"""One iteration's model call: permitted and recorded before, metered after, tried once more where that may help."""

import asyncio
from dataclasses import dataclass, replace
from decimal import Decimal

import msgspec
import structlog

from services.agent.core.turn import Turn
from services.agent.engines.outcome import FallbackReason, Falls, Overtaken, SoFar, Stopped
from services.agent.ports import CallRecord, Going, Metered, ToolRecord, Turns
from services.agent.spans import call_span, tell_answer
from services.agent.timing import ModelTime
from shared.clock import Clock
from shared.ids import CallId, new_id
from shared.llm.costs import estimate, failure_cost
from shared.llm.port import Answer, FailureKind, Model, ModelFailure, Request, ToolCall
from shared.supersede import may_give_way
from shared.telemetry.metrics import Metrics, iteration_of, refusal_of
from shared.telemetry.traces import UNTOLD, Traces
from shared.text import storable
from shared.tickets import Stage

TRIES_MAX = 2
RETRY_AFTER_MAX_S = 10.0
AGAIN = frozenset(
    {
        FailureKind.RATE,
        FailureKind.TIMEOUT,
        FailureKind.CONNECTION,
        FailureKind.SERVER,
        FailureKind.BAD_ANSWER,
    }
)
RESERVED_USD = Decimal("0.02")  # of a call under way, where a cap is set and its price is not known
NOTHING = Decimal(0)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calling:
    """What every call needs. One a process."""

    turns: Turns
    model: Model
    clock: Clock
    metrics: Metrics
    call_timeout_s: float
    model_time: ModelTime
    traces: Traces = UNTOLD

    async def call(
        self, turn: Turn, request: Request, *, n: int, so_far: SoFar, gives_way: bool = True
    ) -> Metered | Falls | Overtaken | Stopped:
        """Iteration `n`: an answer with its open record, or why there is none. Stores what is not stored yet.

        `gives_way`: not made any more once the customer wrote again."""
        for try_ in range(1, TRIES_MAX + 1):
            call = turn.open_call if n == 1 and try_ == 1 else None
            if call is None:
                call = CallId(new_id())
                barred = await self._begin(
                    turn, request, call, n=n, try_=try_, so_far=so_far, gives_way=gives_way
                )
                if barred is not None:
                    return barred
            result = await self._attempt(turn, request, call, n=n)
            if isinstance(result, Metered):
                return result
            if result.kind not in AGAIN or try_ == TRIES_MAX:
                break
            self.metrics.retries.labels(Stage.AGENT.value, result.kind.value).inc()
            pause = min(result.retry_after_s or 0.2, RETRY_AFTER_MAX_S)
            await asyncio.sleep(pause)
            self.model_time.add(turn.id, pause)
        return Falls(reason=FallbackReason.MODEL_FAILED, so_far=so_far)

    async def _begin(
        self, turn: Turn, request: Request, call: CallId, *, n: int, try_: int, so_far: SoFar, gives_way: bool
    ) -> Falls | Overtaken | Stopped | None:
        reserved = self._reserve_usd(request) if turn.business.caps.any else None
        if reserved is not None:
            cap = await self.turns.reserve(turn, call, n=n, try_=try_, reserved=reserved)
            if cap is not None:
                self.metrics.cap_hits.labels(self.metrics.business(turn.business.slug), cap.value).inc()
                return Falls(reason=FallbackReason.BUDGET, so_far=so_far)
        going = await self.turns.begin_call(
            turn, call, n=n, try_=try_, reserved=reserved, tools=so_far.unstored
        )
        if going is None:
            if reserved is not None:
                await self.turns.end_call(
                    turn, _closed(call, n, error="stopped before it was made", cost=NOTHING)
                )
            return Stopped()
        if gives_way and not so_far.trace.receipts and _overtaken(turn, going):
            await self.turns.end_call(
                turn, _closed(call, n, error="overtaken before it was made", cost=NOTHING)
            )
            return Overtaken(so_far=so_far)
        return None

    async def unmade(self, turn: Turn) -> None:
        """The call that the claim opened is not made: closed, and free."""
        if turn.open_call is not None:
            await self.turns.end_call(turn, _closed(turn.open_call, 1, error="not made", cost=NOTHING))

    def _reserve_usd(self, request: Request) -> Decimal:
        """What the call may cost at most; an unknown price reserves a fixed sum."""
        most = estimate(self.model, request)
        return RESERVED_USD if most is None else most

    async def _attempt(self, turn: Turn, request: Request, call: CallId, *, n: int) -> Metered | ModelFailure:
        began = self.clock.monotonic()
        try:
            answer = await self._asked(turn, request, n)
        except ModelFailure as failure:
            await self._failed(turn, failure, call, n=n, began=began)
            return failure
        except asyncio.CancelledError:
            record = _closed(call, n, error="cut off", latency_ms=self._ms(began))
            await asyncio.shield(self.turns.end_call(turn, record))
            raise
        record = CallRecord(
            id=call,
            n=n,
            state="done",
            model=answer.model,
            input=answer.usage.input,
            cached=answer.usage.cached,
            output=answer.usage.output,
            reasoning=answer.usage.reasoning,
            cost_usd=self.model.price(answer.usage, model=answer.model),
            latency_ms=self._ms(began),
            finish=answer.finish.value,
            error=None,
            answer=msgspec.json.encode(answer).decode(),
        )
        self._count(turn, record)
        return Metered(answer=answer, record=record)

    async def _asked(self, turn: Turn, request: Request, n: int) -> Answer:
        """Raises ModelFailure."""
        named = {"provider": self.model.provider, "model": self.model.name}
        with call_span(self.traces, turn, **named, n=n) as span:
            try:
                answer = _storable(await self.model.complete(request, timeout_s=self.call_timeout_s))
            except ModelFailure as failure:
                span.failed(failure.kind.value)
                raise
            if self.traces.on:
                tell_answer(span, answer)
        return answer

    async def _failed(self, turn: Turn, failure: ModelFailure, call: CallId, *, n: int, began: float) -> None:
        log.warning("model call failed", turn=str(turn.id), kind=failure.kind.value)
        self.metrics.llm_failures.labels(self.model.provider, self.model.name, failure.kind.value).inc()
        usage = failure.usage
        record = CallRecord(
            id=call,
            n=n,
            state="failed",
            model=failure.model or None,
            input=usage.input,
            cached=usage.cached,
            output=usage.output,
            reasoning=usage.reasoning,
            cost_usd=failure_cost(self.model, failure),
            latency_ms=self._ms(began),
            finish=None,
            error=failure.kind.value,
            answer=None,
        )
        self._count(turn, record)
        await self.turns.end_call(turn, record)

    def count(self, record: ToolRecord) -> None:
        """What became of a call that the model asked for."""
        self.metrics.gate_decisions.labels(record.decision, refusal_of(record.reason)).inc()

    def _count(self, turn: Turn, record: CallRecord) -> None:
        business = self.metrics.business(turn.business.slug)
        labels = (self.model.provider, self.model.name, turn.business.engine, iteration_of(record.n))
        self.model_time.add(turn.id, record.latency_ms / 1000)
        self.metrics.llm_seconds.labels(*labels).observe(record.latency_ms / 1000)
        kinds = (
            ("input", record.input),
            ("cached", record.cached),
            ("output", record.output),
            ("reasoning", record.reasoning),
        )
        for kind, tokens in kinds:
            if tokens:
                self.metrics.llm_tokens.labels(business, *labels, kind).inc(tokens)
        if record.cost_usd:
            self.metrics.llm_cost_usd.labels(business, *labels).inc(float(record.cost_usd))

    def _ms(self, began: float) -> int:
        return round((self.clock.monotonic() - began) * 1000)


def restored(text: str) -> Answer:
    """A stored answer of an earlier attempt. Raises msgspec.ValidationError for one of another version."""
    return msgspec.json.decode(text, type=Answer)


def _storable(answer: Answer) -> Answer:
    """The answer without what can't be stored or sent back: half of a surrogate pair, a NUL."""
    return replace(
        answer,
        text=None if answer.text is None else storable(answer.text),
        calls=tuple(
            ToolCall(id=storable(one.id), name=storable(one.name), arguments=storable(one.arguments))
            for one in answer.calls
        ),
    )


def _overtaken(turn: Turn, going: Going) -> bool:
    """Whether the customer wrote again and the next turn may answer both: that saves the call."""
    return going.customer_seq > turn.taken.seq_to and may_give_way(
        superseded_in_row=going.superseded_in_row,
        unanswered_since=going.unanswered_since,
        now=going.now,
    )


def _closed(
    call: CallId, n: int, *, error: str, latency_ms: int = 0, cost: Decimal | None = None
) -> CallRecord:
    return CallRecord(
        id=call,
        n=n,
        state="failed",
        model=None,
        input=0,
        cached=0,
        output=0,
        reasoning=0,
        cost_usd=cost,
        latency_ms=latency_ms,
        finish=None,
        error=error,
        answer=None,
    )
