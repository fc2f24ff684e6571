"""Workers are processes, and each is a target of its own: what Prometheus adds up never goes down, and misses nothing."""

import asyncio
from itertools import pairwise

import httpx2
import pytest

from shared.ids import new_id
from tests.support.series import Series, series_of, strays, total
from tests.support.stack import Running, Shop, Stack

pytestmark = [pytest.mark.stack, pytest.mark.postgres, pytest.mark.rabbitmq]

WORKERS = 4
REQUESTS = 100
SCRAPES = 20
AT_ONCE = 5


async def scraped(workers: list[Running], client: httpx2.AsyncClient) -> list[list[Series]]:
    """What each shows now, one after another, as Prometheus asks."""
    return [series_of((await client.get(f"http://127.0.0.1:{one.port}/metrics")).text) for one in workers]


async def write(stack: Stack, shop: Shop, workers: list[Running]) -> None:
    """Requests, some at once, each to the next worker."""
    for start in range(0, REQUESTS, AT_ONCE):
        async with asyncio.TaskGroup() as posting:
            for n in range(start, start + AT_ONCE):
                to = workers[n % WORKERS]
                posting.create_task(stack.say(shop, "sim", f"sim-{new_id().hex}", "Hello", to=to))


def counts(workers: list[list[Series]]) -> dict[tuple[int, Series], float]:
    """Everything that only grows, by worker, name and labels."""
    return {
        (n, Series(one.name, one.labels, 0)): one.value
        for n, shown in enumerate(workers)
        for one in shown
        if one.only_grows
    }


async def test_what_four_workers_count_never_goes_down_and_comes_to_all(stack: Stack) -> None:
    shop = await stack.shop("clinic")
    workers = [stack.make("ingest") for _ in range(WORKERS)]
    for one in workers:
        one.start()
    for one in workers:
        await one.ready()
    async with httpx2.AsyncClient(trust_env=False, timeout=20) as client:
        writing = asyncio.create_task(write(stack, shop, workers))
        scrapes = [await scraped(workers, client) for _ in range(SCRAPES - 1)]
        await writing
        scrapes.append(await scraped(workers, client))

    taken = [
        sum(total(shown, "leeway_webhooks_total", channel="sim", outcome="200") for shown in workers_then)
        for workers_then in scrapes
    ]
    assert taken == sorted(taken)
    assert taken[-1] == REQUESTS
    for before, after in pairwise(scrapes):
        earlier, later = counts(before), counts(after)
        assert not [key for key, value in earlier.items() if later[key] < value]
    last = scrapes[-1]
    assert sum(total(shown, "leeway_messages_stored_total") for shown in last) == REQUESTS
    for shown in last:
        assert total(shown, "leeway_webhooks_total") > 0, "each worker is a target of its own"
        assert total(shown, "leeway_service_info", service="ingest") == 1
        assert total(shown, "leeway_ready") == 1
        assert total(shown, "process_resident_memory_bytes") > 0
        assert not strays(shown, slugs=[shop.slug], models=[])


async def test_the_console_shows_what_every_process_shows(stack: Stack) -> None:
    await stack.start("console")
    async with httpx2.AsyncClient(trust_env=False, timeout=20) as client:
        (shown,) = await scraped([stack.one("console")], client)
    assert total(shown, "leeway_service_info", service="console") == 1
    assert total(shown, "leeway_ready") == 1
    assert total(shown, "leeway_pool_connections") >= 1
    assert total(shown, "leeway_pool_wait_seconds_count") > 0
    assert {"process_cpu_seconds_total", "process_open_fds", "python_info"} <= {one.name for one in shown}
    assert not strays(shown, slugs=[], models=[])
