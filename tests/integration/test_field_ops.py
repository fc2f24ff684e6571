"""Field cases of running it, played over the real HTTP app."""

from collections.abc import AsyncIterator

import httpx2
import pytest

from shared.ids import new_id
from tests.support.hooks import ADDRESS, Hooks, hooks_on
from tests.support.series import Series, series_of, strays, total

pytestmark = pytest.mark.postgres

PATHS = ("/drafts/{}", "/{}", "/webhooks/whatsapp/{}", "/hooks/whatsapp/{}", "/hooks/{}/line", "/hooks/sim/{}", "/hooks/{}")  # fmt: skip
METHODS = ("GET", "POST", "PUT", "DELETE", "BREW")
COUNT = 1_000


@pytest.fixture
async def hooks(database_url: str) -> AsyncIterator[Hooks]:
    async with hooks_on(database_url) as made:
        yield made


async def shown(hooks: Hooks) -> list[Series]:
    return series_of((await hooks.client.get("/metrics")).text)


async def ask(hooks: Hooks, n: int, *, name: str) -> httpx2.Response:
    """The n-th request: another path and method, an id of its own, in the path, in a header and in the body."""
    path = PATHS[n % len(PATHS)].format(name)
    headers = {"webhook-id": f"m-{name}", "webhook-timestamp": "1", "webhook-signature": f"v1,{name}"}
    return await hooks.client.request(METHODS[n % len(METHODS)], path, content=name, headers=headers)


async def test_a_thousand_paths_make_no_series_of_their_own(hooks: Hooks) -> None:
    """OPS-03: unknown pages, channels and accounts, any method, ids of webhooks that are not signed."""
    kinds = len(PATHS) * len(METHODS)
    for n in range(kinds):  # one request of each kind makes what series there are
        await ask(hooks, n, name="first")
    before = await shown(hooks)
    statuses = [(await ask(hooks, n, name=str(new_id()))).status_code for n in range(COUNT)]
    after = await shown(hooks)
    assert set(statuses) <= {404, 405}
    assert len(after) == len(before)
    assert not strays(after, slugs=[], models=[])
    webhooks = {one.labels for one in after if one.name == "leeway_webhooks_total"}
    channels = {dict(labels)["channel"] for labels in webhooks}
    assert channels == {"whatsapp", "sim", "unknown"}


async def test_requests_to_an_account_that_there_is_make_a_series_a_status(hooks: Hooks) -> None:
    """Whatever webhook ids and signatures say: they are counted by what was answered."""

    async def post(name: str, stamp: str) -> None:
        headers = {"webhook-id": f"m-{name}", "webhook-timestamp": stamp, "webhook-signature": f"v1,{name}"}
        await hooks.client.post(f"/hooks/sim/{ADDRESS}", content=name, headers=headers)

    now = str(int(hooks.clock.now().timestamp()))
    await post("first", "1")
    await post("first", now)
    before = await shown(hooks)
    for n in range(100):
        await post(str(new_id()), now if n % 2 else str(n))
    after = await shown(hooks)
    assert len(after) == len(before)
    outcomes = {dict(one.labels)["outcome"] for one in after if one.name == "leeway_webhooks_total"}
    assert outcomes == {"400", "401"}
    assert total(after, "leeway_webhook_seconds_count", channel="sim") == 102, "each is timed"
