"""What an engine's work on a turn came to. `services.agent.answering` makes a commit of it."""

from dataclasses import dataclass, field
from enum import StrEnum

from services.agent.ports import CallRecord, NewAction, ToolRecord, Trace


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
    NO_PACK = "no_pack"
    ACTION_UNKNOWN = "action_unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class SoFar:
    """What the work did on its way: tool calls that are not stored yet, all that the evidence needs, and whether a tool
    at level 0 was called."""

    unstored: tuple[ToolRecord, ...] = ()
    trace: Trace = field(default_factory=Trace)
    level_0: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The model's reply. Its call may still be open: the commit closes it. `unbacked`: it claims what no receipt shows."""

    text: str
    so_far: SoFar
    last_call: CallRecord | None  # None: it was stored by an earlier attempt
    unbacked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Asks:
    """A checked action waits for a person; its summary is worded by the system."""

    action: NewAction
    so_far: SoFar


@dataclass(frozen=True, slots=True, kw_only=True)
class HandsOver:
    """The model gives the conversation to people."""

    so_far: SoFar


@dataclass(frozen=True, slots=True, kw_only=True)
class Falls:
    """No usable answer: the fixed reply and a handoff."""

    reason: FallbackReason
    so_far: SoFar = field(default_factory=SoFar)
    last_call: CallRecord | None = None  # still open: the commit closes it


@dataclass(frozen=True, slots=True, kw_only=True)
class Overtaken:
    """The customer wrote again and nothing was done yet: the next turn sees both."""

    so_far: SoFar = field(default_factory=SoFar)


@dataclass(frozen=True, slots=True)
class Stopped:
    """The turn is no longer ours, or no longer allowed: nothing is written."""


Outcome = Said | Asks | HandsOver | Falls | Overtaken | Stopped
