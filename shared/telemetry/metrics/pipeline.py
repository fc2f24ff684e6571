"""A message's way through the stages, in numbers."""

from typing import Final

from shared.telemetry.metrics.declared import (
    AGENT,
    DISPATCH,
    FED,
    GUARD,
    INGEST,
    counter,
    gauge,
    histogram,
)
from shared.telemetry.metrics.labels import (
    BUSINESS,
    CHANNEL,
    CONFIRMATION,
    COURTESY,
    ENGINE,
    FALLBACK,
    GATE_DECISION,
    GATE_REASON,
    GUARD_REASON,
    HANDOFF_REASON,
    OUTBOUND_REASON,
    OUTBOUND_STATE,
    REMINDER,
    RETRY,
    SEND,
    STAGE,
    STATUS,
    STEP,
    TROUBLE,
    TURN_OUTCOME,
    UNCLAIMED,
    VERDICT,
)

TURN_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
WEBHOOK_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
OVERHEAD_S: Final = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5)
WAIT_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
END_TO_END_S: Final = (0.1, 0.25, 0.5, 1, 2, 3, 4, 5, 7.5, 10, 15, 30, 60, 300, 1800)
ITEMS: Final = (1, 2, 4, 8, 16, 32, 64, 100, 200)


class Arriving:
    """Ingest."""

    webhooks = counter(
        "leeway_webhooks_total",
        "Requests at webhook URLs by what was answered.",
        CHANNEL,
        STATUS,
        unit="requests",
        of=INGEST,
    )
    accounts_refused = gauge(
        "leeway_webhook_accounts_refused",
        "Accounts of which this process refused four webhooks or more for their signature or time, and took none since.",
        CHANNEL,
        unit="accounts",
        of=INGEST,
    )
    webhook_seconds = histogram(
        "leeway_webhook_seconds",
        "From a webhook request to its answer.",
        CHANNEL,
        unit="seconds",
        of=INGEST,
        buckets=WEBHOOK_S,
    )
    parts_passed_over = counter(
        "leeway_webhook_parts_passed_over_total",
        "Parts of webhooks that meant nothing to us.",
        CHANNEL,
        unit="parts",
        of=INGEST,
    )
    parts_misaddressed = counter(
        "leeway_webhook_parts_misaddressed_total",
        "Messages and statuses in signed webhooks that were for another business's address.",
        CHANNEL,
        unit="parts",
        of=INGEST,
    )
    messages_stored = counter(
        "leeway_messages_stored_total", "New inbound messages committed.", unit="messages", of=INGEST
    )
    statuses_held = counter(
        "leeway_statuses_held_total", "Statuses whose send was not known yet.", unit="statuses", of=INGEST
    )


class Judging:
    """The guard."""

    messages_judged = counter(
        "leeway_messages_judged_total",
        "Messages judged, by verdict and guard reason; a plain message has no reason.",
        BUSINESS,
        VERDICT,
        GUARD_REASON,
        unit="messages",
        of=GUARD,
    )


class Answering:
    """The agent."""

    turns = counter(
        "leeway_turns_total", "Turns ended, by outcome.", BUSINESS, TURN_OUTCOME, unit="turns", of=AGENT
    )
    turn_seconds = histogram(
        "leeway_turn_seconds",
        "From the claim of a turn to its commit.",
        ENGINE,
        unit="seconds",
        of=AGENT,
        buckets=TURN_S,
    )
    turn_overhead_seconds = histogram(
        "leeway_turn_overhead_seconds",
        "A turn's time beyond its model calls.",
        ENGINE,
        unit="seconds",
        of=AGENT,
        buckets=OVERHEAD_S,
    )
    turns_under_way = gauge(
        "leeway_turns_under_way", "Turns this process is working on.", unit="turns", of=AGENT
    )
    turns_reclaimed = counter(
        "leeway_turns_reclaimed_total",
        "Turns taken up again after a worker lost them.",
        unit="turns",
        of=AGENT,
    )
    gate_decisions = counter(
        "leeway_gate_decisions_total",
        "Calls that a model asked for, by what became of them and why; what is allowed or asked has no reason.",
        GATE_DECISION,
        GATE_REASON,
        unit="calls",
        of=AGENT,
    )
    confirmations = counter(
        "leeway_confirmations_total",
        "What came of answers to a pending action, and of approvals.",
        CONFIRMATION,
        unit="answers",
        of=AGENT,
    )
    fallbacks = counter(
        "leeway_fallbacks_total", "Fixed replies instead of silence.", FALLBACK, unit="replies", of=AGENT
    )
    blocked_claims = counter(
        "leeway_blocked_claims_total",
        "Replies held back that claimed what no receipt shows.",
        BUSINESS,
        unit="replies",
        of=AGENT,
    )
    handoffs = counter(
        "leeway_handoffs_total",
        "Conversations handed to people.",
        BUSINESS,
        HANDOFF_REASON,
        unit="conversations",
        of=(*GUARD, *AGENT),
    )
    handoffs_waiting = counter(
        "leeway_handoffs_waiting_total",
        "Handoffs that nobody claimed in time: operators reminded, customers told.",
        BUSINESS,
        UNCLAIMED,
        unit="handoffs",
        of=AGENT,
    )
    reminders = counter(
        "leeway_reminders_total",
        "Reminders queued, and withdrawn before they left.",
        BUSINESS,
        REMINDER,
        unit="reminders",
        of=AGENT,
    )


class Sending:
    """Dispatch."""

    sends = counter("leeway_sends_total", "Sends by outcome.", CHANNEL, SEND, unit="sends", of=DISPATCH)
    sends_refused = counter(
        "leeway_sends_refused_total",
        "Sends that a provider refused for good, by what kind of trouble.",
        CHANNEL,
        TROUBLE,
        unit="sends",
        of=DISPATCH,
    )
    end_to_end_seconds = histogram(
        "leeway_end_to_end_seconds",
        "From the receipt of the oldest message that a reply answers until its provider took it; no drafts that a person sent.",
        CHANNEL,
        unit="seconds",
        of=DISPATCH,
        buckets=END_TO_END_S,
    )
    accounts_disabled = counter(
        "leeway_accounts_disabled_total",
        "Channel accounts disabled because their provider refused every send.",
        CHANNEL,
        unit="accounts",
        of=DISPATCH,
    )
    courtesies = counter(
        "leeway_courtesies_total",
        "Side calls (typing, acknowledged presses) by what came of them.",
        CHANNEL,
        COURTESY,
        unit="calls",
        of=DISPATCH,
    )
    outbounds = counter(
        "leeway_outbounds_total",
        "What became of replies at dispatch that were not sent.",
        OUTBOUND_STATE,
        OUTBOUND_REASON,
        unit="replies",
        of=DISPATCH,
    )


class Staging:
    """What every stage that a queue feeds has."""

    queue_wait_seconds = histogram(
        "leeway_queue_wait_seconds",
        "From when work was due until it was claimed.",
        STAGE,
        unit="seconds",
        of=FED,
        buckets=WAIT_S,
    )
    batch_size = histogram(
        "leeway_batch_size", "Items worked by one statement.", STAGE, unit="items", of=FED, buckets=ITEMS
    )
    retries = counter(
        "leeway_retries_total",
        "Work tried again: model calls, sends, batches repeated item by item.",
        STEP,
        RETRY,
        unit="tries",
        of=(*INGEST, *FED),
    )
    given_up = counter(
        "leeway_dead_letters_total", "Work that ended among the dead.", STAGE, unit="items", of=FED
    )


class Pipeline(Arriving, Judging, Answering, Sending, Staging):
    """All of it."""
