"""What a turn's model is told of the conversation. Pure."""

from datetime import datetime, timedelta

from services.agent.core.turn import Heard, Turn
from shared.llm.port import AssistantText, Message, UserText
from shared.messages import MessageKind

HISTORY_MESSAGES = 20
HISTORY_AGE = timedelta(hours=24)


def history(turn: Turn) -> list[Message]:
    """What was said before and in this turn, oldest first, as the model is told: the last 20 messages of 24 hours."""
    oldest = turn.now - HISTORY_AGE
    said: list[tuple[int, int, datetime, Message]] = []
    for one in turn.messages:
        if (
            one.kind in (MessageKind.SYSTEM, MessageKind.REACTION, MessageKind.GROUP)
            or one.seq > turn.taken.seq_to
        ):
            continue
        message = (
            AssistantText(text=one.text) if one.kind is MessageKind.ECHO else UserText(text=_readable(one))
        )
        said.append((one.seq, 0, one.received_at, message))
    said += [
        (reply.basis_seq, 1, reply.created_at, AssistantText(text=reply.text))
        for reply in turn.replies
        if reply.was_said
    ]
    said.sort(key=lambda item: item[:3])
    return [message for *_, at, message in said if at >= oldest][-HISTORY_MESSAGES:]


def _readable(one: Heard) -> str:
    return one.text or f"({one.kind.value} without text)"
