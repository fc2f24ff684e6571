"""Named queries from ``.sql`` files. Python holds no SQL text: it asks for a query by name.

A file holds queries one after another. Each begins with ``-- name: some_name`` and at least one comment line that says
what it is for; parameters are ``$1``, ``$2``, …
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from shared.errors import Misconfigured
from shared.packs import Pack

_NAME = re.compile(r"^-- name: ([a-z][a-z0-9_]*)$", re.MULTILINE)


class Queries(Mapping[str, str]):
    """The queries of one or more files by name. An unknown name is our mistake: KeyError."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = dict(texts)

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def load_queries(*files: Path, prefix: str = "") -> Queries:
    """Read every query of the files; names get `prefix`. Raises Misconfigured for a repeated or unexplained one."""
    texts: dict[str, str] = {}
    for file in files:
        for name, text in _split(file.read_text(encoding="utf-8")):
            if not text.startswith("-- "):
                raise Misconfigured(f"{file.name}: query {name} has no line that says what it is for.")
            if prefix + name in texts:
                raise Misconfigured(f"{file.name}: a second query is called {name}.")
            texts[prefix + name] = f"/* {prefix}{name} */ {_bare(text)}"
    return Queries(texts)


def queries_of(pack: Pack) -> Queries:
    """The queries of a pack, named `pack.query`. Raises Misconfigured as `load_queries`."""
    return load_queries(*pack.queries, prefix=f"{pack.name}.")


def _split(content: str) -> Iterator[tuple[str, str]]:
    found = list(_NAME.finditer(content))
    for here, after in zip(found, [*found[1:], None], strict=True):
        end = after.start() if after else len(content)
        yield here.group(1), content[here.end() : end].strip()


def _bare(text: str) -> str:
    """The statement without its leading comment lines: a name is enough for pg_stat_activity."""
    lines = text.splitlines()
    while lines and lines[0].startswith("--"):
        lines.pop(0)
    return "\n".join(lines).strip().removesuffix(";")
