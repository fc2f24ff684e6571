"""`GET /feeds/{business}/{name}?token=…`: documents for staff's own programs, a calendar for example.

Whoever has the URL may read the feed. A wrong token, no token, another's feed and one that is not there are answered
alike, and nothing of an answer is kept on its way.
"""

from typing import Final
from urllib.parse import quote

import structlog
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from services.console.adapters.pack_feeds import PackFeeds, Publisher
from services.console.core.feed_keys import NAME, FeedKeys
from shared.errors import Misconfigured, Unavailable
from shared.ids import BusinessId
from shared.packs import Feed
from shared.settings import Settings

NO_BUSINESS: Final = BusinessId(0)  # its tokens are tested too: the answer takes as long
AGAIN_AFTER_S: Final = 30
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",  # the URL is the secret
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
}

log = structlog.get_logger(__name__)


def feed_routes(feeds: PackFeeds, keys: FeedKeys) -> list[Route]:
    """The route, to be put into an app."""

    async def answer(request: Request) -> Response:
        slug, name = request.path_params["business"], request.path_params["name"]
        try:
            feed = await _read(feeds, keys, slug, name, request.query_params.get("token", ""))
        except Unavailable as error:
            log.warning("feed waits for the database", error=str(error))
            return _plain("Try again in a moment.", 503, {"Retry-After": str(AGAIN_AFTER_S)})
        if feed is None:
            return _plain("There is no such feed.", 404)
        return Response(feed.body, headers={**_HEADERS, "Content-Type": feed.media_type})

    return [Route("/feeds/{business}/{name}", answer, methods=["GET"])]


def feed_url(base_url: str, slug: str, publisher: Publisher, name: str, keys: FeedKeys) -> str:
    """Where a feed is read: a secret."""
    path = f"{base_url.rstrip('/')}/feeds/{quote(slug, safe='')}/{quote(name, safe='')}"
    return f"{path}?token={keys.token(publisher.id, name)}"


def feed_keys_of(settings: Settings) -> FeedKeys:
    """Of LEEWAY_SECRET_KEY. Raises Misconfigured when it is not set."""
    text = settings.secret_key.get_secret_value() if settings.secret_key else ""
    keys = [one.strip() for one in text.split(",") if one.strip()]
    if not keys:
        raise Misconfigured("LEEWAY_SECRET_KEY is not set; make one with: leeway doctor --new-key")
    return FeedKeys(keys)


async def _read(feeds: PackFeeds, keys: FeedKeys, slug: str, name: str, token: str) -> Feed | None:
    if not NAME.fullmatch(slug) or not NAME.fullmatch(name):  # nothing else has ever been a name of ours
        return None
    publisher = await feeds.publisher(slug)
    opens = keys.opens(token, publisher.id if publisher else NO_BUSINESS, name)
    return await feeds.feed(publisher, name) if publisher and opens else None


def _plain(sentence: str, status: int, more: dict[str, str] | None = None) -> Response:
    return PlainTextResponse(f"{sentence}\n", status_code=status, headers={**_HEADERS, **(more or {})})
