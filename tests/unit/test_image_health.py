"""How a container knows whether its service can work: one question for every service."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from leeway.twins.twin import serving
from shared.telemetry.health import health_app
from shared.telemetry.metrics import Metrics
from tests.support.process import free_port

HEALTHY = Path(__file__).parents[2] / "ops" / "image" / "healthy.py"


async def asked(ports: Sequence[int]) -> tuple[int | None, str]:
    """Its exit code and what it prints."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", str(HEALTHY)),
        env={"LEEWAY_PORT": str(ports[0]), "LEEWAY_METRICS_PORT": str(ports[1])},
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    return process.returncode, said.decode()


@pytest.mark.parametrize("at", [0, 1], ids=["ingest", "another service"])
@pytest.mark.parametrize(
    ("why_not", "answer"),
    [(None, (0, "ready\n")), ("the database is away", (1, "the database is away\n"))],
    ids=["it can work", "it can't"],
)
async def test_the_service_is_asked_on_its_own_port(
    at: int, why_not: str | None, answer: tuple[int, str]
) -> None:
    async with serving(health_app(metrics=Metrics(), ready=lambda: why_not)) as url:
        ports = [free_port(), free_port()]
        ports[at] = int(url.rpartition(":")[2])
        assert await asked(ports) == answer


async def test_where_nobody_listens_yet_it_is_not_healthy() -> None:
    assert await asked([free_port(), free_port()]) == (1, "nobody listens yet\n")
