"""When a handoff's clock strikes, reckoned in opening time, and what is done then: tables."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from packs.clinic.facts import Diary, Opening
from packs.clinic.rules import open_between
from services.agent.core.clock import HORIZON, Strike, Times, Unclaimed, Unset, passed, strike, times_of
from shared.ids import BusinessId, ConversationId, new_id

BUCHAREST = ZoneInfo("Europe/Bucharest")
HOURS = [("09:00", "13:00"), ("14:00", "18:00")]


def local(text: str, *, fold: int = 0) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BUCHAREST, fold=fold)


def minutes(number: int) -> timedelta:
    return timedelta(minutes=number)


def clinic(*holidays: str) -> Diary:
    """Open on weekdays, with lunch from one to two."""
    return Diary(
        name="", address="", phone="", currency="", horizon_days=90, zone=BUCHAREST,
        hours=tuple(
            Opening(weekday=weekday, opens=time.fromisoformat(opens), closes=time.fromisoformat(closes))
            for weekday in range(1, 6)
            for opens, closes in HOURS
        ),
        holidays={date.fromisoformat(day): {"en": "a holiday"} for day in holidays},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("opened", "after", "strikes", "holidays"),
    [
        pytest.param("2026-12-03T10:00", 15, "2026-12-03T10:15", [], id="inside the hours"),
        pytest.param("2026-12-03T08:00", 15, "2026-12-03T09:15", [], id="before they begin"),
        pytest.param("2026-12-03T12:50", 15, "2026-12-03T14:05", [], id="over lunch"),
        pytest.param("2026-12-03T13:20", 15, "2026-12-03T14:15", [], id="at lunch"),
        pytest.param("2026-12-03T12:45", 15, "2026-12-03T13:00", [], id="to the minute they end"),
        pytest.param("2026-12-03T17:55", 60, "2026-12-04T09:55", [], id="over night"),
        pytest.param("2026-12-03T23:00", 60, "2026-12-04T10:00", [], id="at night"),
        pytest.param("2026-12-04T17:30", 60, "2026-12-07T09:30", [], id="over a weekend"),
        pytest.param("2026-12-05T12:00", 15, "2026-12-07T09:15", [], id="on a Saturday"),
        pytest.param("2026-11-30T17:50", 15, "2026-12-02T09:05", ["2026-12-01"], id="over a holiday"),
        pytest.param("2026-12-01T10:00", 15, "2026-12-02T09:15", ["2026-12-01"], id="on a holiday"),
        pytest.param("2026-12-03T10:00", 9 * 60, "2026-12-04T11:00", [], id="more than a day has"),
    ],
)
def test_only_opening_time_counts(opened: str, after: int, strikes: str, holidays: list[str]) -> None:
    begins = local(opened)
    spans = open_between(clinic(*holidays), begins, begins + HORIZON)
    assert passed(begins, minutes(after), spans) == local(strikes)


@pytest.mark.parametrize(
    ("begins", "spans", "after", "strikes"),
    [
        pytest.param(
            local("2026-03-29T01:00"),
            [(local("2026-03-29T00:00"), local("2026-03-29T08:00"))],
            3 * 60,
            datetime(2026, 3, 29, 2, 0, tzinfo=UTC),
            id="the hour that does not exist is not counted",
        ),
        pytest.param(
            local("2026-10-25T02:30"),
            [(local("2026-10-25T00:00"), local("2026-10-25T08:00"))],
            3 * 60,
            datetime(2026, 10, 25, 2, 30, tzinfo=UTC),
            id="the hour that comes twice counts twice",
        ),
        pytest.param(
            local("2026-10-25T03:30", fold=1),
            [(local("2026-10-25T00:00"), local("2026-10-25T05:00"))],
            60,
            datetime(2026, 10, 25, 2, 30, tzinfo=UTC),
            id="begun in the second of the two",
        ),
    ],
)
def test_the_clocks_going_forward_or_back_change_no_waiting_time(
    begins: datetime, spans: list[Any], after: int, strikes: datetime
) -> None:
    found = passed(begins, minutes(after), spans)
    assert found == strikes
    assert found.utcoffset() == timedelta()


def test_who_names_no_opening_hours_is_always_open() -> None:
    begins = local("2026-12-05T23:00")
    assert passed(begins, minutes(15), []) == begins + minutes(15)


def test_a_business_that_hardly_ever_opens_is_reminded_at_the_horizon() -> None:
    begins = local("2026-12-03T10:00")
    assert passed(begins, minutes(15), [(begins, begins + minutes(5))]) == begins + HORIZON


def test_hours_in_any_order_that_overlap_are_counted_once() -> None:
    begins = datetime(2026, 12, 3, 8, 0, tzinfo=UTC)

    def span(first: int, last: int) -> tuple[datetime, datetime]:
        return begins + minutes(first), begins + minutes(last)

    spans = [span(60, 90), span(0, 10), span(5, 12), span(-60, -30), span(10, 10), span(0, 3)]
    assert passed(begins, minutes(12), spans) == begins + minutes(12)
    assert passed(begins, minutes(13), spans) == begins + minutes(61)


def unset(reason: str) -> Unset:
    return Unset(
        conversation=ConversationId(new_id()), epoch=1, reason=reason, opened_at=local("2026-12-03T10:00"),
        business=BusinessId(1), slug="clinic", pack="clinic", time_zone="Europe/Bucharest", locale="en",
        now=local("2026-12-03T10:01"), remind_after=minutes(15), tell_after=minutes(60),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "reminds", "tells"),
    [
        ("handoff_requested", True, True), ("rate_limited", True, True), ("budget", True, True), ("model", True, True),
        ("not_permitted", True, True), ("processing_failed", True, True), ("a pack's own", True, True),
        ("loop", True, False), ("owner_takeover", False, False),
    ],
)  # fmt: skip
def test_the_reason_says_who_is_told(reason: str, reminds: bool, tells: bool) -> None:
    opened = local("2026-12-03T10:00")
    assert times_of(unset(reason), []) == Times(
        remind_at=opened + minutes(15) if reminds else None, tell_at=opened + minutes(60) if tells else None
    )


NOW = datetime(2026, 12, 3, 12, 0, tzinfo=UTC)
PAST, COMING = NOW - minutes(1), NOW + minutes(1)


@pytest.mark.parametrize(
    ("fields", "does"),
    [
        pytest.param({}, Strike(), id="nothing is due"),
        pytest.param({"remind_at": PAST}, Strike(reminds=True), id="operators are reminded"),
        pytest.param({"remind_at": NOW}, Strike(reminds=True), id="at the very instant"),
        pytest.param({"remind_at": PAST, "reminded_at": PAST}, Strike(), id="once"),
        pytest.param({"remind_at": PAST, "reminded_at": PAST, "tell_at": PAST}, Strike(tells=True), id="the customer is told"),
        pytest.param({"tell_at": PAST, "told_at": PAST}, Strike(), id="once, too"),
        pytest.param({"remind_at": PAST, "tell_at": PAST}, Strike(reminds=True, tells=True), id="both are late"),
        pytest.param({"tell_at": PAST, "answered": True}, Strike(drops=True), id="a person has answered"),
        pytest.param({"tell_at": PAST, "opted_out": True}, Strike(drops=True), id="they want no more of us"),
        pytest.param({"remind_at": PAST, "answered": True}, Strike(reminds=True), id="answered, and claimed by nobody"),
        pytest.param({"remind_at": COMING, "tell_at": COMING, "answered": True}, Strike(), id="not yet"),
    ],
)  # fmt: skip
def test_what_the_clock_does(fields: dict[str, Any], does: Strike) -> None:
    plain: dict[str, Any] = {
        "conversation": ConversationId(new_id()), "epoch": 1, "version": 1, "slug": "clinic", "reason": "loop",
        "locale": "en", "now": NOW, "remind_at": None, "reminded_at": None, "tell_at": None, "told_at": None,
        "answered": False, "opted_out": False,
    }  # fmt: skip
    assert strike(Unclaimed(**(plain | fields))) == does
