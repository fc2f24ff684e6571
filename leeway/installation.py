"""Which installation a command speaks to: a running `leeway up`, or the one that the environment names.

A running `leeway up` leaves a note in its directory; the note counts only while the directory is held.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer
from pydantic import SecretStr

from leeway.keys import secret_key
from shared.errors import Misconfigured
from shared.settings import Settings, load_settings

DIRECTORY: Final = Path(".leeway")
NOTE: Final = "running.json"

Data = Annotated[
    Path, typer.Option("--data", help="The directory of a running `leeway up`.", file_okay=False)
]


class Note(msgspec.Struct, frozen=True):
    """Where a running `leeway up` is reached."""

    url: str
    database_url: str
    sim_address: str


@contextmanager
def noted(directory: Path, note: Note) -> Iterator[None]:
    """Leave the note for as long as the context lasts."""
    path = directory / NOTE
    path.touch(mode=0o600)
    path.write_bytes(msgspec.json.encode(note))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def running_in(directory: Path) -> Note | None:
    """The note of the `leeway up` that runs on the directory; None when none does."""
    if not _is_held(directory / "lock"):
        return None
    try:
        return msgspec.json.decode((directory / NOTE).read_bytes(), type=Note)
    except (OSError, msgspec.DecodeError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """`embedded`: a running `leeway up`, whose broker is in its memory."""

    settings: Settings
    embedded: bool

    @property
    def database_url(self) -> str:
        return self.settings.database_url.get_secret_value()


def the_one_meant(directory: Path) -> Installation:
    """The environment's, if it names a database; else the one that runs on the directory.

    Raises Misconfigured when neither is there.
    """
    settings = load_settings()
    if "database_url" in settings.model_fields_set:
        return Installation(settings=settings, embedded=False)
    note = running_in(directory)
    if note is None:
        raise Misconfigured(
            f"LEEWAY_DATABASE_URL is not set, and no `leeway up` is running on {directory}; do either."
        )
    return Installation(settings=_settings_of(settings, note, directory), embedded=True)


def the_running_one(directory: Path) -> tuple[Note, Settings]:
    """The `leeway up` that runs on the directory. Raises Misconfigured when none does."""
    note = running_in(directory)
    if note is None:
        raise Misconfigured(f"No `leeway up` is running on {directory}; start one, or name it with --data.")
    return note, _settings_of(load_settings(), note, directory)


def _settings_of(settings: Settings, note: Note, directory: Path) -> Settings:
    key = settings.secret_key or SecretStr(secret_key(directory))
    return settings.model_copy(
        update={"database_url": SecretStr(note.database_url), "secret_key": key, "pool_size": 2}
    )


def _is_held(lock: Path) -> bool:
    try:
        with lock.open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
