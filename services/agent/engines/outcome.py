"""What an engine's work on a turn came to. The handler makes a commit of it."""

from dataclasses import dataclass
from enum import StrEnum

from services.agent.ports import CallRecord, NewAction, ToolRecord


class FallbackReason(StrEnum):
    """Why a fixed, honest reply goes out instead of the model's."""

    CALLS_USED = "calls_used"
    EMPTY_ANSWER = "empty_answer"
    REFUSED = "refused"
    CUT_OFF = "cut_off"
    MODEL_FAILED = "model_failed"
    OUT_OF_TIME = "out_of_time"
    BUDGET = "budget"
    PROMPT_TOO_LONG = "prompt_too_long"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The model's reply. Its call may still be open: the commit closes it."""

    text: str
    last_call: CallRecord | None  # None: it was stored by an earlier attempt
    tools: tuple[ToolRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asks:
    """A checked action waits for the customer; `prompt` is worded by the system."""

    action: NewAction
    prompt: str
    tools: tuple[ToolRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HandsOver:
    """The model gives the conversation to people."""

    tools: tuple[ToolRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Falls:
    """No usable answer: the fixed reply and a handoff."""

    reason: FallbackReason
    tools: tuple[ToolRecord, ...] = ()
    last_call: CallRecord | None = None  # still open: the commit closes it


@dataclass(frozen=True, slots=True)
class Overtaken:
    """The customer wrote again and nothing was said yet: the next turn sees both."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The turn is no longer ours, or no longer allowed: nothing is written."""


Outcome = Said | Asks | HandsOver | Falls | Overtaken | Stopped
