"""Where spans stand, what tickets carry of it, and a collector that is away."""

import asyncio
import logging
import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

from shared.broker.memory import MemoryBroker
from shared.broker.traced import traced
from shared.errors import Misconfigured
from shared.ids import new_id
from shared.settings import load_settings
from shared.telemetry.traces import UNTOLD, SpanKind, TraceContext, configured_traces, trace_id
from shared.telemetry.traces.carried import Carried
from shared.telemetry.traces.context import read, read_header, span_of, trace_of, write, write_header
from shared.telemetry.traces.otel import FLUSH_S, OtelTraces, Telling, to_collector
from shared.tickets import PACKET_TICKETS_MAX, Stage, packets
from tests.support.process import free_port

contexts = st.builds(TraceContext, st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.booleans())


def told() -> tuple[OtelTraces, InMemorySpanExporter]:
    spans = InMemorySpanExporter()
    return OtelTraces(SimpleSpanProcessor(spans), service="test", version="1"), spans


# Contexts and headers


@given(contexts)
def test_a_context_is_read_as_it_was_written(context: TraceContext) -> None:
    assert read(write(context)) == context


@given(st.lists(contexts | st.none(), min_size=1, max_size=PACKET_TICKETS_MAX))
def test_a_header_is_parallel_to_the_ids(given: list[TraceContext | None]) -> None:
    assert read_header(write_header(given), len(given)) == given


@given(
    st.text() | st.binary() | st.integers() | st.none() | st.lists(st.text()),
    st.integers(1, PACKET_TICKETS_MAX),
)
def test_a_header_that_is_none_is_no_error(header: Any, ids: int) -> None:
    assert read_header(header, ids) == [None] * ids


@given(st.lists(contexts, min_size=1, max_size=8), st.integers(1, 12))
def test_a_header_too_short_or_too_long_tells_what_it_can(given: list[TraceContext], ids: int) -> None:
    read_back = read_header(write_header(given), ids)
    assert len(read_back) == ids
    if ids >= len(given):
        assert read_back == [*given, *[None] * (ids - len(given))]


def test_one_that_is_broken_costs_its_neighbours_nothing() -> None:
    one, other = TraceContext(1, 2), TraceContext(3, 4, sampled=False)
    header = ",".join([write(one), "00-zz", write(other)])
    assert read_header(header, 3) == [one, None, other]


@pytest.mark.parametrize(
    "text", ["00-" + "0" * 32 + "-" + "1" * 16 + "-01", "ff-" + "1" * 32 + "-" + "1" * 16 + "-01", ""]
)
def test_what_w3c_calls_invalid_is_none(text: str) -> None:
    assert read(text) is None


def test_places_follow_from_ids_and_tell_stages_apart() -> None:
    one, other = new_id(), new_id()
    assert trace_of(one) == trace_of(one) == int(trace_id(one), 16)
    assert len({trace_of(one), trace_of(other)}) == 2
    assert len({span_of(one, "ingest"), span_of(one, "guard"), span_of(other, "guard")}) == 3


def test_ids_by_time_give_traces_at_random_as_samplers_need_them() -> None:
    low = [trace_of(new_id()) & (2**64 - 1) for _ in range(2_000)]
    below_half = sum(one < 2**63 for one in low)
    assert 800 < below_half < 1_200


# Tickets


async def test_what_is_left_for_a_ticket_is_found_by_its_stage_once() -> None:
    traces, _ = told()
    broker = traced(MemoryBroker(), traces)
    known, unknown = new_id(), new_id()
    context = TraceContext(7, 8)
    traces.leave(Stage.GUARD, known, context)
    async with broker.consume(Stage.GUARD, prefetch=10) as consumer:
        await broker.publish(Stage.GUARD, list(packets(Stage.GUARD, [unknown, known])))
        (delivery,) = await consumer.take(most=10)
        await delivery.ack()
    assert traces.found(Stage.GUARD, unknown) is None
    assert traces.found(Stage.AGENT, known) is None
    assert traces.found(Stage.GUARD, known) == context
    assert traces.found(Stage.GUARD, known) is None


async def test_without_traces_packets_go_as_ever() -> None:
    broker = MemoryBroker()
    assert traced(broker, UNTOLD) is broker
    await broker.publish(Stage.GUARD, list(packets(Stage.GUARD, [new_id()])))
    async with broker.consume(Stage.GUARD, prefetch=1) as consumer:
        (delivery,) = await consumer.take(most=1)
        assert delivery.note is None


def test_of_too_many_the_oldest_is_forgotten() -> None:
    carried, tickets = Carried(most=3), [new_id() for _ in range(4)]
    for ticket in tickets:
        carried.put(Stage.GUARD, ticket, TraceContext(1, 2))
    assert len(carried) == 3
    assert carried.take(Stage.GUARD, tickets[0]) is None
    assert carried.take(Stage.GUARD, tickets[3]) == TraceContext(1, 2)


# Spans


def test_an_error_is_told_by_its_class_and_nothing_that_it_says() -> None:
    traces, spans = told()
    with pytest.raises(ValueError, match="seven"), traces.span("turn", SpanKind.INTERNAL):
        raise ValueError("a table for seven")
    (span,) = spans.get_finished_spans()
    assert dict(span.attributes or {}) == {"error.type": "ValueError"}
    assert not span.events
    assert "seven" not in span.to_json()


