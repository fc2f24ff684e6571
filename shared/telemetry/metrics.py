"""Every metric of the product, declared once: what it counts, in which unit, by which bounded labels.

No label ever holds a customer, a conversation or free text. `business` is the slug of the first 200 seen, then `other`.
"""

import re
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.platform_collector import PlatformCollector

BUSINESSES_MAX = 200
_INNER_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The metrics of one process, on a registry of its own."""

    def __init__(self, *, process: bool = True) -> None:
        self.registry = registry = CollectorRegistry()
        if process:
            ProcessCollector(registry=registry)
            PlatformCollector(registry=registry)
        self._businesses: set[str] = set()

        self.webhooks = Counter(
            "leeway_webhooks_total", "Requests at webhook URLs by what was answered.", ["channel", "outcome"], registry=registry
        )  # fmt: skip
        self.parts_passed_over = Counter(
            "leeway_webhook_parts_passed_over_total",
            "Parts of webhooks that meant nothing to us.",
            ["channel"],
            registry=registry,
        )
        self.parts_misaddressed = Counter(
            "leeway_webhook_parts_misaddressed_total",
            "Messages and statuses in signed webhooks that were for another business's address.",
            ["channel"],
            registry=registry,
        )
        self.messages_stored = Counter(
            "leeway_messages_stored_total", "New inbound messages committed.", registry=registry
        )
        self.statuses_held = Counter(
            "leeway_statuses_held_total", "Statuses whose send was not known yet.", registry=registry
        )
        self.messages_judged = Counter(
            "leeway_messages_judged_total",
            "Messages judged, by verdict and guard reason.",
            ["business", "verdict", "reason"],
            registry=registry,
        )
        self.turns = Counter(
            "leeway_turns_total", "Turns ended, by outcome.", ["business", "outcome"], registry=registry
        )
        self.turn_seconds = Histogram(
            "leeway_turn_seconds", "From the claim of a turn to its commit.", ["engine"], buckets=SECONDS, registry=registry
        )  # fmt: skip
        self.turns_under_way = Gauge(
            "leeway_turns_under_way", "Turns this process is working on.", registry=registry
        )
        self.turns_reclaimed = Counter(
            "leeway_turns_reclaimed_total",
            "Turns taken up again after a worker lost them.",
            registry=registry,
        )
        self.llm_tokens = Counter(
            "leeway_llm_tokens_total",
            "Tokens billed.",
            ["business", "provider", "model", "engine", "iteration", "kind"],
            registry=registry,
        )
        self.llm_cost_usd = Counter(
            "leeway_llm_cost_usd_total",
            "US dollars billed for model calls of known price.",
            ["business", "provider", "model", "engine", "iteration"],
            registry=registry,
        )
        self.llm_seconds = Histogram(
            "leeway_llm_latency_seconds",
            "Time to a model's answer or failure, one call.",
            ["provider", "model", "engine", "iteration"],
            buckets=SECONDS,
            registry=registry,
        )
        self.llm_failures = Counter(
            "leeway_llm_failures_total", "Failed model calls by kind.", ["provider", "model", "reason"], registry=registry
        )  # fmt: skip
        self.fallbacks = Counter(
            "leeway_fallbacks_total", "Fixed replies instead of silence.", ["reason"], registry=registry
        )
        self.blocked_claims = Counter(
            "leeway_blocked_claims_total",
            "Replies held back that claimed what no receipt shows.",
            ["business"],
            registry=registry,
        )
        self.handoffs = Counter(
            "leeway_handoffs_total",
            "Conversations handed to people.",
            ["business", "reason"],
            registry=registry,
        )
        self.handoffs_waiting = Counter(
            "leeway_handoffs_waiting_total",
            "Handoffs that nobody claimed in time: operators reminded, customers told.",
            ["business", "state"],
            registry=registry,
        )
        self.reminders = Counter(
            "leeway_reminders_total",
            "Reminders queued, and withdrawn before they left.",
            ["business", "state"],
            registry=registry,
        )
        self.confirmations = Counter(
            "leeway_confirmations_total",
            "What came of answers to a pending action.",
            ["outcome"],
            registry=registry,
        )
        self.sends = Counter(
            "leeway_sends_total", "Sends by outcome.", ["channel", "outcome"], registry=registry
        )
        self.sends_refused = Counter(
            "leeway_sends_refused_total",
            "Sends that a provider refused for good, by what kind of trouble.",
            ["channel", "trouble"],
            registry=registry,
        )
        self.accounts_disabled = Counter(
            "leeway_accounts_disabled_total",
            "Channel accounts disabled because their provider refused every send.",
            ["channel"],
            registry=registry,
        )
        self.courtesies = Counter(
            "leeway_courtesies_total",
            "Side calls (typing, acknowledged presses) by what came of them.",
            ["channel", "outcome"],
            registry=registry,
        )
        self.outbounds = Counter(
            "leeway_outbounds_total", "What became of replies at dispatch.", ["state", "reason"], registry=registry
        )  # fmt: skip
        self.batch_size = Histogram(
            "leeway_batch_size",
            "Items worked by one statement.",
            ["stage"],
            buckets=(1, 2, 4, 8, 16, 32, 64, 100, 200),
            registry=registry,
        )
        self.given_up = Counter(
            "leeway_dead_letters_total", "Work that ended among the dead.", ["stage"], registry=registry
        )

        for metric in vars(self).values():
            if isinstance(metric, MetricWrapperBase):  # labels are bounded, and looking one up takes a lock
                vars(metric)["labels"] = cache(metric.labels)

    def business(self, slug: str) -> str:
        """The slug as a label: bounded, so that a thousand tenants do not make a million series."""
        if slug in self._businesses:
            return slug
        if len(self._businesses) < BUSINESSES_MAX:
            self._businesses.add(slug)
            return slug
        return "other"


def kind_of(value: object) -> str:
    """The name of a value's class as a label: of a closed union, which member it is."""
    return _INNER_CAPITAL.sub("_", type(value).__name__).lower()
