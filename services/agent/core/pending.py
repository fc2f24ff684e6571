"""What a turn's words mean to a pending action. Pure.

A deterministic matcher said what the words are; here their order against the prompt, its state and its age decide.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from services.agent.core.confirmation import Answer
from services.agent.core.turn import Pending, PromptState, Taken
from shared.ids import ActionId, MessageId

VALID_FOR = timedelta(minutes=15)
RECHECKED_FOR = timedelta(days=1)
WAIT = timedelta(seconds=1)
# A yes may be older than our sending by so much: the channel does not say when it took the prompt.
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
    """Execute, for this message's confirmation. `by_button` proves that the prompt arrived."""

    message: MessageId
    by_button: bool


@dataclass(frozen=True, slots=True)
class Declined:
    """A no: cleared, with a short acknowledgement."""


@dataclass(frozen=True, slots=True)
class Recheck:
    """A yes that came too late: check again and ask again, without a model call."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """Nobody knows whether the prompt arrived: it is asked once more."""


@dataclass(frozen=True, slots=True)
class WaitForPrompt:
    """The prompt is on its way: decided when that is settled."""


@dataclass(frozen=True, slots=True)
class PromptIsTheAnswer:
    """The words are older than the prompt; nothing more is said."""


@dataclass(frozen=True, slots=True)
class NoLongerOpen:
    """A button of a request that is not open; the present one stays."""


@dataclass(frozen=True, slots=True)
class NewRequest:
    """The words are for the engine; `clears` the action they do not confirm."""

    clears: bool


Meeting = (
    Confirmed | Declined | Recheck | Repeat | WaitForPrompt | PromptIsTheAnswer | NoLongerOpen | NewRequest
)


def meet(pending: Pending | None, taken: Taken, answer: Answer) -> Meeting:
    """What the turn means to the pending action, if there is one."""
    if taken.button is not None:
        return _press(pending, taken)
    if pending is None:
        return NewRequest(clears=False)
    if any(one.quoted or one.is_captioned for one in taken.messages):
        return NewRequest(clears=True)
    match answer:
        case Answer.NO:
            return Declined()
        case Answer.YES:
            return _yes(pending, taken)
        case _:
            return NewRequest(clears=True)


def _press(pending: Pending | None, taken: Taken) -> Meeting:
    press = taken.button
    assert press is not None, "asked of a turn that is a press"
    button = Button.decode(press.button or "")
    if pending is None or button is None or button.action != pending.id or button.step != 1:
        return NoLongerOpen()
    if button.press is Press.CANCEL:
        return Declined()
    if pending.prompt_state in (PromptState.DRAFT, PromptState.QUEUED):
        return PromptIsTheAnswer()  # nobody has seen that button: counted, ignored
    return _in_time(pending, taken, by_button=True)


def _yes(pending: Pending, taken: Taken) -> Meeting:
    older = taken.first_seq <= pending.at_seq
    match pending.prompt_state:
        case PromptState.QUEUED:
            return WaitForPrompt() if older else NewRequest(clears=True)
        case PromptState.DRAFT:
            return PromptIsTheAnswer() if older else NewRequest(clears=True)
        case PromptState.SENDING:
            return WaitForPrompt()
        case PromptState.UNKNOWN:
            return Repeat()
        case PromptState.SENT:
            return _in_time(pending, taken, by_button=False)


def _in_time(pending: Pending, taken: Taken, *, by_button: bool) -> Meeting:
    """Whether the confirmation came after the prompt was sent, by seq first, and within its fifteen minutes."""
    if pending.at_send_seq is None or pending.sent_at is None or taken.first_seq <= pending.at_send_seq:
        return PromptIsTheAnswer()
    first, last = taken.messages[0], taken.messages[-1]
    if not by_button and first.channel_at < _second(pending.sent_at - CHANNEL_CLOCK_SLACK):
        return PromptIsTheAnswer()
    age = _said_at(last.channel_at, last.received_at, sent_at=pending.sent_at) - pending.sent_at
    if age <= VALID_FOR:
        return Confirmed(last.id, by_button)
    return Recheck() if age <= RECHECKED_FOR else NewRequest(clears=True)


def _said_at(channel_at: datetime, received_at: datetime, *, sent_at: datetime) -> datetime:
    """The channel's time where it lies between the sending and our receipt: a backlog of ours expires no timely yes."""
    return channel_at if sent_at <= channel_at <= received_at else received_at


def _second(at: datetime) -> datetime:
    return at.replace(microsecond=0)
