"""What holds a process's series against the catalogue finds what is wrong with them."""

import pytest
from prometheus_client import generate_latest

from shared.telemetry.metrics import Metrics
from tests.support.series import series_of, strays, total

SHOWN = """# TYPE leeway_sends counter
leeway_sends_total{channel="sim",outcome="accepted"} 3
leeway_sends_total{channel="sim",outcome="refused"} 2
# TYPE leeway_turn_seconds histogram
leeway_turn_seconds_bucket{engine="tool_loop",le="+Inf"} 1
leeway_turn_seconds_count{engine="tool_loop"} 1
leeway_turn_seconds_sum{engine="tool_loop"} 0.5
# TYPE python_info gauge
python_info{version="3.13"} 1
"""


def test_series_are_read_and_added_up() -> None:
    series = series_of(SHOWN)
    assert total(series, "leeway_sends_total", channel="sim") == 5
    assert total(series, "leeway_sends_total", outcome="refused") == 2
    assert {one.metric for one in series} == {"leeway_sends_total", "leeway_turn_seconds", "python_info"}
    assert {one.name for one in series if not one.only_grows} == {"python_info"}


def test_what_is_as_declared_is_no_stray() -> None:
    assert not strays(series_of(SHOWN), slugs=[], models=[])


STRAYS = {
    "a metric that nobody declared": ("leeway_hats", {}),
    "a label too many": ("leeway_ready", {"customer": "ana"}),
    "a label too few": ("leeway_owed", {}),
    "a value that is not listed": ("leeway_owed", {"stage": "kitchen"}),
    "a business that is none": ("leeway_drafts_waiting", {"business": "ana"}),
    "a number as a business": ("leeway_drafts_waiting", {"business": "40700000001"}),
    "words as a business": ("leeway_drafts_waiting", {"business": "see you"}),
}


@pytest.mark.parametrize("kind", STRAYS)
def test_a_stray_is_found(kind: str) -> None:
    name, labels = STRAYS[kind]
    told = ",".join(f'{label}="{value}"' for label, value in labels.items())
    series = series_of(f"# TYPE {name} gauge\n{name}{{{told}}} 1\n")
    assert len(strays(series, slugs=["clinic", "40700000001", "see you"], models=[])) == 1


def test_a_process_of_its_own_has_none() -> None:
    metrics = Metrics()
    metrics.llm_tokens.labels("clinic", "mock", "mock-1", "tool_loop", "1", "input").inc()
    metrics.turn_seconds.labels("tool_loop").observe(0.3)
    shown = generate_latest(metrics.registry).decode()
    assert not strays(series_of(shown), slugs=["clinic"], models=["mock", "mock-1"])
