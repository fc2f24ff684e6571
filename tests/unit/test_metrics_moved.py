"""Each metric moves for what it says it counts or measures, and for nothing else."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from uuid import UUID

import httpx2
import pytest

from services.agent.core.turn import Caps, Turn, WaitsFor
from services.agent.handler import Agent
from services.agent.ports import Cap, Share
from services.agent.timing import ModelTime
from services.dispatch.core.outcome import (
    AccountRefused,
    GivenBack,
    NoAnswer,
    Outcome,
    Throttled,
    WindowClosed,
)
from services.ingest.app import build_app
from services.ingest.handler import Ingest
from services.ingest.ports import Request as Webhook
from services.ingest.routes import Hooks
from shared.broker.memory import MemoryBroker
from shared.channels.traits import Traits
from shared.clock import SystemClock
from shared.ids import ConversationId, new_id
from shared.settings import Timeouts
from shared.telemetry.metrics import Metrics
from shared.tickets import Stage, packets
from shared.work.observing import LAG_EVERY_S, introduce, release, watch_the_loop
from shared.work.slots import Slots
from shared.work.stage import StageLoop
from tests.support.dispatch_desk import Desk, dispatch_desk
from tests.support.eventually import eventually
from tests.support.factories import SetClock
from tests.support.kiosk import Kiosk, asked, dials, says
from tests.support.memory_turns import MemoryTurns

HELLO = {"text": "Hello!"}


def counted(metrics: Metrics, name: str, **labels: str) -> float:
    return metrics.registry.get_sample_value(name, labels) or 0.0


def moved(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    """What a counter says, by its labels' values."""
    return {
        tuple(sample.labels.values()): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == name and sample.value
    }


# Dispatch


