"""Feeds over HTTP: who has the address reads the calendar, and everybody else is answered alike."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import quote

import httpx2
import pytest
from starlette.applications import Starlette

from packs.clinic import PACK
from services.console.adapters.pack_feeds import PackFeeds
from services.console.core.feed_keys import FeedKeys
from services.console.feeds import feed_routes, feed_url
from shared.packs import Feed, Feeds, Pack, ToolContext
from tests.integration.clinic_world import World, open_world

pytestmark = pytest.mark.postgres

KEYS = FeedKeys(["a secret"])
NOT_THERE = (404, "There is no such feed.\n")


@dataclass
class Site:
    """Two clinics' feeds behind one app, and addresses to try."""

    world: World
    feeds: PackFeeds
    client: httpx2.AsyncClient

    async def url(self, slug: str, name: str, *, signed_for: str | None = None) -> str:
        publisher = await self.feeds.publisher(signed_for or slug)
        assert publisher
        return feed_url("", slug, publisher, name, KEYS)

    async def name(self, slug: str) -> str:
        """Of the business's first dentist's calendar."""
        publisher = await self.feeds.publisher(slug)
        assert publisher
        return next(iter(await self.feeds.names(publisher)))

    async def get(self, url: str) -> tuple[int, str]:
        response = await self.client.get(url)
        assert response.headers["cache-control"] == "no-store"
        return response.status_code, response.text


def app_of(feeds: PackFeeds) -> httpx2.AsyncClient:
    app = Starlette(routes=feed_routes(feeds, KEYS))
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://leeway.invalid")


@pytest.fixture
async def site(database_url: str) -> AsyncIterator[Site]:
    async with open_world(database_url) as world:
        feeds = PackFeeds(world.database, {PACK.name: PACK})
        async with app_of(feeds) as client:
            yield Site(world, feeds, client)


async def test_the_address_shows_the_calendar(site: Site) -> None:
    start = await site.world.owner.fetchval("select date_trunc('hour', now()) + interval '7 days'")
    (first, *_) = await site.world.dentists()
    await site.world.insert(site.world.ana, first, start, 45)
    response = await site.client.get(await site.url("ours", f"dentist-{first}.ics"))
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/calendar; charset=utf-8"
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["referrer-policy"] == "no-referrer"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.text.startswith("BEGIN:VCALENDAR\r\n")
    assert response.text.count("BEGIN:VEVENT") == 1
    assert "SUMMARY:cleaning" in response.text


async def test_programs_may_ask_for_the_head_alone(site: Site) -> None:
    response = await site.client.head(await site.url("ours", await site.name("ours")))
    assert (response.status_code, response.content) == (200, b"")


async def test_each_business_has_feeds_of_its_own(site: Site) -> None:
    ours, theirs = await site.name("ours"), await site.name("theirs")
    assert ours != theirs
    assert (await site.get(await site.url("theirs", theirs)))[0] == 200
    assert await site.get(await site.url("ours", theirs)) == NOT_THERE  # well signed, and another's dentist


async def test_a_token_opens_no_other_business_s_feed(site: Site) -> None:
    theirs = await site.name("theirs")
    assert await site.get(await site.url("theirs", theirs, signed_for="ours")) == NOT_THERE


async def test_wrong_missing_and_unknown_are_answered_alike(site: Site) -> None:
    name = await site.name("ours")
    good = await site.url("ours", name)
    path, _, token = good.partition("?token=")
    answers = [
        await site.get(url)
        for url in (
            path,
            f"{path}?token=",
            f"{path}?token={token[:-1]}",
            f"{path}?token={token}x",
            f"{path}?token={quote('ă' * 43)}",
            f"{path}?token=%FF%00",
            f"{path}?tok={token}",
            f"{path}?token={token}&token=",
            f"/feeds/nobody/{name}?token={token}",
            await site.url("ours", "dentist-999999.ics"),
            await site.url("ours", "other.txt"),
        )
    ]
    assert set(answers) == {NOT_THERE}
    assert (await site.get(good))[0] == 200


@pytest.mark.parametrize(
    "hostile",
    [
        "%00", "dentist-1.ics%00", "..%2f..%2fetc%2fpasswd", "%2e%2e", "..", "-", "%ff%fe", "%F0%9F%A6%B7.ics", "a" * 101,
        "a" * 5_000, "%27;drop table x;--", "dentist-1.ics%0d%0aX-Evil: 1", "*", " ", "%25", "dentist-1%2eics%20",
    ],
    ids=lambda text: text[:20],
)  # fmt: skip
@pytest.mark.parametrize("where", ["business", "name"])
async def test_hostile_names_are_feeds_that_are_not_there(site: Site, hostile: str, where: str) -> None:
    token = KEYS.token(site.world.ours, hostile)
    name = await site.name("ours")
    url = f"/feeds/{hostile}/{name}" if where == "business" else f"/feeds/ours/{hostile}"
    response = await site.client.get(f"{url}?token={token}")
    assert response.status_code == 404
    assert "x-evil" not in response.headers


async def test_only_reading_is_possible(site: Site) -> None:
    url = await site.url("ours", await site.name("ours"))
    for method in ("POST", "PUT", "DELETE"):
        assert (await site.client.request(method, url)).status_code == 405


async def test_a_pack_that_is_gone_has_no_feeds(site: Site) -> None:
    name = await site.name("ours")
    url = await site.url("ours", name)
    feeds = PackFeeds(site.world.database, {})
    publisher = await feeds.publisher("ours")
    assert publisher
    assert await feeds.names(publisher) == {}
    async with app_of(feeds) as client:
        assert (await client.get(url)).status_code == 404


async def test_a_pack_is_asked_only_for_whom_the_token_opens(site: Site) -> None:
    asked: list[str] = []

    class Noted:
        """The clinic's feeds, with a note of what they were asked."""

        name, queries = PACK.name, PACK.queries

        async def feed_names(self, context: ToolContext) -> dict[str, str]:
            return {}

        async def feed(self, context: ToolContext, name: str) -> Feed | None:
            asked.append(name)
            return Feed(media_type="text/plain", body=b"noted")

    noted: Pack = Noted()  # type: ignore[assignment]  # the half that feeds need
    assert isinstance(noted, Feeds)
    async with app_of(PackFeeds(site.world.database, {PACK.name: noted})) as client:
        for url in ("/feeds/ours/x.txt", "/feeds/ours/x.txt?token=wrong"):
            assert (await client.get(url)).status_code == 404
        assert asked == []
        response = await client.get(await site.url("ours", "x.txt"))
    assert (response.text, asked) == ("noted", ["x.txt"])


async def test_a_database_that_is_away_is_not_taken_for_a_feed_that_is_not_there(site: Site) -> None:
    await site.world.database.close()
    response = await site.client.get("/feeds/ours/dentist-1.ics?token=x")
    assert (response.status_code, response.headers["retry-after"]) == (503, "30")
    assert response.headers["cache-control"] == "no-store"
