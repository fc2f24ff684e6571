"""How long an answer may give way to a customer who goes on writing. Pure; agent and dispatch decide by it."""

from datetime import datetime, timedelta
from typing import Final

SUPERSEDED_IN_ROW_MAX: Final = 2
UNANSWERED_MAX: Final = timedelta(seconds=30)


def may_give_way(*, superseded_in_row: int, unanswered_since: datetime | None, now: datetime) -> bool:
    """Whether the next turn may answer both: at most twice in a row, and not after 30 s of waiting."""
    if superseded_in_row >= SUPERSEDED_IN_ROW_MAX:
        return False
    return unanswered_since is None or now - unanswered_since <= UNANSWERED_MAX
