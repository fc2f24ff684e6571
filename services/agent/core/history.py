"""What a turn's model is told of the conversation. Pure."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from services.agent.core.heard import Heard, Part
from services.agent.core.turn import Turn
from shared.llm.port import AssistantText, Message, UserText
from shared.messages import MessageKind, PartKind

HISTORY_MESSAGES = 20
HISTORY_AGE = timedelta(hours=24)

# Edits and deletions are told with what they are about.
_NO_WORDS_OF_ITS_OWN: Final = frozenset(
    {MessageKind.SYSTEM, MessageKind.REACTION, MessageKind.GROUP, MessageKind.EDIT, MessageKind.DELETION}
)
_CALLED: Final[Mapping[PartKind, str]] = {
    PartKind.AUDIO: "voice note",
    PartKind.OTHER: "attachment",
}


def history(turn: Turn) -> list[Message]:
    """What was said before and in this turn, oldest first, as the model is told: the last 20 messages of 24 hours.

    What the turn answers is told as the customer wrote it, by the channel's second: a fragment that came late was judged late.
    """
    oldest = turn.now - HISTORY_AGE
    said: list[tuple[int, int, datetime, Message]] = []
    placed = _placed(turn)
    for one in turn.messages:
        if one.kind in _NO_WORDS_OF_ITS_OWN or one.seq > turn.taken.seq_to:
            continue
        message = (
            AssistantText(text=one.text) if one.kind is MessageKind.ECHO else UserText(text=_readable(one))
        )
        said.append((placed.get(one.seq, one.seq), 0, one.received_at, message))
    said += [
        (reply.basis_seq, 1, reply.created_at, AssistantText(text=reply.text))
        for reply in turn.replies
        if reply.was_said
    ]
    said.sort(key=lambda item: item[:3])
    return [message for *_, at, message in said if at >= oldest][-HISTORY_MESSAGES:]


def _placed(turn: Turn) -> dict[int, int]:
    """Where each message of the turn stands among them: their own seqs, given out in the order of writing."""
    seqs = [one.seq for one in turn.taken.messages]
    written = sorted(turn.taken.messages, key=lambda one: (one.channel_at.replace(microsecond=0), one.seq))
    return {one.seq: seq for seq, one in zip(seqs, written, strict=True)}


def _readable(one: Heard) -> str:
    """The message with what else came with it, each in brackets: words that nobody typed never look typed."""
    if one.deleted:
        return "(a message that the customer deleted)"
    parts = [_told(part) for part in one.parts]
    text = "(forwarded: " + one.text + ")" if one.forwarded and one.text else one.text
    later = [] if one.edited_to is None else [f"(edited afterwards to: {one.edited_to})"]
    said = [text, *parts, *later] if text else [*parts, *later]
    return "\n".join(said) or f"({one.kind.value} without text)"


def _told(part: Part) -> str:
    name = _CALLED.get(part.kind, part.kind.value)
    if not part.words:
        return f"({name})"
    heard = ", as a machine heard it" if part.kind is PartKind.AUDIO else ""
    return f"({name}{heard}: {part.words})"
