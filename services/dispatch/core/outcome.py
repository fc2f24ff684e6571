"""What came of calling a provider, and what follows from it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.channels.troubles import Trouble

RETRIES_FOR = timedelta(minutes=2)
BACKOFF_FIRST = timedelta(seconds=1)
BACKOFF_MAX = timedelta(seconds=30)
SENT_RANK = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The provider has it; `provider_id` is its name for the message, `taken_at` its own time of taking it."""

    provider_id: str | None
    taken_at: datetime | None = None
    segments: int | None = None  # of an SMS: what is paid for


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The provider will never take it; a person must look."""

    reason: str
    trouble: Trouble = Trouble.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttled:
    """Not now: too fast, or briefly down, and surely not accepted."""

    reason: str
    retry_after: timedelta | None = None
    whole_account: bool = False
    whole_person: bool = False  # whatever else is for this person waits as well


@dataclass(frozen=True, slots=True, kw_only=True)
class NoAnswer:
    """The request left and nobody knows what became of it."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRefused:
    """Every send of the account would fail the same way: credentials, a block, a bill. It is off until a person puts it right."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OptedOut:
    """The channel knows that this person wants nothing more of us."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowClosed:
    """The channel takes no free text for this person now."""

    reason: str


@dataclass(frozen=True, slots=True)
class GivenBack:
    """The call did not begin in time; nothing left."""


def without_quotes(reason: str) -> str:
    """A reason as logs may show it: ours up to the colon. What follows are the provider's words, which may quote the message."""
    return reason.partition(": ")[0]


Outcome = Accepted | Refused | Throttled | NoAnswer | AccountRefused | OptedOut | WindowClosed | GivenBack


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """How an attempt is stored. `outbound` None leaves the reply as it is (more parts follow)."""

    attempt: str
    rank: int
    outbound: str | None
    reason: str | None = None
    provider_id: str | None = None
    retry_after: timedelta | None = None
    gives_up_as: str = "draft"  # what a reply that is queued becomes once its time for retries is over
    taken_at: datetime | None = None
    segments: int | None = None
    opts_out: bool = False  # the conversation is opted out
    closes_window: bool = False  # free text is for later than the customer's next message
    person_waits: timedelta | None = None  # whatever else is for this person


def settle(
    outcome: Outcome, *, last_part: bool, idempotent: bool, backoff: timedelta, by_template: bool = False
) -> Settled:
    """The pure transition of one attempt. `backoff`: how long to wait when the provider does not say. `by_template`: it was sent
    the way that a closed window asks for."""
    match outcome:
        case Accepted():
            return Settled(
                attempt="sent",
                rank=SENT_RANK,
                outbound="sent" if last_part else None,
                provider_id=outcome.provider_id,
                taken_at=outcome.taken_at,
                segments=outcome.segments,
            )
        case Refused(reason=reason, trouble=trouble):
            said = f"filtered: {reason}" if trouble is Trouble.CONTENT else reason
            return Settled(attempt="refused", rank=0, outbound="draft", reason=f"send_failed: {said}")
        case AccountRefused(reason=reason):
            return Settled(
                attempt="refused",
                rank=0,
                outbound="queued",
                reason=f"send_failed: {reason}",
                retry_after=BACKOFF_MAX,
                gives_up_as="queued",
            )
        case Throttled():
            return _throttled(outcome, backoff)
        case OptedOut(reason=reason):
            return Settled(
                attempt="refused", rank=0, outbound="discarded", reason=f"opted_out: {reason}", opts_out=True
            )
        case WindowClosed(reason=reason) if by_template:
            return Settled(attempt="refused", rank=0, outbound="draft", reason=f"send_failed: {reason}")
        case WindowClosed(reason=reason):
            return Settled(
                attempt="refused",
                rank=0,
                outbound="queued",
                reason=f"window_closed: {reason}",
                retry_after=timedelta(),
                gives_up_as="queued",
                closes_window=True,
            )
        case NoAnswer(reason=reason) if idempotent:
            return Settled(
                attempt="retried",
                rank=0,
                outbound="queued",
                reason=reason,
                retry_after=backoff,
                gives_up_as="unknown",
            )
        case NoAnswer(reason=reason):
            return Settled(attempt="unknown", rank=0, outbound="unknown", reason=reason)
        case GivenBack():
            return Settled(attempt="given_back", rank=0, outbound="queued", retry_after=timedelta())


def _throttled(outcome: Throttled, backoff: timedelta) -> Settled:
    """Later, unless that is later than retries go on for: then a person decides."""
    wait = max(backoff, outcome.retry_after or timedelta())
    gives_up = wait > RETRIES_FOR
    return Settled(
        attempt="throttled",
        rank=0,
        outbound="draft" if gives_up else "queued",
        reason=f"send_failed: {outcome.reason}",
        retry_after=None if gives_up else wait,
        person_waits=wait if outcome.whole_person else None,
    )


def backoff(tries: int, *, chance: float) -> timedelta:
    """Exponential with jitter: 1 s, 2 s, 4 s, … 30 s, each times 0.5 to 1. `chance` is uniform in [0, 1)."""
    full: timedelta = min(BACKOFF_FIRST * int(2 ** min(tries, 10)), BACKOFF_MAX)
    return full * (0.5 + chance / 2)
