"""The calendar file as a program reads it: whole lines, short ones, and no text that becomes a property."""

import re
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packs.clinic.calendar_feed import LINE_OCTETS_MAX, Event, calendar, escaped, folded

AT = datetime(2026, 12, 4, 8, 0, tzinfo=UTC)
ID = UUID(int=7)


def event(summary: str = "cleaning: Ana", **more: str) -> Event:
    return Event(
        id=ID, starts_at=AT, ends_at=AT + timedelta(minutes=45), stamp=AT - timedelta(days=1),
        times_changed=2, cancelled=False, summary=summary, **more,
    )  # fmt: skip


def unfolded(body: bytes) -> list[str]:
    return re.sub("\r\n[ \t]", "", body.decode()).split("\r\n")


def unescaped(value: str) -> str:
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] in "nN" else match[1], value)


def test_a_calendar_with_one_appointment() -> None:
    assert calendar("Dr. Ionescu", [event(location="Strada Exemplului 12, București")]).decode() == (
        "BEGIN:VCALENDAR\r\n"
        "VERSION:2.0\r\n"
        "PRODID:-//Leeway//Clinic//EN\r\n"
        "CALSCALE:GREGORIAN\r\n"
        "METHOD:PUBLISH\r\n"
        "X-WR-CALNAME:Dr. Ionescu\r\n"
        "BEGIN:VEVENT\r\n"
        "UID:00000000-0000-0000-0000-000000000007@leeway\r\n"
        "DTSTAMP:20261203T080000Z\r\n"
        "SEQUENCE:2\r\n"
        "DTSTART:20261204T080000Z\r\n"
        "DTEND:20261204T084500Z\r\n"
        "STATUS:CONFIRMED\r\n"
        "SUMMARY:cleaning: Ana\r\n"
        "LOCATION:Strada Exemplului 12\\, București\r\n"
        "END:VEVENT\r\n"
        "END:VCALENDAR\r\n"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a;b,c\\d", r"a\;b\,c\\d"),
        ("a\nb", r"a\nb"),
        ("a\r\nEND:VEVENT", r"a\nEND:VEVENT"),
        ("a\rb", r"a\nb"),
        ("a\u2028b", r"a\nb"),
        ("a\x00\x07\u202eb", "ab"),
    ],
)
def test_a_text_stays_inside_its_property(text: str, expected: str) -> None:
    assert escaped(text) == expected


def test_a_line_is_folded_at_75_octets_and_between_characters() -> None:
    parts = list(folded("SUMMARY:" + "ăîșțâ" * 40))

    assert [len(part.encode()) for part in parts[:-1]] == [74, 75, 75, 75, 75]
    assert "".join([parts[0], *(part[1:] for part in parts[1:])]) == "SUMMARY:" + "ăîșțâ" * 40
    assert list(folded("x" * 75)) == ["x" * 75]
    assert list(folded("x" * 76)) == ["x" * 75, " x"]


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_text_can_be_read_back_and_adds_nothing(summary: str, description: str) -> None:
    body = calendar(summary, [event(summary, description=description)])
    lines = unfolded(body)

    assert all(len(line) <= LINE_OCTETS_MAX for line in body.split(b"\r\n"))
    assert not re.search(rb"(?<!\r)\n|\r(?!\n)", body)
    assert (lines.count("BEGIN:VEVENT"), lines.count("END:VEVENT")) == (1, 1)
    assert all(re.match(r"[A-Z-]+:", line) for line in lines[:-1])
    shown = unescaped(next(line for line in lines if line.startswith("SUMMARY:"))[8:])
    plain = re.sub("\r\n|\r|\u2028|\u2029", "\n", summary)
    assert shown == "".join(char for char in plain if char == "\n" or char.isprintable())
