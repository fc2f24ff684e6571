"""What is read from the record now and then: who waits for people, what is overdue, what lies among the dead."""

from typing import Final

from shared.telemetry.metrics.declared import looked
from shared.telemetry.metrics.labels import ACCOUNT_STATE, BUSINESS, CHANNEL, CLAIMED, STEP

DRAFTS: Final = looked("leeway_drafts_waiting", "Drafts that wait for an operator.", BUSINESS, unit="drafts")
OLDEST_DRAFT: Final = looked(
    "leeway_drafts_oldest_seconds", "Age of the oldest draft that waits.", BUSINESS, unit="seconds"
)
APPROVALS: Final = looked(
    "leeway_approvals_waiting", "Actions that wait for an operator's approval.", BUSINESS, unit="actions"
)
OLDEST_APPROVAL: Final = looked(
    "leeway_approvals_oldest_seconds",
    "How long the oldest of them has waited for it.",
    BUSINESS,
    unit="seconds",
)
HANDOFFS: Final = looked(
    "leeway_handoffs_open",
    "Conversations in people's hands, claimed by one or not.",
    BUSINESS,
    CLAIMED,
    unit="conversations",
)
OLDEST_HANDOFF: Final = looked(
    "leeway_handoffs_oldest_seconds", "Age of the oldest of them.", BUSINESS, CLAIMED, unit="seconds"
)
OWED_AGE: Final = looked(
    "leeway_owed_seconds", "For how long the oldest step owed is overdue; 0: none is.", STEP, unit="seconds"
)
OWED: Final = looked("leeway_owed", "Steps that are overdue, counted up to 10,000.", STEP, unit="steps")
DEAD: Final = looked(
    "leeway_dead_unsettled", "Failed work that nobody settled, counted up to 10,000.", STEP, unit="items"
)
ACCOUNTS: Final = looked(
    "leeway_channel_accounts",
    "Channel accounts; disabled: switched off because their provider refused every send, or by a person.",
    CHANNEL,
    ACCOUNT_STATE,
    unit="accounts",
)
LOOKED_AT: Final = looked(
    "leeway_looked_timestamp_seconds",
    "When this was last read from the record. What is older than a minute is not shown.",
    unit="seconds since 1970",
)

LOOKED: Final = (
    DRAFTS, OLDEST_DRAFT, APPROVALS, OLDEST_APPROVAL, HANDOFFS, OLDEST_HANDOFF, OWED_AGE, OWED, DEAD, ACCOUNTS, LOOKED_AT,
)  # fmt: skip
