"""Twilio's messages that no webhook brought: one process looks, and no further than what is committed.

Who may look is asked of the record in Postgres and of the one that stands for it; the looking is against Twilio's twin.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Protocol

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from leeway.twins.twilio import TwilioTwin
from leeway.twins.twilio_messages import TwilioAccount
from leeway.twins.twin import serving
from services.ingest.adapters import twilio_missed
from services.ingest.adapters.postgres_inbox import PostgresInbox
from services.ingest.adapters.postgres_looks import CLAIM, PostgresLooks
from services.ingest.adapters.twilio_missed import FIRST, OVERLAP, Pace, TwilioMissed
from services.ingest.handler import Ingest
from services.ingest.ports import Look, Looks, Request
from shared.broker.memory import MemoryBroker
from shared.errors import Unavailable
from shared.ids import AccountId
from shared.secrets import Vault, new_key
from shared.telemetry.metrics import Metrics
from tests.support.eventually import eventually
from tests.support.factories import NOON, Ground, SetClock

KINDS = ["memory", pytest.param("postgres", marks=pytest.mark.postgres)]
SID, TOKEN, OURS, ANA = "AC" + "1" * 32, "auth-token-1", "+40200000001", "+40700000001"
SETTINGS = f'{{"account_sid": "{SID}", "number": "{OURS}"}}'
VAULT = Vault(new_key())
QUICK = Pace(look_every=0.05, see_every=0.02, at_start=0.0)
FIVE = timedelta(minutes=5)


# Who may look


class MemoryLooks:
    """services.ingest.ports.Looks on dictionaries, at its own time."""

    def __init__(self) -> None:
        self.now = NOON
        self.on: dict[AccountId, bool] = {}
        self.looked: dict[AccountId, datetime] = {}
        self.looking: dict[AccountId, datetime] = {}

    async def claim(self, *, older_than: timedelta) -> list[Look]:
        due = [one for one, on in self.on.items() if on and self._is_due(one, older_than)]
        self.looking |= dict.fromkeys(due, self.now + CLAIM)
        return [
            Look(account=one, address=f"line-{one}", key=SecretStr(TOKEN), since=self.looked.get(one), at=self.now, until=self.looking[one])
            for one in due
        ]  # fmt: skip

    def _is_due(self, account: AccountId, older_than: timedelta) -> bool:
        looked, looking = self.looked.get(account), self.looking.get(account)
        return (looked is None or looked <= self.now - older_than) and (looking is None or looking < self.now)

    async def done(self, look: Look) -> None:
        if self.looking.get(look.account) == look.until:
            del self.looking[look.account]
            self.looked[look.account] = look.at

    async def give_back(self, look: Look) -> None:
        if self.looking.get(look.account) == look.until:
            del self.looking[look.account]


class Lines(Protocol):
    """Both records, with ways to do what commands and time do."""

    @property
    def looks(self) -> Looks: ...

    async def new(self, *, channel: str = "twilio", state: str = "on") -> AccountId: ...

    async def passes(self, account: AccountId, how_long: timedelta) -> None: ...


class InMemory:
    def __init__(self) -> None:
        self.looks = MemoryLooks()

    async def new(self, *, channel: str = "twilio", state: str = "on") -> AccountId:
        account = AccountId(len(self.looks.on) + 1)
        self.looks.on[account] = channel == "twilio" and state == "on"
        return account

    async def passes(self, account: AccountId, how_long: timedelta) -> None:
        self.looks.now += how_long


class InPostgres:
    def __init__(self, place: Ground) -> None:
        self.place = place
        self.looks = PostgresLooks(place.database, VAULT)

    async def new(self, *, channel: str = "twilio", state: str = "on") -> AccountId:
        return await self.place.account(
            channel=channel, state=state, secrets=VAULT.seal({"inbound": [], "outbound": TOKEN})
        )

    async def passes(self, account: AccountId, how_long: timedelta) -> None:
        """For this account all is so much longer ago."""
        row = await self.place.row("channel_account", id=account)
        earlier = {name: row[name] and row[name] - how_long for name in ("looked_at", "looking_until")}
        await self.place.set("channel_account", {"id": account}, **earlier)


@pytest.fixture(params=KINDS)
def lines(request: pytest.FixtureRequest) -> Lines:
    if request.param == "memory":
        return InMemory()
    return InPostgres(request.getfixturevalue("place"))


async def test_an_account_is_looked_at_by_one_process_until_it_is_done_and_again_after_five_minutes(
    lines: Lines,
) -> None:
    account = await lines.new()
    (look,) = await lines.looks.claim(older_than=FIVE)
    assert (look.account, look.since, look.key.get_secret_value()) == (account, None, TOKEN)
    assert not await lines.looks.claim(older_than=timedelta(0)), "another one's"
    await lines.looks.done(look)
    assert not await lines.looks.claim(older_than=FIVE)
    await lines.passes(account, FIVE)
    (again,) = await lines.looks.claim(older_than=FIVE)
    assert again.since is not None
    assert again.since - look.at in (timedelta(0), -FIVE)  # from where the look before began


async def test_a_look_that_failed_or_died_begins_where_it_was_to_begin(lines: Lines) -> None:
    account = await lines.new()
    (first,) = await lines.looks.claim(older_than=FIVE)
    await lines.looks.give_back(first)
    (second,) = await lines.looks.claim(older_than=FIVE)
    assert second.since is None
    await lines.passes(account, CLAIM + timedelta(seconds=1))  # the process is gone
    (third,) = await lines.looks.claim(older_than=FIVE)
    assert third.since is None
    await lines.looks.done(second)  # it was only slow; the claim is another's by now
    assert not await lines.looks.claim(older_than=timedelta(0))
    await lines.looks.done(third)


async def test_only_accounts_of_twilio_that_are_on_are_looked_at(lines: Lines) -> None:
    await lines.new(channel="sim")
    await lines.new(state="disabled")
    assert not await lines.looks.claim(older_than=timedelta(0))


@pytest.mark.postgres
async def test_many_claims_at_once_give_each_account_once(place: Ground) -> None:
    lines = InPostgres(place)
    accounts = {await lines.new() for _ in range(8)}
    async with asyncio.TaskGroup() as group:
        claims = [group.create_task(lines.looks.claim(older_than=FIVE)) for _ in range(6)]
    found = [one.account for claim in claims for one in claim.result()]
    assert sorted(found) == sorted(accounts)


# The looking


class Stand:
    """Ingest on Postgres with one account at Twilio, whose twin's webhooks are all lost."""

    def __init__(
        self, place: Ground, twin: TwilioTwin, url: str, account: AccountId, clock: SetClock
    ) -> None:
        self.place, self.twin, self.url, self.account, self.clock = place, twin, url, account, clock
        self.refuses = 0  # so many requests are not stored
        self.inbox = PostgresInbox(place.database, VAULT, clock)
        self.ingest = self._new_ingest()

    def _new_ingest(self) -> Ingest:
        return Ingest(inbox=self.inbox, broker=MemoryBroker(), metrics=Metrics(process=False))

    async def receive(self, request: Request) -> None:
        if self.refuses:
            self.refuses -= 1
            raise Unavailable("Postgres is away")
        await self.ingest.receive(request)

    @asynccontextmanager
    async def looking(self, **pace: float) -> AsyncIterator[None]:
        """A process that looks. One that was ended over a claim holds it no longer."""
        await self.place.set("channel_account", {"id": self.account}, looking_until=None)
        self.ingest = self._new_ingest()
        missed = TwilioMissed(
            looks=PostgresLooks(self.place.database, VAULT), inbox=self.inbox, receive=self.receive, clock=self.clock, url=self.url,
            pace=replace(QUICK, **pace),
        )  # fmt: skip
        jobs = [asyncio.create_task(missed.run()), asyncio.create_task(self.ingest.run_commits())]
        try:
            yield
        finally:
            for job in jobs:
                job.cancel()
                with suppress(asyncio.CancelledError):
                    await job

    async def row(self) -> Any:
        return await self.place.row("channel_account", id=self.account)

    async def stored(self) -> list[Mapping[str, Any]]:
        return list(await self.place.rows("inbound_message", order="channel_at"))

    async def looked(self) -> bool:
        row = await self.row()
        return row["looked_at"] is not None and row["looking_until"] is None

    async def has_looked_again(self) -> None:
        before = (await self.row())["looked_at"]

        async def again() -> bool:
            row = await self.row()
            return bool(row["looked_at"] != before and row["looking_until"] is None)

        await eventually(again)


