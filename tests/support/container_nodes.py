"""RabbitMQ and Postgres as containers of this run, on a Docker engine that has or can pull the images."""

import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

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
from tests.support.process import free_port, reaper, wait_until

AMQP_PORT, API_PORT, METRICS_PORT, POSTGRES_PORT = 5672, 15672, 15692, 5432
ENGINE_SECONDS = 60
ENGINE_USUALLY = "unix:///var/run/docker.sock"
PASSWORD = "leeway"
RABBITMQ_ARGUMENTS = "-rabbitmq_management_agent disable_metrics_collector true"


class Container:
    """One container with fixed ports on this machine, which it keeps over restarts."""

    def __init__(
        self, image: str, *, ports: tuple[int, ...], environment: dict[str, str], command: list[str]
    ) -> None:
        self._image = image
        self._ports = {port: free_port() for port in ports}
        self._environment = environment
        self._command = command
        self._container: Any = None
        with engine_errors():
            ensure_image(image)

    def start(self) -> None:
        with engine_errors():
            if self._container is None:
                self._create()
            else:
                self._container.get_wrapped_container().start()

    def stop(self) -> None:
        with engine_errors():
            self._container.get_wrapped_container().stop(timeout=STOP_SECONDS)

    def kill(self) -> None:
        """Nothing happens to a container that does not run."""
        with contextlib.suppress(ServersUnavailableError), engine_errors():
            self._container.get_wrapped_container().kill()

    def remove(self) -> None:
        """With its data."""
        if self._container is None:
            return
        with engine_errors():
            name = self._container.get_container_id()
            self._container.stop()
            reaper().forget("container", name)
            self._container = None

    def run(self, command: list[str]) -> str:
        """Runs a command in the container; returns what it printed."""
        with engine_errors():
            done = self._container.exec(command)
        output: str = done.output.decode(errors="replace")
        if done.exit_code != 0:
            raise ServersUnavailableError(f"{' '.join(command)}: {output.strip()[-500:]}")
        return output

    def wait_until(self, check: Callable[[], bool], what: str) -> None:
        try:
            wait_until(check, seconds=START_SECONDS, what=what)
        except TimeoutError as error:
            with engine_errors():
                logs = self._container.get_wrapped_container().logs(tail=20).decode(errors="replace")
            raise ServersUnavailableError(f"{error}; {self._image} says: {logs[-1000:]}") from error

    def place(self, port: int) -> tuple[str, int]:
        """Host and port at which the tests reach a port of the container."""
        with engine_errors():
            if not self._container.get_docker_client().get_connection_mode().use_mapped_port:
                return self._container.get_container_host_ip(), port
            return self._container.get_container_host_ip(), self._ports[port]

    def _create(self) -> None:
        container = new_container(self._image).with_command(self._command).with_kwargs(shm_size="256m")
        container.with_envs(**self._environment)
        for inside, outside in self._ports.items():
            container.with_bind_ports(inside, outside)
        self._container = container.start()
        reaper().watch("container", container.get_container_id())


class ContainerPostgres:
    def __init__(self, image: str, *, durable: bool) -> None:
        self._image = image
        command = ["postgres", *postgres_options(durable=durable)]
        environment = {"POSTGRES_PASSWORD": PASSWORD}
        self._container = Container(image, ports=(POSTGRES_PORT,), environment=environment, command=command)
        self._url = ""

    @property
    def address(self) -> Address:
        return Address(url=self._url, description=f"PostgreSQL (container {self._image})")

    def start(self) -> None:
        self._container.start()
        host, port = self._container.place(POSTGRES_PORT)
        self._url = f"postgresql://postgres:{PASSWORD}@{host}:{port}/postgres"
        self._container.wait_until(lambda: postgres_answers(self._url), "PostgreSQL")

    def stop(self) -> None:
        self._container.stop()

    def kill(self) -> None:
        self._container.kill()

    def wipe(self) -> None:
        self._container.remove()

    def close(self) -> None:
        self._container.remove()


class ContainerRabbitMQ:
    def __init__(self, image: str) -> None:
        self._image = image
        self._container = Container(
            image,
            ports=(AMQP_PORT, API_PORT, METRICS_PORT),
            environment={
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": RABBITMQ_ARGUMENTS,
                "RABBITMQ_NODENAME": "leeway@localhost",
            },
            command=["rabbitmq-server"],
        )
        self._url = self._api_url = self._metrics_url = self._version = ""

    @property
    def address(self) -> Address:
        description = f"RabbitMQ {self._version} (container {self._image})"
        return Address(
            url=self._url, api_url=self._api_url, metrics_url=self._metrics_url, description=description
        )

    def start(self) -> None:
        self._container.start()
        amqp, management = self._container.place(AMQP_PORT), self._container.place(API_PORT)
        self._url = f"amqp://guest:guest@{amqp[0]}:{amqp[1]}/"
        self._api_url = f"http://guest:guest@{management[0]}:{management[1]}"
        self._metrics_url = "http://{}:{}".format(*self._container.place(METRICS_PORT))
        self._container.wait_until(lambda: rabbitmq_answers(self._url), "RabbitMQ")
        api = ManagementApi(self._api_url)
        if not api.answers():
            self._container.run(["rabbitmq-plugins", "enable", "rabbitmq_management", "rabbitmq_prometheus"])
            self._container.wait_until(api.answers, "RabbitMQ's management API")
        self._version = self._version or api.version()

    def stop(self) -> None:
        self._container.stop()

    def kill(self) -> None:
        self._container.kill()

    def wipe(self) -> None:
        self._container.remove()

    def close(self) -> None:
        self._container.remove()

    def ctl(self, *arguments: str) -> str:
        return self._container.run(["rabbitmqctl", "--quiet", "--node", "leeway@localhost", *arguments])


def new_container(image: str) -> Any:
    from testcontainers.core.container import DockerContainer

    return DockerContainer(image)


def ensure_image(image: str) -> None:
    """Pulls the image unless the engine has it."""
    from docker.errors import ImageNotFound  # type: ignore[import-untyped]  # has no types
    from testcontainers.core.config import testcontainers_config
    from testcontainers.core.docker_client import DockerClient, get_docker_host

    ensure_engine(get_docker_host() or ENGINE_USUALLY)
    testcontainers_config.ryuk_disabled = True  # our own reaper removes the containers, without another image
    client = DockerClient(timeout=ENGINE_SECONDS).client
    try:
        client.images.get(image)
    except ImageNotFound:
        client.images.pull(image)
    finally:
        client.close()


def ensure_engine(host: str) -> None:
    """Asks at the engine's socket first: the client leaves it open when nobody answers."""
    parts = urlsplit(host)
    if parts.scheme != "unix":
        return
    try:
        with socket.socket(socket.AF_UNIX) as engine:
            engine.settimeout(5)
            engine.connect(parts.path)
    except OSError as error:
        raise ServersUnavailableError(f"no Docker engine at {parts.path}: {error.strerror}") from error


@contextlib.contextmanager
def engine_errors() -> Iterator[None]:
    """Whatever the engine or the way to it says becomes one sentence."""
    from docker.errors import DockerException
    from requests import RequestException

    try:
        yield
    except (DockerException, RequestException) as error:
        raise ServersUnavailableError(f"the Docker engine: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)[:300]
