"""A calendar file as programs read it (RFC 5545). Pure: events in, bytes out.

Whatever a text holds, it stays inside its property: line ends are written as ``\\n``, other control characters go.
Times are in UTC, so that no time zone has to be described.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

MEDIA_TYPE: Final = "text/calendar; charset=utf-8"
LINE_OCTETS_MAX: Final = 75  # without the line's end
TEXT_CHARS_MAX: Final = 500
_ESCAPED: Final = {"\\": "\\\\", ";": "\\;", ",": "\\,", "\n": "\\n"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One appointment. `stamp` is when it was last changed."""

    id: UUID
    starts_at: datetime
    ends_at: datetime
    stamp: datetime
    times_changed: int
    cancelled: bool
    summary: str
    location: str = ""
    description: str = ""


def calendar(name: str, events: Iterable[Event]) -> bytes:
    """The whole file. The same events are the same bytes."""
    lines = [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//Leeway//Clinic//EN",
        "CALSCALE:GREGORIAN",
        "METHOD:PUBLISH",
        f"X-WR-CALNAME:{escaped(name)}",
        *(line for event in events for line in _lines(event)),
        "END:VCALENDAR",
    ]
    return "".join(f"{part}\r\n" for line in lines for part in folded(line)).encode()


def escaped(text: str) -> str:
    """A text as a property's value."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u2028", "\n").replace("\u2029", "\n")
    shown = (char for char in plain[:TEXT_CHARS_MAX] if char == "\n" or char.isprintable())
    return "".join(_ESCAPED.get(char, char) for char in shown)


def folded(line: str) -> Iterator[str]:
    """The line in parts of at most 75 octets, each but the first after a space; no character is split."""
    part, octets = "", 0
    for char in line:
        size = len(char.encode())
        if octets + size > LINE_OCTETS_MAX:
            yield part
            part, octets = " ", 1
        part, octets = part + char, octets + size
    yield part


def _lines(event: Event) -> Iterator[str]:
    yield "BEGIN:VEVENT"
    yield f"UID:{event.id}@leeway"
    yield f"DTSTAMP:{_utc(event.stamp)}"
    yield f"SEQUENCE:{event.times_changed}"
    yield f"DTSTART:{_utc(event.starts_at)}"
    yield f"DTEND:{_utc(event.ends_at)}"
    yield f"STATUS:{'CANCELLED' if event.cancelled else 'CONFIRMED'}"
    yield f"SUMMARY:{escaped(event.summary)}"
    if event.location:
        yield f"LOCATION:{escaped(event.location)}"
    if event.description:
        yield f"DESCRIPTION:{escaped(event.description)}"
    yield "END:VEVENT"


def _utc(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y%m%dT%H%M%SZ}"
