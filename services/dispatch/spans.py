"""A reply's way out as spans, in the trace of what it answers: the send, and each call to the provider."""

from contextlib import AbstractContextManager

from services.dispatch.core.outcome import Accepted, Outcome, Refused
from services.dispatch.ports import Claimed, Outbox
from shared.errors import Unavailable
from shared.telemetry.metrics import kind_of
from shared.telemetry.traces import Span, SpanKind, TraceContext, Traces
from shared.tickets import Stage
from shared.topology import WORK_QUEUE


async def origin(traces: Traces, outbox: Outbox, claimed: Claimed) -> TraceContext | None:
    """The span that the reply comes from: as its ticket told, else by its row. None where no traces are told."""
    if not traces.on:
        return None
    told = traces.found(Stage.DISPATCH, claimed.outbound)
    if told is not None:
        return told
    try:
        row = await outbox.origin(claimed.outbound)
    except Unavailable:  # a trace is not worth waiting for
        return None
    return traces.place(row.cause, row.subject, row.work) if row else None


def send_span(traces: Traces, claimed: Claimed, under: TraceContext | None) -> AbstractContextManager[Span]:
    """All parts of one reply. One whose origin nobody knows begins a trace."""
    if not traces.on:
        return traces.span("dispatch", SpanKind.CONSUMER)
    return traces.span(
        "dispatch",
        SpanKind.CONSUMER,
        under=under,
        at=None if under else traces.place(claimed.outbound, claimed.outbound, "dispatch"),
        attributes={
            "messaging.operation.type": "process",
            "messaging.destination.name": WORK_QUEUE[Stage.DISPATCH],
            "messaging.message.id": str(claimed.outbound),
            "messaging.message.conversation_id": str(claimed.conversation),
            "leeway.channel": claimed.channel,
            "leeway.parts": len(claimed.parts),
        },
    )


def call_span(traces: Traces, claimed: Claimed) -> AbstractContextManager[Span]:
    """One part, from the call to what came of it."""
    if not traces.on:
        return traces.span("send", SpanKind.CLIENT)
    return traces.span(
        f"send {claimed.channel}",
        SpanKind.CLIENT,
        attributes={
            "messaging.operation.type": "send",
            "leeway.channel": claimed.channel,
            "leeway.attempt": str(claimed.attempt),
            "leeway.part": claimed.part,
        },
    )


def tell_outcome(span: Span, outcome: Outcome) -> None:
    """Of which kind it was. A reason may quote a provider, and with it the message."""
    kind = kind_of(outcome)
    span.set({"leeway.outcome": kind})
    if not isinstance(outcome, Accepted):
        span.failed(outcome.trouble.value if isinstance(outcome, Refused) else kind)
