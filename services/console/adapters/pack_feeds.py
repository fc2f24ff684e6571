"""The packs' feeds, asked as the tenant."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from shared.database import Database, load_queries, queries_of
from shared.ids import BusinessId
from shared.packs import NOBODY, Feed, Feeds, Pack, ToolContext

QUERIES = load_queries(Path(__file__).with_name("feeds.sql"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """A business, which may have feeds."""

    id: BusinessId
    pack: str
    zone: ZoneInfo
    locale: str  # its first
    now: datetime  # business time


class PackFeeds:
    """The feeds of businesses, by their packs. Every method raises Unavailable when the database is away."""

    def __init__(self, database: Database, packs: Mapping[str, Pack]) -> None:
        self._database = database
        self._packs: Mapping[str, Feeds] = {
            name: pack for name, pack in packs.items() if isinstance(pack, Feeds)
        }
        self._queries = {name: queries_of(pack) for name, pack in packs.items() if name in self._packs}

    async def ping(self) -> None:
        """Whether the database answers."""
        await self._database.fetch(QUERIES["ping"])

    async def publisher(self, slug: str) -> Publisher | None:
        rows = await self._database.fetch(QUERIES["publisher"], slug)
        if not rows:
            return None
        return Publisher(
            id=BusinessId(rows[0]["id"]),
            pack=rows[0]["pack"],
            zone=ZoneInfo(rows[0]["time_zone"]),
            locale=rows[0]["locale"],
            now=rows[0]["now"],
        )

    async def names(self, publisher: Publisher) -> Mapping[str, str]:
        """The feeds' names in URLs, and what each is, for people; none where the pack has no feeds."""
        pack = self._packs.get(publisher.pack)
        if pack is None:
            return {}
        async with self._context(publisher) as context:
            return await pack.feed_names(context)

    async def feed(self, publisher: Publisher, name: str) -> Feed | None:
        """The feed as things are now; None for one that is not there."""
        pack = self._packs.get(publisher.pack)
        if pack is None:
            return None
        async with self._context(publisher) as context:
            return await pack.feed(context, name)

    @asynccontextmanager
    async def _context(self, publisher: Publisher) -> AsyncIterator[ToolContext]:
        async with self._database.tenant(publisher.id, self._queries[publisher.pack]) as sql:
            yield ToolContext(
                sql=sql,
                business=publisher.id,
                customer=NOBODY,
                now=publisher.now,
                zone=publisher.zone,
                locale=publisher.locale,
            )
