"""Two customers confirm the same slot at the same moment, two hundred times: one books it, the other is told and offered others."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import httpx2
import pytest

from leeway.one_process import DEMO, OneProcess, one_process, running
from leeway.telephone import Arrived, Line, Telephone
from shared.database import Database, open_pool
from shared.llm.port import Answer, Finish, Request, ToolCall, Usage, UserText
from shared.settings import Timeouts, load_settings
from tests.support.process import make_directory, remove_directory

pytestmark = [pytest.mark.postgres, pytest.mark.stack]

PAIRS = 200
WAVE = 40
ZONE = ZoneInfo(DEMO.time_zone)


class BooksWhatItIsTold:
    """A model that asks for the start that the customer wrote, with the one dentist."""

    provider = "told"
    name = "told"

    async def complete(self, request: Request, *, timeout_s: float) -> Answer:
        said = next(one.text for one in reversed(request.messages) if isinstance(one, UserText))
        start = re.search(r"20\d\d-\d\d-\d\dT\d\d:\d\d", said)
        if start is None:
            return Answer(text="Which time?")
        arguments = {"service": "checkup", "start": start[0], "dentist": "Dr. Ionescu"}
        call = ToolCall(id="c", name="book_appointment", arguments=json.dumps(arguments))
        return Answer(text=None, calls=(call,), finish=Finish.TOOLS)

    def price(self, usage: Usage, *, model: str) -> Decimal | None:
        return Decimal(0)

    async def close(self) -> None:
        """Nothing is held."""


def slots(today: date) -> Iterator[str]:
    """Starts of half-hour appointments on the clinic's ordinary mornings and afternoons, none overlapping another."""
    day = today + timedelta(days=2)
    while True:
        if day.weekday() < 4 and (day.month, day.day) not in HOLIDAYS:
            for hour in (9, 10, 11, 12, 14, 15, 16, 17):
                for minute in (0, 30):
                    yield datetime.combine(day, time(hour, minute)).isoformat(timespec="minutes")
        day += timedelta(days=1)


# Of the demo clinic's country, as far as this test can reach.
HOLIDAYS = {
    (12, 1),
    (12, 25),
    (12, 26),
    (1, 1),
    (1, 2),
    (1, 6),
    (1, 7),
    (1, 24),
    (5, 1),
    (6, 1),
    (8, 15),
    (11, 30),
}


@pytest.fixture
def directory() -> Iterator[Path]:
    made = make_directory("same-slot")
    yield made
    remove_directory(made)


@pytest.mark.time_limit(240)
async def test_two_hundred_pairs_confirm_the_same_slot_at_once(directory: Path) -> None:
    settings = load_settings(llm="mock")
    demo = replace(DEMO, window_ms=0, locales=("en",))
    async with (
        one_process(settings, directory, demo=demo, keeps=False, model=BooksWhatItIsTold()) as town,
        running(town),
        looking(town) as database,
        httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=town.app), base_url="http://leeway.invalid"
        ) as client,
    ):
        line = Line(database=database, clock=town.parts.clock, address=town.sim_address, secret=town.sim_secret, client=client)  # fmt: skip
        starts = slots(datetime.now(UTC).astimezone(ZONE).date())  # noqa: TID251  the clinic's own today
        came: list[list[Arrived]] = []
        for _ in range(0, PAIRS, WAVE):
            pairs = [(next(starts), len(came) + 2 * at) for at in range(WAVE)]
            async with asyncio.TaskGroup() as tasks:
                ends = [tasks.create_task(pair(line, start, number)) for start, number in pairs]
            came += [arrived for end in ends for arrived in end.result()]
        receipts = await town.parts.database.fetch(
            "select count(*) as n from receipt where tool = 'book_appointment'"
        )

    answers = [arrived[-1].text for arrived in came]
    booked = [text for text in answers if text.startswith("Booked:")]
    refused = [text for text in answers if text.startswith("That time is taken.")]
    assert (len(booked), len(refused)) == (PAIRS, PAIRS)
    assert all("Free instead:" in text for text in refused)
    assert receipts[0]["n"] == PAIRS


@asynccontextmanager
async def looking(town: OneProcess) -> AsyncIterator[Database]:
    """For what eighty telephones ask all the time: connections beside those of the services, and no hurry."""
    url = town.parts.settings.database_url.get_secret_value()
    database = await open_pool(url, size=4, timeouts=Timeouts(statement=60))
    try:
        yield database
    finally:
        await database.close()


async def pair(line: Line, start: str, number: int) -> list[list[Arrived]]:
    """Two customers ask for the slot, read the question, and say yes at once; what each was answered."""
    both = [Telephone(line, f"+4071{number + at:06}0") for at in range(2)]
    for one in both:
        await one.write(f"{start}, please")
    for one in both:
        assert "Reply YES" in (await one.wait(within_s=60))[-1].text
    async with asyncio.TaskGroup() as tasks:
        for one in both:
            tasks.create_task(one.write("yes"))
    return [await one.wait(within_s=60) for one in both]