def test_what_is_told_inside_stands_below_what_is_open() -> None:
    traces, spans = told()
    at = TraceContext(5, 6)
    with traces.span("outer", SpanKind.CONSUMER, at=at):
        assert traces.here() == at
        with traces.span("inner", SpanKind.CLIENT):
            pass
    assert traces.here() is None
    inner, outer = spans.get_finished_spans()
    assert (outer.context.trace_id, outer.context.span_id, outer.parent) == (5, 6, None)
    assert (inner.context.trace_id, inner.parent.span_id) == (5, 6)


def test_texts_of_attributes_and_links_are_bounded() -> None:
    traces, spans = told()
    links = [TraceContext(n + 1, n + 1) for n in range(100)]
    with traces.span(
        "turn",
        SpanKind.INTERNAL,
        links=links,
        attributes={"x": "y" * 10_000} | {f"n{n}": n for n in range(100)},
    ):
        pass
    (span,) = spans.get_finished_spans()
    assert len(span.links) == 16
    assert len(span.attributes or {}) == 32
    assert all(len(str(value)) <= 200 for value in (span.attributes or {}).values())


@pytest.mark.parametrize(
    ("sampler", "argument", "told_of"),
    [
        ("always_off", "", 0),
        ("parentbased_traceidratio", "0.0", 0),
        ("parentbased_traceidratio", "1.0", 2),
        ("traceidratio", "1.0", 2),
    ],
)
def test_the_standard_s_variables_choose_what_is_told(
    monkeypatch: pytest.MonkeyPatch, sampler: str, argument: str, told_of: int
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", argument)
    traces, spans = told()
    message = new_id()
    root = traces.place(message, message, "ingest")
    traces.past("ingest", SpanKind.SERVER, began=traces.now(), at=root)
    traces.past(
        "guard", SpanKind.CONSUMER, began=traces.now(), at=traces.place(message, message, "guard"), under=root
    )
    assert len(spans.get_finished_spans()) == told_of


def test_stages_that_only_know_the_row_choose_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the traces is told, whole ones: each stage works it out by itself."""
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.3")
    first, second = told()[0], told()[0]
    messages = [new_id() for _ in range(300)]
    chosen = [first.place(one, one, "ingest").sampled for one in messages]
    assert chosen == [second.place(one, one, "guard").sampled for one in messages]
    assert 40 < sum(chosen) < 150


# The collector


def test_nothing_is_told_unless_a_collector_is_named() -> None:
    assert configured_traces(load_settings(), service="guard", version="1") is UNTOLD
    assert not UNTOLD.on


async def test_a_named_collector_turns_traces_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{free_port()}/")
    traces = configured_traces(load_settings(), service="guard", version="1")
    assert isinstance(traces, OtelTraces)
    await traces.close()


@pytest.mark.parametrize("endpoint", ["collector:4318", "ftp://collector", "http://"])
def test_an_endpoint_that_is_none_is_refused_at_the_start(
    monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
    with pytest.raises(Misconfigured, match="OTEL_EXPORTER_OTLP_ENDPOINT"):
        load_settings()


def test_without_the_packages_one_clear_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shared.telemetry.traces.otel", None)
    settings = load_settings().model_copy(update={"otlp_endpoint": "http://collector:4318"})
    with pytest.raises(Misconfigured, match=r"pip install 'leeway\[traces\]'"):
        configured_traces(settings, service="guard", version="1")


@pytest.mark.parametrize("variable", ["OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_SCHEDULE_DELAY"])
def test_a_variable_of_the_sdk_that_it_can_not_use_is_one_clear_error(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "-1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(Misconfigured, match=r"^One of the variables OTEL_… is wrong: .+"):
        configured_traces(load_settings(), service="guard", version="1")


async def test_a_collector_that_refuses_costs_a_line_a_minute_and_no_time() -> None:
    traces = to_collector(f"http://127.0.0.1:{free_port()}", service="guard", version="1")
    began = time.monotonic()
    for _ in range(3_000):  # more than the queue holds
        traces.past("x", SpanKind.INTERNAL, began=traces.now())
    assert time.monotonic() - began < 5
    began = time.monotonic()
    await traces.close()
    assert time.monotonic() - began < FLUSH_S + 1


async def test_a_collector_that_never_answers_does_not_hold_up_the_end() -> None:
    over = asyncio.Event()

    async def hang(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()

    silent = await asyncio.start_server(hang, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    traces = to_collector(f"http://127.0.0.1:{port}", service="guard", version="1")
    traces.past("x", SpanKind.INTERNAL, began=traces.now())
    began = time.monotonic()
    with capture_logs() as lines:
        await traces.close()
    assert FLUSH_S <= time.monotonic() - began < FLUSH_S + 1
    assert [line["event"] for line in lines] == ["the last spans were not taken in time"]
    over.set()
    silent.close()
    await silent.wait_closed()


def test_lost_spans_are_counted_in_one_line_a_minute() -> None:
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class Away(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            return SpanExportResult.FAILURE

        def shutdown(self) -> None:
            pass

    telling = Telling(Away())
    with capture_logs() as lines:
        for _ in range(5):
            telling.export([None, None])  # type: ignore[list-item]  # only counted
    assert [(line["event"], line["spans"]) for line in lines] == [
        ("spans not taken by the collector, they are lost", 2)
    ]


def test_the_sdk_s_own_logs_are_kept_quiet() -> None:
    from shared.telemetry.logs import QUIET

    assert QUIET["opentelemetry"] == logging.CRITICAL
