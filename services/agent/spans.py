"""A turn as spans, in the trace of the first message that it answers: the turn, its model calls, its tool calls."""

from contextlib import AbstractContextManager

from services.agent.core.turn import Turn
from shared.llm.port import Answer
from shared.telemetry.traces import Span, SpanKind, Traces
from shared.tickets import Stage
from shared.topology import WORK_QUEUE


def turn_span(traces: Traces, turn: Turn) -> AbstractContextManager[Span]:
    """The whole of one attempt. Other messages that it answers are linked; a turn for a decision begins a trace."""
    if not traces.on:
        return traces.span("turn", SpanKind.CONSUMER)
    messages = turn.taken.messages
    cause = messages[0].id if messages else turn.id
    at = traces.place(cause, turn.id, "turn" if turn.attempt == 1 else f"turn {turn.attempt}")
    told = traces.found(Stage.AGENT, turn.conversation)
    judged = traces.place(cause, cause, "guard") if messages else None
    others = [traces.place(one.id, one.id, "guard") for one in messages[1:]]
    return traces.span(
        "turn",
        SpanKind.CONSUMER,
        at=at,
        under=told if told and at and told.trace == at.trace else judged,
        links=[one for one in others if one],
        attributes={
            "messaging.operation.type": "process",
            "messaging.destination.name": WORK_QUEUE[Stage.AGENT],
            "messaging.message.conversation_id": str(turn.conversation),
            "messaging.batch.message_count": len(messages),
            "leeway.business": turn.business.slug,
            "leeway.turn": str(turn.id),
            "leeway.attempt": turn.attempt,
            "leeway.engine": turn.business.engine,
        },
    )


def call_span(
    traces: Traces, turn: Turn, *, provider: str, model: str, n: int
) -> AbstractContextManager[Span]:
    """One model call."""
    if not traces.on:
        return traces.span("chat", SpanKind.CLIENT)
    return traces.span(
        f"chat {model}",
        SpanKind.CLIENT,
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": model,
            "gen_ai.conversation.id": str(turn.conversation),
            "leeway.iteration": n,
        },
    )


def tell_answer(span: Span, answer: Answer) -> None:
    """What a call came to, without what was said."""
    span.set(
        {
            "gen_ai.response.model": answer.model or "",
            "gen_ai.response.finish_reasons": [answer.finish.value],
            "gen_ai.usage.input_tokens": answer.usage.input,
            "gen_ai.usage.output_tokens": answer.usage.output,
        }
    )


def tool_span(traces: Traces, tool: str, step: str) -> AbstractContextManager[Span]:
    """One run of a tool: a read, a dry run, or the write. Its name is the pack's, never the model's."""
    if not traces.on:
        return traces.span("execute_tool", SpanKind.INTERNAL)
    return traces.span(
        f"execute_tool {tool}",
        SpanKind.INTERNAL,
        attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, "leeway.step": step},
    )
