"""What four processes tell a collector of one message, also what was left when they were stopped."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shared.telemetry.health import server
from shared.telemetry.traces import trace_id
from tests.support.eventually import eventually
from tests.support.stack import SERVICES, stack_on

pytestmark = [pytest.mark.postgres, pytest.mark.rabbitmq, pytest.mark.stack]

TEXT = "Is a cleaning free tomorrow morning?"
FOUND = {("ingest", "POST"), ("guard", "guard"), ("agent", "turn"), ("agent", "chat"), ("dispatch", "dispatch"), ("dispatch", "send")}  # fmt: skip


class Collector:
    """Takes spans, by trace the service and the first word of each."""

    def __init__(self) -> None:
        self.spans: dict[str, set[tuple[str, str]]] = {}
        self.bodies = b""

    async def take(self, request: Request) -> Response:
        body = await request.body()
        self.bodies += body
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            attributes = {one.key: one.value.string_value for one in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    found = self.spans.setdefault(span.trace_id.hex(), set())
                    found.add((attributes["service.name"], span.name.split(" ")[0]))
        return Response()


@asynccontextmanager
async def collecting() -> AsyncIterator[tuple[Collector, str]]:
    collector = Collector()
    app = Starlette(routes=[Route("/v1/traces", collector.take, methods=["POST"])])
    http = server(app, host="127.0.0.1", port=0)
    serving = asyncio.create_task(http.serve())
    await eventually(lambda: http.started)
    yield collector, http.address
    http.should_exit = True
    await serving


async def test_four_processes_tell_one_trace_and_the_last_of_it_when_they_stop(
    database_url: str, amqp_url: str
) -> None:
    async with (
        collecting() as (collector, url),
        stack_on(database_url, amqp_url, OTEL_EXPORTER_OTLP_ENDPOINT=url) as stack,
    ):
        shop = await stack.shop(window_ms=0)
        await stack.start()
        await stack.deliver(shop, "sim", "+40700000001", TEXT)
        await stack.answered(["+40700000001"])
        for name in SERVICES:
            await stack.one(name).stop()
        ((message,),) = await stack.ask("select id from leeway.inbound_message")
    assert set(collector.spans) == {trace_id(message)}
    assert collector.spans[trace_id(message)] >= FOUND
    for words in (TEXT, "cleaning free", "+40700000001"):
        assert words.encode() not in collector.bodies
