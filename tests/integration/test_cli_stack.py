"""`leeway up --stack`: processes that come back, signals that reach them."""

import asyncio
import os
import re
import signal
import socket
from pathlib import Path

import pytest

from shared.secrets import new_key
from tests.support.commands import environment, leeway, started
from tests.support.eventually import eventually
from tests.support.process import Process, free_port

pytestmark = [pytest.mark.postgres, pytest.mark.rabbitmq, pytest.mark.stack]


def running(process: Process) -> set[str]:
    """Services that said so, by the name that stands before their lines."""
    lines = process.log.read_text().splitlines()
    return {line.split()[0] for line in lines if '"event": "running"' in line}


def children(process: Process) -> list[tuple[str, int]]:
    """The services' modules and process numbers, from /proc."""
    numbers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    words = [Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0") for number in numbers]
    return [(line[2].decode(), int(number)) for line, number in zip(words, numbers, strict=True)]


def is_gone(number: int) -> bool:
    return not Path(f"/proc/{number}").exists()


async def test_who_dies_comes_back_and_all_drain_together(
    empty_database_url: str, amqp_url: str, tmp_path: Path
) -> None:
    port, metrics_port = free_port(), free_port()
    env = environment(
        LEEWAY_DATABASE_URL=empty_database_url,
        LEEWAY_AMQP_URL=amqp_url,
        LEEWAY_SECRET_KEY=new_key(),
        LEEWAY_METRICS_PORT=str(metrics_port),
    )
    unready = await leeway("up", "--stack", cwd=tmp_path, env=env)
    assert unready.code == 1
    assert re.fullmatch(
        r"leeway: The database lacks \d+ of its migrations; run: leeway migrate\n", unready.err
    )
    assert (await leeway("migrate", cwd=tmp_path, env=env)).code == 0

    words = ("up", "--stack", "--agents", "2", "--port", str(port))
    async with started(*words, cwd=tmp_path, env=env, says='"running"') as stack:
        everybody = {"ingest", "guard", "agent-1", "agent-2", "dispatch"}
        await eventually(lambda: running(stack) == everybody, within_s=60)
        places = [port, *range(metrics_port, metrics_port + 4)]
        assert all(f'"http://127.0.0.1:{place}"' in stack.log.read_text() for place in places)
        victims = dict(children(stack))
        for name in ("guard", "agent"):
            os.kill(victims[f"services.{name}"], signal.SIGKILL)
            again = re.compile(rf"{name}\S* +ended \(signal SIGKILL\), starts again in 0\.[345] s\n")
            await eventually(lambda again=again: again.search(stack.log.read_text()) is not None)
        await eventually(lambda: stack.log.read_text().count('["guard"]') == 2, within_s=60)
        await eventually(lambda: stack.log.read_text().count('["agent"]') == 3, within_s=60)

        survivors = [number for _, number in children(stack)]
        assert len(survivors) == 5
        assert await asyncio.to_thread(stack.stop, number=signal.SIGINT) == 0
        assert all(map(is_gone, survivors))
        assert stack.log.read_text().count('"event": "stopping"') == 5


async def test_without_a_key_nothing_is_started(database_url: str, tmp_path: Path) -> None:
    ended = await leeway("up", "--stack", cwd=tmp_path, env=environment(LEEWAY_DATABASE_URL=database_url))
    assert (ended.code, ended.out) == (1, "")
    assert "leeway doctor --new-key" in ended.err


async def test_one_service_runs_alone_until_it_is_asked_to_stop(
    database_url: str, amqp_url: str, tmp_path: Path
) -> None:
    env = environment(LEEWAY_DATABASE_URL=database_url, LEEWAY_AMQP_URL=amqp_url)
    async with started("run", "guard", cwd=tmp_path, env=env, says='"running"') as process:
        assert await asyncio.to_thread(process.stop, number=signal.SIGTERM) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_service_that_waits_for_its_servers_can_be_stopped(
    database_url: str, tmp_path: Path, number: signal.Signals
) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    without_postgres = environment(LEEWAY_DATABASE_URL=f"postgresql://nobody:x@{nowhere}/none")
    without_rabbitmq = environment(
        LEEWAY_DATABASE_URL=database_url, LEEWAY_AMQP_URL=f"amqp://nobody:x@{nowhere}/"
    )
    for env in (without_postgres, without_rabbitmq):
        async with started("run", "guard", cwd=tmp_path, env=env, says='"event"') as process:
            assert await asyncio.to_thread(process.stop, number=number) == 0


async def test_a_service_says_in_one_line_that_its_port_is_taken(
    database_url: str, amqp_url: str, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        env = environment(
            LEEWAY_DATABASE_URL=database_url,
            LEEWAY_AMQP_URL=amqp_url,
            LEEWAY_METRICS_PORT=str(port),
            LEEWAY_LOG_LEVEL="error",
        )
        ended = await leeway("run", "guard", cwd=tmp_path, env=env)
    assert (ended.code, ended.err) == (
        1,
        f"leeway: 127.0.0.1:{port} can't be listened on (Address already in use); choose another with LEEWAY_METRICS_PORT.\n",
    )
