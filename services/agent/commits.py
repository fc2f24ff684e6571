"""Commits as values: what a turn came to, ready to be written. `replace` adds what is particular to one."""

from dataclasses import replace

from services.agent.core.gate import Ask
from services.agent.core.pending import Repeat
from services.agent.core.turn import Pending, Turn
from services.agent.core.wording import buttons_json, last_step, prompt, repeated
from services.agent.ports import AsksAgain, Commit, NewAction, TurnState
from services.agent.writing import refusal_text
from shared.autonomy import Asked
from shared.digest import canonical, digest
from shared.ids import ActionId, OutboundId, new_id
from shared.locales import load
from shared.packs import Proposal, Refusal, Tool


def new_action(tool: Tool, proposal: Proposal, passage: Ask, *, locale: str) -> NewAction:
    """A pending action with the digest of what its prompt shows, and the summary that the prompt asks about."""
    assert tool.word_prompt is not None, f"{tool.name} is an action and words no prompt"
    arguments, shown = canonical(proposal.arguments), canonical(proposal.shown)
    return NewAction(
        id=ActionId(new_id()),
        tool=tool.name,
        arguments=arguments,
        shown=shown,
        digest=digest(tool.name, arguments, shown),
        summary=tool.word_prompt(proposal.shown, locale),
        confirmations_needed=passage.confirmations,
        asked=passage.asked,
    )


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


def ending(commit: Commit, *, as_: str, because: str | None = None, result: str | None = None) -> Commit:
    """The same, and the pending action ends, if there is one that waits for the customer or is decided now.

    `result` is what the call that asked for it came to after all, as JSON.
    """
    pending = commit.turn.pending
    if pending is None:
        return commit
    return replace(commit, ends=pending.id, ends_as=as_, ends_because=because, ends_result=result)


def refusing(turn: Turn, outcome: str, tool: Tool, refusal: Refusal) -> Commit:
    """The pending action can't be done, and ends with that: why not, and what else is possible."""
    commit = saying(turn, outcome, refusal_text(tool, refusal, turn.locale))
    return ending(commit, as_="refused", because=refusal.code, result=canonical(refusal.told))


def asking(turn: Turn, outcome: str, action: NewAction, *, before: str = "") -> Commit:
    """A new action waits for a person; the system words the question. One that waited before is replaced.

    `before` is said in front of the question.
    """
    locale = load(turn.locale)
    if action.asked is Asked.OPERATOR:
        asked = saying(
            turn, outcome, _joined(before, locale.notice("approval_asked", summary=action.summary))
        )
        return ending(replace(asked, asks=action), as_="replaced")
    asked = saying(turn, outcome, _joined(before, prompt(action.summary, locale)))
    asked = replace(asked, asks=action, buttons=buttons_json(action.id, 1, locale))
    return ending(asked, as_="replaced")


def asking_the_next(turn: Turn, pending: Pending, *, step: int, outcome: str) -> Commit:
    """A confirmation was had, and another is needed: the question of the next step."""
    locale = load(turn.locale)
    last = step >= pending.confirmations_needed
    text = last_step(pending.summary, locale) if last else prompt(pending.summary, locale)
    again = AsksAgain(action=pending.id, step=step, repeats=0, clock_from=None)
    asked = replace(saying(turn, outcome, text), asks_again=again)
    return replace(asked, buttons=buttons_json(pending.id, step, locale))


def repeating(turn: Turn, pending: Pending, repeat: Repeat) -> Commit:
    """The question of the same step once more, by a new message."""
    locale = load(turn.locale)
    again = AsksAgain(
        action=pending.id,
        step=pending.step,
        repeats=pending.repeats + (1 if repeat.counts else 0),
        clock_from=pending.asked_at if repeat.keeps_clock else None,
    )
    last = pending.step > 1 and pending.step >= pending.confirmations_needed
    text = repeated(pending.summary, locale, last=last)
    asked = replace(saying(turn, "repeated", text), asks_again=again)
    return replace(asked, buttons=buttons_json(pending.id, pending.step, locale))


def _joined(*texts: str) -> str:
    return " ".join(text for text in texts if text)
