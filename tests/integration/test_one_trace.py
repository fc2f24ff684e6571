"""One trace from webhook to send: over real stages, whatever happens to tickets, turns and calls."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan

from services.dispatch.adapters.postgres_outbox import PostgresOutbox
from shared.broker.memory import MemoryBroker
from shared.errors import Unavailable
from shared.llm.port import FailureKind, ModelFailure
from shared.telemetry.traces import trace_id
from shared.tickets import Packet, Stage
from tests.support.eventually import eventually
from tests.support.traced_stack import Before, TracedStack, of_message, shape, traced_stack

pytestmark = [pytest.mark.postgres, pytest.mark.time_limit(120)]

TEXT = "Is a cleaning free tomorrow morning?"
WAY = "POST > guard > turn"


def shapes(spans: Sequence[ReadableSpan]) -> list[str]:
    return sorted({shape(span, spans) for span in spans})


async def answered(told: TracedStack, shop: Any, sender: str, text: str = TEXT, *, count: int = 1) -> None:
    await told.stack.deliver(shop, "sim", sender, text)
    await told.stack.answered([sender], count=count)
    await told.told(*["dispatch"] * count)


@pytest.fixture(params=["memory", pytest.param("rabbitmq", marks=pytest.mark.rabbitmq)])
def broker_url(request: pytest.FixtureRequest) -> str | None:
    return request.getfixturevalue("amqp_url") if request.param == "rabbitmq" else None


async def test_a_message_is_one_trace_from_its_webhook_to_the_send(
    database_url: str, broker_url: str | None
) -> None:
    async with traced_stack(database_url, broker_url) as told:
        await answered(told, await told.stack.shop(window_ms=0), "c-1")
        (message,) = await told.messages()
    spans = told.spans()
    assert of_message(message, spans) == spans
    assert shapes(spans) == sorted(
        [
            "POST",
            "POST > guard",
            WAY,
            f"{WAY} > chat",
            f"{WAY} > execute_tool",
            f"{WAY} > dispatch",
            f"{WAY} > dispatch > send",
        ]
    )
    for name in ("POST", "guard", "turn", "dispatch", "send"):
        assert len(told.spans(name)) == 1, name
    assert all(span.status.is_ok or span.status.is_unset for span in spans)


async def test_attributes_follow_the_conventions_and_hold_nothing_of_people(database_url: str) -> None:
    async with traced_stack(database_url, None) as told:
        sender = "+40700000321"
        await answered(told, await told.stack.shop(window_ms=0), sender)
        (said,) = await told.stack.replies(sender)
    spans = told.spans()
    everything = json.dumps([json.loads(span.to_json()) for span in spans], ensure_ascii=False)
    for words in (TEXT, "cleaning", "700000321", said, said[:20]):
        assert words not in everything
    by_name = {span.name.split(" ")[0]: dict(span.attributes or {}) for span in spans}
    assert by_name["POST"]["http.route"] == "/hooks/{channel}/{account}"
    assert by_name["guard"]["messaging.destination.name"] == "leeway.guard"
    assert by_name["chat"]["gen_ai.provider.name"] == "mock"
    assert by_name["chat"]["gen_ai.usage.input_tokens"] > 0
    assert by_name["execute_tool"]["gen_ai.operation.name"] == "execute_tool"
    assert by_name["send"]["leeway.outcome"] == "accepted"


class Meddling(MemoryBroker):
    """Puts something else in the place of what publishers send beside packets."""

    def __init__(self, note: Any) -> None:
        super().__init__()
        self.note = note

    async def publish(self, stage: Stage, packets: Sequence[Packet], *, notes: Sequence[Any] = ()) -> None:
        await super().publish(stage, packets, notes=[self.note] * len(packets))


@pytest.mark.parametrize(
    "note",
    [None, "nonsense", "00-" + "1" * 32 + "-" + "1" * 16 + "-01", 7, b"\xff" * 60],
    ids=["none", "unreadable", "of another trace", "a number", "bytes"],
)
async def test_a_header_that_tells_nothing_costs_neither_the_work_nor_the_trace(
    database_url: str, note: Any
) -> None:
    """As of the release before, or of a ticket that the sweeper rang: each stage finds its place by the rows."""
    async with traced_stack(database_url, None, wire=lambda _: Meddling(note)) as told:
        await answered(told, await told.stack.shop(window_ms=0), "c-1")
        (message,) = await told.messages()
    spans = told.spans()
    if note and str(note).startswith("00-"):  # a send believes its ticket, and stands in that trace
        spans = [span for span in spans if span.name.split(" ")[0] not in ("dispatch", "send")]
        assert len(spans) < len(told.spans())
    else:
        assert f"{WAY} > dispatch > send" in shapes(spans)
    assert of_message(message, spans) == spans
    assert f"{WAY} > chat" in shapes(spans)


async def test_a_burst_is_answered_in_the_trace_of_its_first_message_with_links_to_the_others(
    database_url: str,
) -> None:
    async with traced_stack(database_url, None) as told:
        shop = await told.stack.shop(window_ms=1_500)
        for text in ("Hello there, a question", TEXT, "and what does it cost?"):
            await told.stack.deliver(shop, "sim", "c-1", text)
        await told.stack.answered(["c-1"])
        await told.told("dispatch")
        first, *others = await told.messages()
    spans = told.spans()
    (turn,) = told.spans("turn")
    assert shape(turn, spans) == WAY
    assert {shape(one, spans) for one in of_message(first, spans)} >= {WAY, f"{WAY} > dispatch > send"}
    assert [f"{link.context.trace_id:032x}" for link in turn.links] == [trace_id(one) for one in others]
    for message in others:
        assert shapes(of_message(message, spans)) == ["POST", "POST > guard"]


async def test_a_call_that_failed_and_the_one_after_it_stand_in_one_turn(database_url: str) -> None:
    async def refused() -> None:
        raise ModelFailure(FailureKind.RATE, "a table for seven", retry_after_s=0.01)

    async with traced_stack(database_url, None, model=lambda model: Before(model, refused)) as told:
        await answered(told, await told.stack.shop(window_ms=0), "c-1")
    spans = told.spans()
    (turn,) = told.spans("turn")
    failed, *after = told.spans("chat")
    assert (failed.attributes or {})["error.type"] == "rate"
    assert not failed.status.is_ok
    assert after
    assert {shape(one, spans) for one in (failed, *after)} == {f"{WAY} > chat"}
    assert "seven" not in failed.to_json()
    assert turn.status.is_unset


async def test_a_turn_that_is_worked_again_has_a_span_for_each_attempt(database_url: str) -> None:
    async def away() -> None:
        raise Unavailable("the database is away")

    async with traced_stack(database_url, None, model=lambda model: Before(model, away)) as told:
        await answered(told, await told.stack.shop(window_ms=0), "c-1")
        (message,) = await told.messages()
    spans = told.spans()
    first, second = told.spans("turn")
    assert [(one.attributes or {})["leeway.attempt"] for one in (first, second)] == [1, 2]
    assert (first.attributes or {})["error.type"] == "Unavailable"
    assert {shape(one, spans) for one in (first, second)} == {WAY}
    (sent,) = told.spans("dispatch")
    assert first.context.span_id != second.context.span_id
    assert sent.parent
    assert sent.parent.span_id == second.context.span_id
    assert of_message(message, spans) == spans


async def test_a_message_that_overtakes_an_answer_is_answered_in_its_own_trace(database_url: str) -> None:
    thinking, go_on = asyncio.Event(), asyncio.Event()

    async def slowly() -> None:
        thinking.set()
        await go_on.wait()

    async with traced_stack(database_url, None, model=lambda model: Before(model, slowly)) as told:
        shop = await told.stack.shop(window_ms=0)
        await told.stack.deliver(shop, "sim", "c-1", TEXT)
        await thinking.wait()
        await told.stack.deliver(shop, "sim", "c-1", "Or the day after, please")
        await eventually(lambda: len(told.spans("guard")) == 2, within_s=20)
        go_on.set()
        await told.stack.answered(["c-1"])
        await told.told("turn", "turn", "dispatch")
        first, second = await told.messages()
    spans = told.spans()
    assert WAY in shapes(of_message(first, spans))
    assert f"{WAY} > dispatch" not in shapes(of_message(first, spans))
    assert f"{WAY} > dispatch > send" in shapes(of_message(second, spans))


async def nowhere(*_: Any) -> None:
    raise Unavailable("the database is away")


async def test_a_notice_of_the_guard_s_leaves_in_the_trace_of_what_it_is_about(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ticket says so: the row need not be asked, and a trace is not worth waiting for it."""
    monkeypatch.setattr(PostgresOutbox, "origin", nowhere)
    async with traced_stack(database_url, None) as told:
        await answered(told, await told.stack.shop(window_ms=0), "c-1", "I want to talk to a human")
        (message,) = await told.messages()
    spans = told.spans()
    assert of_message(message, spans) == spans
    assert shapes(spans) == [
        "POST",
        "POST > guard",
        "POST > guard > dispatch",
        "POST > guard > dispatch > send",
    ]


async def test_a_trace_that_a_stranger_names_is_not_taken_up(database_url: str) -> None:
    async with traced_stack(database_url, None) as told:
        told.stack._client.headers["traceparent"] = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
        await answered(told, await told.stack.shop(window_ms=0), "c-1")
        (message,) = await told.messages()
    assert of_message(message, told.spans()) == told.spans()
    assert told.spans("POST")[0].parent is None
