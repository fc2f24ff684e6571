"""Field cases about days, hours, slots and amounts, through all services: nothing past, nothing twice, nothing guessed."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest

from tests.support.town import ANA, BOGDAN, THURSDAY, Shop, Town, a_town, call, script, texts_told

pytestmark = [pytest.mark.postgres, pytest.mark.stack, pytest.mark.xdist_group("field-days")]

FRIDAY_10 = "2026-12-04T10:00"
MONDAY_10 = "2026-12-07T10:00"


@pytest.fixture(scope="module")
async def town() -> AsyncIterator[Town]:
    async with a_town("field-days") as town:
        yield town


def booking(start: str, service: str = "checkup") -> dict[str, Any]:
    return call("book_appointment", {"service": service, "start": start, "dentist": "Dr. Ionescu"})


async def asked_for(shop: Shop) -> list[str]:
    """The starts that the model's calls named, as they were."""
    arguments = [json.loads(one["arguments"]) for one in (await shop.read()).tool_calls]
    return [one["start"] for one in arguments if "start" in one]


# The same hour, wanted twice


@pytest.mark.parametrize(
    ("first", "second", "starts"),
    [
        pytest.param("checkup", "checkup", ("10:00", "10:00"), id="the same slot"),
        pytest.param("filling", "checkup", ("10:00", "10:30"), id="one lies inside the other"),
        pytest.param("checkup", "cleaning", ("10:30", "10:00"), id="one begins before the other"),
    ],
)
async def test_of_two_who_say_yes_at_once_one_books_and_one_is_told(
    town: Town, first: str, second: str, starts: tuple[str, str]
) -> None:
    """TIM-01, for overlapping lengths too. Two hundred pairs of the same slot: tests/end_to_end/test_same_slot.py."""
    wishes = [
        booking(f"2026-12-07T{start}", service)
        for start, service in zip(starts, (first, second), strict=True)
    ]
    for _ in range(3):
        shop = await town.business("tim-01", model=script(*wishes))
        ana, bogdan = shop.customer(ANA), shop.customer(BOGDAN)
        for customer in (ana, bogdan):
            [asked] = await customer.says("Monday, please")
            assert "Reply YES" in asked
        town.go_to(town.now + timedelta(seconds=20))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(ana.write("yes"))
            tasks.create_task(bogdan.write("yes"))
        answers = [*await ana.hears(), *await bogdan.hears()]
        assert sorted(text.partition(":")[0] for text in answers)[0] == "Booked"
        [told] = [text for text in answers if not text.startswith("Booked")]
        assert told.startswith("That time is taken.")
        assert "Free instead:" in told
        assert len(await shop.appointments()) == 1


async def test_a_move_that_somebody_was_quicker_than_leaves_the_appointment(town: Town) -> None:
    """TIM-13."""
    shop = await town.business("tim-13")
    await shop.has_appointment(ANA, FRIDAY_10)
    ana, bogdan = shop.customer(ANA), shop.customer(BOGDAN)
    [asked] = await ana.says("move my appointment to Monday at 10")
    assert "to Monday 7 December, 10:00" in asked
    await bogdan.says("Book a check-up with Dr. Ionescu on Monday at 10")
    await bogdan.says("yes")
    assert await shop.appointments(BOGDAN) == [MONDAY_10]
    [told] = await ana.says("yes")
    assert told.startswith("That time is taken. Free instead:")
    assert await shop.appointments(ANA) == [FRIDAY_10]
    assert await shop.ran() == ["book_appointment"]


@pytest.mark.parametrize("holds", [True, False], ids=["holds", "no holds"])
async def test_a_slot_that_an_operator_gave_away_is_not_booked_twice(town: Town, *, holds: bool) -> None:
    """TIM-17: whether or not the clinic holds slots while it waits for a yes."""
    shop = await town.business("tim-17")
    await shop.fetch("update clinic.practice set holds = $2 where business = $1", holds)
    ana = shop.customer()
    [asked] = await ana.says("Book a check-up with Dr. Ionescu on Monday at 10")
    assert "Monday 7 December, 10:00" in asked
    await shop.has_appointment(BOGDAN, MONDAY_10)
    [told] = await ana.says("yes")
    assert told.startswith("That time is taken. Free instead:")
    assert (await shop.appointments(), await shop.ran()) == ([MONDAY_10], [])


