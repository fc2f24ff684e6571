"""Decides which real RabbitMQ and Postgres the tests use: the first of these ways that is open.

1. `urls`: LEEWAY_TEST_AMQP_URL and LEEWAY_TEST_DATABASE_URL (virtual hosts are made through the management
   API, by default on port 15672 of the same host, else LEEWAY_TEST_RABBITMQ_API_URL);
2. `containers`: a Docker engine that has or can pull LEEWAY_TEST_RABBITMQ_IMAGE and
   LEEWAY_TEST_POSTGRES_IMAGE;
3. `local`: rabbitmq-server and postgres on this machine, as private throw-away nodes on free ports; RabbitMQ
   is installed first when root may do that, Postgres may come from the embedded wheel.

LEEWAY_TEST_SERVERS=urls|containers|local forces one. Servers that somebody named by URL are never restarted:
tests that do so get private ones of the second or third way.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import urlsplit

from tests.support.container_nodes import ContainerPostgres, ContainerRabbitMQ
from tests.support.local_nodes import LocalPostgres, LocalRabbitMQ
from tests.support.nodes import Address, Node, PostgresNode, RabbitMQNode, ServersUnavailableError

N = TypeVar("N", bound=Node)

POSTGRES_IMAGE = "postgres:17-alpine"
RABBITMQ_IMAGE = "rabbitmq:4.0-management-alpine"
HOW_TO_CHOOSE = """\
Tests need a real {name}. Choose one:
  - set {variable} to a server that tests may use;
  - start a Docker engine that has or can pull {image} (another one: {image_variable});
  - install {program} on this machine (Debian: apt-get install {package})."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What the environment says about the servers of a test run."""

    forced: str = ""
    database_url: str = ""
    amqp_url: str = ""
    api_url: str = ""
    postgres_image: str = POSTGRES_IMAGE
    rabbitmq_image: str = RABBITMQ_IMAGE

    @classmethod
    def from_environment(cls) -> "Choice":
        get = os.environ.get  # noqa: TID251 -- settings of the test run, none of the product's
        return cls(
            forced=get("LEEWAY_TEST_SERVERS", ""),
            database_url=get("LEEWAY_TEST_DATABASE_URL", ""),
            amqp_url=get("LEEWAY_TEST_AMQP_URL", ""),
            api_url=get("LEEWAY_TEST_RABBITMQ_API_URL", ""),
            postgres_image=get("LEEWAY_TEST_POSTGRES_IMAGE") or POSTGRES_IMAGE,
            rabbitmq_image=get("LEEWAY_TEST_RABBITMQ_IMAGE") or RABBITMQ_IMAGE,
        )

    def ways(self) -> list[str]:
        if self.forced not in ("", "urls", "containers", "local"):
            raise ServersUnavailableError(
                f"LEEWAY_TEST_SERVERS={self.forced}: must be urls, containers or local"
            )
        return [self.forced] if self.forced else ["urls", "containers", "local"]

    def describe(self) -> str:
        """One line for pytest's header."""
        if self.database_url and self.amqp_url and self.forced in ("", "urls"):
            return "servers: by URL from the environment"
        names = {
            "urls": "by URL from the environment",
            "containers": f"containers ({self.rabbitmq_image}, {self.postgres_image})",
            "local": "private nodes of this machine's own rabbitmq-server and postgres",
        }
        ways = [way for way in self.ways() if way != "urls" or self.forced]
        return "servers, when a test needs them: " + ", else ".join(names[way] for way in ways)


class AttachedNode:
    """A server that belongs to somebody else: to the whole test run, or to who set its URL."""

    def __init__(self, address: Address, ctl: Callable[..., str] | None = None) -> None:
        self.address = address
        self._ctl = ctl

    def start(self) -> None:
        raise AssertionError("this server is shared: take the fixture own_servers to stop, start or wipe one")

    stop = kill = wipe = start

    def close(self) -> None:
        """Not ours to end."""

    def ctl(self, *arguments: str) -> str:
        if self._ctl is None:
            raise ServersUnavailableError(
                "rabbitmqctl reaches only servers that the tests started themselves"
            )
        return self._ctl(*arguments)


