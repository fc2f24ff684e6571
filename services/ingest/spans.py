"""Where a message's trace begins: the request that brought it, to the commit."""

from collections.abc import Sequence

from services.ingest.ports import NewMessages, Request
from shared.telemetry.traces import SpanKind, Traces
from shared.tickets import Stage

ROUTE = "/hooks/{channel}/{account}"


def tell_received(
    traces: Traces, new: Sequence[NewMessages], requests: Sequence[Request], *, began: int
) -> None:
    """A span for each message, all of one statement: the first of its conversation leads the guard's ticket on."""
    asked = {request.account.id: request.asked for request in reversed(requests) if request.asked}
    for one in new:
        at_hooks = one.account.id in asked
        for message in reversed(one.messages):
            at = traces.place(message, message, "ingest")
            traces.past(
                f"POST {ROUTE}" if at_hooks else "receive",
                SpanKind.SERVER if at_hooks else SpanKind.CONSUMER,
                began=asked.get(one.account.id, began),
                at=at,
                attributes={
                    "leeway.channel": one.account.channel,
                    "messaging.message.id": str(message),
                    "messaging.message.conversation_id": str(one.conversation),
                    "messaging.batch.message_count": sum(len(each.messages) for each in new),
                    **({"http.request.method": "POST", "http.route": ROUTE} if at_hooks else {}),
                },
            )
            traces.leave(Stage.GUARD, one.conversation, at)
