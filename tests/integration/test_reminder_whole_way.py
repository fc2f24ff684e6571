"""From the evening before to the cancelled appointment: reminders and waiting handoffs through all four services."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import asyncpg
import httpx2
import pytest

from leeway.one_process import DEMO, OneProcess, one_process, running
from leeway.telephone import Arrived, Telephone
from packs.clinic.reminders import reminder_key
from services.agent.wiring import Rounds
from services.console.adapters.pack_feeds import PackFeeds
from services.console.feeds import feed_keys_of, feed_url
from shared.clock import Shift, SystemClock
from shared.ids import new_id
from shared.locales import load
from shared.packs import load_packs
from shared.settings import load_settings
from tests.support.eventually import eventually
from tests.support.process import make_directory, remove_directory

pytestmark = [pytest.mark.postgres, pytest.mark.stack, pytest.mark.time_limit(180)]

ANA, BOGDAN = "+40700000001", "+40700000002"
BUCHAREST = ZoneInfo("Europe/Bucharest")
EN = load("en")
SOON = Rounds(approvals_s=0.2, handoffs_s=0.2, reminders_s=0.2)


@pytest.fixture
def directory() -> Iterator[Path]:
    made = make_directory("reminders")
    yield made
    remove_directory(made)


def evening() -> datetime:
    """Eight o'clock on a Tuesday to come: the next day is no holiday of the demo clinic's."""
    today = SystemClock().now().astimezone(BUCHAREST)
    at = today.replace(hour=20, minute=0, second=0, microsecond=0)
    candidates = (at + timedelta(days=days) for days in range(1, 60))
    return next(one for one in candidates if one.isoweekday() == 2 and 8 < one.day < 22)


@dataclass
class Clinic:
    """The demo clinic, whose time a test moves."""

    installation: OneProcess
    shift: Shift
    owner: Any

    def pass_until(self, local: datetime) -> None:
        self.shift.by = local.astimezone(UTC) - SystemClock().now()

    async def row(self, query: str, *arguments: object) -> Any:
        return await self.owner.fetchrow(query, *arguments)

    async def knows(self, number: str) -> tuple[Telephone, Any]:
        """A customer who asked something; their telephone and id."""
        telephone = Telephone(self.installation, number)
        await telephone.write("What are your opening hours?")
        await one(telephone)
        row = await self.row("select customer from leeway.channel_identity where user_id = $1", number)
        return telephone, row["customer"]

    async def books(self, customer: Any, start: datetime, *, nth: int) -> Any:
        """Staff book an appointment with the nth dentist; its id."""
        row = await self.row(
            "insert into clinic.appointment (id, business, customer, dentist_no, service, starts_at, ends_at, state, idempotency_key)"
            " select $1, $2, $3, no, 'checkup', $4, $4::timestamptz + interval '30 min', 'booked', $1::uuid::text from clinic.dentist"
            " where business = $2 order by no offset $5 limit 1 returning id",
            new_id(), self.installation.business, customer, start, nth,
        )  # fmt: skip
        return row["id"]

    async def waits(self) -> bool:
        """Whether both reminders were made, and dispatch lets them wait for the morning."""
        row = await self.row(
            "select count(*) as n from leeway.outbound where origin_kind = 'reminder' and state = 'queued' and not_before is not null"
        )
        return bool(row["n"] == 2)


async def one(telephone: Telephone) -> Arrived:
    """The next message, and no other with it."""
    (arrived,) = await telephone.wait()
    return arrived


async def presses(telephone: Telephone, message: Arrived, nth: int) -> Arrived:
    """What is answered to a press on the message's nth button."""
    button, title = message.buttons[nth]
    await telephone.press(button, title)
    return await one(telephone)


@pytest.fixture
async def clinic(directory: Path) -> AsyncIterator[Clinic]:
    shift = Shift()
    shift.by = evening().astimezone(UTC) - SystemClock().now()
    async with one_process(
        load_settings(llm="mock"), directory, demo=replace(DEMO, window_ms=0), keeps=False, shift=shift, rounds=SOON
    ) as installation:  # fmt: skip
        owner = await asyncpg.connect(installation.parts.settings.database_url.get_secret_value())
        async with running(installation):
            yield Clinic(installation, shift, owner)
        await owner.close()


