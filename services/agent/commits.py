"""Commits as values: what a turn came to, ready to be written. `replace` adds what is particular to one."""

from dataclasses import replace

from services.agent.core.turn import Turn
from services.agent.core.wording import buttons_json, prompt
from services.agent.ports import Commit, NewAction, TurnState
from shared.ids import OutboundId, new_id
from shared.locales import load


def silent(turn: Turn, outcome: str, *, state: TurnState = TurnState.DONE) -> Commit:
    """Nothing is said; the messages are handled."""
    return Commit(turn=turn, seq_to=turn.taken.seq_to, state=state, outcome=outcome)


def saying(turn: Turn, outcome: str, text: str) -> Commit:
    """One reply. A turn that comes too late for an answer makes a draft of it."""
    return replace(
        silent(turn, outcome),
        outbound=OutboundId(new_id()),
        text=text,
        held="late" if turn.is_late else None,
    )


def ending(commit: Commit, *, as_: str, because: str | None = None) -> Commit:
    """The same, and the pending action ends, if there is one."""
    pending = commit.turn.pending
    if pending is None:
        return commit
    return replace(commit, ends=pending.id, ends_as=as_, ends_because=because)


def asking(turn: Turn, outcome: str, summary: str, action: NewAction) -> Commit:
    """A new action waits for the customer; the system words the question. One that waited before is replaced."""
    locale = load(turn.locale)
    asked = saying(turn, outcome, prompt(summary, locale))
    asked = replace(asked, asks=action, buttons=buttons_json(action.id, locale))
    return ending(asked, as_="replaced")
