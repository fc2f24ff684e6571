"""One pair of servers for a whole test run, also when it runs in parallel: the controller starts them when a
worker first asks, and hands out addresses over a local socket."""

import asyncio
import contextlib
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener
from typing import Any, Literal, Protocol, cast

from tests.support.choice import AttachedNode, Bringer
from tests.support.nodes import Address, Node, RabbitMQNode, ServersUnavailableError
from tests.support.process import make_directory, remove_directory
from tests.support.servers import Postgres, RabbitMQ

Kind = Literal["postgres", "rabbitmq"]


@dataclass(frozen=True, slots=True)
class Shared:
    """What a test process needs to use the run's server of one kind."""

    address: Address
    template: str


class Desk(Protocol):
    def shared(self, kind: Kind) -> Shared:
        """Starts the server when nobody asked before. Blocks; ServersUnavailableError says what to do."""

    def ctl(self, *arguments: str) -> str:
        """rabbitmqctl against the shared server."""

    def note(self, text: str) -> None:
        """Shown at the end of the run."""


class OwnDesk:
    """In the process that started the run."""

    def __init__(self, bringer: Bringer) -> None:
        self.bringer = bringer
        self._template = f"leeway_template_{secrets.token_hex(4)}"
        self._locks: dict[Kind, threading.Lock] = {"postgres": threading.Lock(), "rabbitmq": threading.Lock()}
        self._nodes: dict[Kind, Node] = {}
        self._failures: dict[Kind, ServersUnavailableError] = {}

    @property
    def template(self) -> str:
        return self._template

    def started(self, kind: Kind) -> Node | None:
        return self._nodes.get(kind)

    def shared(self, kind: Kind) -> Shared:
        with self._locks[kind]:
            if kind in self._failures:
                raise self._failures[kind]
            if kind not in self._nodes:
                self._bring(kind)
            return Shared(self._nodes[kind].address, self._template)

    def ctl(self, *arguments: str) -> str:
        self.shared("rabbitmq")
        return cast("RabbitMQNode", self._nodes["rabbitmq"]).ctl(*arguments)

    def note(self, text: str) -> None:
        if text not in self.bringer.notes:
            self.bringer.notes.append(text)

    def close(self) -> None:
        for kind, node in self._nodes.items():
            if kind == "postgres" and isinstance(node, AttachedNode):  # it lives on: leave nothing behind
                asyncio.run(Postgres(node, template=self._template).drop_template())
            node.close()
        self._nodes.clear()

    def _bring(self, kind: Kind) -> None:
        bring: dict[Kind, Callable[[], Node]] = {
            "postgres": lambda: self.bringer.postgres(private=False),
            "rabbitmq": lambda: self.bringer.rabbitmq(private=False),
        }
        try:
            self._nodes[kind] = bring[kind]()
        except ServersUnavailableError as error:
            self._failures[kind] = error
            raise


class DeskServer:
    """Lets the workers of a parallel run speak to the controller's desk."""

    def __init__(self, desk: OwnDesk) -> None:
        self._desk = desk
        self._directory = make_directory("desk")
        self.key = secrets.token_bytes(16)
        self.place = str(self._directory / "socket")
        self._listener = Listener(self.place, family="AF_UNIX", authkey=self.key)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        remove_directory(self._directory)

    def _accept(self) -> None:
        while True:
            try:
                connection = self._listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        with connection, contextlib.suppress(EOFError, OSError):
            method, arguments = connection.recv()
            try:
                connection.send(("answer", getattr(self._desk, method)(*arguments)))
            except Exception as error:
                connection.send(("error", str(error)))


class RemoteDesk:
    """In a worker."""

    def __init__(self, place: str, key: bytes) -> None:
        self._place = place
        self._key = key

    def shared(self, kind: Kind) -> Shared:
        shared: Shared = self._ask("shared", kind)
        return shared

    def ctl(self, *arguments: str) -> str:
        return str(self._ask("ctl", *arguments))

    def note(self, text: str) -> None:
        self._ask("note", text)

    def _ask(self, method: str, *arguments: str) -> Any:
        with Client(self._place, family="AF_UNIX", authkey=self._key) as connection:
            connection.send((method, arguments))
            kind, value = connection.recv()
        if kind == "error":
            raise ServersUnavailableError(value)
        return value


def shared_postgres(desk: Desk) -> Postgres:
    shared = desk.shared("postgres")
    return Postgres(AttachedNode(shared.address), template=shared.template)


def shared_rabbitmq(desk: Desk) -> RabbitMQ:
    return RabbitMQ(AttachedNode(desk.shared("rabbitmq").address, ctl=desk.ctl))
