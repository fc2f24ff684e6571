"""Processes that a contestant starts, the CPU they use, and their certain end."""

import ctypes
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.bench.model import Cpu
from tests.bench.servers import Servers

STOP_SECONDS = 2.0
SET_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of <sys/prctl.h>."""


class WorkerDiedError(Exception):
    """A worker ended by itself while it was needed; the text holds the end of its log."""


@dataclass
class Crew:
    """The worker processes of one contestant, each with a log in `folder`; `stop` ends all of them."""

    folder: Path
    _members: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _logs: dict[int, Path] = field(default_factory=dict)

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Starts one worker, which is told to stop should this process die first.

        To be called from the main thread: the death signal belongs to the thread that started the child.
        """
        path = self.folder / f"worker-{len(self._logs)}.log"
        with path.open("wb") as log:
            member = subprocess.Popen(
                list(command),
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 - one prctl
            )
        self._members.append(member)
        self._logs[member.pid] = path

    @property
    def pids(self) -> list[int]:
        """The processes started here; what they start themselves hangs below them."""
        return [member.pid for member in self._members]

    def check(self) -> None:
        """Raises `WorkerDiedError` when a worker is gone."""
        for member in self._members:
            if member.poll() is not None:
                log = self._logs[member.pid]
                tail = log.read_text(errors="replace")[-2_000:]
                raise WorkerDiedError(f"{log.stem} ended with {member.returncode}:\n{tail}")

    def kill(self, pid: int) -> None:
        """SIGKILL to one worker; returns when it is gone. It is no longer one of the crew then."""
        member = next(member for member in self._members if member.pid == pid)
        self._members.remove(member)
        member.kill()
        member.wait(timeout=STOP_SECONDS)

    def stop(self) -> None:
        """Asks every process of the trees to end, and kills those that are still there two seconds later."""
        family = [process for pid in self.pids for process in _tree(pid)]
        _signal(family, signal.SIGTERM)
        _, left = psutil.wait_procs(family, timeout=STOP_SECONDS)
        _signal(left, signal.SIGKILL)
        psutil.wait_procs(left, timeout=STOP_SECONDS)
        for member in self._members:
            member.wait(timeout=STOP_SECONDS)
        self._members.clear()


class CpuMeter:
    """CPU seconds since `start`, of a crew and of both servers; processes that ended meanwhile included."""

    def __init__(self, servers: Servers, crew_pids: Sequence[int]) -> None:
        self._roots = (list(crew_pids), [servers.broker_pid], [servers.database_pid])
        self._began = self._read()

    def used(self) -> Cpu:
        """What was used since this meter was made."""
        client, broker, database = (now - then for now, then in zip(self._read(), self._began, strict=True))
        return Cpu(client, broker, database)

    def _read(self) -> tuple[float, float, float]:
        client, broker, database = (sum(map(_tree_cpu_s, roots)) for roots in self._roots)
        return client, broker, database


def wait_until(seconds: float) -> float:
    """The monotonic moment that lies `seconds` ahead: the end of a bounded wait."""
    return time.monotonic() + seconds


def _tree(pid: int) -> list[psutil.Process]:
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _tree_cpu_s(pid: int) -> float:
    """User and system time of a tree; a child that was waited for is counted in its parent's share."""
    total = 0.0
    for process in _tree(pid):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def _signal(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            continue


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
