"""Every label of every metric, and the values it may have. No label ever holds a customer, a conversation or free text.

What a stage decides by is listed here once more, since nothing below the stages knows their enums:
tests/unit/test_metrics.py holds each list against the code that it is of.
"""

from typing import Final

from shared.channels.traits import ChannelName
from shared.channels.troubles import Trouble
from shared.llm.port import FailureKind
from shared.messages import Verdict
from shared.telemetry.metrics.declared import ALL, Label
from shared.tickets import Stage

BUSINESSES_MAX: Final = 200
ITERATIONS: Final = ("1", "2", "3", "4")
OTHER: Final = "other"
ALONE: Final = "up"  # all services in one process
UNKNOWN: Final = "unknown"

BUSINESS: Final = Label("business", bound=f"slugs: the first {BUSINESSES_MAX}, then `{OTHER}`")
CHANNEL: Final = Label("channel", (*ChannelName, UNKNOWN))
STATUS: Final = Label("outcome", ("200", "400", "401", "403", "404", "405", "413", "500", "503"))
STAGE: Final = Label("stage", tuple(Stage))
STEP: Final = Label("stage", ("ingest", *Stage))
SERVICE: Final = Label("service", (*ALL, ALONE))
VERSION: Final = Label("version", bound="the release's own")

# Models
ENGINE: Final = Label("engine", ("tool_loop", "planner"))
PROVIDER: Final = Label("provider", bound="as configured, one a process")
MODEL: Final = Label("model", bound="as configured, one a process")
ITERATION: Final = Label("iteration", ITERATIONS)
TOKENS: Final = Label("kind", ("input", "cached", "output", "reasoning"))
CALL_FAILURE: Final = Label("reason", tuple(FailureKind))
CAP: Final = Label("cap", ("turn", "conversation", "day"))

# The guard
VERDICT: Final = Label("verdict", tuple(Verdict))
GUARD_REASONS: Final = (
    "duplicate", "system_message", "reaction", "edit", "deletion", "from_me", "owner_takeover", "self_echo", "group",
    "opt_out", "opt_in", "opted_out", "channel_disabled", "autonomy_off", "handoff_active", "handoff_requested",
    "loop", "rate_limited", "stale", "unsupported", "budget", "processing_failed",
)  # fmt: skip
GUARD_REASON: Final = Label("reason", ("", *GUARD_REASONS))

# The agent
FALLBACKS: Final = (
    "calls_used", "empty_answer", "refused", "cut_off", "model_failed", "out_of_time", "budget", "prompt_too_long",
    "no_pack", "action_unknown",
)  # fmt: skip
EXECUTIONS: Final = (
    "executed", "next_step", "to_operator", "changed", "refused", "not_permitted", "unknown", "stopped",
)  # fmt: skip
MEETINGS: Final = (
    "declined", "withdrawn", "still_waiting", "recheck", "repeat", "wait_for_prompt", "prompt_is_the_answer",
    "no_longer_open", "new_request",
)  # fmt: skip
TURN_OUTCOMES: Final = (
    "reply", "asked", "handed_over", "overtaken", "deleted", "edited", "unsupported", "unsupported_again",
    "autonomy_off", "processing_failed", "still_waiting", "prompt_is_the_answer", "decided_too_late",
    "declined_by_customer", "declined_by_operator", "approval_expired", "expired", "repeated", "pressed_again",
    "no_longer_open", "reminder_kept",
)  # fmt: skip
TURN_OUTCOME: Final = Label("outcome", tuple(sorted({*TURN_OUTCOMES, *FALLBACKS, *EXECUTIONS})))
FALLBACK: Final = Label("reason", FALLBACKS)
CONFIRMATION: Final = Label("outcome", (*MEETINGS, *EXECUTIONS))
HANDOFF_REASON: Final = Label(
    "reason", tuple(sorted({*GUARD_REASONS, *FALLBACKS, "model", "not_permitted", "operator"}))
)
UNCLAIMED: Final = Label("state", ("reminded", "told"))
REMINDER: Final = Label("state", ("queued", "withdrawn"))
GATE_DECISION: Final = Label("decision", ("allow", "ask", "deny", "refuse"))
GATE_CODES: Final = (
    "unknown_tool", "not_permitted_at_level", "autonomy_off", "one_action_at_a_time", "waiting_for_operator",
    "declined_by_customer", "declined_by_operator", "bad_arguments", "check_failed", "prompt_too_long",
)  # fmt: skip
REFUSED_BY_TOOL: Final = "tool"
GATE_REASON: Final = Label("reason", ("", *GATE_CODES, REFUSED_BY_TOOL))

# Dispatch
SENDS: Final = (
    "accepted", "refused", "throttled", "no_answer", "account_refused", "opted_out", "window_closed", "given_back",
)  # fmt: skip
SEND: Final = Label("outcome", SENDS)
TROUBLE: Final = Label("trouble", tuple(Trouble))
COURTESY: Final = Label("outcome", ("made", "failed", "dropped"))
OUTBOUND_STATE: Final = Label("state", ("draft", "superseded", "discarded", "queued"))
DRAFT_REASONS: Final = (
    "suggest", "mode_off", "late", "level_0", "unbacked_claim", "handoff", "send_failed", "may_have_arrived",
    "processing_failed", "window_closed",
)  # fmt: skip
OUTBOUND_REASON: Final = Label("reason", ("", "opted_out", "waits", *DRAFT_REASONS))

# What was tried again: a model call by its failure, a send by its outcome, a batch that was repeated item by item
BATCH: Final = "batch"
RETRY: Final = Label(
    "reason",
    (*FailureKind, "throttled", "no_answer", "account_refused", "window_closed", "given_back", BATCH),
)

# What is read from the record
CLAIMED: Final = Label("claimed", ("yes", "no"))
ACCOUNT_STATE: Final = Label("state", ("on", "disabled"))

# A process
PACKET: Final = Label("outcome", ("published", "not_published", "taken", "dead"))
POOL: Final = Label("state", ("busy", "idle"))
