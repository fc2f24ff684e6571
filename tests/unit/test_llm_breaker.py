"""The circuit breaker: a provider that is away costs one call in a while, and the first answer ends it."""

import asyncio
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from shared.llm.breaker import COOL_DOWN_MAX_S, COOL_DOWN_S, FAILURES_MAX, Circuit, GuardedModel
from shared.llm.port import Answer, FailureKind, ModelFailure, Request, Usage, UserText
from shared.llm.scripted import ScriptedModel

HELLO = Request(system="", messages=(UserText(text="Hello"),), tools=())
AWAY = [FailureKind.CONNECTION, FailureKind.SERVER, FailureKind.TIMEOUT, FailureKind.AUTH]
THERE = [FailureKind.RATE, FailureKind.REFUSED, FailureKind.BAD_ANSWER, FailureKind.GONE]


class FakeClock:
    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> datetime:
        return datetime(2026, 11, 30, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.at


class Provider:
    """Fails in one way, or answers; counts its calls."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.fails: FailureKind | None = FailureKind.SERVER
        self.asked = 0
        self.model = GuardedModel(ScriptedModel(self._answer), clock=self.clock)

    def _answer(self, _: Request) -> Answer | ModelFailure:
        self.asked += 1
        return ModelFailure(self.fails, "") if self.fails else Answer(text="Hi")

    async def ask(self, *, timeout_s: float = 45.0) -> FailureKind | str | None:
        try:
            return (await self.model.complete(HELLO, timeout_s=timeout_s)).text
        except ModelFailure as failure:
            return failure.kind

    async def trip(self) -> None:
        for _ in range(FAILURES_MAX):
            assert await self.ask() is self.fails
        self.asked = 0


@pytest.mark.parametrize("kind", AWAY)
async def test_after_some_failures_in_a_row_calls_fail_at_once_and_nobody_is_asked(kind: FailureKind) -> None:
    provider = Provider()
    provider.fails = kind
    await provider.trip()
    for _ in range(10):
        assert await provider.ask() is FailureKind.OPEN
    assert provider.asked == 0


@pytest.mark.parametrize("kind", THERE)
async def test_a_provider_that_answers_no_is_not_away(kind: FailureKind) -> None:
    provider = Provider()
    provider.fails = kind
    for _ in range(3 * FAILURES_MAX):
        assert await provider.ask() is kind


async def test_an_answer_in_between_begins_the_count_anew() -> None:
    provider = Provider()
    for _ in range(3):
        for _ in range(FAILURES_MAX - 1):
            assert await provider.ask() is FailureKind.SERVER
        provider.fails = None
        assert await provider.ask() == "Hi"
        provider.fails = FailureKind.SERVER


async def test_a_call_that_fails_fast_says_when_the_next_is_made_and_is_never_billed() -> None:
    provider = Provider()
    await provider.trip()
    provider.clock.at += 2
    with pytest.raises(ModelFailure) as caught:
        await provider.model.complete(HELLO, timeout_s=45)
    assert caught.value.retry_after_s == pytest.approx(COOL_DOWN_S - 2)
    assert "5 failures in a row" in caught.value.detail
    assert not caught.value.usage.told


async def test_after_the_cool_down_one_call_is_tried_and_an_answer_closes_the_circuit() -> None:
    provider = Provider()
    await provider.trip()
    provider.clock.at += COOL_DOWN_S
    provider.fails = None
    assert [await provider.ask() for _ in range(3)] == ["Hi", "Hi", "Hi"]


async def test_each_trial_that_fails_doubles_the_cool_down_up_to_a_bound() -> None:
    provider = Provider()
    await provider.trip()
    for wait_s in (5, 10, 20, 40, 80, 120, 120, 120):
        provider.clock.at += wait_s - 0.01
        assert await provider.ask() is FailureKind.OPEN
        provider.clock.at += 0.01
        assert await provider.ask() is FailureKind.SERVER
    assert provider.asked == 8
    assert wait_s == COOL_DOWN_MAX_S


async def test_while_the_trial_is_under_way_no_other_call_is_made() -> None:
    clock, answer = FakeClock(), asyncio.Event()

    class Slow(ScriptedModel):
        async def complete(self, request: Request, *, timeout_s: float) -> Answer:
            if not clock.at > 1000:
                raise ModelFailure(FailureKind.SERVER, "")
            await answer.wait()
            return Answer(text="Hi")

    model = GuardedModel(Slow(lambda _: Answer(text="")), clock=clock)
    for _ in range(FAILURES_MAX):
        with pytest.raises(ModelFailure):
            await model.complete(HELLO, timeout_s=45)
    clock.at += COOL_DOWN_S
    trial = asyncio.ensure_future(model.complete(HELLO, timeout_s=45))
    await asyncio.sleep(0)
    with pytest.raises(ModelFailure) as caught:
        await model.complete(HELLO, timeout_s=45)
    assert caught.value.kind is FailureKind.OPEN
    trial.cancel()
    with pytest.raises(asyncio.CancelledError):
        await trial
    answer.set()
    assert (await model.complete(HELLO, timeout_s=45)).text == "Hi", (
        "a cancelled trial tells nothing: the next may"
    )


async def test_a_call_with_hardly_any_time_says_nothing_about_the_provider_by_being_late() -> None:
    provider = Provider()
    provider.fails = FailureKind.TIMEOUT
    for _ in range(3 * FAILURES_MAX):
        assert await provider.ask(timeout_s=1.0) is FailureKind.TIMEOUT


def test_calls_under_way_when_the_circuit_opens_do_not_prolong_it() -> None:
    circuit = Circuit()
    for _ in range(FAILURES_MAX):
        circuit = circuit.failed(0.0, trial=False)
    late = circuit.failed(4.0, trial=False)
    assert late == circuit
    assert late.wait_s(4.0) == COOL_DOWN_S - 4
    assert late.wait_s(COOL_DOWN_S) is None


async def test_a_guarded_model_is_the_model_for_everything_else() -> None:
    model = Provider().model
    assert (model.provider, model.name, model.reasoning_room) == ("scripted", "scripted", 0)
    assert model.price(Usage(input=1), model="scripted") == Decimal(0)
    assert model.price_source(model="scripted") is None
    await model.close()
