"""Fetches what messages carry beside their text, checks its size and type, and stores it. At most eight at once."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import httpx2
import structlog

from services.ingest.adapters.media_record import TRIES_MAX
from services.ingest.adapters.media_sources import Content, Gone, NotNow, Refused, Sources
from services.ingest.ports import Media, Wanted
from shared.errors import LeewayError
from shared.media import TYPES, plain_type, type_of
from shared.messages import PartKind
from shared.outgoing import http_client
from shared.settings import Settings

READ_S = 15.0
AT_ONCE: Final = 8
FETCH_MOST_S: Final = 60.0  # below a claim's length
PAUSES_S: Final = (2.0, 10.0, 60.0, 300.0)  # after the first try, the second, …

log = structlog.get_logger(__name__)


def limits_of(settings: Settings) -> Mapping[PartKind, int]:
    """Bytes that are taken at most, by kind. What has no limit here is never fetched."""
    return {
        PartKind.AUDIO: settings.media_bytes_max_audio,
        PartKind.IMAGE: settings.media_bytes_max_image,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often it is looked, and after which pauses tried again; in seconds."""

    look_every: float = 0.5
    pauses: tuple[float, ...] = PAUSES_S


class MediaFetching:
    """`run` must run beside ingest."""

    def __init__(
        self, *, media: Media, sources: Sources, limits: Mapping[PartKind, int], pace: Pace | None = None
    ) -> None:
        self._media = media
        self._sources = sources
        self._limits = limits
        self._pace = pace or Pace()
        self._under_way: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Fetch what is due until cancelled. What fails ends nothing but itself."""
        async with http_client(read_s=READ_S) as client, asyncio.TaskGroup() as tasks:
            while True:
                await self._take_up(client, tasks)
                await asyncio.sleep(self._pace.look_every)

    async def _take_up(self, client: httpx2.AsyncClient, tasks: asyncio.TaskGroup) -> None:
        room = AT_ONCE - len(self._under_way)
        if room <= 0:
            return
        try:
            wanted = await self._media.claim(most=room)
        except LeewayError as error:
            log.warning("fetching media waits", error=str(error))
            return
        except Exception:
            log.exception("looking for media failed; it goes on")
            return
        for one in wanted:
            task = tasks.create_task(self._one(client, one))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _one(self, client: httpx2.AsyncClient, wanted: Wanted) -> None:
        """One part. Whatever is not written here is due again when the claim runs out."""
        try:
            await self._fetch(client, wanted)
        except LeewayError as error:
            log.warning("media not stored; it is fetched again", error=str(error))
        except Exception as error:
            # Its text and its trace may hold an address with a token.
            log.error("media not fetched", message=str(wanted.message), error=type(error).__name__)

    async def _fetch(self, client: httpx2.AsyncClient, wanted: Wanted) -> None:
        about = {"message": str(wanted.message), "channel": wanted.channel, "kind": wanted.kind.value}
        try:
            async with asyncio.timeout(FETCH_MOST_S):
                content = await self._sources.fetch(client, wanted, most=self._limits.get(wanted.kind, 0))
            _check(wanted, content)
        except Refused as error:
            log.info("media refused", why=str(error), **about)
            await self._media.end(wanted, state="refused", reason=str(error))
        except Gone as error:
            log.warning("media can't be had", why=str(error), **about)
            await self._media.end(wanted, state="failed", reason=str(error))
        except (NotNow, TimeoutError) as error:
            await self._again(wanted, str(error) or "it takes too long", about)
        else:
            await self._media.store(wanted, content.content)

    async def _again(self, wanted: Wanted, why: str, about: Mapping[str, str]) -> None:
        log.warning("media not fetched", why=why, tries=wanted.tries, **about)
        if wanted.tries >= TRIES_MAX:
            await self._media.end(wanted, state="failed", reason=why)
            return
        pause = self._pace.pauses[min(wanted.tries, len(self._pace.pauses)) - 1]
        await self._media.later(wanted, reason=why, pause=timedelta(seconds=pause))


def _check(wanted: Wanted, got: Content) -> None:
    """The type as the message states it, as the answer does, and as the first bytes show it. Raises Refused."""
    taken = TYPES.get(wanted.kind, frozenset())
    stated = [plain_type(one) for one in (wanted.mime, got.mime)]
    if any(one is not None and one not in taken for one in stated):
        raise Refused("a type that is not taken")
    if type_of(got.content) not in taken:
        raise Refused("its first bytes are of another type")
