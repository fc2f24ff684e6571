"""Accounts whose webhooks are all refused. A stranger who tries comes between good ones; a wrong secret or clock lets none by."""

from dataclasses import dataclass
from typing import Final

from shared.ids import AccountId

IN_A_ROW: Final = 4  # on a quiet account a stranger's few count too: better than a clinic that nobody hears
WITHIN_S: Final = 3600.0  # the next one comes within this time, or nobody knows any more
TELL_EVERY_S: Final = 600.0


@dataclass(slots=True)
class _Row:
    channel: str
    in_a_row: int = 0
    last_s: float = 0.0
    told_s: float | None = None


class Refusals:
    """What one process refused, by account. Times are of one monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._rows: dict[AccountId, _Row] = {}

    def refused(self, account: AccountId, channel: str, *, now_s: float) -> int | None:
        """How many in a row, if it is time to say so: when the account becomes unheard, and else now and then."""
        row = self._rows.setdefault(account, _Row(channel))
        row.in_a_row = row.in_a_row + 1 if now_s - row.last_s <= WITHIN_S else 1
        row.last_s = now_s
        told = row.told_s is not None and now_s - row.told_s < TELL_EVERY_S
        if told and row.in_a_row != IN_A_ROW:
            return None
        row.told_s = now_s
        return row.in_a_row

    def took(self, account: AccountId) -> None:
        if (row := self._rows.get(account)) is not None:
            row.in_a_row = 0

    def accounts(self, channel: str, *, now_s: float) -> int:
        """Of that channel's, how many have had nothing but refusals for a while."""
        return sum(
            row.channel == channel and row.in_a_row >= IN_A_ROW and now_s - row.last_s <= WITHIN_S
            for row in self._rows.values()
        )
