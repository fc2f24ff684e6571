"""Reading the clinic's facts: one query, whatever is to be decided."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from packs.clinic.facts import Busy, Dentist, Diary, Opening, Service
from shared.packs import ToolContext


async def read_diary(context: ToolContext, begins: datetime, ends: datetime) -> Diary:
    """The clinic, and what is booked between two instants (nothing when they are the same)."""
    rows = await context.sql.fetch("clinic.diary", context.business, context.customer, begins, ends)
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
        busy=tuple(
            Busy(
                dentist_no=one["dentist_no"],
                starts_at=datetime.fromtimestamp(one["starts_at"], UTC),
                ends_at=datetime.fromtimestamp(one["ends_at"], UTC),
                mine=one["mine"],
            )
            for one in facts["busy"]
        ),
    )