async def test_the_evening_before_the_morning_and_what_the_buttons_do(clinic: Clinic) -> None:
    ana, ana_s_id = await clinic.knows(ANA)
    bogdan, bogdan_s_id = await clinic.knows(BOGDAN)
    at = evening() + timedelta(hours=15)
    hers = await clinic.books(ana_s_id, at, nth=0)
    his = await clinic.books(bogdan_s_id, at, nth=1)

    clinic.pass_until(evening() + timedelta(hours=2))  # ten: quiet since nine
    await eventually(clinic.waits)
    await asyncio.sleep(1)
    assert (await ana.arrived(), await bogdan.arrived()) == ([], [])

    calls = (await clinic.row("select count(*) as n from leeway.llm_call"))["n"]
    clinic.pass_until(evening() + timedelta(hours=12, minutes=1))  # eight in the morning
    # What a send waits for is kept in the time of the server, which no test moves.
    await clinic.owner.execute(
        "update leeway.outbound set not_before = now(), ring_at = now() where state = 'queued'"
    )
    reminder, other = await one(ana), await one(bogdan)
    assert reminder.text.startswith("A reminder of your appointment: check-up with Dr. Ionescu, Wednesday")
    key = reminder_key(hers, at.astimezone(UTC).isoformat())
    assert reminder.buttons == (
        (f"rm:{key.hex}:keep", "I'll be there"),
        (f"rm:{key.hex}:cancel", "I can't come"),
    )

    assert (await presses(bogdan, other, 0)).text == "Thank you, see you then."
    assert (await presses(bogdan, reminder, 1)).text == EN.notice("reminder_not_open")

    first = await presses(ana, reminder, 1)
    assert first.text.startswith("Cancel: check-up with Dr. Ionescu, Wednesday")
    second = await presses(ana, first, 0)
    assert EN.notice("prompt_last_step") in second.text
    assert await states(clinic) == {hers: "booked", his: "booked"}
    done = await presses(ana, second, 0)
    assert done.text.startswith("Cancelled: check-up with Dr. Ionescu")
    assert await states(clinic) == {hers: "cancelled", his: "booked"}
    assert "has been cancelled" in (await presses(ana, reminder, 1)).text

    assert (await clinic.row("select count(*) as n from leeway.llm_call"))["n"] == calls
    assert (await clinic.row("select count(*) as n from leeway.reminder"))["n"] == 2
    for telephone in (ana, bogdan):
        assert await telephone.arrived() == []
        await telephone.close()


async def states(clinic: Clinic) -> dict[Any, str]:
    rows = await clinic.owner.fetch("select id, state from clinic.appointment")
    return {row["id"]: row["state"] for row in rows}


async def test_who_waits_for_a_person_is_told_in_opening_hours(clinic: Clinic) -> None:
    telephone = Telephone(clinic.installation, ANA)
    await telephone.write("operator")  # at eight in the evening
    assert (await one(telephone)).text == EN.notice("handoff_requested")
    await eventually(lambda: clock_is_set(clinic))
    row = await clinic.row("select * from leeway.handoff")
    nine = evening() + timedelta(hours=13)
    assert (row["remind_at"], row["tell_at"]) == (nine + timedelta(minutes=15), nine + timedelta(hours=1))

    clinic.pass_until(nine + timedelta(minutes=16))
    await eventually(lambda: there_is(clinic, "flag"))
    assert await telephone.arrived() == []
    clinic.pass_until(nine + timedelta(minutes=61))
    assert (await one(telephone)).text == EN.notice("handoff_waiting")
    await asyncio.sleep(1)
    assert await telephone.arrived() == []
    await telephone.close()


async def clock_is_set(clinic: Clinic) -> bool:
    row = await clinic.row("select clock_set from leeway.handoff")
    return bool(row and row["clock_set"])


async def there_is(clinic: Clinic, table: str) -> bool:
    return bool((await clinic.row(f"select count(*) as n from leeway.{table}"))["n"])


async def test_the_app_beside_the_webhooks_serves_the_feeds(clinic: Clinic) -> None:
    parts = clinic.installation.parts
    feeds = PackFeeds(parts.database, load_packs())
    publisher = await feeds.publisher("demo-clinic")
    assert publisher
    (name, *_) = await feeds.names(publisher)
    url = feed_url("http://leeway.invalid", "demo-clinic", publisher, name, feed_keys_of(parts.settings))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=clinic.installation.app)) as client:
        response = await client.get(url)
        assert (response.status_code, response.text[:15]) == (200, "BEGIN:VCALENDAR")
        assert (await client.get(url[:-1])).status_code == 404
        assert (await client.get("http://leeway.invalid/healthz")).status_code == 200
