"""Keys and passwords that an installation makes for itself, each in a file, once."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path

from shared.secrets import new_key

PASSWORD_BYTES = 24


def secret_key(directory: Path) -> str:
    """The key of an embedded installation, made on the first start and kept beside the data, for its owner only."""
    path = directory / "secret.key"
    make_once(path, new_key)
    return path.read_text(encoding="ascii").strip()


def new_password() -> str:
    """Of letters, digits, - and _."""
    return secrets.token_urlsafe(PASSWORD_BYTES)


def make_once(path: Path, make: Callable[[], str], *, group: int | None = None) -> bool:
    """Make the file unless it is there, whole or not at all, for its owner and the group; whether it was made."""
    if path.exists():
        return False
    unfinished = path.with_name(f"{path.name}.{secrets.token_hex(4)}.unfinished")
    unfinished.touch(mode=0o600)
    try:
        with unfinished.open("w", encoding="ascii") as file:
            file.write(make())
            file.flush()
            os.fsync(file.fileno())
        if group is not None:
            os.chown(unfinished, -1, group)
            unfinished.chmod(0o440)
        path.hardlink_to(unfinished)
    except FileExistsError:  # another process was quicker
        return False
    finally:
        unfinished.unlink()
    return True
