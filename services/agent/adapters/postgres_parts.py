"""Parts of messages in Postgres, as listening needs them."""

from pathlib import Path

from shared.database import Database, load_queries
from shared.ids import BusinessId, MessageId
from shared.text import storable

QUERIES = load_queries(Path(__file__).with_name("parts.sql"))


class PostgresParts:
    """services.agent.listening.PartsRecord."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def content(self, business: BusinessId, message: MessageId, n: int) -> bytes | None:
        rows = await self._database.fetch(QUERIES["content"], business, message, n)
        content: bytes | None = rows[0]["content"] if rows else None
        return content

    async def keep_words(self, business: BusinessId, message: MessageId, n: int, words: str) -> None:
        await self._database.fetch(QUERIES["keep_words"], business, message, n, storable(words))
