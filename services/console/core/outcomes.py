"""What came of an operator's wish, as closed unions. Pure; `NotPossible` changed nothing."""

from dataclasses import dataclass
from datetime import datetime

from shared.ids import ConversationId, OutboundId

# Nothing was done, and why


@dataclass(frozen=True, slots=True)
class NotFound:
    """There is none of that id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyDecided:
    """Somebody was first."""

    by: str
    what: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedOn:
    """The draft is none any more, and nobody decided that: its state now."""

    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextChanged:
    """The operator saw another text: this is the present one."""

    round: int
    text: str


@dataclass(frozen=True, slots=True)
class OptedOut:
    """The customer wants no messages."""


@dataclass(frozen=True, slots=True)
class NotJudgedYet:
    """A message of the customer came in this very moment: look at it first."""


@dataclass(frozen=True, slots=True)
class CustomerWrote:
    """The customer has written since; the draft answers less than that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestClosed:
    """What the prompt asks about is no longer open: the action's state."""

    state: str


@dataclass(frozen=True, slots=True)
class RequestOver:
    """The prompt waited too long. Its request has ended, and the draft with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunRefused:
    """What the prompt asks about could not be done now."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryChanged:
    """An edited prompt must hold the system's summary, word for word."""

    summary: str


@dataclass(frozen=True, slots=True)
class Blank:
    """There is nothing to read in the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TooLong:
    """More characters than may be."""

    most: int


@dataclass(frozen=True, slots=True)
class MayHaveArrived:
    """It may have reached the customer already: sending it again wants saying so."""


@dataclass(frozen=True, slots=True)
class InHandoff:
    """People answer the conversation: release it first."""


@dataclass(frozen=True, slots=True)
class NotInHandoff:
    """The bot answers the conversation: take it over first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver:
    """It is with people already. `by`: who claimed it."""

    reason: str
    by: str | None
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyClaimed:
    """Somebody else has it."""

    by: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NotWaiting:
    """The action waits for no operator: its state."""

    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeOver:
    """The approval waited until then; what nobody gave is declined."""

    until: datetime


@dataclass(frozen=True, slots=True)
class NotOneLine:
    """A reason is one line, with something to read in it."""


NotPossible = (
    NotFound | AlreadyDecided | MovedOn | TextChanged | OptedOut | NotJudgedYet | CustomerWrote | RequestClosed
    | RequestOver | DryRunRefused | SummaryChanged | Blank | TooLong | MayHaveArrived | InHandoff | NotInHandoff
    | HandedOver | AlreadyClaimed | NotWaiting | TimeOver | NotOneLine
)  # fmt: skip


# Done


@dataclass(frozen=True, slots=True, kw_only=True)
class OnItsWay:
    """The draft, or the reply, is queued."""

    outbound: OutboundId
    edited: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Discarded:
    """The draft never goes out. `ended_request`: what it asked about ended with it."""

    outbound: OutboundId
    ended_request: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The approval is recorded; the agent carries it out."""

    approved: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """The handoff is this operator's."""

    conversation: ConversationId


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """The bot answers again."""

    conversation: ConversationId


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOver:
    """Only people answer from now on. `ended_request`: what waited for the customer's yes is cleared."""

    conversation: ConversationId
    ended_request: bool


Done = OnItsWay | Discarded | Decided | Claimed | Released | TakenOver
Outcome = Done | NotPossible
