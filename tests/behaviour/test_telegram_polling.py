"""Telegram's updates fetched instead of posted: one process a bot, each update committed before it is forgotten.

Who may fetch is asked of the record in Postgres and of the one that stands for it; the fetching is against Telegram's twin.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any, Protocol

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from leeway.twins.telegram import Person, TelegramTwin
from leeway.twins.twin import serving
from services.ingest.adapters.postgres_inbox import PostgresInbox
from services.ingest.adapters.postgres_polls import LEASE, PostgresPolls
from services.ingest.adapters.telegram_polling import Pace, TelegramPolling
from services.ingest.handler import Ingest
from services.ingest.ports import Polled, Polls, Request
from shared.broker.memory import MemoryBroker
from shared.errors import Unavailable
from shared.ids import AccountId
from shared.secrets import Vault, new_key
from shared.telemetry.metrics import Metrics
from tests.support.eventually import eventually
from tests.support.factories import NOON, Ground, SetClock

KINDS = ["memory", pytest.param("postgres", marks=pytest.mark.postgres)]
TOKEN = "710000900:AAtest-token"
VAULT = Vault(new_key())
QUICK = Pace(look_every=0.02, wait=1, pause=0.02, long_pause=0.02)
MARIA = Person(id=710_000_012, first_name="Maria")


# Who may fetch


class MemoryPolls:
    """services.ingest.ports.Polls on a dictionary; `wanted` are bots by account."""

    def __init__(self) -> None:
        self.wanted: dict[AccountId, Polled] = {}
        self.leased: dict[AccountId, Polled] = {}
        self._leases = count(1)

    async def claim(self) -> list[Polled]:
        free = [bot for account, bot in self.wanted.items() if account not in self.leased]
        return [self._lease(bot) for bot in free]

    async def renew(self, polled: Polled, *, offset: int | None) -> Polled | None:
        if self.leased.get(polled.account) != polled or polled.account not in self.wanted:
            return None
        self.wanted[polled.account] = replace(self.wanted[polled.account], offset=offset)
        return self._lease(self.wanted[polled.account])

    async def release(self, polled: Polled) -> None:
        if self.leased.get(polled.account) == polled:
            del self.leased[polled.account]

    def _lease(self, bot: Polled) -> Polled:
        self.leased[bot.account] = replace(bot, leased_at=NOON + timedelta(seconds=next(self._leases)))
        return self.leased[bot.account]


class Bots(Protocol):
    """Both records, with ways to do what commands and time do."""

    @property
    def polls(self) -> Polls: ...

    async def new(self, *, polling: bool = True) -> AccountId: ...

    async def stop_polling(self, account: AccountId) -> None: ...

    async def lease_runs_out(self, account: AccountId) -> None: ...


class InMemory:
    def __init__(self) -> None:
        self.polls = MemoryPolls()
        self._numbers = count(1)

    async def new(self, *, polling: bool = True) -> AccountId:
        account = AccountId(next(self._numbers))
        if polling:
            self.polls.wanted[account] = Polled(
                account=account, address=f"bot-{account}", token=SecretStr(TOKEN), offset=None, leased_at=NOON
            )
        return account

    async def stop_polling(self, account: AccountId) -> None:
        del self.polls.wanted[account]

    async def lease_runs_out(self, account: AccountId) -> None:
        del self.polls.leased[account]


class InPostgres:
    def __init__(self, place: Ground) -> None:
        self.place = place
        self.polls = PostgresPolls(place.database, VAULT)

    async def new(self, *, polling: bool = True) -> AccountId:
        return await bot_account(self.place, polling=polling)

    async def stop_polling(self, account: AccountId) -> None:
        await self.place.set(
            "channel_account", {"id": account}, settings='{"bot_id": "710000900", "polling": false}'
        )

    async def lease_runs_out(self, account: AccountId) -> None:
        before = await self.place.now() - LEASE - timedelta(seconds=1)
        await self.place.set("channel_account", {"id": account}, looked_at=before)


async def bot_account(place: Ground, *, polling: bool = True) -> AccountId:
    return await place.account(
        channel="telegram",
        secrets=VAULT.seal({"inbound": [], "outbound": TOKEN}),
        settings=f'{{"bot_id": "710000900", "polling": {str(polling).lower()}}}',
    )


@pytest.fixture(params=KINDS)
def bots(request: pytest.FixtureRequest) -> Bots:
    return InMemory() if request.param == "memory" else InPostgres(request.getfixturevalue("place"))


async def test_a_bot_is_claimed_by_one_with_its_token(bots: Bots) -> None:
    account, _ = await bots.new(), await bots.new(polling=False)
    (claimed,) = await bots.polls.claim()
    assert (claimed.account, claimed.token.get_secret_value(), claimed.offset) == (account, TOKEN, None)
    assert list(await bots.polls.claim()) == []


async def test_a_lease_goes_on_with_what_was_committed(bots: Bots) -> None:
    await bots.new()
    (claimed,) = await bots.polls.claim()
    held = await bots.polls.renew(claimed, offset=8)
    assert held is not None
    assert held.offset == 8
    assert await bots.polls.renew(claimed, offset=5) is None  # a lease is good for one renewal
    assert await bots.polls.renew(held, offset=None) is not None


async def test_who_lost_the_lease_moves_nothing(bots: Bots) -> None:
    account = await bots.new()
    (late,) = await bots.polls.claim()
    await bots.lease_runs_out(account)
    (other,) = await bots.polls.claim()
    assert await bots.polls.renew(late, offset=99) is None
    await bots.polls.release(late)
    assert list(await bots.polls.claim()) == []
    held = await bots.polls.renew(other, offset=7)
    assert held is not None
    assert held.offset == 7


async def test_who_lets_go_is_followed_at_once_where_it_left_off(bots: Bots) -> None:
    await bots.new()
    (claimed,) = await bots.polls.claim()
    held = await bots.polls.renew(claimed, offset=8)
    assert held is not None
    await bots.polls.release(held)
    (again,) = await bots.polls.claim()
    assert again.offset == 8


async def test_a_bot_that_is_to_be_polled_no_more_is_let_go(bots: Bots) -> None:
    account = await bots.new()
    (claimed,) = await bots.polls.claim()
    await bots.stop_polling(account)
    assert await bots.polls.renew(claimed, offset=None) is None
    await bots.lease_runs_out(account)
    assert list(await bots.polls.claim()) == []


# Fetching, on Postgres


@pytest.fixture
async def twin() -> AsyncIterator[TelegramTwin]:
    twin = TelegramTwin(clock=SetClock(), token=TOKEN)
    yield twin
    await twin.close()


@pytest.fixture
async def url(twin: TelegramTwin) -> AsyncIterator[str]:
    async with serving(twin.app) as url:
        yield url
        await twin.close()


Receive = Callable[[Request], Any]


@asynccontextmanager
async def polling(
    place: Ground,
    url: str,
    *,
    receive: Callable[[Receive], Receive] = lambda plain: plain,
    pace: Pace = QUICK,
) -> AsyncIterator[None]:
    """One process's ingest that polls; `receive` may come in between."""
    inbox = PostgresInbox(place.database, VAULT, SetClock())
    metrics = Metrics()
    ingest = Ingest(inbox=inbox, broker=MemoryBroker(), metrics=metrics)
    polls = TelegramPolling(
        polls=PostgresPolls(place.database, VAULT),
        inbox=inbox,
        receive=receive(ingest.receive),
        clock=SetClock(),
        metrics=metrics,
        url=url,
        pace=pace,
    )
    jobs = [asyncio.create_task(job()) for job in (ingest.run_commits, ingest.run_rings, polls.run)]
    try:
        yield
    finally:
        for job in reversed(jobs):
            job.cancel()
            with suppress(asyncio.CancelledError):
                await job


