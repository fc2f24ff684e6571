"""What waits, in Postgres: one look without a lock."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from services.ingest.core.standing import Found, What
from shared.database import Database, load_queries

QUERIES = load_queries(Path(__file__).with_name("standing.sql"))
COUNTED_MOST: Final = 10_000
DUE_FOR: Final = timedelta(seconds=2)


class PostgresStanding:
    """services.ingest.ports.Standing."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def look(self, *, due_for: timedelta = DUE_FOR) -> Sequence[Found]:
        """`due_for`: since when a step must be due to be owed."""
        rows = await self._database.fetch(QUERIES["standing"], COUNTED_MOST, due_for)
        return [
            Found(
                what=What(row["what"]),
                labels=tuple(row["labels"]),
                number=row["number"],
                oldest_s=row["oldest"].total_seconds() if row["oldest"] else 0.0,
            )
            for row in rows
        ]
