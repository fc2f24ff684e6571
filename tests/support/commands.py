"""The `leeway` command as a child process, as a person would call it."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.eventually import eventually
from tests.support.process import Process

LEEWAY = (sys.executable, "-m", "leeway")
PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR")


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


def environment(**more: str) -> dict[str, str]:
    """Little of ours, so that no setting of a developer's changes a test; 80 columns."""
    kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}  # noqa: TID251
    return kept | {"COLUMNS": "80"} | more


async def leeway(
    *words: str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    within_s: float = 60,
    typed: bytes | None = None,
) -> Ended:
    """Run it to its end; `typed` is piped into it."""
    process = await asyncio.create_subprocess_exec(
        *LEEWAY,
        *words,
        cwd=cwd,
        env=dict(env or environment()) | {"PYTHONPATH": str(Path(__file__).parents[2])},
        stdin=asyncio.subprocess.DEVNULL if typed is None else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(within_s):
            out, err = await process.communicate(typed)
    except TimeoutError:
        process.kill()
        await process.communicate()
        raise
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


@contextlib.asynccontextmanager
async def started(
    *words: str, cwd: Path, env: Mapping[str, str] | None = None, says: str
) -> AsyncIterator[Process]:
    """Run it beside the test, once it said that; what is left of it at the end is killed."""
    log = cwd / f"{'-'.join(words[:1])}.log"
    log.unlink(missing_ok=True)
    process = Process(
        [*LEEWAY, *words],
        log=log,
        environment=dict(env or environment()) | {"PYTHONPATH": str(Path(__file__).parents[2])},
        directory=cwd,
    )
    try:
        await eventually(lambda: says in log.read_text() or not process.is_running, within_s=60)
        assert says in log.read_text(), log.read_text()
        yield process
    finally:
        if process.is_running:
            process.send(signal.SIGKILL)
        process.kill()
