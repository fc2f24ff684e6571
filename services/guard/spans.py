"""What the guard made of each message, in the message's trace."""

from collections.abc import Mapping, Sequence

from services.guard.core.record import Record
from shared.ids import ConversationId, OutboundId
from shared.telemetry.traces import SpanKind, Traces
from shared.tickets import Stage
from shared.topology import WORK_QUEUE


def tell_judged(
    traces: Traces,
    records: Sequence[Record],
    notices: Mapping[ConversationId, Sequence[OutboundId]],
    *,
    began: int,
) -> None:
    """A span for each message judged, all by one statement; what is rung because of it goes on from there."""
    count = sum(len(one.judged) for one in records)
    for one in records:
        conversation = one.case.conversation
        told = traces.found(Stage.GUARD, conversation)
        places = {
            judged.message: traces.place(judged.message, judged.message, "guard") for judged in one.judged
        }
        for judged in one.judged:
            at = places[judged.message]
            root = traces.place(judged.message, judged.message, "ingest")
            traces.past(
                "guard",
                SpanKind.CONSUMER,
                began=began,
                at=at,
                under=told if told and at and told.trace == at.trace else root,
                attributes={
                    "messaging.operation.type": "process",
                    "messaging.destination.name": WORK_QUEUE[Stage.GUARD],
                    "messaging.message.id": str(judged.message),
                    "messaging.message.conversation_id": str(conversation),
                    "messaging.batch.message_count": count,
                    "leeway.business": one.case.business_slug,
                    "leeway.verdict": judged.verdict.value,
                    "leeway.reason": judged.reason or "",
                },
            )
        first = next(iter(places.values()), None)
        traces.leave(Stage.AGENT, conversation, first)
        for (message, _), notice in zip(one.notices, notices.get(conversation, ()), strict=False):
            traces.leave(Stage.DISPATCH, notice, places.get(message, first))
        for message in one.courtesies:
            traces.leave(Stage.DISPATCH, message, places.get(message, first))
