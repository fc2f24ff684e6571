"""The audit log in Postgres: entries are appended inside the transaction of what they tell, and read to be verified."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shared.audit import GENESIS, Broken, Entry, Head, Intact, Note, chained, verify
from shared.database import Database, Transaction, load_queries
from shared.errors import Conflict
from shared.ids import BusinessId

QUERIES = load_queries(Path(__file__).with_name("audit.sql"))

Row = Mapping[str, Any]


async def append(transaction: Transaction, business: BusinessId, note: Note) -> Entry:
    """Chain the note on, as the transaction's last step: the head stays locked until its end."""
    assert note.actor.strip(), "somebody decided it"
    (head,) = await transaction.fetch(QUERIES["audit_head"], business, GENESIS)
    entry = Entry(business=business, n=head["n"] + 1, at=head["now"], note=note)
    digest = chained(head["digest"], entry)
    said = (note.actor, note.action, note.subject, note.detail)
    if not await transaction.fetch(QUERIES["audit_append"], business, entry.n, entry.at, *said, digest):
        raise Conflict("The audit log's head moved under its lock.")
    return entry


class PostgresAudit:
    """Reads the log."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def businesses(self, slug: str | None = None) -> Sequence[tuple[BusinessId, str]]:
        """All of them, or the one named, with their slugs."""
        rows = await self._database.fetch(QUERIES["businesses"], slug)
        return [(BusinessId(row["id"]), row["slug"]) for row in rows]

    async def last(self, slug: str | None, *, most: int) -> Sequence[Row]:
        """The latest entries, oldest first."""
        return await self._database.fetch(QUERIES["audit_last"], slug, most)

    async def verified(self, business: BusinessId) -> Intact | Broken:
        """The whole log of a business, held against itself and its head."""
        rows = await self._database.fetch(QUERIES["audit_chain"], business)
        head = Head()
        if rows and rows[0]["head_n"] is not None:
            head = Head(n=rows[0]["head_n"], digest=rows[0]["head_digest"])
        written = [(_entry(business, row), row["digest"]) for row in rows if row["n"] is not None]
        return verify(written, head)


def _entry(business: BusinessId, row: Row) -> Entry:
    note = Note(actor=row["actor"], action=row["action"], subject=row["subject"], detail=row["detail"])
    return Entry(business=business, n=row["n"], at=row["at"], note=note)
