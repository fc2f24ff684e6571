"""`leeway up --stack`: the four services as processes, restarted when they die, each line under its name."""

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rich.text import Text

from leeway.children import dies_with_us
from leeway.terminal import console, shown
from shared.database.migrate import LACKS, pending
from shared.errors import Misconfigured, Unavailable
from shared.jitter import between
from shared.packs import load_packs, migrations_of
from shared.secrets import vault_of
from shared.settings import Settings

BACKOFF_FIRST_S: Final = 0.5
BACKOFF_MAX_S: Final = 30.0
LASTED_S: Final = 30.0  # who lived so long starts afresh
LINE_BYTES_MAX: Final = 64 * 1024
STYLES: Final = {"ingest": "cyan", "guard": "yellow", "agent": "magenta", "dispatch": "green"}


async def run_stack(settings: Settings, *, agents: int) -> int:
    """Run until SIGTERM or SIGINT, then drain; a second signal kills. The exit code.

    Raises Misconfigured for what would only fail in each process by itself.
    """
    await _refuse_unready(settings)
    stop = _Stop()
    names = [
        "ingest",
        "guard",
        *(["agent"] if agents == 1 else [f"agent-{n}" for n in range(1, agents + 1)]),
        "dispatch",
    ]
    watched = [
        _Watched(name, grace_s=settings.timeouts.grace, stop=stop, ports=_ports(settings, nth))
        for nth, name in enumerate(names)
    ]
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.ask)
    async with asyncio.TaskGroup() as tasks:
        for one in watched:
            tasks.create_task(one.keep())
    return 1 if any(one.was_killed for one in watched) else 0


def _ports(settings: Settings, nth: int) -> Mapping[str, str]:
    """Ingest, the first, shows its metrics where its webhooks come; of the others each takes the port after the last one's."""
    metrics_port = settings.metrics_port + max(nth - 1, 0) if settings.metrics_port else 0
    return {"LEEWAY_PORT": str(settings.port), "LEEWAY_METRICS_PORT": str(metrics_port)}


async def _refuse_unready(settings: Settings) -> None:
    vault_of(settings)
    try:
        url = settings.database_url.get_secret_value()
        missing = await pending(url, packs=migrations_of(load_packs()))
    except Unavailable as error:
        console.print(f"{error}; the services wait for it.", markup=False)
        return
    if missing:
        raise Misconfigured(LACKS.format(len(missing)))


class _Stop:
    """Asked once: drain. Asked again: now."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.at_once = asyncio.Event()

    def ask(self) -> None:
        (self.at_once if self.asked.is_set() else self.asked).set()


@dataclass(slots=True)
class _Watched:
    """One process by name, kept running until it is asked to stop."""

    name: str
    grace_s: float
    stop: _Stop
    ports: Mapping[str, str]
    was_killed: bool = False

    async def keep(self) -> None:
        clock = asyncio.get_running_loop().time
        failures = 0
        while not self.stop.asked.is_set():
            since = clock()
            code = await self._run_once()
            if self.stop.asked.is_set():
                return
            failures = 1 if clock() - since > LASTED_S else failures + 1
            pause = min(BACKOFF_FIRST_S * 2 ** (failures - 1), BACKOFF_MAX_S) * between(0.75, 1)
            self._print(f"ended ({_how(code)}), starts again in {pause:.1f} s", style="bold red")
            await _either(self.stop.asked.wait(), asyncio.sleep(pause))

    async def _run_once(self) -> int:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            f"services.{self.name.partition('-')[0]}",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            limit=LINE_BYTES_MAX,
            env={**os.environ, **self.ports},  # noqa: TID251  each service reads its settings from the environment that we were given
            start_new_session=True,  # Ctrl-C reaches us alone, and we ask them
            preexec_fn=dies_with_us(signal.SIGTERM),
        )
        async with asyncio.TaskGroup() as tasks:
            stopping = tasks.create_task(self._end_when_asked(process))
            assert process.stdout is not None, "it is a pipe"
            await self._pass_on(process.stdout)
            code = await process.wait()
            stopping.cancel()
        return code

    async def _end_when_asked(self, process: asyncio.subprocess.Process) -> None:
        await self.stop.asked.wait()
        if process.returncode is None:
            process.terminate()
        await _either(self.stop.at_once.wait(), asyncio.sleep(self.grace_s))
        if process.returncode is None:
            self.was_killed = True
            process.kill()

    async def _pass_on(self, output: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await output.readline()
            except ValueError:  # longer than any line of ours
                continue
            if not line:
                return
            self._print(line.decode(errors="replace").rstrip())

    def _print(self, line: str, *, style: str = "") -> None:
        head = Text().append(f"{self.name:<9} ", style=STYLES[self.name.partition("-")[0]])
        console.print(head.append(shown(line), style=style), soft_wrap=True)


async def _either(*waits: Coroutine[Any, Any, object]) -> None:
    tasks = [asyncio.create_task(one) for one in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _how(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
