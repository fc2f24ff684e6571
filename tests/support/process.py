"""Child processes of a test run: each in its own session, and gone when the run is gone, however it ended.

A small reaper (this file, run as a script) holds the other end of a pipe. When the test process ends, also by
SIGKILL, the pipe closes and the reaper kills what is still registered and removes its directories.
"""

import atexit
import contextlib
import functools
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

Kind = Literal["group", "directory", "container", "project"]

POLL_SECONDS = 0.05
LOG_TAIL_CHARS = 2_000
PORTS = range(12_000, 32_000)


def free_port() -> int:
    """A TCP port that nothing listens on now, of those that the system gives nobody by itself: else a connection or another
    server takes it before it is used."""
    while True:
        port = secrets.choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def wait_until(check: Callable[[], bool], *, seconds: float, what: str) -> None:
    """Polls `check` until it holds; TimeoutError names `what` when it does not hold in time."""
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s")
        time.sleep(POLL_SECONDS)


def make_directory(name: str) -> Path:
    """A new temporary directory that goes with the test run; other users may pass through it."""
    directory = Path(tempfile.mkdtemp(prefix=f"leeway-test-{name}-"))
    directory.chmod(0o711)
    reaper().watch("directory", str(directory))
    return directory


def remove_directory(directory: Path) -> None:
    remove_stubborn(directory)
    reaper().forget("directory", str(directory))


class Process:
    """One running program with its output in a log file; everything in its process group dies with it."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
        directory: Path | None = None,
    ) -> None:
        self.log = log
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=directory,
                user=user,
                group=group_of(user),
                preexec_fn=_hear_ctrl_c,  # noqa: PLW1509  one thread starts processes, and the child only resets a signal
                extra_groups=None if user is None else [],
                start_new_session=True,
            )
        reaper().watch("group", str(self._child.pid))

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._child.poll()

    @property
    def is_running(self) -> bool:
        return self.exit_code is None

    def send(self, number: signal.Signals) -> None:
        """To the program alone, not to its children."""
        self._child.send_signal(number)

    def stop(self, *, seconds: float = 20, number: signal.Signals = signal.SIGTERM) -> int:
        """Asks the program to end, kills it when it has not after `seconds`; returns its exit code."""
        self.send(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(seconds)
        return self.kill()

    def kill(self) -> int:
        """Ends the whole process group at once; returns the program's exit code."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        code = self._child.wait(10)
        reaper().forget("group", str(self.pid))
        return code

    def log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-LOG_TAIL_CHARS:].strip()


def _hear_ctrl_c() -> None:
    """A run in the background ignores SIGINT, and so would its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def group_of(user: str | None) -> int | None:
    if user is None:
        return None
    import pwd

    return pwd.getpwnam(user).pw_gid


class Reaper:
    """This side of the pipe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        atexit.register(self.close)

    def watch(self, kind: Kind, name: str) -> None:
        self._tell("watch", kind, name)

    def forget(self, kind: Kind, name: str) -> None:
        self._tell("forget", kind, name)

    def close(self) -> None:
        if self._child.stdin is not None and not self._child.stdin.closed:
            self._child.stdin.close()
            self._child.wait(30)

    def _tell(self, verb: str, kind: Kind, name: str) -> None:
        stdin = self._child.stdin
        if stdin is None or stdin.closed:
            return
        with self._lock:
            stdin.write(json.dumps([verb, kind, name]).encode() + b"\n")
            stdin.flush()


@functools.cache
def reaper() -> Reaper:
    return Reaper()


def reap() -> None:
    """The other side of the pipe: remembers until the pipe closes, then ends what is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    things: dict[tuple[str, str], None] = {}
    for line in sys.stdin:
        verb, kind, name = json.loads(line)
        if verb == "watch":
            things[kind, name] = None
        else:
            things.pop((kind, name), None)
    for kind, name in things:
        if kind == "group":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(int(name), signal.SIGKILL)
        elif kind == "container" and (docker := shutil.which("docker")):
            subprocess.run([docker, "rm", "--force", "--volumes", name], check=False, capture_output=True)
        elif kind == "project" and (docker := shutil.which("docker")):
            down = [docker, "compose", "--project-name", name, "down", "--volumes", "--timeout", "5"]
            for command in (down, [docker, "image", "rm", "--force", f"{name}:local"]):
                subprocess.run(command, check=False, capture_output=True)
    for kind, name in things:
        if kind == "directory":
            remove_stubborn(Path(name))


def remove_stubborn(directory: Path) -> None:
    """Removes a directory that a dying process may still write to."""
    for _ in range(20):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
        time.sleep(0.1)


if __name__ == "__main__":
    reap()
