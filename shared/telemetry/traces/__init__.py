"""Traces: what became of a message, from its webhook to the send, as spans. Off unless a collector is named.

`context` says where spans stand, `port` what stages tell, `carried` what tickets carry, `otel` tells it. Attributes never hold a
person's words, name or number.
"""

from importlib import import_module
from types import ModuleType

from shared.errors import Misconfigured
from shared.settings import Settings
from shared.telemetry.traces.context import TraceContext, trace_id
from shared.telemetry.traces.port import UNTOLD, Attributes, Span, SpanKind, Traces

__all__ = [
    "UNTOLD",
    "Attributes",
    "Span",
    "SpanKind",
    "TraceContext",
    "Traces",
    "configured_traces",
    "trace_id",
]


def configured_traces(settings: Settings, *, service: str, version: str) -> Traces:
    """What the settings ask for. Raises Misconfigured when traces are wanted and their packages are not there, or take no such
    variable of theirs."""
    endpoint = settings.otlp_endpoint
    if not endpoint:
        return UNTOLD
    try:  # the SDK reads some of its variables when it is imported, and some later
        traces: Traces = _otel().to_collector(endpoint, service=service, version=version)
    except ValueError as error:
        raise Misconfigured(f"One of the variables OTEL_… is wrong: {error}") from error
    return traces


def _otel() -> ModuleType:
    try:
        return import_module("shared.telemetry.traces.otel")
    except ImportError as error:
        raise Misconfigured(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, and the packages for traces are not installed: pip install 'leeway[traces]'"
        ) from error