async def texts(place: Ground) -> list[str]:
    return [row["body"] for row in await place.rows("inbound_message", order="external_id")]


async def until_stored(place: Ground, *said: str) -> None:
    async def stored() -> bool:
        return await texts(place) == list(said)

    await eventually(stored, within_s=10)


@pytest.mark.postgres
async def test_updates_are_stored_once_in_order_and_then_forgotten(
    place: Ground, twin: TelegramTwin, url: str
) -> None:
    account = await bot_account(place)
    await twin.write(MARIA, "one")
    await twin.write(MARIA, "two")
    async with polling(place, url), polling(place, url):
        await until_stored(place, "one", "two")
        await twin.write(MARIA, "three")
        await until_stored(place, "one", "two", "three")
        await eventually(lambda: not twin.waiting, within_s=5)
    row = await place.row("inbound_message", external_id="500000001")
    assert (row["channel_message_id"], row["kind"]) == (f"{MARIA.id}:11", "text")
    assert (await place.row("channel_account", id=account))["looked_at"] is None  # let go for the next


@pytest.mark.postgres
async def test_a_commit_that_fails_leaves_the_updates_where_they_are(
    place: Ground, twin: TelegramTwin, url: str
) -> None:
    await bot_account(place)
    failures: list[int] = []

    def away_twice(plain: Receive) -> Receive:
        async def receive(request: Request) -> None:
            if len(failures) < 2:
                failures.append(len(twin.waiting))
                raise Unavailable("Postgres is away")
            await plain(request)

        return receive

    await twin.write(MARIA, "one")
    async with polling(place, url, receive=away_twice):
        await until_stored(place, "one")
    assert failures == [1, 1]


@pytest.mark.postgres
async def test_a_crash_after_the_commit_brings_repeats_that_change_nothing(
    place: Ground, twin: TelegramTwin, url: str
) -> None:
    account = await bot_account(place)
    committed = asyncio.Event()

    def dies_after(plain: Receive) -> Receive:
        async def receive(request: Request) -> None:
            await plain(request)
            committed.set()
            await asyncio.Event().wait()

        return receive

    await twin.write(MARIA, "one")
    async with polling(place, url, receive=dies_after):
        await asyncio.wait_for(committed.wait(), 10)
    assert (await place.row("channel_account", id=account))["poll_offset"] is None
    assert len(twin.waiting) == 1
    async with polling(place, url):
        await twin.write(MARIA, "two")
        await until_stored(place, "one", "two")
        await eventually(lambda: not twin.waiting, within_s=5)


