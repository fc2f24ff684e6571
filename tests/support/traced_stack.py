"""The four services in the test's process, each on the same database and broker as a real one, their spans in memory."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from services.agent import wiring as agent
from services.dispatch import wiring as dispatch
from services.guard import wiring as guard
from services.ingest import wiring as ingest
from shared.broker import connect
from shared.broker.memory import MemoryBroker
from shared.broker.traced import traced
from shared.clock import SystemClock
from shared.database import open_pool
from shared.llm.port import Model
from shared.packs import load_packs
from shared.telemetry.health import server
from shared.telemetry.metrics import Metrics
from shared.telemetry.traces import trace_id
from shared.telemetry.traces.otel import OtelTraces
from shared.work.service import Parts
from tests.support.eventually import eventually
from tests.support.stack import Stack, stack_on


@dataclass(frozen=True, slots=True)
class TracedStack:
    stack: Stack
    exported: InMemorySpanExporter

    def spans(self, name: str | None = None) -> list[ReadableSpan]:
        """All that ended, by when they began."""
        found = sorted(self.exported.get_finished_spans(), key=lambda one: one.start_time or 0)
        return [one for one in found if name is None or one.name.split(" ")[0] == name]

    async def messages(self) -> list[UUID]:
        return [
            row["id"] for row in await self.stack.ask("select id from leeway.inbound_message order by id")
        ]

    async def told(self, *names: str) -> None:
        """Wait until each of the names has as many spans as it is named."""

        def holds() -> bool:
            return all(len(self.spans(name)) >= names.count(name) for name in names)

        await eventually(holds, within_s=30)


def shape(span: ReadableSpan, spans: Sequence[ReadableSpan]) -> str:
    """Its name below its parents', as a path."""
    by_id = {one.context.span_id: one for one in spans if one.context}
    above = by_id.get(span.parent.span_id) if span.parent else None
    name = span.name.split(" ")[0]
    if above is not None:
        return f"{shape(above, spans)} > {name}"
    return name if span.parent is None else f"? > {name}"


def trace_hex(span: ReadableSpan) -> str:
    assert span.context
    return f"{span.context.trace_id:032x}"


def of_message(message: UUID, spans: Sequence[ReadableSpan]) -> list[ReadableSpan]:
    return [one for one in spans if trace_hex(one) == trace_id(message)]


@asynccontextmanager
async def traced_stack(
    database_url: str,
    amqp_url: str | None,
    *,
    model: Callable[[Model], Model] = lambda model: model,
    wire: Callable[[MemoryBroker], Any] = lambda broker: broker,
) -> AsyncIterator[TracedStack]:
    """Without an `amqp_url` on a broker in memory, behind what `wire` makes of it. `model` may put something before the mock."""
    from shared.llm.configured import configured_model

    async with AsyncExitStack() as opened:
        stack = await opened.enter_async_context(stack_on(database_url, amqp_url or "amqp://nowhere/"))
        exported = InMemorySpanExporter()
        traces = OtelTraces(SimpleSpanProcessor(exported), service="test", version="1")
        settings = stack.settings.model_copy(update={"allow_internal_callbacks": True})
        broker = await opened.enter_async_context(connect(settings)) if amqp_url else wire(MemoryBroker())
        database = await open_pool(database_url, size=4, timeouts=settings.timeouts)
        opened.push_async_callback(database.close)
        parts = Parts(
            settings=settings, clock=SystemClock(), broker=traced(broker, traces), database=database,
            metrics=Metrics(process=False), traces=traces,
        )  # fmt: skip
        packs = load_packs()
        hooks = await ingest.wire(parts)
        services = [hooks.service, await guard.wire(parts)]
        services.append(
            await agent.wire(parts, model=model(await configured_model(settings, packs)), packs=packs)
        )
        services.append(await dispatch.wire(parts))
        http = server(hooks.app(), host="127.0.0.1", port=stack._ingest_port)
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(http.serve())
            jobs = [tasks.create_task(one.run()) for one in services]
            await eventually(lambda: http.started and not any(one.why_not() for one in services), within_s=30)
            try:
                yield TracedStack(stack, exported)
            finally:
                http.should_exit = True
                await serving
                for one in services:
                    await one.drain()
                for job in jobs:
                    job.cancel()


Slow = Callable[[], Awaitable[None]]


class Before:
    """A model with something before each of its first calls: what is raised there is raised by the call."""

    def __init__(self, model: Model, *first: Slow) -> None:
        self._model = model
        self._first = list(first)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    async def complete(self, request: Any, *, timeout_s: float) -> Any:
        if self._first:
            await self._first.pop(0)()
        return await self._model.complete(request, timeout_s=timeout_s)
