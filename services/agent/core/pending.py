"""What a turn's words mean to a pending action. Pure.

A deterministic matcher said what the words are; here their order against the prompt, its state and its age decide.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never
from uuid import UUID

from services.agent.core.confirmation import Answer
from services.agent.core.heard import Taken
from services.agent.core.turn import Pending, Prompt, PromptState, WaitsFor
from shared.ids import ActionId, MessageId

VALID_FOR = timedelta(minutes=15)
RECHECKED_FOR = timedelta(days=1)
REPEATS_MAX = 1
WAIT = timedelta(seconds=1)
# A yes may be older than our sending by so much, while the channel has not said when it took the prompt.
CHANNEL_CLOCK_SLACK = timedelta(seconds=2)
BUTTON_PREFIX = "pa"


class Press(StrEnum):
    CONFIRM = "confirm"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Button:
    """One of our own buttons: it carries action and step, and is looked up, never believed."""

    action: ActionId
    step: int
    press: Press

    def encode(self) -> str:
        return f"{BUTTON_PREFIX}:{self.action.hex}:{self.step}:{self.press}"

    @staticmethod
    def decode(text: str) -> "Button | None":
        """The button in an id, or None for one that is not of this form."""
        parts = text.split(":")
        if len(parts) != 4 or parts[0] != BUTTON_PREFIX or not parts[2].isascii() or not parts[2].isdigit():
            return None
        try:
            return Button(action=ActionId(UUID(hex=parts[1])), step=int(parts[2][:4]), press=Press(parts[3]))
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Confirmed:
    """One confirmation, by this message. `settles`: its button, or a quote, proves that the prompt arrived."""

    message: MessageId
    settles: bool


@dataclass(frozen=True, slots=True)
class Declined:
    """A no: cleared, with a short acknowledgement."""


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A no to what waits for an operator."""


@dataclass(frozen=True, slots=True)
class StillWaiting:
    """A yes to what waits for an operator: theirs is not what it needs."""


@dataclass(frozen=True, slots=True)
class Recheck:
    """A yes that came too late: check again and ask again, without a model call."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """The same question once more. `counts`: not for ever; `keeps_clock`: its fifteen minutes stay."""

    counts: bool
    keeps_clock: bool


@dataclass(frozen=True, slots=True)
class WaitForPrompt:
    """The prompt is on its way: decided when that is settled."""


@dataclass(frozen=True, slots=True)
class PromptIsTheAnswer:
    """Nothing more is said: the words are older than the prompt, or are no answer to it."""


@dataclass(frozen=True, slots=True)
class NoLongerOpen:
    """A button of a request that is not open; the present one stays."""


@dataclass(frozen=True, slots=True)
class NewRequest:
    """The words are for the engine; `clears` the action they do not confirm."""

    clears: bool


Meeting = (
    Confirmed
    | Declined
    | Withdrawn
    | StillWaiting
    | Recheck
    | Repeat
    | WaitForPrompt
    | PromptIsTheAnswer
    | NoLongerOpen
    | NewRequest
)

_UNSURE = Repeat(counts=True, keeps_clock=False)  # nobody knows whether the prompt arrived
_SOFT = Repeat(counts=True, keeps_clock=True)  # agreeable, but not clear enough
_AIMED_ELSEWHERE = Repeat(counts=False, keeps_clock=True)  # it quotes another message, or is an older button
_NOT_THEIR_TYPING = Repeat(counts=False, keeps_clock=True)  # forwarded, edited, heard by a machine


_ANSWERS = frozenset({Answer.YES, Answer.SOFT_YES, Answer.NO})


def meet(pending: Pending | None, taken: Taken, answer: Answer, *, said_since: bool = False) -> Meeting:
    """What the turn means to the pending action, if there is one. `said_since`: something was said after its prompt."""
    if taken.button is not None:
        return _press(pending, taken)
    if pending is None:
        # A reaction, sent as text, is a request for nothing.
        return PromptIsTheAnswer() if answer is Answer.REACTION else NewRequest(clears=False)
    if pending.waits_for is WaitsFor.OPERATOR:
        return _meets_operator(taken, answer)
    prompt = pending.prompt
    if prompt is None or any(one.is_captioned for one in taken.messages):
        return NewRequest(clears=True)
    if not taken.spoken or (answer in _ANSWERS and not taken.is_typed):
        return _not_typed(prompt, taken)
    quoted = {one.quoted for one in taken.messages if one.quoted}
    if quoted and answer is not Answer.OTHER:
        return _quoting(pending, prompt, taken, answer, quoted, said_since=said_since)
    return _said(pending, prompt, taken, answer, said_since=said_since)


def _press(pending: Pending | None, taken: Taken) -> Meeting:
    press = taken.button
    assert press is not None, "asked of a turn that is a press"
    button = Button.decode(press.button or "")
    if pending is None or button is None or button.action != pending.id or button.step > pending.step:
        return NoLongerOpen()
    if pending.waits_for is WaitsFor.OPERATOR:
        return Withdrawn() if button.press is Press.CANCEL else StillWaiting()
    prompt = pending.prompt
    if prompt is None:
        return NoLongerOpen()
    if button.step == pending.step and prompt.state in (PromptState.DRAFT, PromptState.QUEUED):
        return PromptIsTheAnswer()  # nobody has seen that button: counted, ignored
    if button.press is Press.CANCEL:
        return Declined()
    if button.step < pending.step:
        return _AIMED_ELSEWHERE
    return _in_time(pending, prompt, taken, settles=True, said_since=False)


def _meets_operator(taken: Taken, answer: Answer) -> Meeting:
    if any(one.is_captioned for one in taken.messages):
        return NewRequest(clears=False)
    match answer:
        case Answer.NO:
            return Withdrawn() if taken.is_typed else StillWaiting()
        case Answer.YES | Answer.SOFT_YES:
            return StillWaiting()
        case Answer.REACTION:
            return PromptIsTheAnswer()
        case Answer.OTHER:
            return NewRequest(clears=False)
        case _:
            assert_never(answer)


def _not_typed(prompt: Prompt, taken: Taken) -> Meeting:
    """An answer in words that are not the customer's own typing, or none beside what media show: asked once more."""
    match prompt.state:
        case PromptState.DRAFT | PromptState.QUEUED:
            return PromptIsTheAnswer()  # nobody has seen it
        case PromptState.SENDING:
            return WaitForPrompt()
        case PromptState.UNKNOWN | PromptState.SENT:
            older = _is_older(prompt, taken, settles=False)
            return PromptIsTheAnswer() if older else _NOT_THEIR_TYPING
        case _:
            assert_never(prompt.state)