@pytest.mark.postgres
async def test_where_it_left_off_is_kept_until_telegram_has_heard_it(
    place: Ground, twin: TelegramTwin, url: str
) -> None:
    """And no longer: after an idle week Telegram's ids may begin anew, lower."""
    account = await bot_account(place)
    await twin.write(MARIA, "one")
    offsets: list[int | None] = []

    async def kept() -> int | None:
        (row,) = await place.database.fetch("select poll_offset from channel_account where id = $1", account)
        offset: int | None = row["poll_offset"]
        return offset

    def noted(plain: Receive) -> Receive:
        async def receive(request: Request) -> None:
            offsets.append(await kept())
            await plain(request)

        return receive

    async def heard() -> bool:
        return await kept() is None

    async with polling(place, url, receive=noted):
        await until_stored(place, "one")
        await twin.write(MARIA, "two")
        await until_stored(place, "one", "two")
        await eventually(lambda: not twin.waiting, within_s=5)
        await eventually(heard, within_s=5)
        twin._next_update = 7
        await twin.write(MARIA, "a week later")
        await until_stored(place, "one", "two", "a week later")
    assert offsets == [None, 500_000_002, None]


@pytest.mark.postgres
async def test_what_must_be_mended_is_said_once_and_without_the_token(
    place: Ground, twin: TelegramTwin, url: str
) -> None:
    await bot_account(place)
    twin.webhook = "https://elsewhere.test/hook"
    asked = counted(twin)
    with capture_logs() as logs:
        async with polling(place, url):
            await eventually(lambda: len(asked) > 3, within_s=10)
            twin.webhook = ""
            await twin.write(MARIA, "at last")
            await until_stored(place, "at last")
            twin.token = "710000900:another"
            await eventually(lambda: len(errors(logs)) == 2, within_s=10)
    conflict, refused = errors(logs)
    assert "delete the webhook" in conflict["why"]
    assert "@BotFather" in refused["why"]
    assert TOKEN not in str(logs)


@pytest.mark.postgres
async def test_an_empty_answer_at_once_is_not_asked_for_again_at_once(
    place: Ground, twin: TelegramTwin, url: str
) -> None:
    await bot_account(place)
    asked = counted(twin)
    async with polling(place, url, pace=Pace(look_every=0.02, wait=0, pause=0.2)):
        await eventually(lambda: len(asked) >= 2, within_s=10)
        await asyncio.sleep(0.5)
    assert len(asked) <= 5
    assert set(asked[0]["allowed_updates"]) == {
        "message",
        "edited_message",
        "callback_query",
        "my_chat_member",
    }


@pytest.mark.postgres
async def test_updates_without_ids_are_said_and_not_asked_for_again_at_once(
    place: Ground, twin: TelegramTwin, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bot_account(place)
    asked: list[Any] = []

    async def nameless(given: Mapping[str, Any]) -> list[Any]:
        asked.append(given)
        return [{"update_id": "?", "message": {}}, 7]

    monkeypatch.setattr(twin, "get_updates", nameless)
    with capture_logs() as logs:
        async with polling(place, url, pace=Pace(look_every=0.02, wait=0, pause=0.02, long_pause=0.2)):
            await eventually(lambda: len(asked) >= 2, within_s=10)
            await asyncio.sleep(0.5)
    assert len(asked) <= 5
    assert [one["why"] for one in errors(logs)] == ["its updates have no ids"]
    assert {one.get("offset") for one in asked} == {None}


@pytest.mark.postgres
async def test_a_telegram_that_is_away_is_asked_again(place: Ground, twin: TelegramTwin) -> None:
    await bot_account(place)
    async with serving(twin.app) as url:
        pass
    port = int(url.rpartition(":")[2])
    with capture_logs() as logs:
        async with polling(place, url):
            await eventually(lambda: errors(logs) != [], within_s=10)
            async with serving(twin.app, port=port):
                await twin.write(MARIA, "back")
                await until_stored(place, "back")
                await twin.close()
    assert TOKEN not in str(logs)


def errors(logs: Any) -> list[Any]:
    return [one for one in logs if one["log_level"] == "error"]


def counted(twin: TelegramTwin) -> list[Mapping[str, Any]]:
    """What it is asked for from now on."""
    asked: list[Mapping[str, Any]] = []
    plain = twin.get_updates

    async def noted(body: Mapping[str, Any]) -> list[dict[str, Any]]:
        asked.append(body)
        return await plain(body)

    twin.get_updates = noted  # type: ignore[method-assign,assignment]  # to see that it goes on asking
    return asked
