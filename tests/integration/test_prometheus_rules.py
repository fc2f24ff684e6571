"""What Prometheus is given is what it understands, and each alert fires when it should and not when it should not."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.process import make_directory, remove_directory
from tests.support.prometheus import Programs

OPS = Path(__file__).parents[2] / "ops" / "prometheus"

pytestmark = pytest.mark.xdist_group("prometheus")


@pytest.fixture(scope="module")
def copy() -> Iterator[Path]:
    """Where a container sees it too."""
    directory = make_directory("prometheus-rules")
    shutil.copytree(OPS, directory / "prometheus")
    yield directory / "prometheus"
    remove_directory(directory)


def test_prometheus_understands_its_configuration_and_all_rules(prometheus: Programs, copy: Path) -> None:
    code, said = prometheus.promtool("check", "config", "prometheus.yml", directory=copy)
    assert code == 0, said
    assert said.count("rules found") == len(list((OPS / "rules").glob("*.yml")))
    assert "FAILED" not in said


def test_each_alert_fires_when_it_should_and_not_when_it_should_not(prometheus: Programs, copy: Path) -> None:
    suites = [str(path.relative_to(OPS)) for path in sorted((OPS / "tests").glob("*.yml"))]
    code, said = prometheus.promtool("test", "rules", *suites, directory=copy)
    assert code == 0, said
    assert said.count("SUCCESS") == len(suites)
