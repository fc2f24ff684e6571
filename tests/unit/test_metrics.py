"""Metrics are declared once, with a meaning, and their labels stay few whatever customers and tenants do."""

from typing import get_args

import pytest
from prometheus_client import generate_latest

from services.agent.core.gate import Code
from services.agent.core.pending import Meeting, PromptIsTheAnswer
from services.agent.engines.outcome import FallbackReason
from services.agent.engines.tool_loop import CALLS_MAX
from services.agent.ports import Cap
from services.agent.steps import Ended
from services.dispatch.core.delivery import DraftReason
from services.dispatch.core.outcome import Accepted, Outcome
from services.guard.core.verdict import Reason
from shared.broker import Seen
from shared.telemetry.metrics import (
    BUSINESSES_MAX,
    Metrics,
    catalogue,
    channel_of,
    iteration_of,
    kind_of,
    labels,
)
from shared.telemetry.metrics.declared import Declared
from tests.support.metrics_page import PAGE, page

LABELS_ALLOWED = {
    "business", "channel", "outcome", "verdict", "reason", "engine", "provider", "model", "iteration", "kind", "state", "stage",
    "trouble", "decision", "cap", "claimed", "service", "version",
}  # fmt: skip
METRICS = catalogue()


def names_of(union: object) -> set[str]:
    """The members of a closed union, as labels."""
    return {kind_of(object.__new__(member)) for member in get_args(union)}


def test_businesses_beyond_the_bound_are_other() -> None:
    metrics = Metrics(process=False)
    named = [metrics.business(f"business-{n}") for n in range(BUSINESSES_MAX + 50)]
    assert named[:BUSINESSES_MAX] == [f"business-{n}" for n in range(BUSINESSES_MAX)]
    assert set(named[BUSINESSES_MAX:]) == {"other"}
    assert metrics.business("business-3") == "business-3"


@pytest.mark.parametrize("metric", METRICS, ids=[metric.name for metric in METRICS])
def test_a_metric_is_named_as_ours_says_what_it_is_and_has_bounded_labels(metric: Declared) -> None:
    assert metric.name.startswith("leeway_")
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert metric.meaning.endswith(".")
    assert metric.unit
    assert metric.of
    assert set(metric.label_names) <= LABELS_ALLOWED
    for label in metric.labels:
        assert label.values is None or len(set(label.values)) == len(label.values) <= 50
        assert label.values is not None or label.bound


def test_names_are_declared_once() -> None:
    names = [metric.name for metric in METRICS]
    assert len(names) > 40
    assert len(set(names)) == len(names)


def test_what_a_process_has_is_what_is_declared() -> None:
    made = {collector._name for collector in Metrics(process=False).registry._collector_to_names}
    declared = {metric.name.removesuffix("_total") for metric in METRICS}
    assert made <= declared
    assert made >= {"leeway_turns", "leeway_llm_tokens", "leeway_ready"}


# What is listed in the catalogue, and the code that it is of
LISTS = {
    "guard reasons": (labels.GUARD_REASONS, Reason),
    "fallbacks": (labels.FALLBACKS, FallbackReason),
    "executions": (labels.EXECUTIONS, Ended),
    "gate codes": (labels.GATE_CODES, Code),
    "draft reasons": (labels.DRAFT_REASONS, DraftReason),
    "meetings": (labels.MEETINGS, names_of(Meeting) - {"confirmed"}),
    "sends": (labels.SENDS, names_of(Outcome)),
    "caps": (labels.CAP.values or (), Cap),
    "packets": (labels.PACKET.values or (), Seen),
    "iterations": (labels.ITERATIONS, [str(n) for n in range(1, CALLS_MAX + 1)]),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_values_is_what_the_stage_decides_by(name: str) -> None:
    listed, decided = LISTS[name]
    assert set(listed) == set(decided)


def test_a_channel_or_iteration_nobody_declared_is_one_that_was() -> None:
    assert [channel_of(name) for name in ("sim", "carrier-pigeon", "")] == ["sim", "unknown", "unknown"]
    assert [iteration_of(n) for n in (0, 1, 4, 5, 99)] == ["1", "1", "4", "4", "4"]


def test_a_process_shows_its_metrics_as_prometheus_reads_them() -> None:
    metrics = Metrics()
    metrics.webhooks.labels("sim", "200").inc()
    shown = generate_latest(metrics.registry).decode()
    assert 'leeway_webhooks_total{channel="sim",outcome="200"} 1.0' in shown
    assert "process_resident_memory_bytes" in shown


def test_what_a_service_may_count_begins_at_zero_so_that_the_first_is_seen_as_a_rise() -> None:
    metrics = Metrics(process=False)
    metrics.begin("dispatch")
    shown = generate_latest(metrics.registry).decode()
    assert 'leeway_sends_total{channel="sim",outcome="refused"} 0.0' in shown
    assert 'leeway_dead_letters_total{stage="dispatch"} 0.0' in shown
    assert "leeway_webhooks_total{" not in shown, "another service's"
    assert "leeway_turns_total{" not in shown, "its businesses are not known"


def test_what_is_known_of_businesses_and_models_later_begins_at_zero_then() -> None:
    metrics = Metrics(process=False)
    metrics.asks("openai", "gpt-test")
    metrics.begin("agent")
    metrics.business("acme")
    shown = generate_latest(metrics.registry).decode()
    assert 'leeway_llm_failures_total{model="gpt-test",provider="openai",reason="auth"} 0.0' in shown
    assert 'leeway_blocked_claims_total{business="acme"} 0.0' in shown
    assert 'leeway_cap_hits_total{business="acme",cap="day"} 0.0' in shown
    assert "leeway_handoffs_total{" not in shown, "too many reasons for each of many businesses"


@pytest.mark.parametrize("service", labels.SERVICE.values or ())
def test_what_begins_at_zero_is_not_much(service: str) -> None:
    metrics = Metrics(process=False)
    metrics.begin(service)
    begun = [
        line for line in generate_latest(metrics.registry).decode().splitlines() if line.endswith("} 0.0")
    ]
    assert len([line for line in begun if "_bucket" not in line]) < 500


def test_a_member_of_a_union_is_a_label_in_words() -> None:
    assert kind_of(Accepted(provider_id=None)) == "accepted"
    assert kind_of(PromptIsTheAnswer()) == "prompt_is_the_answer"


def test_the_page_of_metrics_is_what_is_declared() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "write it anew: .venv/bin/python -m tests.support.metrics_page"
    )
