"""The days and times that words name, EN and RO; today is Thursday 3 December 2026."""

from datetime import date, time

import pytest

from packs.clinic.dates import read_days
from packs.clinic.mock_clock import choose, read_clock

TODAY = date(2026, 12, 3)
OPEN = [(time(9), time(13)), (time(14), time(18))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("today at 9", ["2026-12-03"]),
        ("tomorrow at 10", ["2026-12-04"]),
        ("the day after tomorrow", ["2026-12-05"]),
        ("azi la 17", ["2026-12-03"]),
        ("mâine la 10", ["2026-12-04"]),
        ("maine", ["2026-12-04"]),
        ("poimâine", ["2026-12-05"]),
        ("Friday at 10", ["2026-12-04"]),
        ("vineri la 10", ["2026-12-04"]),
        ("joi la 10", ["2026-12-03"]),
        ("Thursday at 17", ["2026-12-03"]),
        ("Monday 10", ["2026-12-07"]),
        ("marți la 10", ["2026-12-08"]),
        ("marţi", ["2026-12-08"]),
        ("next Friday", ["2026-12-04", "2026-12-11"]),
        ("vinerea viitoare", ["2026-12-04", "2026-12-11"]),
        ("next Thursday", ["2026-12-10"]),
        ("3 dec", ["2026-12-03"]),
        ("2 dec", ["2027-12-02"]),
        ("3 decembrie ora 14", ["2026-12-03"]),
        ("la 10 decembrie", ["2026-12-10"]),
        ("5 mai", ["2027-05-05"]),
        ("Fri at 10", ["2026-12-04"]),
        ("next tues.", ["2026-12-08", "2026-12-15"]),
        ("I sat in the sun", []),
        ("peste două luni", []),
        ("în 3 luni", []),
        ("in two months", []),
        ("luni", ["2026-12-07"]),
        ("luni peste două săptămâni", ["2026-12-07"]),
        ("the 5th of January", ["2027-01-05"]),
        ("December 10", ["2026-12-10"]),
        ("Dec 10 at 11", ["2026-12-10"]),
        ("7.12 la 10", ["2026-12-07"]),
        ("07.12.2026", ["2026-12-07"]),
        ("2026-12-07", ["2026-12-07"]),
        ("the 19th at 10", ["2026-12-19"]),
        ("pe 19 la 10", ["2026-12-19"]),
        ("Monday 7 December", ["2026-12-07"]),
        ("Monday 8 December", ["2026-12-07", "2026-12-08"]),
        ("tomorrow or Friday week", ["2026-12-04"]),
        ("la 10.12", []),
        ("10.30", []),
        ("31 nov", []),
        ("la 5 mai târziu", []),
        ("maybe", []),
        ("I may come in march", []),
        ("3 months ago", []),
        ("sun and sat", []),
        ("yesterday", []),
        ("the 1st one", []),
        ("", []),
    ],
)
def test_days(text: str, expected: list[str]) -> None:
    named, _ = read_days(text, TODAY)

    assert [day.isoformat() for day in named.days(TODAY)] == expected


@pytest.mark.parametrize(
    ("text", "day", "agrees"),
    [
        ("Friday at 10", "2026-12-04", True),
        ("Friday at 10", "2026-12-11", True),
        ("Friday at 10", "2026-12-03", False),
        ("poimâine la 10", "2026-12-05", True),
        ("poimâine la 10", "2026-12-04", False),
        ("Monday 7 December", "2026-12-07", True),
        ("Monday 7 December", "2026-12-14", False),
        ("Monday 8 December", "2026-12-08", False),
        ("tomorrow or Monday", "2026-12-07", True),
        ("tomorrow or Monday", "2026-12-08", False),
        ("book me the next free time", "2026-12-09", True),
        ("yes", "2026-12-09", True),
    ],
)
def test_agreement(text: str, day: str, agrees: bool) -> None:
    named, _ = read_days(text, TODAY)

    assert named.agrees(date.fromisoformat(day)) is agrees


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("at 3pm", "15:00"),
        ("3 p.m.", "15:00"),
        ("at 10", "10:00"),
        ("10.30", "10:30"),
        ("10:30", "10:30"),
        ("17:00", "17:00"),
        ("1h30", "13:30"),
        ("2h30pm", "14:30"),
        ("ora 5", "17:00"),
        ("la 5 jumate", "17:30"),
        ("la 9 și un sfert", "09:15"),
        ("fără un sfert zece", "09:45"),
        ("half past nine", "09:30"),
        ("quarter to 3", "14:45"),
        ("mâine la 10 fix", "10:00"),
        ("la zece", "10:00"),
        ("12pm", "12:00"),
        ("12am", "00:00"),
        ("5 am", "05:00"),
        ("la 12", "12:00"),
        ("at noon", "12:00"),
        ("Monday 10", "10:00"),
        ("joi la 10", "10:00"),
        ("the 19th at 10", "10:00"),
        ("not at 9 but at 10", "10:00"),
        ("at 1", "13:00"),
        ("at 8", "08:00"),
        ("la 10.12", "10:12"),
        ("tomorrow", None),
        ("25:00", None),
        ("14pm", None),
        ("7 December", None),
    ],
)
def test_times_are_the_only_one_in_opening_hours_or_as_said(text: str, expected: str | None) -> None:
    _, rest = read_days(text, TODAY)
    clock = read_clock(rest, lone="Monday" in text)

    assert (f"{choose(clock, OPEN)[0]:%H:%M}" if clock else None) == expected


def test_a_time_that_may_be_two_stays_two() -> None:
    clock = read_clock("at 8", lone=False)

    assert clock is not None
    assert choose(clock, [(time(7), time(21))]) == (time(8), time(20))
