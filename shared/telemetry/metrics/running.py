"""A process: what it is, whether it works, its connections. Beside what prometheus_client shows of any (`process_…`)."""

from typing import Final

from shared.telemetry.metrics.declared import ALL, FED, STAGES, counter, gauge, histogram
from shared.telemetry.metrics.labels import PACKET, POOL, SERVICE, STAGE, VERSION

POOL_WAIT_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
LAG_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)


class Running:
    """Of every service."""

    service_info = gauge(
        "leeway_service_info",
        "1: which service of which release this is.",
        SERVICE,
        VERSION,
        unit="1",
        of=ALL,
    )
    ready = gauge("leeway_ready", "1 while /readyz says ready, else 0.", unit="1", of=ALL)
    pool_connections = gauge(
        "leeway_pool_connections",
        "Connections of this process's pool to Postgres.",
        POOL,
        unit="connections",
        of=ALL,
    )
    pool_wait_seconds = histogram(
        "leeway_pool_wait_seconds",
        "Waiting for a connection of the pool, each statement or transaction.",
        unit="seconds",
        of=ALL,
        buckets=POOL_WAIT_S,
    )
    event_loop_lag_seconds = histogram(
        "leeway_event_loop_lag_seconds",
        "How late the event loop runs what is due; sampled twice a second.",
        unit="seconds",
        of=ALL,
        buckets=LAG_S,
    )


class Carrying:
    """The broker as a process sees it."""

    consumer_attached = gauge(
        "leeway_consumer_attached",
        "1 while the stage's queue feeds this process, else 0.",
        STAGE,
        unit="1",
        of=FED,
    )
    packets = counter(
        "leeway_packets_total",
        "Packets of tickets: published to a stage's queue or not, taken from it, found unreadable.",
        STAGE,
        PACKET,
        unit="packets",
        of=STAGES,
    )
