"""Each dentist's appointments as a calendar that staff can subscribe to."""

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from packs.clinic import wording
from packs.clinic.calendar_feed import MEDIA_TYPE, Event, calendar
from shared.packs import Feed, Row, ToolContext

PAST: Final = timedelta(days=30)
_NAME: Final = re.compile(r"dentist-([1-9][0-9]{0,17})\.ics")


async def feed_names(context: ToolContext) -> Mapping[str, str]:
    """One feed a dentist: its file name → the dentist."""
    rows = await context.sql.fetch("clinic.dentists", context.business)
    return {f"dentist-{row['no']}.ics": row["name"] for row in rows}


async def feed(context: ToolContext, name: str) -> Feed | None:
    """The dentist's appointments of the past 30 days and all that come; None where there is no such dentist."""
    match = _NAME.fullmatch(name)
    dentist = (await feed_names(context)).get(name)
    if match is None or dentist is None:
        return None
    rows = await context.sql.fetch(
        "clinic.dentist_calendar", context.business, int(match[1]), context.now - PAST
    )
    events = [_event(row, context.locale) for row in rows]
    return Feed(media_type=MEDIA_TYPE, body=calendar(dentist, events))


def _event(row: Row, locale: str) -> Event:
    service = wording.name(json.loads(row["names"]), locale)
    return Event(
        id=row["id"],
        starts_at=row["starts_at"],
        ends_at=row["ends_at"],
        stamp=row["stamp"],
        times_changed=row["times"],
        cancelled=row["state"] != "booked",
        summary=f"{service}: {wording.bounded(row['patient'] or wording.unnamed(locale))}",
        location=row["address"],
        description=row["note"] or "",
    )
