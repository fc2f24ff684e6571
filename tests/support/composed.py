"""The stack of docker-compose.yml as a test brings it up: a project with ports, volumes and an image of its own, gone at the end."""

import asyncio
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from shared.ids import new_id
from tests.support.commands import Ended, environment
from tests.support.process import free_port, reaper

ROOT = Path(__file__).parents[2]
FILES = (ROOT / "docker-compose.yml", ROOT / "tests" / "containers" / "compose.yaml")
IMAGES = ("PYTHON_IMAGE", "POSTGRES_IMAGE", "RABBITMQ_IMAGE", "PROMETHEUS_IMAGE", "POSTGRES_EXPORTER_IMAGE")
CORE = ("postgres", "rabbitmq", "ingest", "guard", "agent", "dispatch")
WATCHING = ("prometheus", "postgres-exporter")  # of Grafana there is no stand-in
LOG_LINES = 12
LINE_CHARS_MAX = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposeChoice:
    """Whether the stack can be brought up here, and with which images.

    LEEWAY_TEST_COMPOSE=yes makes it a failure when it can't, =no leaves it out; LEEWAY_TEST_PYTHON_IMAGE and so on name
    images other than those of docker-compose.yml.
    """

    wanted: str
    servers: str
    images: Mapping[str, str]

    @classmethod
    def from_environment(cls) -> "ComposeChoice":
        get = os.environ.get  # noqa: TID251 -- settings of the test run, none of the product's
        named = {name: get(f"LEEWAY_TEST_{name}", "") for name in IMAGES}
        return cls(
            wanted=get("LEEWAY_TEST_COMPOSE", ""),
            servers=get("LEEWAY_TEST_SERVERS", ""),
            images={name: image for name, image in named.items() if image},
        )

    async def why_not(self) -> str | None:
        """Why it can't be brought up here, in one sentence."""
        if self.wanted == "no":
            return "LEEWAY_TEST_COMPOSE=no"
        if self.servers in ("local", "urls") and self.wanted != "yes":
            return f"LEEWAY_TEST_SERVERS={self.servers} asks for no containers"
        if shutil.which("docker") is None:
            return "there is no docker on PATH"
        engine = await docker("version", "--format", "{{.Server.Version}}", within_s=20)
        if engine.code != 0:
            return "no Docker engine answers"
        if (await docker("compose", "version", within_s=20)).code != 0:
            return "docker has no compose"
        for name in IMAGES:
            image = self.images.get(name) or default_image(name)
            if (await docker("image", "inspect", image, within_s=20)).code != 0:
                return f"the engine has no image {image} (docker pull it, or set LEEWAY_TEST_{name})"
        return None


def default_image(variable: str) -> str:
    head = "${" + variable + ":-"
    return FILES[0].read_text().partition(head)[2].partition("}")[0]


async def docker(*words: str, within_s: float, env: Mapping[str, str] | None = None) -> Ended:
    """Run docker to its end."""
    process = await asyncio.create_subprocess_exec(
        "docker",
        *words,
        cwd=ROOT,
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(within_s):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        out, err = await process.communicate()
        raise AssertionError(
            f"docker {' '.join(words)}: not within {within_s:.0f} s: {err.decode()[-2000:]}"
        ) from None
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


@dataclass(slots=True)
class Composed:
    """One project. Nothing runs before `up`."""

    images: Mapping[str, str]
    directory: Path  # for an empty .env
    project: str = field(default_factory=lambda: f"leeway-test-{new_id().hex[-12:]}")
    ingest_port: int = field(default_factory=free_port)
    prometheus_port: int = field(default_factory=free_port)
    postgres_port: int = field(default_factory=free_port)

    @property
    def image(self) -> str:
        return f"{self.project}:local"

    async def compose(self, *words: str, within_s: float = 60, may_fail: bool = False) -> str:
        """Run docker compose on the project; what it printed."""
        ended = await docker(*self._head(), *words, within_s=within_s, env=self._environment())
        if ended.code != 0 and not may_fail:
            raise AssertionError(
                f"docker compose {' '.join(words)} ended with {ended.code}: {ended.err[-3000:]}"
            )
        return ended.out

    async def leeway(self, *words: str, within_s: float = 60) -> str:
        """The command in ingest's container; what it printed."""
        return await self.compose("exec", "-T", "ingest", "leeway", *words, within_s=within_s)

    async def secret(self, name: str) -> str:
        return (await self.compose("exec", "-T", "ingest", "cat", f"/run/leeway/{name}")).strip()

    async def ids(self, service: str, *, also_stopped: bool = False) -> Sequence[str]:
        return (await self.compose("ps", *(["--all"] if also_stopped else []), "--quiet", service)).split()

    async def containers(self) -> Mapping[str, dict[str, Any]]:
        """All of them, also those that ended, as docker inspect shows them, by name."""
        ids = (await self.compose("ps", "--all", "--quiet")).split()
        shown = await docker("inspect", *ids, within_s=30)
        return {one["Name"].removeprefix(f"/{self.project}-"): one for one in json.loads(shown.out)}

    async def evidence(self) -> str:
        """What runs, and everybody's last words."""
        shown = await self.compose("ps", "--all", may_fail=True)
        said = await self.compose("logs", "--no-color", "--tail", str(LOG_LINES), may_fail=True)
        return "\n".join(line[:LINE_CHARS_MAX] for line in f"{shown}\n{said}".splitlines())

    async def down(self) -> None:
        """Nothing of it is left but the builder's cache."""
        await self.compose("down", "--volumes", "--remove-orphans", "--timeout", "5", within_s=120)
        await docker("image", "rm", "--force", self.image, within_s=60)
        reaper().forget("project", self.project)

    def watch(self) -> None:
        """Whatever becomes of this process, the project goes with it."""
        reaper().watch("project", self.project)

    def _head(self) -> Sequence[str]:
        empty = self.directory / "empty.env"
        empty.touch()
        files = [part for file in FILES for part in ("--file", str(file))]
        return [
            *("compose", "--project-name", self.project, "--project-directory", str(ROOT)),
            *(
                "--env-file",
                str(empty),
                "--profile",
                "observability",
                "--ansi",
                "never",
                "--progress",
                "quiet",
            ),
            *files,
        ]

    def _environment(self) -> Mapping[str, str]:
        return environment(
            **self.images,
            LEEWAY_IMAGE=self.image,
            LEEWAY_PUBLISH=f"127.0.0.1:{self.ingest_port}",
            PROMETHEUS_PUBLISH=f"127.0.0.1:{self.prometheus_port}",
            LEEWAY_TEST_POSTGRES_PORT=str(self.postgres_port),
            LEEWAY_ALLOW_INTERNAL_CALLBACKS="true",
        )


def services_of(file: Path) -> Mapping[str, Any]:
    """The services of a compose file, as they are written."""
    services: Mapping[str, Any] = YAML(typ="safe").load(file)["services"]
    return services
