"""What models are asked, what it takes and what it costs."""

from shared.telemetry.metrics.declared import AGENT, GUARD, counter, histogram
from shared.telemetry.metrics.labels import (
    BUSINESS,
    CALL_FAILURE,
    CAP,
    ENGINE,
    ITERATION,
    MODEL,
    PROVIDER,
    TOKENS,
)
from shared.telemetry.metrics.pipeline import TURN_S


class Models:
    """Every call, one iteration of a turn each."""

    llm_tokens = counter(
        "leeway_llm_tokens_total",
        "Tokens billed.",
        BUSINESS,
        PROVIDER,
        MODEL,
        ENGINE,
        ITERATION,
        TOKENS,
        unit="tokens",
        of=AGENT,
    )
    llm_cost_usd = counter(
        "leeway_llm_cost_usd_total",
        "Billed for model calls of known price.",
        BUSINESS,
        PROVIDER,
        MODEL,
        ENGINE,
        ITERATION,
        unit="US dollars",
        of=AGENT,
    )
    llm_seconds = histogram(
        "leeway_llm_latency_seconds",
        "Time to a model's answer or failure, one call.",
        PROVIDER,
        MODEL,
        ENGINE,
        ITERATION,
        unit="seconds",
        of=AGENT,
        buckets=TURN_S,
    )
    llm_failures = counter(
        "leeway_llm_failures_total",
        "Failed model calls by kind.",
        PROVIDER,
        MODEL,
        CALL_FAILURE,
        unit="calls",
        of=AGENT,
    )
    cap_hits = counter(
        "leeway_cap_hits_total",
        "Model calls that a cap forbade: in a turn, or beforehand by the guard.",
        BUSINESS,
        CAP,
        unit="calls",
        of=(*GUARD, *AGENT),
    )
