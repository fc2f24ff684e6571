"""Reading the clinic's facts: one query, whatever is to be decided."""

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from packs.clinic.facts import Away, Busy, Dentist, Diary, Opening, Service
from shared.packs import ToolContext


async def read_diary(
    context: ToolContext, begins: datetime, ends: datetime, *, without: UUID | None = None
) -> Diary:
    """The clinic, and what is taken between two instants (nothing when they are the same).

    `without` is an appointment that stands in nobody's way: the one that is about to move.
    """
    rows = await context.sql.fetch(
        "clinic.diary", context.business, context.customer, begins, ends, without, context.now
    )
    if not rows:
        return Diary(name="", address="", phone="", currency="", horizon_days=0, zone=context.zone)
    return _diary(json.loads(rows[0]["facts"]), context.zone)


def _diary(facts: Mapping[str, Any], zone: ZoneInfo) -> Diary:
    return Diary(
        name=facts["name"],
        address=facts["address"],
        phone=facts["phone"],
        currency=facts["currency"],
        horizon_days=facts["horizon_days"],
        zone=zone,
        services=tuple(Service(**one) for one in facts["services"]),
        dentists=tuple(
            Dentist(no=one["no"], name=one["name"], services=frozenset(one["services"]))
            for one in facts["dentists"]
        ),
        hours=tuple(
            Opening(
                weekday=one["weekday"],
                opens=time.fromisoformat(one["opens"]),
                closes=time.fromisoformat(one["closes"]),
            )
            for one in facts["hours"]
        ),
        holidays={date.fromisoformat(one["day"]): one["names"] for one in facts["holidays"]},
        away=tuple(Away(dentist_no=one["dentist_no"], **_stretch(one)) for one in facts["away"]),
        busy=tuple(
            Busy(dentist_no=one["dentist_no"], mine=one["mine"], **_stretch(one)) for one in facts["busy"]
        ),
        holds=facts["holds"],
    )


def _stretch(one: Mapping[str, Any]) -> dict[str, datetime]:
    return {key: datetime.fromtimestamp(one[key], UTC) for key in ("starts_at", "ends_at")}
