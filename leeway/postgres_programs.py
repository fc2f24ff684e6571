"""PostgreSQL's own programs for back-ups, where this machine has them: beside a server, on PATH, in the embedded one's wheel.

A program dumps servers of its own version and older ones, and is meant to restore to its own version: so the nearest is taken.
"""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from leeway.children import dies_with_us
from leeway.embedded import programs_of_the_wheel
from shared.errors import Misconfigured

PLACES: Final = (("/usr/lib/postgresql", "*/bin"), ("/usr", "pgsql-*/bin"))


def program(name: str, *, server: int) -> Path:
    """`pg_dump` or `pg_restore` for a server of that major version. Raises Misconfigured when there is none so new."""
    found = sorted({(_major(path), str(path)) for path in _candidates(name)})
    fitting = [path for major, path in found if major >= server]
    if not fitting:
        there = ", ".join(str(major) for major, _ in found) or "none"
        raise Misconfigured(
            f"There is no {name} of PostgreSQL {server} or newer here (found: {there}); install postgresql-client-{server}, "
            "or run it where the server is."
        )
    return Path(fitting[0])


def run(command: Sequence[str], url: str, *, reads: IO[bytes] | None, writes: IO[bytes] | None) -> None:
    """Run it against the database, for no longer than we live; the password goes by the environment, which `ps` doesn't show.

    Raises Misconfigured.
    """
    bare, password = _without_password(url)
    ended = subprocess.run(  # noqa: S603  no shell; PostgreSQL's own program, options of ours
        [*command, "--no-password", f"--dbname={bare}"],
        stdin=reads or subprocess.DEVNULL,
        stdout=writes or subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=dies_with_us(signal.SIGTERM),  # a load that we can't bring to its end must not become one
        env=os.environ | ({"PGPASSWORD": password} if password else {}),  # noqa: TID251  pg_dump and pg_restore take their own variables (PGSSLMODE, …) from ours
        check=False,
    )
    if ended.returncode:
        said = [line for line in ended.stderr.decode(errors="replace").splitlines() if line.strip()]
        why = next(
            (line for line in said if ": error: " in line), said[0] if said else ""
        )  # warnings may come first
        raise Misconfigured(_told(why) if why else f"{command[0]} ended with {ended.returncode}")


def _told(said: str) -> str:
    """What it said; where that is what an older server or program says to something newer, that it is."""
    if "unsupported version" in said or "unrecognized" in said:
        return (
            f"{said}: it was made by a newer PostgreSQL than the server's; restore into one of that version"
        )
    return said


def _candidates(name: str) -> Iterator[Path]:
    if on_path := shutil.which(name):
        yield Path(on_path).resolve()
    places = [folder for root, pattern in PLACES for folder in Path(root).glob(pattern)]
    for folder in (*places, *programs_of_the_wheel()):
        if (folder / name).exists():
            yield folder / name


def _major(path: Path) -> int:
    """0 where it doesn't say, as Debian's wrapper without a cluster doesn't."""
    said = subprocess.run([str(path), "--version"], capture_output=True, text=True, check=False)  # noqa: S603  no shell; a program that was found on PATH or in the wheel, and a constant option
    match = re.search(r"\) (\d+)", said.stdout)
    return int(match[1]) if match else 0


def _without_password(url: str) -> tuple[str, str]:
    """It may stand before the host, or among the parameters."""
    parts = urlsplit(url)
    parameters = [one.partition("=") for one in parts.query.split("&") if one]
    passwords = [value for name, _, value in parameters if name == "password"]
    kept = "&".join("".join(one) for one in parameters if one[0] != "password")
    parts = parts._replace(query=kept)
    if parts.password is not None:
        passwords.append(parts.password)
        address = parts.netloc.rpartition("@")[2]
        user = quote(unquote(parts.username or ""), safe="")
        parts = parts._replace(netloc=f"{user}@{address}")
    return urlunsplit(parts), unquote(passwords[-1]) if passwords else ""
