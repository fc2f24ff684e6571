"""Writes the dashboards' JSON from their tables: `.venv/bin/python -m ops.grafana`. A test holds the two together."""

import json
from pathlib import Path

from ops.grafana.as_json import as_json
from ops.grafana.metering import METERING
from ops.grafana.operations import OPERATIONS
from ops.grafana.pipeline import PIPELINE
from ops.grafana.safety import SAFETY

DASHBOARDS = (METERING, PIPELINE, SAFETY, OPERATIONS)
DIRECTORY = Path(__file__).parent / "dashboards"


def written() -> dict[str, str]:
    """What stands in each file of the directory."""
    return {
        f"{dashboard.uid}.json": json.dumps(as_json(dashboard), indent=1, ensure_ascii=False) + "\n"
        for dashboard in DASHBOARDS
    }


if __name__ == "__main__":
    for name, text in written().items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")
