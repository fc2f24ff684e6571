"""A real Prometheus with the product's own configuration and rules, but that it finds its targets on this machine, and more often."""

import asyncio
import contextlib
import math
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx2
from ruamel.yaml import YAML

from shared.clock import SystemClock
from tests.support.eventually import eventually
from tests.support.process import free_port, make_directory, remove_directory
from tests.support.prometheus import Programs
from tests.support.queries import OPS

EVERY = "1s"
Series = list[tuple[dict[str, str], list[float]]]


class QueryError(Exception):
    """Prometheus did not understand a query, or could not answer it."""


@dataclass(slots=True)
class Prometheus:
    """Its HTTP API."""

    url: str
    client: httpx2.AsyncClient

    async def targets_up(self) -> dict[str, int]:
        """How many answer, by job."""
        series = await self.now("sum by (job) (up)")
        return {labels["job"]: int(values[0]) for labels, values in series}

    async def now(self, expr: str) -> Series:
        """Each series with its one value."""
        return await self._ask("query", query=expr)

    async def shows(self, expr: str) -> bool:
        """Whether there is any series."""
        return bool(await self.now(expr))

    async def over(self, expr: str, *, seconds: float, step_s: int = 2) -> Series:
        """Each series with its values over the last seconds."""
        ends = SystemClock().now().timestamp()
        return await self._ask(
            "query_range", query=expr, start=str(ends - seconds), end=str(ends), step=str(step_s)
        )

    async def unhealthy_rules(self) -> list[str]:
        """What Prometheus can't work out, and what it has not tried yet."""
        groups = (await self._get("rules"))["groups"]
        return [
            f"{rule['name']}: {rule['health']} {rule.get('lastError', '')}"
            for group in groups
            for rule in group["rules"]
            if rule["health"] != "ok"
        ]

    async def alerts(self) -> tuple[set[str], set[str]]:
        """Those that fire, and those that will unless their cause goes away in time."""
        by_state: dict[str, set[str]] = {"firing": set(), "pending": set()}
        for alert in (await self._get("alerts"))["alerts"]:
            by_state[alert["state"]].add(alert["labels"]["alertname"])
        return by_state["firing"], by_state["pending"]

    async def label_values(self, metric: str, label: str) -> list[str]:
        found = await self._get(f"label/{label}/values", **{"match[]": metric})
        return list(found)

    async def _ask(self, path: str, **parameters: str) -> Series:
        found = await self._get(path, **parameters)
        kind, result = found["resultType"], found["result"]
        if kind in ("scalar", "string"):
            return [({}, [float(result[1])])]
        series = [
            (one["metric"], [float(value) for _, value in one.get("values") or [one["value"]]])
            for one in result
        ]
        return [(labels, numbers) for labels, numbers in series if not all(map(math.isnan, numbers))]

    async def _get(self, path: str, **parameters: str) -> Any:
        answer = await self.client.get(f"{self.url}/api/v1/{path}", params=parameters)
        content = answer.json()
        if content["status"] != "success":
            raise QueryError(f"{parameters}: {content['error']}")
        return content["data"]


@contextlib.asynccontextmanager
async def scraping(programs: Programs, targets: Mapping[str, Sequence[str]]) -> AsyncIterator[Prometheus]:
    """Started and answering. `targets`: the jobs of the product's configuration, with what each finds; others find nothing."""
    directory = make_directory("prometheus")
    port = free_port()
    yaml = YAML(typ="safe", pure=True)
    config = yaml.load((OPS / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
    config["global"] |= {"scrape_interval": EVERY, "scrape_timeout": EVERY, "evaluation_interval": EVERY}
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    assert set(targets) <= set(jobs), "every job is one of the product's"
    for name, job in jobs.items():
        for key in ("dns_sd_configs", "scrape_interval", "scrape_timeout"):
            job.pop(key, None)
        job["static_configs"] = [{"targets": list(targets.get(name, ()))}]
    shutil.copytree(OPS / "prometheus" / "rules", directory / "rules")
    with (directory / "prometheus.yml").open("w", encoding="utf-8") as file:
        yaml.dump(config, file)
    running = await asyncio.to_thread(
        programs.start,
        f"--config.file={directory / 'prometheus.yml'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
        directory=directory,
    )
    try:
        async with httpx2.AsyncClient(trust_env=False, timeout=20) as client:
            prometheus = Prometheus(f"http://127.0.0.1:{port}", client)
            try:
                await eventually(lambda: _is_ready(prometheus), within_s=60)
            except AssertionError as error:
                error.add_note(running.log_tail())
                raise
            yield prometheus
    finally:
        await asyncio.to_thread(running.stop)
        remove_directory(directory)


async def _is_ready(prometheus: Prometheus) -> bool:
    try:
        answer = await prometheus.client.get(f"{prometheus.url}/-/ready")
    except httpx2.HTTPError:
        return False
    return answer.status_code == 200
