"""The customer edited or deleted what a request came from: it was dropped, and the next thing they hear begins with that."""

from dataclasses import replace

from services.agent.core.turn import Turn
from services.agent.ports import Commit
from shared.locales import load
from shared.messages import PROMPT_CHARS_MAX

EDITED = "edited"  # why such an action ended
NOTICE = "request_edited"


def must_be_told(turn: Turn) -> bool:
    """Whether the customer's last request was dropped so, and nothing they were sent since says it."""
    if turn.dropped is not None:
        return True
    last = turn.earlier[-1] if turn.earlier else None
    if turn.pending is not None or last is None or last.reason != EDITED:
        return False
    words = tuple(load(name).notice(NOTICE) for name in {*turn.business.locales, turn.locale})
    return not any(
        reply.was_said
        and reply.text.startswith(words)
        and (last.ended_at is None or reply.created_at >= last.ended_at)
        for reply in turn.replies
    )


def telling(commit: Commit) -> Commit:
    """The same; what it says begins with what was dropped, where the customer must be told, and that ends."""
    turn = commit.turn
    if turn.dropped is not None and commit.ends is None:
        commit = replace(commit, ends=turn.dropped, ends_as="cleared", ends_because=EDITED)
    if turn.decides or not commit.text or not must_be_told(turn):
        return commit
    text = f"{load(turn.locale).notice(NOTICE)} {commit.text}"
    asks = commit.asks or commit.asks_again
    # A prompt is never split: if it would have to be, the next reply tells.
    return commit if asks and len(text) > PROMPT_CHARS_MAX else replace(commit, text=text)
