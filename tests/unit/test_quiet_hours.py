"""How long quiet hours last from a moment on: over midnight, through changes of the clock, and not at all."""

from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from shared.quiet_hours import quiet_for

BUCHAREST = ZoneInfo("Europe/Bucharest")
NINE, EIGHT = time(21), time(8)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BUCHAREST)


CASES = [
    # local time, from, to, hours they last
    ("before they begin", "2026-12-03 20:59:59", NINE, EIGHT, None),
    ("as they begin", "2026-12-03 21:00", NINE, EIGHT, 11),
    ("at midnight", "2026-12-04 00:00", NINE, EIGHT, 8),
    ("in their last hour", "2026-12-04 07:30", NINE, EIGHT, 0.5),
    ("as they end", "2026-12-04 08:00", NINE, EIGHT, None),
    ("within a day, inside", "2026-12-04 13:00", time(12), time(14), 1),
    ("within a day, before", "2026-12-04 11:59", time(12), time(14), None),
    ("within a day, after", "2026-12-04 14:00", time(12), time(14), None),
    ("the same twice is none", "2026-12-04 12:00", time(12), time(12), None),
    ("to midnight", "2026-12-04 23:00", NINE, time(0), 1),
    ("the night that loses an hour", "2026-03-28 23:00", NINE, EIGHT, 8),
    ("the night that gains one", "2026-10-24 23:00", NINE, EIGHT, 10),
]


@pytest.mark.parametrize(
    ("now", "begins", "ends", "hours"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_they_last(now: str, begins: time, ends: time, hours: float | None) -> None:
    assert quiet_for(at(now), begins, ends) == (None if hours is None else timedelta(hours=hours))


def test_when_they_are_over_they_are_over() -> None:
    """Waiting as long as it says ends outside them: nothing waits twice."""
    for minute in range(0, 24 * 60, 7):
        now = at("2026-12-03 00:00") + timedelta(minutes=minute)
        lasts = quiet_for(now, NINE, EIGHT)
        if lasts is not None:
            assert lasts > timedelta()
            assert quiet_for(now + lasts, NINE, EIGHT) is None
