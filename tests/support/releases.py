"""The queries of past releases, kept so that today's schema can be held against them.

``python -m tests.support.releases NAME`` keeps those of the code that it is run in, at a release.
"""

import gzip
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

RELEASES = Path(__file__).parents[1] / "data" / "releases"


@dataclass(frozen=True)
class PastQuery:
    """A query, and the role that its release ran it as."""

    file: str
    name: str
    role: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.name}"


def releases() -> Sequence[str]:
    """Their names, oldest first."""
    return sorted(path.name.removesuffix(".json.gz") for path in RELEASES.glob("*.json.gz"))


def queries_of(release: str) -> Sequence[PastQuery]:
    kept = json.loads(gzip.decompress((RELEASES / f"{release}.json.gz").read_bytes()))
    return [PastQuery(**query) for query in kept]


def keep(release: str, queries: Iterator[PastQuery]) -> Path:
    """Write them down; the same queries are the same bytes."""
    RELEASES.mkdir(exist_ok=True)
    path = RELEASES / f"{release}.json.gz"
    text = json.dumps([asdict(query) for query in queries], ensure_ascii=False, indent=1)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    return path


if __name__ == "__main__":
    from tests.integration.test_queries import QUERIES

    made = keep(sys.argv[1], (PastQuery(one.file, one.name, one.role, one.text) for one in QUERIES))
    sys.stdout.write(f"{len(queries_of(sys.argv[1]))} queries in {made}\n")
