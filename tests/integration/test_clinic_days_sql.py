"""Days off, time off, holds, reminders and staff's calendars on a real Postgres."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from packs.clinic import PACK
from packs.clinic.arguments import BookAppointment, FindSlots, Nothing
from packs.clinic.booking import check_booking
from packs.clinic.operations import find_slots, get_clinic_info
from packs.clinic.prompt import prompt_facts
from shared.ids import CustomerId, new_id
from shared.packs import Done, Established, Feeds, KeepsHours, Proposal, Refusal, Reminder, Reminds
from tests.integration.clinic_world import NOW, ZONE, World, open_world
from tests.support.eventually import eventually

pytestmark = pytest.mark.postgres

FRIDAY = "2026-12-04T10:00"
FRIDAY_UTC = datetime(2026, 12, 4, 8, 0, tzinfo=UTC)
BOOK = "book_appointment"
CLEANING = {"service": "cleaning", "start": FRIDAY, "dentist": "Dr. Ionescu"}


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    async with open_world(database_url) as made:
        yield made


def code(outcome: object) -> str | None:
    return outcome.code if isinstance(outcome, Refusal) else None


async def slots(world: World, day: str, **more: str) -> Established:
    asked = FindSlots.model_validate({"service": "cleaning", "first_day": day, "last_day": day, **more})
    async with world.sql() as sql:
        found = await find_slots(world.context(sql, world.ana), asked)
    assert isinstance(found, Established)
    return found


# Days off


def easter(year: int) -> date:
    """The Orthodox Easter Sunday (Meeus' rule for the Julian calendar, 13 days behind in these years)."""
    fourth, seventh, moon = year % 4, year % 7, (19 * (year % 19) + 15) % 30
    ahead = (2 * fourth + 4 * seventh - moon + 34) % 7
    month, day = divmod(moon + ahead + 114, 31)
    return date(year, month, day + 1) + timedelta(days=13)


@pytest.mark.parametrize("year", [2026, 2027])
async def test_the_holidays_are_those_of_the_country(world: World, year: int) -> None:
    fixed = ["01-01", "01-02", "01-06", "01-07", "01-24", "05-01", "06-01", "08-15", "11-30", "12-01", "12-25", "12-26"]  # fmt: skip
    around = {easter(year) + timedelta(days=ahead) for ahead in (-2, 0, 1, 49, 50)}
    rows = await world.owner.fetch(
        "select day from clinic.holiday where business = $1 and extract(year from day) = $2", world.ours, year
    )

    assert {row["day"] for row in rows} == around | {date.fromisoformat(f"{year}-{one}") for one in fixed}


async def test_nothing_can_be_booked_or_found_on_a_holiday(world: World) -> None:
    refused = await world.check(BOOK, world.ana, service="cleaning", start="2026-12-25T10:00")
    found = await slots(world, "2026-12-25")

    assert isinstance(refused, Refusal)
    assert refused.code == "closed"
    assert refused.detail["holiday"]["en"] == "Christmas Day"
    assert refused.detail["alternatives"]
    assert not [
        one for one in refused.detail["alternatives"] if one["start"][:10] in ("2026-12-25", "2026-12-26")
    ]
    assert found.data["slots"] == []
    assert found.data["nearest"][0]["start"] == "2026-12-28T09:00+02:00"


async def test_a_day_that_the_clinic_closes_is_in_the_calendar_and_the_information(world: World) -> None:
    await world.owner.execute(
        'insert into clinic.holiday values ($1, \'2026-12-07\', \'{"en": "staff day", "ro": "ziua echipei"}\')',
        world.ours,
    )
    async with world.sql() as sql:
        context = world.context(sql, world.ana, locale="ro")
        page = await prompt_facts(context)
        info = await get_clinic_info(context, Nothing())

    assert "2026-12-07 luni closed (ziua echipei)" in page
    assert info.data["closed_days"][0] == {
        "day": "2026-12-07",
        "when": "luni 7 decembrie",
        "why": "ziua echipei",
    }


async def test_a_holiday_of_another_business_closes_nothing_here(world: World) -> None:
    await world.owner.execute(
        "insert into clinic.holiday values ($1, '2026-12-04', '{\"en\": \"x\"}')", world.theirs
    )
    assert isinstance(await world.check(BOOK, world.ana, **CLEANING), Proposal)


async def off(world: World, dentist: str, begins: datetime, ends: datetime) -> None:
    await world.owner.execute(
        "insert into clinic.time_off select $1, no, $3, $4 from clinic.dentist where business = $1 and name = $2",
        world.ours, dentist, begins, ends,
    )  # fmt: skip


async def test_a_dentists_time_off_is_neither_offered_nor_booked(world: World) -> None:
    await off(world, "Dr. Ionescu", FRIDAY_UTC - timedelta(hours=2), FRIDAY_UTC + timedelta(days=3))

    refused = await world.check(BOOK, world.ana, **CLEANING)
    other = await world.check(BOOK, world.ana, service="cleaning", start=FRIDAY)
    found = await slots(world, "2026-12-04")

    assert isinstance(refused, Refusal)
    assert (refused.code, refused.detail["dentists"]) == ("dentist_away", ["Dr. Ionescu"])
    assert isinstance(other, Proposal)
    assert other.shown["dentist"] == "Dr. Marin"
    assert {one["dentist"] for one in found.data["slots"]} == {"Dr. Marin"}


async def test_time_off_begins_and_ends_to_the_minute(world: World) -> None:
    await off(world, "Dr. Ionescu", FRIDAY_UTC + timedelta(minutes=45), FRIDAY_UTC + timedelta(hours=2))

    async def ask(time: str) -> str | None:
        asked = {**CLEANING, "start": f"2026-12-04T{time}"}
        return code(await world.check(BOOK, world.ana, **asked))

    assert await ask("10:00") is None
    assert await ask("10:01") == "dentist_away"
    assert await ask("12:00") is None
    assert await ask("11:59") == "dentist_away"


async def test_the_prompt_says_who_is_away(world: World) -> None:
    await off(world, "Dr. Marin", FRIDAY_UTC, FRIDAY_UTC + timedelta(days=1))
    async with world.sql() as sql:
        page = await prompt_facts(world.context(sql, world.ana))

    assert "Away: Dr. Marin, 2026-12-04 10:00 to 2026-12-05 10:00" in page


async def test_the_seeds_time_off_is_whole_days_of_the_clinics_zone(world: World) -> None:
    (row,) = await world.owner.fetch("select * from clinic.time_off where business = $1", world.ours)

    assert row["starts_at"].astimezone(ZONE).isoformat() == "2027-01-11T00:00:00+02:00"
    assert row["ends_at"].astimezone(ZONE).isoformat() == "2027-01-16T00:00:00+02:00"


async def test_the_open_hours_between_two_instants(world: World) -> None:
    assert isinstance(PACK, KeepsHours)
    begins, ends = datetime(2026, 12, 24, 15, 30, tzinfo=UTC), datetime(2026, 12, 28, 7, 30, tzinfo=UTC)
    async with world.sql() as sql:
        spans = await PACK.open_spans(world.context(sql, world.ana), begins, ends)

    assert [(f"{a.astimezone(ZONE):%d %H:%M}", f"{b.astimezone(ZONE):%d %H:%M}") for a, b in spans] == [
        ("24 17:30", "24 18:00"),  # Christmas and a weekend later:
        ("28 09:00", "28 09:30"),
    ]


# Holds


async def hold(world: World) -> None:
    await world.owner.execute("update clinic.practice set holds = true where business = $1", world.ours)


async def test_a_proposal_holds_nothing_unless_the_clinic_wants_it(world: World) -> None:
    await world.check(BOOK, world.ana, **CLEANING)

    assert await world.owner.fetchval("select count(*) from clinic.hold") == 0
    assert isinstance(await world.check(BOOK, world.bogdan, **CLEANING), Proposal)


async def test_a_held_slot_is_anothers_for_fifteen_minutes(world: World) -> None:
    await hold(world)
    await world.check(BOOK, world.ana, **CLEANING)

    async def asked_after(minutes: float) -> str | None:
        later = NOW + timedelta(minutes=minutes)
        async with world.sql() as sql:
            context = world.context(sql, world.bogdan, now=later)
            found = await find_slots(
                context,
                FindSlots(service="cleaning", first_day=FRIDAY[:10], last_day=FRIDAY[:10], dentist="Ionescu"),
            )
        assert isinstance(found, Established)
        starts = {one["start"][11:16] for one in found.data["slots"]}
        return "free" if starts & {"09:30", "09:45", "10:00", "10:15", "10:30"} else "held"

    assert code(await world.check(BOOK, world.bogdan, **CLEANING)) == "slot_taken"
    assert await asked_after(14.9) == "held"
    assert await asked_after(15) == "free"
    late = NOW + timedelta(minutes=15)
    assert isinstance(await world.check(BOOK, world.bogdan, now=late, **CLEANING), Proposal)


async def test_a_hold_stands_in_nobodys_way_who_holds_it(world: World) -> None:
    await hold(world)
    first = await world.check(BOOK, world.ana, **CLEANING)
    again = await world.check(BOOK, world.ana, **CLEANING)

    assert again == first
    assert isinstance(await world.execute(BOOK, world.ana, again, "k"), Done)
    assert await world.owner.fetchval("select count(*) from clinic.hold") == 0, "it has served"


async def test_a_customer_holds_one_slot_the_last_one(world: World) -> None:
    await hold(world)
    await world.check(BOOK, world.ana, **CLEANING)
    await world.check(BOOK, world.ana, **{**CLEANING, "start": "2026-12-07T10:00"})

    assert isinstance(await world.check(BOOK, world.bogdan, **CLEANING), Proposal)
    assert await world.owner.fetchval("select count(*) from clinic.hold where customer = $1", world.ana) == 1


async def test_an_expired_hold_is_no_right_to_the_slot(world: World) -> None:
    await hold(world)
    anas = await world.check(BOOK, world.ana, **CLEANING)
    late = NOW + timedelta(minutes=16)
    bogdans = await world.check(BOOK, world.bogdan, now=late, **CLEANING)
    assert isinstance(await world.execute(BOOK, world.bogdan, bogdans, "k1"), Done)

    assert code(await world.check(BOOK, world.ana, now=late, **CLEANING)) == "slot_taken"
    assert code(await world.execute(BOOK, world.ana, anas, "k2")) == "slot_taken"


async def test_of_two_who_ask_at_the_same_moment_one_holds(world: World) -> None:
    """The second looks while the first has placed a hold that is not committed: it waits, and sees it."""
    await hold(world)

    async def second_waits_or_is_through() -> bool:
        waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        return second.done() or bool(await world.owner.fetchval(waiting))

    async with asyncio.TaskGroup() as group, world.sql() as sql:
        first = await check_booking(world.context(sql, world.ana), BookAppointment(**CLEANING))
        second = group.create_task(world.check(BOOK, world.bogdan, **CLEANING))
        await eventually(second_waits_or_is_through)

    assert isinstance(first, Proposal)
    assert code(second.result()) == "slot_taken"
    assert await world.owner.fetchval("select array_agg(customer) from clinic.hold") == [world.ana]


async def test_a_move_goes_round_what_others_hold(world: World) -> None:
    await hold(world)
    appointment = await world.has(world.bogdan, "2026-12-07T10:00")
    await world.check(BOOK, world.ana, **CLEANING)

    refused = await world.check("reschedule_appointment", world.bogdan, appointment=appointment, start=FRIDAY)
    assert code(refused) == "slot_taken"


# Reminders


async def reminded(world: World, *, hours: float = 24, now: datetime = NOW) -> list[Reminder]:
    assert isinstance(PACK, Reminds)
    async with world.sql() as sql:
        context = world.context(sql, CustomerId(new_id()), now=now)
        return list(await PACK.reminders(context, ahead=timedelta(hours=hours)))


async def test_what_begins_within_a_day_is_worth_a_reminder(world: World) -> None:
    anas = await world.has(world.ana, FRIDAY)  # in exactly 24 hours
    await world.has(world.bogdan, "2026-12-04T10:45")
    cancelled = await world.has(world.bogdan, "2026-12-03T15:00")
    await world.owner.execute("update clinic.appointment set state = 'cancelled' where id = $1", cancelled)

    (reminder,) = await reminded(world)

    assert (reminder.customer, reminder.tool, reminder.arguments) == (
        world.ana, "cancel_appointment", {"appointment": anas},
    )  # fmt: skip
    assert reminder.word("en").text == (
        "A reminder of your appointment: cleaning with Dr. Ionescu, Friday 4 December, 10:00."
    )
    assert reminder.word("ro").text == (
        "Vă reamintim programarea: curățare cu Dr. Ionescu, vineri 4 decembrie, 10:00."
    )
    assert await reminded(world, now=FRIDAY_UTC, hours=0.5) == [], "what has begun"


async def test_a_reminders_second_button_can_be_asked_like_any_request(world: World) -> None:
    await world.has(world.ana, FRIDAY)
    (reminder,) = await reminded(world)

    assert isinstance(await world.check(reminder.tool, reminder.customer, **reminder.arguments), Proposal)


async def test_a_reminder_has_one_key_until_the_appointment_moves(world: World) -> None:
    appointment = await world.has(world.ana, FRIDAY)
    before = [one.key for one in await reminded(world)]
    again = [one.key for one in await reminded(world, now=NOW + timedelta(hours=1))]
    move = await world.check(
        "reschedule_appointment", world.ana, appointment=appointment, start="2026-12-04T09:15"
    )
    await world.execute("reschedule_appointment", world.ana, move, "k")
    moved = [one.key for one in await reminded(world)]

    assert before == again
    assert len(moved) == 1
    assert moved != before


# Calendars


async def calendar(world: World, *, dentist: int = 0, now: datetime = NOW) -> str:
    assert isinstance(PACK, Feeds)
    number = (await world.dentists())[dentist]
    async with world.sql() as sql:
        feed = await PACK.feed(world.context(sql, CustomerId(new_id()), now=now), f"dentist-{number}.ics")
    assert feed
    assert feed.media_type == "text/calendar; charset=utf-8"
    return feed.body.decode()


async def test_each_dentist_has_a_feed(world: World) -> None:
    assert isinstance(PACK, Feeds)
    numbers = await world.dentists()
    async with world.sql() as sql:
        names = await PACK.feed_names(world.context(sql, world.ana))

    assert dict(names) == {
        f"dentist-{numbers[0]}.ics": "Dr. Ionescu",
        f"dentist-{numbers[1]}.ics": "Dr. Popescu",
        f"dentist-{numbers[2]}.ics": "Dr. Marin",
    }


async def test_a_feed_that_is_not_there_is_none(world: World) -> None:
    assert isinstance(PACK, Feeds)
    theirs = await world.owner.fetchval(
        "select min(no) from clinic.dentist where business = $1", world.theirs
    )
    ours = (await world.dentists())[0]
    names = [
        f"dentist-{theirs}.ics",
        "dentist-999999.ics",
        f"dentist-0{ours}.ics",
        f"dentist-{ours}",
        "",
        "../x",
    ]
    async with world.sql() as sql:
        context = world.context(sql, world.ana)
        assert [await PACK.feed(context, name) for name in names] == [None] * len(names)


async def test_a_feed_shows_the_last_thirty_days_and_all_that_comes(world: World) -> None:
    await world.owner.execute("update leeway.customer set name = 'Ana P' where id = $1", world.ana)
    await world.has(world.ana, FRIDAY)
    await world.has(world.bogdan, "2027-05-20T10:00")
    await world.has(world.ana, "2026-12-07T10:00", dentist="Marin")

    now = await calendar(world)
    later = await calendar(world, now=FRIDAY_UTC + timedelta(days=30))

    assert now.count("BEGIN:VEVENT") == 2
    assert "DTSTART:20261204T080000Z\r\nDTEND:20261204T084500Z\r\nSTATUS:CONFIRMED\r\n" in now
    assert "SUMMARY:cleaning: Ana P\r\n" in now
    assert "SUMMARY:cleaning: patient without a name\r\n" in now
    assert later.count("BEGIN:VEVENT") == 1


async def test_an_event_keeps_its_id_when_it_moves_and_is_marked_when_it_is_cancelled(world: World) -> None:
    appointment = await world.has(world.ana, FRIDAY)
    before = await calendar(world)
    move = await world.check(
        "reschedule_appointment", world.ana, appointment=appointment, start="2026-12-07T10:00"
    )
    await world.execute("reschedule_appointment", world.ana, move, "k1")
    moved = await calendar(world)
    cancel = await world.check("cancel_appointment", world.ana, appointment=appointment)
    await world.execute("cancel_appointment", world.ana, cancel, "k2")
    cancelled = await calendar(world)

    for text, sequence, status in (
        (before, 0, "CONFIRMED"),
        (moved, 1, "CONFIRMED"),
        (cancelled, 2, "CANCELLED"),
    ):
        assert re.findall(r"UID:(.+)\r\n", text) == [f"{appointment}@leeway"]
        assert f"SEQUENCE:{sequence}\r\n" in text
        assert f"STATUS:{status}\r\n" in text
    assert "DTSTART:20261207T080000Z" in moved


async def test_a_hostile_name_adds_no_line_to_the_calendar(world: World) -> None:
    hostile = "Ana\r\nEND:VEVENT\r\nBEGIN:VEVENT\nSUMMARY:owned;,\\"
    await world.owner.execute("update leeway.customer set name = $1 where id = $2", hostile, world.ana)
    appointment = await world.has(world.ana, FRIDAY)
    await world.owner.execute("update clinic.appointment set note = $2 where id = $1", appointment, hostile)

    lines = re.sub("\r\n ", "", await calendar(world)).split("\r\n")

    assert lines.count("BEGIN:VEVENT") == 1
    assert [line for line in lines if line.startswith("SUMMARY")] == [
        r"SUMMARY:cleaning: Ana END:VEVENT BEGIN:VEVENT SUMMARY:owned\;\,\\"
    ]
    assert r"DESCRIPTION:Ana\nEND:VEVENT\nBEGIN:VEVENT\nSUMMARY:owned\;\,\\" in lines


@pytest.mark.parametrize("zone", ["America/New_York", "Pacific/Kiritimati"])
async def test_days_off_are_days_of_the_clinics_own_zone(world: World, zone: str) -> None:
    """However far its midnight is from the one of UTC."""
    where = ZoneInfo(zone)
    async with world.sql() as sql:
        context = world.context(sql, world.ana)
        assert isinstance(PACK, KeepsHours)
        begins = datetime(2026, 12, 24, tzinfo=where)
        there = type(context)(
            sql=sql, business=world.ours, customer=world.ana, now=NOW, zone=where, locale="en"
        )
        spans = await PACK.open_spans(there, begins, begins + timedelta(days=2))

    assert {opens.astimezone(where).date() for opens, _ in spans} == {date(2026, 12, 24)}
