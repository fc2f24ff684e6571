"""What follows from a provider's error, by its kind: one table for all providers."""

from datetime import timedelta
from typing import assert_never

from services.dispatch.core.outcome import AccountRefused, OptedOut, Outcome, Refused, Throttled, WindowClosed
from shared.channels.troubles import Trouble

PAIR_WAIT_BASE_S = 4  # WhatsApp asks for 4^n seconds after the n-th refusal to one person
SPAM_PAUSE = timedelta(hours=1)


def outcome_of(
    trouble: Trouble, *, reason: str, tries: int = 0, retry_after: timedelta | None = None
) -> Outcome:
    """The outcome of a send that a provider answered with an error. `tries`: attempts before this one; `retry_after`: what the
    provider itself says. All of these were surely not taken."""
    match trouble:
        case Trouble.CREDENTIALS | Trouble.ACCOUNT:
            return AccountRefused(reason=reason)
        case Trouble.BRIEFLY_DOWN:
            return Throttled(reason=reason, retry_after=retry_after)
        case Trouble.RATE:
            return Throttled(
                reason=reason, retry_after=retry_after or timedelta(seconds=1), whole_account=True
            )
        case Trouble.PAIR_RATE:
            wait = timedelta(seconds=PAIR_WAIT_BASE_S ** min(tries, 5))
            return Throttled(reason=reason, retry_after=retry_after or wait, whole_person=True)
        case Trouble.SPAM_LIMIT:
            return Throttled(reason=reason, retry_after=SPAM_PAUSE, whole_account=True)
        case Trouble.WINDOW_CLOSED:
            return WindowClosed(reason=reason)
        case Trouble.OPTED_OUT:
            return OptedOut(reason=reason)
        case Trouble.RECIPIENT | Trouble.CONTENT | Trouble.CONFIGURATION | Trouble.OUR_BUG | Trouble.UNKNOWN:
            return Refused(reason=reason, trouble=trouble)
        case _:
            assert_never(trouble)
