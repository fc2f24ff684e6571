"""The secret key of an embedded installation, in a file beside its data."""

from pathlib import Path

from shared.secrets import new_key


def secret_key(directory: Path) -> str:
    """The installation's key, made on the first start and kept beside the data, for its owner only."""
    path = directory / "secret.key"
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        unfinished.touch(mode=0o600)
        unfinished.write_text(new_key(), encoding="ascii")
        unfinished.rename(path)
    return path.read_text(encoding="ascii").strip()
