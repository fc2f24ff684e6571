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
    gives_up_as: str = "draft"


def settle(outcome: Outcome, *, last_part: bool, idempotent: bool, backoff: timedelta) -> Settled:
    """The pure transition of one attempt. `backoff`: how long to wait when the provider does not say."""
    match outcome:
        case Accepted(provider_id=provider_id):
            state = "sent" if last_part else None
            return Settled(attempt="sent", rank=SENT_RANK, outbound=state, provider_id=provider_id)
        case Refused(reason=reason):
            return Settled(attempt="refused", rank=0, outbound="draft", reason=f"send_failed: {reason}")
        case AccountRefused(reason=reason):
            return Settled(
                attempt="refused",
                rank=0,
                outbound="queued",
                reason=f"send_failed: {reason}",
                retry_after=BACKOFF_MAX,
            )
        case Throttled(reason=reason, retry_after=said):
            return Settled(
                attempt="throttled",
                rank=0,
                outbound="queued",
                reason=f"send_failed: {reason}",
                retry_after=max(backoff, said or timedelta()),
            )
        case OptedOut(reason=reason):
            return Settled(attempt="refused", rank=0, outbound="discarded", reason=f"opted_out: {reason}")
        case WindowClosed(reason=reason):
            return Settled(
                attempt="refused",
                rank=0,
                outbound="queued",
                reason=f"window_closed: {reason}",
                retry_after=timedelta(),
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


def backoff(tries: int, *, chance: float) -> timedelta:
    """Exponential with jitter: 1 s, 2 s, 4 s, … 30 s, each times 0.5 to 1. `chance` is uniform in [0, 1)."""
    full: timedelta = min(BACKOFF_FIRST * int(2 ** min(tries, 10)), BACKOFF_MAX)
    return full * (0.5 + chance / 2)
