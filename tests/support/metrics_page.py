"""docs/metrics.md as the catalogue has it: python -m tests.support.metrics_page writes it anew."""

from pathlib import Path
from typing import Final

from shared.telemetry.metrics import catalogue
from shared.telemetry.metrics.declared import ALL, Declared, Label

PAGE: Final = Path(__file__).parents[2] / "docs" / "metrics.md"
HEAD: Final = """# Metrics

Every service shows these at `/metrics` for Prometheus: ingest and the console beside what they serve, the others on `LEEWAY_METRICS_PORT`. This
page is made of the declarations in `shared/telemetry/metrics` (`python -m tests.support.metrics_page`), and a test holds them equal.

- A label has the values that are listed and no others, or few for the reason given. None ever holds a customer, a conversation or a text.
- Counters and histograms are of one process: sum them over all, as in `sum by (outcome) (rate(leeway_sends_total[5m]))`.
- What ingest reads from the record is of the whole installation, and every ingest process shows it: take the largest, as in
  `max by (business) (leeway_drafts_waiting)`. It is read every ten seconds; what is older than a minute is not shown, and
  `leeway_looked_timestamp_seconds` says since when.
- `process_…` and `python_info` come from the client library: memory, CPU, open files, start time.

| metric | what it says | unit | labels | shown by |
|---|---|---|---|---|
"""


def page() -> str:
    return HEAD + "".join(map(_row, catalogue()))


def _row(metric: Declared) -> str:
    labels = "<br>".join(map(_label, metric.labels)) or "none"
    by = "all" if metric.of == ALL else ", ".join(metric.of)
    return f"| `{metric.name}` {metric.kind} | {metric.meaning} | {metric.unit} | {labels} | {by} |\n"


def _label(label: Label) -> str:
    if label.values is None:
        return f"**{label.name}**: {label.bound}"
    values = [f"`{value}`" if value else "nothing" for value in label.values]
    return f"**{label.name}**: {' '.join(values)}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
