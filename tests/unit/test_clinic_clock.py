"""Times of day in words: the only one inside opening hours, or asked; never a wrong half of the day in silence."""

from collections.abc import Sequence
from datetime import date, time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packs.clinic.dates import read_days
from packs.clinic.mock_clock import choose, read_clock
from packs.clinic.mock_page import read_page
from packs.clinic.prompt import prompt_facts
from tests.unit.clinic_demo import context
from tests.unit.clinic_talk import Talk

TODAY = date(2026, 12, 3)
DAY = [(time(9), time(18))]
LONG = [(time(7), time(21))]
CLOSED: list[tuple[time, time]] = []


def meant(
    text: str, stretches: Sequence[tuple[time, time]] | None = DAY, *, part: str | None = None
) -> list[str]:
    """What a text may mean on a day open like this: several are asked, none is asked for."""
    _, rest = read_days(text, TODAY)
    clock = read_clock(rest, lone=False)
    return [f"{one:%H:%M}" for one in choose(clock, stretches, part)] if clock else []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1h30", "13:30"),
        ("2h30pm", "14:30"),
        ("the 19th at 10", "10:00"),
        ("10.30", "10:30"),
        ("17:00", "17:00"),
        ("ora 5", "17:00"),
        ("la 5 jumate", "17:30"),
        ("fără un sfert zece", "09:45"),
        ("mâine la 10 fix", "10:00"),
        ("12pm", "12:00"),
        ("la 12", "12:00"),
        ("at half past two", "14:30"),
        ("ten to five", "16:50"),
        ("at ten to five", "16:50"),
        ("twenty past 9", "09:20"),
        ("10 past 9", "09:10"),
        ("10 minutes to 4", "15:50"),
        ("quarter to one", "12:45"),
        ("at 9:10pm", "21:10"),
        ("la zece fără un sfert", "09:45"),
        ("la 10 fără 10", "09:50"),
        ("la 10 și un sfert", "10:15"),
        ("la 10 și 20", "10:20"),
        ("la cinci și jumătate", "17:30"),
        ("ora trei fără cinci", "14:55"),
        ("la trei jumate", "15:30"),
        ("at three", "15:00"),
        ("la 2", "14:00"),
        ("noon", "12:00"),
        ("pe la 4", "16:00"),
    ],
)
def test_the_only_time_inside_opening_hours(text: str, expected: str) -> None:
    assert meant(text) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12am", "00:00"),
        ("5 am", "05:00"),
        ("05:00", "05:00"),
        ("12 noaptea", "00:00"),
        ("midnight", "00:00"),
        ("miezul nopții", "00:00"),
        ("2 at night", "02:00"),
        ("9 at night", "21:00"),
        ("at 8", "08:00"),
        ("la 19:30", "19:30"),
    ],
)
def test_a_time_outside_them_stays_as_it_was_said_and_is_refused(text: str, expected: str) -> None:
    assert meant(text) == [expected]


@pytest.mark.parametrize(
    ("text", "stretches", "expected"),
    [
        ("at 8", LONG, ["08:00", "20:00"]),
        ("la 7 jumate", LONG, ["07:30", "19:30"]),
        ("08:00", LONG, ["08:00"]),
        ("8pm", LONG, ["20:00"]),
        ("at 5", None, ["05:00", "17:00"]),
        ("17:00", None, ["17:00"]),
        ("at 5", CLOSED, ["05:00"]),
    ],
)
def test_what_may_be_two_times_stays_two(
    text: str, stretches: list[tuple[time, time]] | None, expected: list[str]
) -> None:
    assert meant(text, stretches) == expected


@pytest.mark.parametrize(
    ("text", "part", "expected"),
    [
        ("at 8", "morning", ["08:00"]),
        ("at 8", "evening", ["20:00"]),
        ("la 5", "morning", ["05:00"]),
        ("la 5", "afternoon", ["17:00"]),
        ("17:00", "morning", ["17:00"]),
    ],
)
def test_the_customers_own_half_of_the_day_goes_before(text: str, part: str, expected: list[str]) -> None:
    assert meant(text, LONG, part=part) == expected


@pytest.mark.parametrize(
    "text",
    [
        "10 or 11",
        "at 10 or at 11",
        "la 10 sau la 11",
        "10-12",
        "at 10 to 12",
        "la 10 până la 12",
        "after work",
    ],
)
def test_several_times_are_asked_about(text: str) -> None:
    assert meant(text) == []


@given(
    st.text(max_size=40)
    | st.from_regex(r"(la|at|ora) \d{1,3}([.:h]\d{1,3})?( fara| si| to)? ?\d{0,3}", fullmatch=True)
)
def test_no_text_makes_it_fail(text: str) -> None:
    for one in meant(text, None):
        time.fromisoformat(one)


@pytest.mark.parametrize(
    ("locale", "text", "start"),
    [
        ("en", "a cleaning tomorrow at 5 in the morning", "2026-12-04T05:00"),
        ("ro", "o curățare mâine la 5 dimineața", "2026-12-04T05:00"),
        ("en", "a cleaning on Monday at 5 in the afternoon", "2026-12-07T17:00"),
        ("en", "a cleaning on 14 January at 5", "2027-01-14T17:00"),
        ("ro", "o curățare pe 14 ianuarie la 5", "2027-01-14T17:00"),
        ("en", "a cleaning today at 10:05", "2026-12-03T10:05"),
    ],
)
async def test_a_booking_is_asked_for_in_the_half_of_the_day_that_was_meant(
    locale: str, text: str, start: str
) -> None:
    talk = Talk(locale)
    await talk.hear(text)

    assert talk.asked == [("book_appointment", {"service": "cleaning", "start": start})]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a cleaning tomorrow at 12am", "We are not open for the whole of that appointment."),
        ("a cleaning tomorrow at 5 am", "We are not open for the whole of that appointment."),
        ("a cleaning tomorrow at 12pm", "Book: cleaning with Dr. Ionescu, Friday 4 December, 12:00."),
        ("a cleaning today at 9", "That time has passed."),
    ],
)
async def test_what_can_not_be_is_said_with_alternatives(text: str, expected: str) -> None:
    said = await Talk().hear(text)

    assert said.startswith(expected)
    assert "Free instead: " in said or expected.startswith("Book")


@pytest.mark.parametrize("locale", ["en", "ro"])
async def test_the_page_tells_the_hours_of_days_beyond_its_calendar(locale: str) -> None:
    page = read_page(await prompt_facts(context(locale=locale)))

    assert page
    assert page.open_on(date(2027, 2, 5)) == [(time(9), time(13)), (time(14), time(17))]
    assert page.open_on(date(2027, 2, 6)) == []
