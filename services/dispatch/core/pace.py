"""How many sends an account's pace allows, and when it allows the rest: a theoretical arrival time that each send moves on."""

import math
from collections import Counter
from datetime import timedelta

from services.dispatch.core.delivery import Decision, Send, Snapshot, Wait
from shared.ids import AccountId


class Pacer:
    """Spreads the sends of one batch: of an account as many go at once as its burst leaves, the others one after another."""

    def __init__(self) -> None:
        self._taken: Counter[AccountId] = Counter()

    def pace(self, reply: Snapshot, decision: Decision) -> Decision:
        """The decision, or that the account's pace does not allow it yet. To be asked in the order that sends should have."""
        each = reply.traits.per_account
        if not isinstance(decision, Send) or not each:
            return decision
        ahead = max((reply.account_next_at or reply.now) - reply.now, timedelta())
        before = (
            math.ceil(ahead / each) + self._taken[reply.account]
        )  # sends that the pace has to get over with
        self._taken[reply.account] += 1
        too_many = before + 1 - reply.traits.account_burst
        return Wait(reply.now + too_many * each) if too_many > 0 else decision