@pytest.fixture
async def desk(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    async with dispatch_desk(monkeypatch) as made:
        yield made


async def test_a_claimed_reply_tells_how_long_it_was_queued(desk: Desk) -> None:
    await desk.send(desk.outbox.new(waited=timedelta(seconds=4)), desk.outbox.new())
    assert desk.counted("leeway_queue_wait_seconds_sum", stage="dispatch") == 4
    assert desk.counted("leeway_queue_wait_seconds_count", stage="dispatch") == 1, "of one nobody knows"


async def test_a_taken_reply_tells_how_long_its_customer_waited(desk: Desk) -> None:
    outbound = desk.outbox.new(body="word " * 16, traits=desk.channel.traits)  # in two parts
    desk.outbox.customers_waited[outbound] = timedelta(seconds=3)
    await desk.send(outbound)
    assert len(desk.channel.sent) == 2
    assert desk.counted("leeway_end_to_end_seconds_sum", channel="sim") == 3
    assert desk.counted("leeway_end_to_end_seconds_count", channel="sim") == 1


async def test_a_reply_that_nobody_took_tells_nothing_of_it(desk: Desk) -> None:
    desk.channel.outcome = NoAnswer(reason="it took too long")
    outbound = desk.outbox.new()
    desk.outbox.customers_waited[outbound] = timedelta(seconds=3)
    await desk.send(outbound)
    assert desk.counted("leeway_end_to_end_seconds_count", channel="sim") == 0


AGAIN: dict[str, Outcome] = {
    "throttled": Throttled(reason="too fast"),
    "no_answer": NoAnswer(reason="it took too long"),
    "account_refused": AccountRefused(reason="a wrong key"),
    "window_closed": WindowClosed(reason="24 hours"),
    "given_back": GivenBack(),
}


@pytest.mark.parametrize("reason", AGAIN)
async def test_a_send_that_is_tried_again_is_a_retry(desk: Desk, reason: str) -> None:
    desk.channel.outcome = AGAIN[reason]
    await desk.send(desk.outbox.new())
    assert moved(desk.metrics, "leeway_retries_total") == {("dispatch", reason): 1}


async def test_a_send_that_is_not_is_none(desk: Desk) -> None:
    await desk.send(desk.outbox.new())
    desk.channel.traits = Traits(text_max=50)  # without a key nobody sends again what may have arrived
    desk.channel.outcome = NoAnswer(reason="it took too long")
    await desk.send(desk.outbox.new())
    assert not moved(desk.metrics, "leeway_retries_total")


async def test_a_channel_of_a_newer_version_is_unknown(desk: Desk) -> None:
    await desk.send(desk.outbox.new(channel="carrier-pigeon"))
    assert set(moved(desk.metrics, "leeway_sends_total")) == {("unknown", "throttled")}


async def test_replies_claimed_by_one_statement_are_a_batch(desk: Desk) -> None:
    await desk.send(*[desk.outbox.new() for _ in range(3)])
    assert desk.counted("leeway_batch_size_sum", stage="dispatch") == 3
    assert desk.counted("leeway_batch_size_count", stage="dispatch") == 1


# The agent


def calls(name: str, arguments: str = '{"start": "10:00"}', **more: object) -> dict[str, object]:
    return {"calls": [{"id": "c1", "name": name, "arguments": arguments}], **more}


@pytest.mark.parametrize(
    ("script", "decisions"),
    [
        pytest.param([calls("find_slots", "{}"), HELLO], {("allow", ""): 1}, id="a read"),
        pytest.param([calls("book_appointment")], {("ask", ""): 1}, id="an action that is asked about"),
        pytest.param([calls("note_wish"), HELLO], {("allow", ""): 1}, id="one that is not"),
        pytest.param([calls("drop_tables"), HELLO], {("deny", "unknown_tool"): 1}, id="a tool nobody has"),
        pytest.param([calls("find_slots", "[]"), HELLO], {("refuse", "bad_arguments"): 1}, id="no arguments"),
        pytest.param([calls("hand_over")], {("allow", ""): 1}, id="handing over"),
        pytest.param([HELLO], {}, id="no call"),
    ],
)
async def test_what_became_of_a_model_s_calls(
    script: Sequence[dict[str, object]], decisions: dict[tuple[str, str], int]
) -> None:
    kiosk = Kiosk(*script)
    levels = dials(note_wish=4)
    await kiosk.answer(replace(says("Please"), dials=levels))
    assert moved(kiosk.metrics, "leeway_gate_decisions_total") == decisions


async def test_a_tool_s_own_refusal_is_counted_without_its_words() -> None:
    kiosk = Kiosk(calls("book_appointment"), HELLO)
    kiosk.diary.taken = True
    await kiosk.answer(says("Book 10:00"))
    assert moved(kiosk.metrics, "leeway_gate_decisions_total") == {("refuse", "tool"): 1}


async def test_while_something_waits_for_a_colleague_nothing_more_is_asked() -> None:
    kiosk = Kiosk(calls("book_appointment"), HELLO)
    await kiosk.answer(says("And 10:00?", action=asked(waits_for=WaitsFor.OPERATOR)))
    assert moved(kiosk.metrics, "leeway_gate_decisions_total") == {("refuse", "waiting_for_operator"): 1}


@pytest.mark.parametrize("cap", Cap)
async def test_a_cap_that_forbids_a_call_is_hit(cap: Cap) -> None:
    kiosk = Kiosk(HELLO)
    kiosk.turns.barred_by = cap
    one = says("Hello")
    await kiosk.answer(replace(one, business=replace(one.business, caps=Caps(day_usd=Decimal(1)))))
    assert moved(kiosk.metrics, "leeway_cap_hits_total") == {(one.business.slug, cap.value): 1}


async def test_a_model_call_that_is_tried_again_is_a_retry() -> None:
    kiosk = Kiosk({"failure": "server"}, HELLO)
    await kiosk.answer(says("Hello"))
    assert moved(kiosk.metrics, "leeway_retries_total") == {("agent", "server"): 1}


@pytest.mark.parametrize("failures", [["auth"], ["server", "server"]], ids=["nothing helps", "twice"])
async def test_the_last_failure_is_none(failures: Sequence[str]) -> None:
    kiosk = Kiosk(*[{"failure": one} for one in failures])
    await kiosk.answer(says("Hello"))
    assert sum(moved(kiosk.metrics, "leeway_retries_total").values()) == len(failures) - 1


async def test_tokens_are_counted_by_iteration() -> None:
    usage = {"input": 90, "cached": 40, "output": 7, "reasoning": 5}
    kiosk = Kiosk(calls("find_slots", "{}", usage=usage), HELLO | {"usage": {"input": 100, "output": 3}})
    one = says("When?")
    await kiosk.answer(one)
    model = ("scripted", "scripted", "tool_loop")
    assert moved(kiosk.metrics, "leeway_llm_tokens_total") == {
        (one.business.slug, *model, "1", "input"): 90,
        (one.business.slug, *model, "1", "cached"): 40,
        (one.business.slug, *model, "1", "output"): 7,
        (one.business.slug, *model, "1", "reasoning"): 5,
        (one.business.slug, *model, "2", "input"): 100,
        (one.business.slug, *model, "2", "output"): 3,
    }
    assert moved(kiosk.metrics, "leeway_llm_latency_seconds_count") == {(*model, "1"): 1, (*model, "2"): 1}


class OneTurn(MemoryTurns):
    """Gives its turn to the first claim."""

    turn: Turn

    async def claim(self, conversations: Sequence[ConversationId], share: Share) -> Sequence[Turn]:
        return [self.turn]

    async def due(self, share: Share, *, most: int) -> Sequence[ConversationId]:
        return []


class Takes:
    """Stands for an Answering: so long for a turn, of which so long for a model."""

    def __init__(self, clock: SetClock, model_time: ModelTime, *, seconds: float, model_s: float) -> None:
        self._clock = clock
        self._model_time = model_time
        self._seconds = seconds
        self._model_s = model_s

    async def answer(self, turn: Turn) -> None:
        self._clock.pass_(self._seconds)
        self._model_time.add(turn.id, self._model_s)


async def test_a_turn_tells_how_long_it_was_due_and_what_it_took_beyond_its_model() -> None:
    turns, metrics, clock, model_time = OneTurn(), Metrics(process=False), SetClock(), ModelTime()
    turns.turn = replace(says("Hello"), waited=timedelta(seconds=2))
    slots = Slots(10)
    agent = Agent(
        turns=turns,
        answering=Takes(clock, model_time, seconds=1.5, model_s=1.25),  # type: ignore[arg-type]
        metrics=metrics,
        clock=clock,
        timeouts=Timeouts(),
        slots=slots,
        model_time=model_time,
    )
    async with asyncio.TaskGroup() as group:
        job = group.create_task(agent.run())
        await asyncio.sleep(0)
        await agent.claim([turns.turn.conversation])
        await slots.idle()
        job.cancel()
    assert counted(metrics, "leeway_queue_wait_seconds_sum", stage="agent") == 2
    assert counted(metrics, "leeway_turn_seconds_sum", engine="tool_loop") == 1.5
    assert counted(metrics, "leeway_turn_overhead_seconds_sum", engine="tool_loop") == 0.25
    assert model_time.take(turns.turn.id) == 0, "it is forgotten"


async def test_a_model_s_time_is_that_of_all_its_calls() -> None:
    """With the pause before a second try, which is no work of ours."""
    kiosk = Kiosk({"failure": "server"}, calls("find_slots"), HELLO)
    calling = kiosk.answering._engine._calling
    complete = calling.model.complete

    async def slow(*arguments: object, **more: object) -> object:
        kiosk.clock.pass_(2)
        return await complete(*arguments, **more)

    calling.model.complete = slow  # type: ignore[method-assign]
    one = says("When?")
    await kiosk.answer(one)
    assert calling.model_time.take(one.id) == pytest.approx(6.2)


# Batches


class Refusing:
    """services.ingest.ports.Inbox: of one message nothing comes."""

    async def account(self, channel: str, address: str) -> None:
        raise ValueError("a test's own")

    async def store(self, requests: Sequence[Webhook]) -> Sequence[tuple[ConversationId, int]]:
        if any(request.account is None for request in requests):
            raise ValueError("a test's own")
        return []


async def test_a_commit_that_is_repeated_request_by_request_is_a_retry() -> None:
    metrics = Metrics(process=False)
    ingest = Ingest(inbox=Refusing(), broker=MemoryBroker(), metrics=metrics)  # type: ignore[arg-type]
    good = Webhook(account="good", messages=("one",), statuses=())  # type: ignore[arg-type]
    bad = replace(good, account=None)  # type: ignore[arg-type]
    async with asyncio.TaskGroup() as group:
        job = group.create_task(ingest.run_commits())
        sent = [group.create_task(ingest.receive(good)), group.create_task(_fails(ingest, bad))]
        await asyncio.wait(sent)
        job.cancel()
    assert moved(metrics, "leeway_retries_total") == {("ingest", "batch"): 1}


async def test_a_webhook_that_meets_a_bug_is_counted_as_what_the_server_answers_then() -> None:
    metrics = Metrics(process=False)
    ingest = Ingest(inbox=Refusing(), broker=MemoryBroker(), metrics=metrics)  # type: ignore[arg-type]
    hooks = Hooks(ingest=ingest, inbox=Refusing(), clock=SystemClock(), metrics=metrics)  # type: ignore[arg-type]
    app = build_app(hooks=hooks, metrics=metrics, ready=lambda: None)
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://ingest.test") as client:
        assert (await client.post("/hooks/sim/line", content=b"{}")).status_code == 500
    assert moved(metrics, "leeway_webhooks_total") == {("sim", "500"): 1}


async def _fails(ingest: Ingest, request: Webhook) -> None:
    with pytest.raises(ValueError, match="own"):
        await ingest.receive(request)


class Rows:
    """shared.work.stage.Claims: one ticket breaks every batch that it is in."""

    def __init__(self, broken: UUID) -> None:
        self._broken = broken
        self.done: list[UUID] = []

    async def room(self) -> int:
        return 100

    async def claim(self, ids: Sequence[UUID]) -> None:
        if self._broken in ids:
            raise ValueError("a test's own")
        self.done += ids

    async def count(self, ticket: UUID) -> int:
        return 1

    async def give_up(self, ticket: UUID) -> None:
        raise AssertionError("it was tried once")


async def test_a_stage_tells_whether_its_queue_feeds_it_what_it_took_and_which_batches_it_repeated() -> None:
    metrics = Metrics(process=False)
    broker = MemoryBroker(tally=metrics.tally)
    good, broken = new_id(), new_id()
    rows = Rows(broken)
    loop = StageLoop(
        broker=broker,
        stage=Stage.GUARD,
        claims=rows,
        clock=SetClock(),
        metrics=metrics,
        prefetch=4,
        batch=10,
        hold_s=1,
        suspects=True,
    )
    assert counted(metrics, "leeway_consumer_attached", stage="guard") == 0
    await broker.publish(Stage.GUARD, list(packets(Stage.GUARD, [good, broken])))
    async with asyncio.TaskGroup() as group:
        job = group.create_task(loop.run())
        await eventually(lambda: rows.done == [good])
        assert counted(metrics, "leeway_consumer_attached", stage="guard") == 1
        job.cancel()
    assert counted(metrics, "leeway_consumer_attached", stage="guard") == 0
    assert moved(metrics, "leeway_retries_total") == {("guard", "batch"): 1}
    assert moved(metrics, "leeway_packets_total") == {("guard", "published"): 1, ("guard", "taken"): 1}


# A process


class Pool:
    """shared.database.Database, of which only its connections are asked."""

    busy, idle = 3, 2


async def test_a_process_says_who_it_is_and_what_its_pool_does_now() -> None:
    metrics, pool = Metrics(process=False), Pool()
    introduce(metrics, pool, service="guard")  # type: ignore[arg-type]
    assert counted(metrics, "leeway_service_info", service="guard", version=release()) == 1
    assert counted(metrics, "leeway_pool_connections", state="busy") == 3
    pool.busy, pool.idle = 1, 4
    assert counted(metrics, "leeway_pool_connections", state="busy") == 1
    assert counted(metrics, "leeway_pool_connections", state="idle") == 4


async def test_a_loop_that_was_held_up_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = Metrics(process=False)
    loop = asyncio.get_running_loop()
    passed = 0.0
    monkeypatch.setattr(loop, "time", lambda: passed)

    async def sleep(seconds: float) -> None:
        nonlocal passed
        passed += seconds + 0.25
        if counted(metrics, "leeway_event_loop_lag_seconds_count") == 2:
            raise asyncio.CancelledError

    monkeypatch.setattr("shared.work.observing.asyncio.sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await watch_the_loop(metrics)
    assert counted(metrics, "leeway_event_loop_lag_seconds_sum") == pytest.approx(0.5)
    assert passed == pytest.approx(3 * (LAG_EVERY_S + 0.25))