@pytest.fixture
async def stand(place: Ground) -> AsyncIterator[Stand]:
    """The clock is at Postgres's time, so that what is listed since then is listed here."""
    clock = SetClock((await place.now()).replace(microsecond=0))
    twin = TwilioTwin(clock=clock, account=TwilioAccount(sid=SID, token=TOKEN, number=OURS))
    twin.away = True
    sealed = VAULT.seal({"inbound": [TOKEN], "outbound": TOKEN})
    account = await place.account(channel="twilio", settings=SETTINGS, secrets=sealed, provider_address=OURS)
    async with serving(twin.app) as url:
        yield Stand(place, twin, url, account, clock)
        await twin.close()


@pytest.mark.postgres
async def test_what_was_missed_is_stored_as_by_a_webhook_each_once_in_order(stand: Stand) -> None:
    stand.clock.pass_(-3_600)
    sent = []
    for person, text in ((ANA, "One"), (f"whatsapp:{ANA}", "Two"), ("+40700000002", "STOP"), (ANA, "Four")):
        stand.clock.pass_(60)
        sent.append(await stand.twin.write(person, text))
    async with stand.looking():
        await eventually(stand.looked)
        await stand.has_looked_again()
    rows = await stand.stored()
    assert [(row["external_id"], row["body"]) for row in rows] == list(
        zip(sent, ("One", "Two", "STOP", "Four"), strict=True)
    )
    assert [row["channel_at"] for row in rows] == [stand.twin.messages[sid].at for sid in sent], (
        "dated as Twilio dates them"
    )
    identities = await stand.place.rows("channel_identity")
    assert len(identities) == 3
    assert len({row["customer"] for row in identities}) == 2