def _quoting(
    pending: Pending, prompt: Prompt, taken: Taken, answer: Answer, quoted: set[str], *, said_since: bool
) -> Meeting:
    """A yes, soft yes or no that quotes: this prompt, or something else."""
    if prompt.state in (PromptState.DRAFT, PromptState.QUEUED):
        return _said(pending, prompt, taken, answer, said_since=said_since)  # it can't be quoted yet
    if not quoted <= prompt.provider_ids:
        return WaitForPrompt() if prompt.state is PromptState.SENDING else _AIMED_ELSEWHERE
    if answer is Answer.YES:
        return _in_time(pending, prompt, taken, settles=True, said_since=said_since)
    return _said(pending, prompt, taken, answer, said_since=said_since)


def _said(pending: Pending, prompt: Prompt, taken: Taken, answer: Answer, *, said_since: bool) -> Meeting:
    match answer:
        case Answer.NO:
            return Declined()
        case Answer.YES:
            return _unsettled(pending, prompt, taken) or _in_time(
                pending, prompt, taken, settles=False, said_since=said_since
            )
        case Answer.SOFT_YES:
            return _unsettled(pending, prompt, taken) or _softly(pending, prompt, taken)
        case Answer.REACTION:
            return _reacted(pending, prompt, taken)
        case Answer.OTHER:
            return NewRequest(clears=True)
        case _:
            assert_never(answer)


def _unsettled(pending: Pending, prompt: Prompt, taken: Taken) -> Meeting | None:
    """What a yes meets while the prompt was not surely sent."""
    older = taken.first_seq <= pending.at_seq
    match prompt.state:
        case PromptState.QUEUED:
            return WaitForPrompt() if older else NewRequest(clears=True)
        case PromptState.DRAFT:
            return PromptIsTheAnswer() if older else NewRequest(clears=True)
        case PromptState.SENDING:
            return WaitForPrompt()
        case PromptState.UNKNOWN:
            return _UNSURE if pending.repeats < REPEATS_MAX else NewRequest(clears=True)
        case PromptState.SENT:
            return None
        case _:
            assert_never(prompt.state)


def _softly(pending: Pending, prompt: Prompt, taken: Taken) -> Meeting:
    if _is_older(prompt, taken, settles=False):
        return PromptIsTheAnswer()
    in_time = _age(pending, taken) <= VALID_FOR
    return _SOFT if in_time and pending.repeats < REPEATS_MAX else NewRequest(clears=True)


def _reacted(pending: Pending, prompt: Prompt, taken: Taken) -> Meeting:
    """A phone's text in place of a reaction answers nothing. What can be answered still is asked once more."""
    seen = prompt.state in (PromptState.SENT, PromptState.UNKNOWN)
    if not seen or pending.repeats >= REPEATS_MAX or _is_older(prompt, taken, settles=False):
        return PromptIsTheAnswer()
    return _SOFT if _age(pending, taken) <= VALID_FOR else PromptIsTheAnswer()


def _in_time(pending: Pending, prompt: Prompt, taken: Taken, *, settles: bool, said_since: bool) -> Meeting:
    """Whether the confirmation came after the prompt was sent, by seq first, and within its fifteen minutes."""
    if _is_older(prompt, taken, settles=settles):
        return PromptIsTheAnswer()
    age = _age(pending, taken)
    if age <= VALID_FOR:
        return Confirmed(taken.messages[-1].id, settles)
    return Recheck() if age <= RECHECKED_FOR and not said_since else NewRequest(clears=True)


def _is_older(prompt: Prompt, taken: Taken, *, settles: bool) -> bool:
    if prompt.at_send_seq is None or prompt.sent_at is None or taken.first_seq <= prompt.at_send_seq:
        return True
    since = prompt.taken_at or prompt.sent_at - CHANNEL_CLOCK_SLACK
    return not settles and taken.messages[0].channel_at < _second(since)


def _age(pending: Pending, taken: Taken) -> timedelta:
    """How long after the asking it was said. By the channel's time where that lies between the sending and our receipt:
    a backlog of ours expires no timely yes."""
    asked_at, last = pending.asked_at, taken.messages[-1]
    assert asked_at is not None, "only of a prompt that was sent"
    said_at = last.channel_at if asked_at <= last.channel_at <= last.received_at else last.received_at
    return said_at - asked_at


def _second(at: datetime) -> datetime:
    return at.replace(microsecond=0)