# Which day, which hour


async def test_nine_is_nine_before_and_after_the_clocks_change(town: Town) -> None:
    """TIM-03: stored as other instants, read as the same hour."""
    starts = ["2027-03-26T09:00", "2027-03-29T09:00"]
    shop = await town.business("tim-03", model=script(*map(booking, starts)))
    ana = shop.customer()
    for day in ("Friday 26 March", "Monday 29 March"):
        [asked] = await ana.says("A check-up at nine")
        assert f"{day} 2027, 09:00" in asked or f"{day}, 09:00" in asked
        [done] = await ana.says("yes")
        assert ", 09:00" in done
    stored = await shop.fetch("select starts_at from clinic.appointment where business = $1 order by 1")
    assert [row["starts_at"].astimezone(UTC).strftime("%m-%dT%H:%MZ") for row in stored] == ["03-26T07:00Z", "03-29T06:00Z"]  # fmt: skip
    del town.models.own[shop.slug]
    [listed] = await ana.says("my appointments?")
    assert listed.count(", 09:00") == 2


@pytest.mark.parametrize(
    ("text", "start", "shown"),
    [
        ("A cleaning, Friday at 10", FRIDAY_10, "Friday 4 December, 10:00"),
        ("O curățare, vineri la 10", FRIDAY_10, "vineri 4 decembrie, 10:00"),
        ("A cleaning, Thursday at 17", "2026-12-03T17:00", "Thursday 3 December, 17:00"),
        ("A cleaning, next Monday at 10", None, "Which day do you mean"),
        ("O curățare poimâine la 10", None, "În ziua aceea este închis"),
        ("A cleaning tomorrow at 12pm", "2026-12-04T12:00", "Friday 4 December, 12:00"),
        ("O curățare mâine la 12", "2026-12-04T12:00", "vineri 4 decembrie, 12:00"),
        ("A cleaning tomorrow at 12am", None, "We are not open"),
        ("A cleaning tomorrow at 5 am", None, "We are not open"),
        ("A cleaning tomorrow at 2h30pm", "2026-12-04T14:30", "Friday 4 December, 14:30"),
        ("O curățare mâine la ora 5", None, "Nu suntem deschiși"),  # on Fridays it ends at five
        ("O curățare luni la ora 5", "2026-12-07T17:00", "luni 7 decembrie, 17:00"),
        ("O curățare luni la 9 și un sfert", "2026-12-07T09:15", "luni 7 decembrie, 09:15"),
        ("O curățare mâine la fără un sfert zece", "2026-12-04T09:45", "vineri 4 decembrie, 09:45"),
        ("O curățare mâine la 10 fix", FRIDAY_10, "vineri 4 decembrie, 10:00"),
    ],
)
async def test_a_day_and_hour_in_words_are_the_only_ones_or_are_asked(
    town: Town, text: str, start: str | None, shown: str
) -> None:
    """TIM-06, TIM-11, TIM-12: never past, never the wrong half of the day, and the question repeats weekday and date."""
    shop = await town.business("tim-06")
    ana = shop.customer()
    [asked] = await ana.says(text)
    assert shown in asked
    assert all(named >= "2026-12-03T10:00" for named in await asked_for(shop))
    await ana.says("da")
    assert await shop.appointments() == ([start] if start else [])


@pytest.mark.parametrize("text", ["tomorrow at 10", "mâine la 10"])
async def test_tomorrow_after_midnight_is_the_clinics_own(town: Town, text: str) -> None:
    """TIM-08: 22:30Z on Thursday is half past midnight on Friday there; the clinic opens on Saturdays, too."""
    shop = await town.business("tim-08", at=datetime(2026, 12, 3, 22, 30, tzinfo=UTC))
    await shop.fetch(
        "insert into clinic.opening (business, weekday, opens, closes) values ($1, 6, $2, $3)",
        time(9),
        time(13),
    )
    ana = shop.customer()
    [asked] = await ana.says(f"a cleaning {text}")
    assert "5 Dec" in asked or "5 dec" in asked
    assert await asked_for(shop) == ["2026-12-05T10:00"]
    await ana.says("yes")
    assert await shop.appointments() == ["2026-12-05T10:00"]


