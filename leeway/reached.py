"""The database of an installation that may be running or not, for commands that work on it as a whole."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from leeway.embedded import embedded_postgres, only_one
from leeway.installation import running_in, the_one_meant
from shared.settings import load_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A database that answers, and where its secret key is, in words."""

    url: str
    key: str
    embedded: bool


@contextmanager
def reached(directory: Path, *, new: bool = False) -> Iterator[Place]:
    """The environment's, if it names one; else the one of a `leeway up` on the directory, started for as long as this lasts when
    none runs. `new`: one is made there. Raises Misconfigured."""
    key = str(directory / "secret.key")
    settings = load_settings()
    if "database_url" in settings.model_fields_set:
        yield Place(url=settings.database_url.get_secret_value(), key="LEEWAY_SECRET_KEY", embedded=False)
    elif running_in(directory) is not None or not (new or (directory / "postgres" / "PG_VERSION").exists()):
        yield Place(url=the_one_meant(directory).database_url, key=key, embedded=True)
    else:
        with only_one(directory), embedded_postgres(directory / "postgres") as url:
            yield Place(url=url, key=key, embedded=True)