@pytest.mark.postgres
async def test_looked_at_moves_only_over_what_is_committed(stand: Stand) -> None:
    sid = await stand.twin.write(ANA, "Hello")
    stand.refuses = 10_000
    async with stand.looking():
        await eventually(lambda: stand.refuses < 9_998)
        assert (await stand.row())["looked_at"] is None
        assert not await stand.stored()
        stand.refuses = 0
        await eventually(stand.looked)
    assert [row["external_id"] for row in await stand.stored()] == [sid]


@pytest.mark.postgres
async def test_the_first_look_goes_back_a_day_and_the_next_to_the_last_and_ten_minutes(stand: Stand) -> None:
    now = stand.clock.now()
    for name, ago in (
        ("long ago", FIRST + timedelta(minutes=1)),
        ("within a day", FIRST - timedelta(minutes=1)),
    ):
        stand.clock.pass_((now - ago - stand.clock.now()).total_seconds())
        await stand.twin.write(ANA, name)
    stand.clock.pass_((now - stand.clock.now()).total_seconds())
    async with stand.looking():
        await eventually(stand.looked)
    assert [row["body"] for row in await stand.stored()] == ["within a day"]
    last = now - timedelta(hours=2)
    for name, ago in (
        ("before", OVERLAP + timedelta(minutes=1)),
        ("listed late", OVERLAP - timedelta(minutes=1)),
    ):
        stand.clock.pass_((last - ago - stand.clock.now()).total_seconds())
        await stand.twin.write(ANA, name)
    stand.clock.pass_((now - stand.clock.now()).total_seconds())
    await stand.place.set("channel_account", {"id": stand.account}, looked_at=last)
    async with stand.looking():
        await stand.has_looked_again()
    assert [row["body"] for row in await stand.stored()] == ["within a day", "listed late"]


@pytest.mark.postgres
async def test_pages_are_followed(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twilio_missed, "PAGE", 3)
    sent = {await stand.twin.write(ANA, f"Message {n}") for n in range(10)}
    async with stand.looking():
        await eventually(stand.looked)
    assert {row["external_id"] for row in await stand.stored()} == sent


@pytest.mark.postgres
async def test_a_picture_that_was_missed_has_its_address(stand: Stand) -> None:
    sid = await stand.twin.write(ANA, media=(("image/jpeg", b"x"), ("application/pdf", b"y")))
    async with stand.looking():
        await eventually(stand.looked)
    parts = await stand.place.rows("media_part", order="n")
    below = f"{stand.url}/2010-04-01/Accounts/{SID}/Messages/{sid}/Media"
    assert [(one["kind"], one["reference"], one["state"]) for one in parts] == [
        ("image", f"{below}/ME0", "due"),
        ("document", f"{below}/ME1", "kept"),
    ]


@pytest.mark.postgres
async def test_our_own_sends_are_not_taken_for_customers(stand: Stand) -> None:
    form = {"To": OURS, "From": OURS, "Body": "A note to ourselves"}
    stand.twin._take(form)
    async with stand.looking():
        await eventually(stand.looked)
    assert not await stand.stored()


@pytest.mark.postgres
@pytest.mark.parametrize("token", ["other", None])
async def test_what_fails_is_said_without_secrets_or_numbers_and_is_tried_again(
    stand: Stand, token: str | None
) -> None:
    sid = await stand.twin.write(ANA, "Hello")
    await stand.place.set(
        "channel_account", {"id": stand.account}, secrets=VAULT.seal({"inbound": [], "outbound": token})
    )
    with capture_logs() as logs:
        async with stand.looking():
            await eventually(lambda: len(logs) >= 2)
            assert (await stand.row())["looked_at"] is None
            good = VAULT.seal({"inbound": [TOKEN], "outbound": TOKEN})
            await stand.place.set("channel_account", {"id": stand.account}, secrets=good)
            await eventually(stand.looked)
    assert [row["external_id"] for row in await stand.stored()] == [sid]
    assert "credentials" in str(logs[0]["why"])
    assert not any(secret in str(logs) for secret in (TOKEN, ANA, OURS, "Hello"))


@pytest.mark.postgres
async def test_a_twilio_that_is_away_ends_nothing(stand: Stand) -> None:
    url, stand.url = stand.url, "http://127.0.0.1:9"
    with capture_logs() as logs:
        async with stand.looking():
            await eventually(lambda: bool(logs))
    assert logs[0]["why"] == "ConnectError"
    assert (await stand.row())["looking_until"] is None
    stand.url = url
    async with stand.looking():
        await eventually(stand.looked)
