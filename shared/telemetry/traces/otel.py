"""Spans told to a collector by OpenTelemetry's SDK: the only door to it. Importing this needs the extra `traces`.

Nothing here waits for the collector: spans are queued, the oldest dropped when there are too many, and sent by a thread.
"""

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from uuid import UUID

import structlog
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision

from shared.telemetry.traces.carried import Carried
from shared.telemetry.traces.context import TraceContext, read_header, span_of, trace_of, write_header
from shared.telemetry.traces.port import Attributes, Span, SpanKind, Traces
from shared.tickets import Stage

FLUSH_S = 2.0  # what is left of a process's grace after its drain
TELL_EVERY_S = 60.0
LIMITS = SpanLimits(
    max_attributes=32, max_attribute_length=200, max_events=4, max_links=16, max_span_attributes=32
)
KINDS = {
    SpanKind.SERVER: trace.SpanKind.SERVER,
    SpanKind.CLIENT: trace.SpanKind.CLIENT,
    SpanKind.CONSUMER: trace.SpanKind.CONSUMER,
    SpanKind.INTERNAL: trace.SpanKind.INTERNAL,
}

log = structlog.get_logger(__name__)


class OtelTraces(Traces):
    """Tells spans to `processor`, of as many traces as OTEL_TRACES_SAMPLER says."""

    on = True

    def __init__(self, processor: SpanProcessor, *, service: str, version: str) -> None:
        self._ids = _Ids()
        self._provider = TracerProvider(
            resource=Resource.create(
                {"service.namespace": "leeway", "service.name": service, "service.version": version}
            ),
            id_generator=self._ids,
            span_limits=LIMITS,
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("leeway", version)
        self._left, self._found = Carried(), Carried()

    def now(self) -> int:
        return time.time_ns()  # the clock that the SDK reads

    @contextmanager
    def span(
        self,
        name: str,
        kind: SpanKind,
        *,
        at: TraceContext | None = None,
        under: TraceContext | None = None,
        links: Sequence[TraceContext] = (),
        attributes: Attributes | None = None,
    ) -> Iterator[Span]:
        begun = self._begin(name, kind, at=at, under=under, links=links, attributes=attributes)
        told = _Told(begun)
        with trace.use_span(begun, record_exception=False, set_status_on_exception=False):
            try:
                yield told
            except BaseException as error:
                if not told.has_failed:  # whoever said so knew better what it was
                    told.failed(type(error).__qualname__)
                raise
            finally:
                begun.end()

    def past(
        self,
        name: str,
        kind: SpanKind,
        *,
        began: int,
        at: TraceContext | None = None,
        under: TraceContext | None = None,
        links: Sequence[TraceContext] = (),
        attributes: Attributes | None = None,
    ) -> None:
        self._begin(name, kind, at=at, under=under, links=links, attributes=attributes, began=began).end()

    def place(self, cause: UUID, subject: UUID, work: str) -> TraceContext:
        number = trace_of(cause)
        decision = self._provider.sampler.should_sample(Context(), number, work).decision
        return TraceContext(number, span_of(subject, work), decision is Decision.RECORD_AND_SAMPLE)

    def here(self) -> TraceContext | None:
        context = trace.get_current_span().get_span_context()
        if not context.is_valid:
            return None
        return TraceContext(context.trace_id, context.span_id, context.trace_flags.sampled)

    def leave(self, stage: Stage, ticket: UUID, context: TraceContext | None) -> None:
        self._left.put(stage, ticket, context)

    def inject(self, stage: Stage, tickets: Sequence[UUID]) -> str:
        return write_header([self._left.take(stage, ticket) for ticket in tickets])

    def extract(self, stage: Stage, tickets: Sequence[UUID], header: object) -> None:
        for ticket, context in zip(tickets, read_header(header, len(tickets)), strict=True):
            self._found.put(stage, ticket, context)

    def found(self, stage: Stage, ticket: UUID) -> TraceContext | None:
        return self._found.take(stage, ticket)

    async def close(self) -> None:
        """By a thread that nobody waits for at the end: a collector that hangs must not hold up the process."""
        loop, over = asyncio.get_running_loop(), asyncio.Event()

        def shut() -> None:
            self._provider.shutdown()
            if not loop.is_closed():
                loop.call_soon_threadsafe(over.set)

        threading.Thread(target=shut, name="last spans", daemon=True).start()
        try:
            async with asyncio.timeout(FLUSH_S):
                await over.wait()
        except TimeoutError:
            log.warning("the last spans were not taken in time")

    def _begin(
        self,
        name: str,
        kind: SpanKind,
        *,
        at: TraceContext | None,
        under: TraceContext | None,
        links: Sequence[TraceContext],
        attributes: Attributes | None,
        began: int | None = None,
    ) -> trace.Span:
        parent: Context | None = None  # the span that is open
        if under is not None:
            parent = trace.set_span_in_context(trace.NonRecordingSpan(_remote(under)), Context())
        elif at is not None:
            parent = Context()
        with self._ids.given(at):
            return self._tracer.start_span(
                name,
                parent,
                KINDS[kind],
                attributes,
                [trace.Link(_remote(one)) for one in links],
                began,
            )


class _Told(Span):
    def __init__(self, span: trace.Span) -> None:
        self._span = span
        self.has_failed = False

    def set(self, attributes: Attributes) -> None:
        self._span.set_attributes(attributes)

    def failed(self, kind: str) -> None:
        self.has_failed = True
        self._span.set_attribute("error.type", kind)
        self._span.set_status(trace.StatusCode.ERROR)


class _Ids(IdGenerator):
    """Random ids, but for a span that has its place. Spans are begun by the event loop's thread alone."""

    def __init__(self) -> None:
        self._random = RandomIdGenerator()
        self._given: TraceContext | None = None

    @contextmanager
    def given(self, at: TraceContext | None) -> Iterator[None]:
        self._given = at
        try:
            yield
        finally:
            self._given = None

    def generate_trace_id(self) -> int:
        return self._given.trace if self._given else self._random.generate_trace_id()

    def generate_span_id(self) -> int:
        return self._given.span if self._given else self._random.generate_span_id()


def _remote(context: TraceContext) -> trace.SpanContext:
    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED if context.sampled else trace.TraceFlags.DEFAULT)
    return trace.SpanContext(context.trace, context.span, is_remote=True, trace_flags=flags)


class Telling(SpanExporter):
    """Another exporter, whose failures are told in one line a minute: the SDK's own logs are kept quiet."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._lost = 0
        self._told_at: float | None = None

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        if result is not SpanExportResult.SUCCESS:
            self._lost += len(spans)
            now = time.monotonic()
            if self._told_at is None or now - self._told_at >= TELL_EVERY_S:
                log.warning("spans not taken by the collector, they are lost", spans=self._lost)
                self._told_at, self._lost = now, 0
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def to_collector(endpoint: str, *, service: str, version: str) -> OtelTraces:
    """Traces to an OTLP endpoint by HTTP. Headers, time-outs and certificates are the SDK's own OTEL_EXPORTER_OTLP_…."""
    exporter = Telling(OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces"))
    return OtelTraces(BatchSpanProcessor(exporter), service=service, version=version)
