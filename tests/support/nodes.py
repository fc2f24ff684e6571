"""What one server of a test run is, whichever way it is brought: the contract of all nodes."""

import base64
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

START_SECONDS = 90
STOP_SECONDS = 20
AMQP_GREETING = b"AMQP\x00\x00\x09\x01"
POSTGRES_OPTIONS = {"max_connections": "300", "timezone": "UTC", "shared_buffers": "64MB"}
# The operating system survives our tests, so that a killed server still finds every commit.
POSTGRES_OPTIONS_NOT_DURABLE = {"fsync": "off", "full_page_writes": "off"}


class ServersUnavailableError(Exception):
    """A way to bring a server is not open on this machine; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """How to reach a server; what crosses to the workers of a parallel run."""

    url: str
    description: str
    api_url: str = ""
    metrics_url: str = ""  # of RabbitMQ's exporter for Prometheus; "": not known


class Node(Protocol):
    """A server that can be started again. All methods block."""

    @property
    def address(self) -> Address: ...

    def start(self) -> None:
        """Returns when the server answers; the address stays the same for ever."""

    def stop(self) -> None:
        """Orderly."""

    def kill(self) -> None:
        """Like a power cut of the process: no farewell to clients, nothing flushed."""

    def wipe(self) -> None:
        """Removes all data of a stopped server; it starts as new."""

    def close(self) -> None:
        """Ends the server for good and removes everything of it."""


class PostgresNode(Node, Protocol): ...


class RabbitMQNode(Node, Protocol):
    def ctl(self, *arguments: str) -> str:
        """Runs rabbitmqctl against this node; returns what it printed."""


def postgres_options(*, durable: bool) -> list[str]:
    options = POSTGRES_OPTIONS | ({} if durable else POSTGRES_OPTIONS_NOT_DURABLE)
    return [part for name, value in options.items() for part in ("-c", f"{name}={value}")]


def postgres_answers(url: str) -> bool:
    """Whether the server lets a client in as far as authentication; while it recovers it says an error."""
    parts = urlsplit(url)
    greeting = b"\x00\x03\x00\x00user\x00postgres\x00database\x00postgres\x00\x00"
    try:
        with socket.create_connection((parts.hostname, parts.port or 5432), timeout=2) as client:
            client.sendall((len(greeting) + 4).to_bytes(4, "big") + greeting)
            return client.recv(1) == b"R"
    except OSError:
        return False


def rabbitmq_answers(url: str) -> bool:
    """Whether an AMQP server greets; a forwarded port alone accepts before there is one."""
    parts = urlsplit(url)
    try:
        with socket.create_connection((parts.hostname, parts.port or 5672), timeout=2) as client:
            client.sendall(AMQP_GREETING)
            return client.recv(1) == b"\x01"
    except OSError:
        return False


class ManagementApi:
    """The few calls of RabbitMQ's HTTP API that tests need. Blocking; errors are urllib's."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        host = f"{parts.hostname}:{parts.port or 15672}"
        self._root = f"{parts.scheme}://{host}{parts.path.rstrip('/')}/api"
        credentials = f"{parts.username or 'guest'}:{parts.password or 'guest'}"
        self._authorization = "Basic " + base64.b64encode(credentials.encode()).decode()

    def call(self, method: str, *path: str, body: Mapping[str, Any] | None = None) -> Any:
        request = urllib.request.Request(
            "/".join([self._root, *(quote(part, safe="") for part in path)]),
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": self._authorization, "Content-Type": "application/json"},
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=30) as response:
            answer = response.read()
        return json.loads(answer) if answer else None

    def answers(self) -> bool:
        try:
            self.call("GET", "vhosts")
        except (OSError, urllib.error.HTTPError):
            return False
        return True

    def version(self) -> str:
        return str(self.call("GET", "overview")["rabbitmq_version"])
