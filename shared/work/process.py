"""A service as a process of its own: settings, connections, signals, health, drain. `__main__` of a stage calls `main`."""

import asyncio
import gc
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TypeVar

import structlog
import uvloop
from starlette.types import ASGIApp

from shared.broker import connect as connect_broker
from shared.broker.traced import traced
from shared.clock import SystemClock
from shared.database import open_pool
from shared.database.migrate import ready_for
from shared.errors import LeewayError, Unavailable
from shared.settings import Settings, load_settings
from shared.telemetry.health import Server, health_app, refuse_taken, server
from shared.telemetry.logs import configure_logs, secrets_of
from shared.telemetry.metrics import Metrics
from shared.telemetry.traces import configured_traces
from shared.work.asking import until
from shared.work.observing import introduce, release, watch_the_loop
from shared.work.service import Parts, Service

START_PAUSE_MAX_S = 5.0
# The objects of a batch outlive the default's 700, which walks them again and again.
GARBAGE_AFTER = (50_000, 20, 50)

log = structlog.get_logger(__name__)

Result = TypeVar("Result")
Wire = Callable[[Parts], Awaitable[tuple[Service, ASGIApp | None]]]


def main(name: str, wire: Wire) -> None:
    """Run one service until SIGTERM or SIGINT; exit code 1 with one line for what a person must put right."""
    try:
        settings = load_settings()
        run(name, settings, wire)
    except LeewayError as error:
        sys.stderr.write(f"{name}: {error}\n")
        raise SystemExit(1) from None


def run(name: str, settings: Settings, wire: Wire) -> None:
    """The same with settings that are read. A bug ends it with a line in the log, since what it says may be somebody's words."""
    configure_logs(level=settings.log_level, service=name, secrets=secrets_of(settings))
    gc.freeze()  # what was imported stays
    gc.set_threshold(*GARBAGE_AFTER)
    try:
        uvloop.run(serve(name, settings, wire))
    except LeewayError:
        raise
    except Exception:
        log.exception("process ends, it met a bug")
        raise SystemExit(1) from None


async def serve(name: str, settings: Settings, wire: Wire) -> None:
    """Wire the service on its own connections and run it until a signal; then drain it."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as opened:
        try:
            async with asyncio.timeout(None) as start:

                def stop() -> None:
                    stopping.set()
                    with suppress(RuntimeError):  # the start is over
                        start.reschedule(loop.time())

                for number in (signal.SIGTERM, signal.SIGINT):
                    loop.add_signal_handler(number, stop)
                parts = await opened.enter_async_context(parts_of(settings, name))
                service, app = await until_available(lambda: wire(parts))
        except TimeoutError:
            if not stopping.is_set():
                raise
            log.info("stopped while it waited to start")
            return
        introduce(parts.metrics, parts.database, service=service.name)
        shown = app or health_app(metrics=parts.metrics, ready=service.why_not)
        host, port = (settings.host, settings.port) if app else (settings.metrics_host, settings.metrics_port)
        refuse_taken(host, port, choose="LEEWAY_PORT" if app else "LEEWAY_METRICS_PORT")
        http = server(shown, host=host, port=port)
        await run_until(
            stopping,
            [service],
            http,
            metrics=parts.metrics,
            drain_s=settings.timeouts.drain,
            http_takes_work=app is not None,
        )


@asynccontextmanager
async def parts_of(settings: Settings, name: str) -> AsyncIterator[Parts]:
    """Broker and database as the settings name them; what is away at the start is waited for."""
    timeouts = settings.timeouts
    url = settings.database_url.get_secret_value()
    traces = configured_traces(settings, service=name, version=release())
    await until_available(lambda: ready_for(url))
    metrics = Metrics()
    waited = metrics.pool_wait_seconds.observe
    database = await until_available(
        lambda: open_pool(url, size=settings.pool_size, timeouts=timeouts, waited=waited)
    )
    try:
        async with connect_broker(settings, tally=metrics.tally) as broker:
            yield Parts(
                settings=settings,
                clock=SystemClock(),
                broker=traced(broker, traces),
                database=database,
                metrics=metrics,
                traces=traces,
            )
    finally:
        await traces.close()
        await database.close()


async def run_until(
    stopping: asyncio.Event,
    services: list[Service],
    http: Server,
    *,
    metrics: Metrics,
    drain_s: float,
    http_takes_work: bool = True,
) -> None:
    """Run services and their HTTP server until the event; then say not ready, finish both within `drain_s`, and end.

    A server that takes work takes no more from then on; one that only tells of us does so to the end.
    """
    async with asyncio.TaskGroup() as tasks:
        listening = tasks.create_task(http.serve())
        running = [tasks.create_task(service.run()) for service in services]
        running.append(tasks.create_task(watch_the_loop(metrics)))
        await _listening(http, listening)
        log.info("running", services=[service.name for service in services], address=http.address)
        await stopping.wait()
        log.info("stopping")
        for service in services:
            service.stop()
        http.should_exit = http_takes_work
        try:
            async with asyncio.timeout(drain_s):
                for service in services:
                    await service.drain()
                http.should_exit = True
                await listening
        except TimeoutError:
            log.warning("drain took too long, what is left is owed by its rows")
        http.should_exit = True
        for task in running:
            task.cancel()


async def _listening(http: Server, listening: "asyncio.Task[None]") -> None:
    await until(lambda: http.started or listening.done())
    if not http.started:
        raise Unavailable("the HTTP server did not start; is its port taken?")


async def until_available(attempt: Callable[[], Awaitable[Result]]) -> Result:
    """What `attempt` returns, once what it needs is there. Other errors end it."""
    pause = 0.2
    while True:
        try:
            return await attempt()
        except Unavailable as error:
            log.warning("waiting to start", error=str(error))
        await asyncio.sleep(pause)
        pause = min(2 * pause, START_PAUSE_MAX_S)
