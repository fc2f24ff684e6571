"""Metrics are declared once, with a meaning, and their labels stay few whatever customers and tenants do."""

from prometheus_client import generate_latest

from services.agent.core.pending import PromptIsTheAnswer
from services.dispatch.core.outcome import Accepted
from shared.telemetry.metrics import BUSINESSES_MAX, Metrics, kind_of

LABELS_ALLOWED = {
    "business", "channel", "outcome", "verdict", "reason", "engine", "provider", "model", "iteration", "kind", "state", "stage",
    "trouble",
}  # fmt: skip


def test_businesses_beyond_the_bound_are_other() -> None:
    metrics = Metrics(process=False)
    named = [metrics.business(f"business-{n}") for n in range(BUSINESSES_MAX + 50)]
    assert named[:BUSINESSES_MAX] == [f"business-{n}" for n in range(BUSINESSES_MAX)]
    assert set(named[BUSINESSES_MAX:]) == {"other"}
    assert metrics.business("business-3") == "business-3"


def test_every_metric_is_named_as_ours_says_what_it_is_and_has_bounded_labels() -> None:
    metrics = Metrics(process=False)
    collectors = list(metrics.registry._collector_to_names)
    assert len(collectors) > 10
    for collector in collectors:
        assert collector._name.startswith("leeway_")
        assert collector._documentation.endswith(".")
        assert set(collector._labelnames) <= LABELS_ALLOWED


def test_a_process_shows_its_metrics_as_prometheus_reads_them() -> None:
    metrics = Metrics()
    metrics.webhooks.labels("sim", "200").inc()
    shown = generate_latest(metrics.registry).decode()
    assert 'leeway_webhooks_total{channel="sim",outcome="200"} 1.0' in shown
    assert "process_resident_memory_bytes" in shown


def test_a_member_of_a_union_is_a_label_in_words() -> None:
    assert kind_of(Accepted(provider_id=None)) == "accepted"
    assert kind_of(PromptIsTheAnswer()) == "prompt_is_the_answer"