async def test_a_model_that_lives_in_another_year_is_told_why_not(town: Town) -> None:
    """TIM-09: a reason that the model can use, with what is free, and nothing waits."""
    shop = await town.business(
        "tim-09",
        model=script(booking("2024-08-16T10:00"), booking("2026-12-02T10:00"), {"text": "Which day?"}),
    )
    assert await shop.customer().says("A check-up at ten") == ["Which day?"]
    assert [call[2] for call in await shop.tool_calls()] == ["in_the_past", "in_the_past"]
    told = [one.content for one in shop.requests[-1].messages if one.role == "tool"]
    assert all("in_the_past" in one and "2026-12-03" in one for one in told)
    assert (await shop.waiting(), await shop.ran()) == ([], [])
    assert "2026-12-03" in texts_told(shop.requests[0]).partition("Now:")[2]


async def test_what_passes_while_it_is_asked_about_is_refused(town: Town) -> None:
    """TIM-10."""
    shop = await town.business("tim-10")
    ana = shop.customer()
    [past] = await ana.says("a cleaning today at 9", at=THURSDAY)
    assert past.startswith("That time has passed.")
    [asked] = await ana.says("today at 10:05", at=THURSDAY + timedelta(minutes=1))
    assert "Thursday 3 December, 10:05" in asked
    [told] = await ana.says("yes", at=THURSDAY + timedelta(minutes=6))
    assert told.startswith("That time has passed.")
    assert (await shop.appointments(), await shop.ran()) == ([], [])


# Amounts


@pytest.mark.parametrize(
    ("text", "shown", "stored"),
    [
        ("adaugă 1.355,90 lei pentru chirie", "1.355,90 RON", "1355.90 RON"),
        ("adaugă 3,40 € pentru cafea", "3,40 EUR", "3.40 EUR"),
        ("adaugă 12,5 pentru prânz", "12,50 RON", "12.50 RON"),
        ("adaugă 1 250,00 pentru chirie", "1.250,00 RON", "1250.00 RON"),
        ("adaugă 1,234.56 pentru chirie", "1.234,56 RON", "1234.56 RON"),
        ("adaugă 2 500,50 pentru chirie", "2.500,50 RON", "2500.50 RON"),
    ],
)
async def test_a_clear_amount_is_repeated_with_its_currency_and_kept(
    town: Town, text: str, shown: str, stored: str
) -> None:
    """PCK-04, and the clear ones of PCK-05."""
    shop = await town.business("pck-04", pack="expenses", locales=("ro",))
    ana = shop.customer()
    [asked] = await ana.says(text)
    assert shown in asked
    await ana.says("da")
    kept = await shop.fetch("select amount::text || ' ' || currency as kept from expenses.expense where business = $1")  # fmt: skip
    assert [row["kept"] for row in kept] == [stored]


@pytest.mark.parametrize("amount", ["1.234", "1,234", "10.50.2", "١٢", "1e3", "-5", "0", "1e309", "9" * 40, "NaN"])  # fmt: skip
@pytest.mark.parametrize("through", ["the customer's words", "a model that passes them on"])
async def test_an_amount_that_is_not_clear_is_asked_or_refused(town: Town, amount: str, through: str) -> None:
    """PCK-05: in a customer's words, and as a model passes them on."""
    shop = await town.business("pck-05", pack="expenses", locales=("ro",))
    if through != "the customer's words":
        town.models.own[shop.slug] = script(call("add_expense", {"item": "chirie", "amount": amount}), {"text": "Care sumă?"})  # fmt: skip
    ana = shop.customer()
    [asked] = await ana.says(f"adaugă {amount} pentru chirie")
    assert not asked.startswith("Adaug cheltuiala")
    assert await shop.waiting() == []
    await ana.says("da")
    assert await shop.ran() == []
