"""The two servers under every contestant: their URLs, and the processes whose CPU is theirs."""

from dataclasses import dataclass
from urllib.parse import urlsplit

import asyncpg
import psutil

AMQP_PORT = 5672


class ServerNotFoundError(Exception):
    """The process behind a URL cannot be told from here, so its CPU could not be counted."""


@dataclass(frozen=True)
class Urls:
    """Where the broker and Postgres answer."""

    amqp: str
    database: str


@dataclass(frozen=True)
class Servers:
    """The URLs, with the root of each server's process tree."""

    urls: Urls
    broker_pid: int
    database_pid: int


async def find_servers(urls: Urls, *, broker_pid: int | None, database_pid: int | None) -> Servers:
    """Takes the pids given, and finds the others: the broker by its port, Postgres by asking it."""
    return Servers(
        urls=urls,
        broker_pid=broker_pid or _listener(urlsplit(urls.amqp).port or AMQP_PORT),
        database_pid=database_pid or await _postmaster(urls.database),
    )


def _listener(port: int) -> int:
    """The process that listens on a TCP port of this machine."""
    for connection in psutil.net_connections(kind="tcp"):
        local = connection.laddr
        if connection.status == psutil.CONN_LISTEN and local and local.port == port and connection.pid:
            return int(connection.pid)
    raise ServerNotFoundError(f"no process seen here listens on port {port}: give one with --broker-pid")


async def _postmaster(database_url: str) -> int:
    """The parent of the backend that serves us. (`pg_backend_pid` is a pid where the server runs.)"""
    connection = await asyncpg.connect(database_url)
    try:
        backend = await connection.fetchval("SELECT pg_backend_pid()")
        try:
            process = psutil.Process(backend)
            parent = process.parent()
        except psutil.NoSuchProcess:
            parent = None
        if parent is None or "postgres" not in process.name():
            raise ServerNotFoundError(
                "Postgres runs where its pids mean nothing here: give one with --database-pid"
            )
        return int(parent.pid)
    finally:
        await connection.close()