@dataclass(slots=True)
class Bringer:
    """Brings servers; `notes` says which way was taken and why the ways before it were not."""

    choice: Choice = field(default_factory=Choice.from_environment)
    notes: list[str] = field(default_factory=list)

    def postgres(self, *, private: bool, durable: bool = False) -> PostgresNode:
        """Started. A private one may be stopped and wiped. Blocks."""
        choice = self.choice
        ways: dict[str, Callable[[], PostgresNode]] = {
            "urls": lambda: named_by_url(choice.database_url, "PostgreSQL", "LEEWAY_TEST_DATABASE_URL"),
            "containers": lambda: ContainerPostgres(choice.postgres_image, durable=durable),
            "local": lambda: LocalPostgres(durable=durable),
        }
        help_text = HOW_TO_CHOOSE.format(
            name="PostgreSQL",
            variable="LEEWAY_TEST_DATABASE_URL",
            image=choice.postgres_image,
            image_variable="LEEWAY_TEST_POSTGRES_IMAGE",
            program="PostgreSQL",
            package="postgresql",
        )
        return self._first_open(ways, private=private, help_text=help_text)

    def rabbitmq(self, *, private: bool) -> RabbitMQNode:
        """Started. A private one may be stopped and wiped. Blocks."""
        choice = self.choice
        ways: dict[str, Callable[[], RabbitMQNode]] = {
            "urls": lambda: named_by_url(choice.amqp_url, "RabbitMQ", "LEEWAY_TEST_AMQP_URL", choice.api_url),
            "containers": lambda: ContainerRabbitMQ(choice.rabbitmq_image),
            "local": LocalRabbitMQ,
        }
        help_text = HOW_TO_CHOOSE.format(
            name="RabbitMQ",
            variable="LEEWAY_TEST_AMQP_URL",
            image=choice.rabbitmq_image,
            image_variable="LEEWAY_TEST_RABBITMQ_IMAGE",
            program="RabbitMQ",
            package="rabbitmq-server",
        )
        return self._first_open(ways, private=private, help_text=help_text)

    def _first_open(self, ways: Mapping[str, Callable[[], N]], *, private: bool, help_text: str) -> N:
        reasons = []
        for way in self.choice.ways():
            if way == "urls" and private and not self.choice.forced:
                continue
            try:
                node = started(ways[way])
            except (ServersUnavailableError, TimeoutError) as error:
                reasons.append(f"{way}: {error}")
                continue
            self._note(
                node.address.description, [reason for reason in reasons if not reason.startswith("urls")]
            )
            return node
        raise ServersUnavailableError(
            "\n".join([help_text, "Tried:", *(f"  - {reason}" for reason in reasons)])
        )

    def _note(self, description: str, reasons: Sequence[str]) -> None:
        note = "; ".join([description, *(f"not {reason}" for reason in reasons)])
        if note not in self.notes:
            self.notes.append(note)


def started(make: Callable[[], N]) -> N:
    node = make()
    if isinstance(node, AttachedNode):
        return node
    try:
        node.start()
    except BaseException:
        node.close()
        raise
    return node


def named_by_url(url: str, name: str, variable: str, api_url: str = "") -> AttachedNode:
    if not url:
        raise ServersUnavailableError(f"{variable} is not set")
    parts = urlsplit(url)
    default_api_url = f"http://{parts.username or 'guest'}:{parts.password or 'guest'}@{parts.hostname}:15672"
    description = f"{name} at {parts.hostname}:{parts.port or 'its usual port'} ({variable})"
    return AttachedNode(Address(url=url, api_url=api_url or default_api_url, description=description))
