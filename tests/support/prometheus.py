"""The Prometheus that tests start, its promtool, and Postgres' exporter: the first of these ways that is open.

1. `named`: LEEWAY_TEST_PROMETHEUS, a directory with the programs prometheus and promtool;
2. `path`: both are on PATH;
3. `container`: a Docker engine that has or can pull LEEWAY_TEST_PROMETHEUS_IMAGE, on this machine's network;
4. `debian`: Debian's package, unpacked into a directory of the tests' own: nothing is installed, no service is started.

Of the exporter there are the same ways, but for the container: only what is on PATH or in Debian's archive.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.support.container_nodes import engine_errors, ensure_image, new_container
from tests.support.desk import Desk
from tests.support.local_nodes import checked_output
from tests.support.nodes import ServersUnavailableError
from tests.support.process import Process, reaper

IMAGE = "prom/prometheus:v2.53.4"
EXPORTER = "prometheus-postgres-exporter"  # Debian's name; upstream's is postgres_exporter
UNPACKED = Path(__file__).parents[2] / ".pytest_cache" / "leeway-programs"
PROMTOOL_SECONDS = 120
HOW_TO_CHOOSE = """\
Tests need Prometheus and its promtool. Choose one:
  - set LEEWAY_TEST_PROMETHEUS to a directory that holds both programs;
  - put both on PATH (Debian: apt-get install prometheus);
  - start a Docker engine that has or can pull {image} (another one: LEEWAY_TEST_PROMETHEUS_IMAGE);
  - on Debian, let apt-get download its package (as root, or after apt-get update)."""


@pytest.fixture(scope="session")
def prometheus(desk: Desk) -> "Programs":
    """A fixture that a conftest takes in. Shown at the end of the run: which way was taken."""
    try:
        programs = find_prometheus()
    except ServersUnavailableError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    desk.note(programs.description)
    return programs


class Running(Protocol):
    """A program that was started."""

    def stop(self) -> None: ...

    def log_tail(self) -> str: ...


class Programs(Protocol):
    """Prometheus and promtool, wherever they are. Both are given paths of this machine; `directory` is all that they see of it."""

    @property
    def description(self) -> str: ...

    def promtool(self, *arguments: str, directory: Path) -> tuple[int, str]:
        """Its exit code and all that it said."""

    def start(self, *arguments: str, directory: Path) -> Running:
        """Prometheus; what it stores is gone when it stops."""


@dataclass(frozen=True, slots=True)
class OnThisMachine:
    directory: Path
    description: str

    def promtool(self, *arguments: str, directory: Path) -> tuple[int, str]:
        done = subprocess.run(
            [self.directory / "promtool", *arguments],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PROMTOOL_SECONDS,
            check=False,
        )
        return done.returncode, done.stdout

    def start(self, *arguments: str, directory: Path) -> Running:
        data = directory / "data"
        command = [self.directory / "prometheus", *arguments, f"--storage.tsdb.path={data}"]
        return OwnProcess(Process(command, log=directory / "prometheus.log", directory=directory))


@dataclass(frozen=True, slots=True)
class OwnProcess:
    process: Process

    def stop(self) -> None:
        self.process.kill()

    def log_tail(self) -> str:
        return self.process.log_tail()


class InAContainer:
    """The directory is seen under its own name, read-only."""

    def __init__(self, image: str) -> None:
        self._image = image
        with engine_errors():
            ensure_image(image)

    @property
    def description(self) -> str:
        return f"Prometheus (container {self._image})"

    def promtool(self, *arguments: str, directory: Path) -> tuple[int, str]:
        with engine_errors():
            container = self._container(directory, "promtool", arguments).start()
            name = container.get_container_id()
            reaper().watch("container", name)
            wrapped = container.get_wrapped_container()
            code = int(wrapped.wait(timeout=PROMTOOL_SECONDS)["StatusCode"])
            said = wrapped.logs().decode(errors="replace")
            container.stop()
            reaper().forget("container", name)
        return code, said

    def start(self, *arguments: str, directory: Path) -> Running:
        with engine_errors():
            container = self._container(
                directory, "prometheus", (*arguments, "--storage.tsdb.path=/data")
            ).start()
            reaper().watch("container", container.get_container_id())
        return OwnContainer(container)

    def _container(self, directory: Path, program: str, arguments: Sequence[str]) -> Any:
        container = new_container(self._image).with_command(list(arguments)).with_tmpfs_mount("/data")
        container.with_volume_mapping(str(directory), str(directory), "ro")
        container.with_env("TMPDIR", "/data")  # in memory: promtool syncs much to disk
        return container.with_kwargs(entrypoint=[program], network_mode="host", working_dir=str(directory))


class OwnContainer:
    def __init__(self, container: Any) -> None:
        self._container = container

    def stop(self) -> None:
        with engine_errors():
            name = self._container.get_container_id()
            self._container.stop()
        reaper().forget("container", name)

    def log_tail(self) -> str:
        with engine_errors():
            logs: bytes = self._container.get_wrapped_container().logs(tail=20)
        return logs.decode(errors="replace")


def find_prometheus() -> Programs:
    """Blocks. ServersUnavailableError names the choices, and why none was open."""
    get = os.environ.get  # noqa: TID251 -- settings of the test run, none of the product's
    image = get("LEEWAY_TEST_PROMETHEUS_IMAGE") or IMAGE
    ways: dict[str, Callable[[], Programs]] = {
        "named": lambda: _in(get("LEEWAY_TEST_PROMETHEUS", ""), "LEEWAY_TEST_PROMETHEUS"),
        "path": _on_path,
        "container": lambda: InAContainer(image),
        "debian": lambda: _in(str(unpacked("prometheus")), "Debian's package, unpacked for the tests"),
    }
    if get("LEEWAY_TEST_PROMETHEUS"):
        ways = {"named": ways["named"]}
    reasons = []
    for way, find in ways.items():
        try:
            return find()
        except ServersUnavailableError as error:
            reasons.append(f"{way}: {error}")
    raise ServersUnavailableError(
        "\n".join([HOW_TO_CHOOSE.format(image=image), "Tried:", *(f"  - {one}" for one in reasons)])
    )


def find_postgres_exporter() -> Path:
    """Blocks."""
    for name in (EXPORTER, "postgres_exporter"):
        if place := shutil.which(name):
            return Path(place)
    return unpacked(EXPORTER) / EXPORTER


def _on_path() -> OnThisMachine:
    places = {shutil.which(name) for name in ("prometheus", "promtool")}
    if None in places:
        raise ServersUnavailableError("prometheus and promtool are not both on PATH")
    return _in(str(Path(str(shutil.which("prometheus"))).parent), "on PATH")


def _in(directory: str, origin: str) -> OnThisMachine:
    if not directory:
        raise ServersUnavailableError("LEEWAY_TEST_PROMETHEUS is not set")
    place = Path(directory)
    if not (place / "prometheus").is_file() or not (place / "promtool").is_file():
        raise ServersUnavailableError(f"{place} does not hold prometheus and promtool")
    version = checked_output([str(place / "promtool"), "--version"]).split()[2]
    return OnThisMachine(place, f"Prometheus {version} ({origin})")


def unpacked(package: str) -> Path:
    """The directory of a Debian package's programs; downloaded once, whoever of several workers comes first."""
    programs = UNPACKED / package / "usr" / "bin"
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        raise ServersUnavailableError("this is no Debian: there is no apt-get")
    UNPACKED.mkdir(parents=True, exist_ok=True)
    with (UNPACKED / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not programs.is_dir():
            _unpack(package)
    return programs


def _unpack(package: str) -> None:
    archive, target = UNPACKED / f"{package}.archive", UNPACKED / package
    unfinished = UNPACKED / f"{package}.unfinished"
    for place in (archive, unfinished):
        shutil.rmtree(place, ignore_errors=True)
    archive.mkdir()
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}  # noqa: TID251 -- apt needs the proxy settings
    if os.geteuid() == 0:
        checked_output(["apt-get", "update", "-q"], environment=environment)
    done = subprocess.run(
        ["apt-get", "download", "-q", package],
        cwd=archive,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    found = sorted(archive.glob("*.deb"))
    if done.returncode != 0 or not found:
        raise ServersUnavailableError(f"apt-get download {package}: {done.stderr.strip()[-300:]}")
    checked_output(["dpkg", "-x", str(found[-1]), str(unfinished)])
    unfinished.rename(target)
    shutil.rmtree(archive)
