"""The two servers under every contestant: their URLs, and the processes whose CPU is theirs."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import asyncpg
import psutil

from tests.support.servers import private_servers

AMQP_PORT = 5672
POSTGRES_PORT = 5432
DURABLE = ("fsync", "synchronous_commit")


class ServerNotFoundError(Exception):
    """A server can't be measured: its process can't be told from here, or it is not durable."""


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
    description: str
    """What they are, and how durable Postgres is set."""


@asynccontextmanager
async def servers_for(
    urls: Urls | None, *, broker_pid: int | None, database_pid: int | None
) -> AsyncIterator[Servers]:
    """Those at the URLs; without URLs a durable pair of the bench's own, which ends with it."""
    if urls is not None:
        yield await find_servers(urls, broker_pid=broker_pid, database_pid=database_pid)
        return
    async with private_servers(durable=True) as pair:
        own = Urls(pair.rabbitmq.url, pair.postgres.url)
        found = await find_servers(own, broker_pid=broker_pid, database_pid=database_pid)
        yield replace(found, description=f"{pair.rabbitmq.description}; {found.description}")


async def find_servers(urls: Urls, *, broker_pid: int | None, database_pid: int | None) -> Servers:
    """Takes the pids given, and finds the others: by the port, by asking Postgres, or as a container's.

    Raises `ServerNotFoundError`, also for a Postgres that does not keep what it confirmed.
    """
    return Servers(
        urls=urls,
        broker_pid=broker_pid or await _broker(urlsplit(urls.amqp).port or AMQP_PORT),
        database_pid=database_pid or await _postmaster(urls.database),
        description=await _durability(urls.database),
    )


async def _broker(port: int) -> int:
    """The process that listens on a TCP port of this machine, or the container whose port it is."""
    for connection in psutil.net_connections(kind="tcp"):
        local = connection.laddr
        if (
            connection.status == psutil.CONN_LISTEN
            and local
            and local.port == port
            and connection.pid
            and "docker" not in psutil.Process(connection.pid).name()
        ):
            return int(connection.pid)
    if (pid := await _container(port)) is not None:
        return pid
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
        if parent is not None and "postgres" in process.name():
            return int(parent.pid)
    finally:
        await connection.close()
    if (pid := await _container(urlsplit(database_url).port or POSTGRES_PORT)) is not None:
        return pid
    raise ServerNotFoundError("Postgres runs where its pids mean nothing here: give one with --database-pid")


async def _container(port: int) -> int | None:
    """The first process of the container that publishes this port, if Docker knows one on this machine."""
    if shutil.which("docker") is None:
        return None
    name = await _output("docker", "ps", "--quiet", "--filter", f"publish={port}")
    pid = await _output("docker", "inspect", "--format", "{{.State.Pid}}", name) if name else ""
    return int(pid) if pid.isdigit() and psutil.pid_exists(int(pid)) else None


async def _output(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    printed, _ = await process.communicate()
    return printed.decode().strip()


async def _durability(database_url: str) -> str:
    connection = await asyncpg.connect(database_url)
    try:
        found = {name: await connection.fetchval(f"SHOW {name}") for name in DURABLE}
        version = await connection.fetchval("SHOW server_version")
    finally:
        await connection.close()
    if off := [name for name, value in found.items() if value != "on"]:
        raise ServerNotFoundError(
            f"Postgres is not durable, so its figures mean nothing: {', '.join(off)} off"
        )
    return f"PostgreSQL {version} with {' and '.join(DURABLE)} on"
