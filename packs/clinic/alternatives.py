"""What is free instead of what was asked for, in a form that a model can call with and a customer can read."""

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from uuid import UUID

from packs.clinic import rules, wording
from packs.clinic.diary import read_diary
from packs.clinic.facts import Why
from packs.clinic.rules import Slot, Wish
from shared.packs import Refusal, ToolContext

BACK: Final = timedelta(days=3)
AHEAD: Final = timedelta(days=14)
_HELPED_BY_ANOTHER_TIME: Final = {
    Why.IN_THE_PAST, Why.CLOSED, Why.SLOT_TAKEN, Why.OVERLAPS_OWN, Why.DENTIST_AWAY,
}  # fmt: skip


async def with_alternatives(
    context: ToolContext, refused: Refusal, wish: Wish, *, moving: UUID | None = None
) -> Refusal:
    """The refusal with the nearest free slots, where another time helps.

    An appointment that is `moving` keeps its dentist.
    """
    if refused.code not in _HELPED_BY_ANOTHER_TIME:
        return refused
    found = await alternatives(context, wish, since=context.now, moving=moving)
    return replace(refused, detail={**refused.detail, "alternatives": found})


async def alternatives(
    context: ToolContext, wish: Wish, *, since: datetime, moving: UUID | None = None
) -> list[dict[str, str]]:
    """The nearest free slots after `since`, whatever refused the one that was asked for."""
    centre = max(wish.start, context.now)
    begins, ends = centre - BACK, centre + AHEAD
    diary = await read_diary(context, begins, ends, without=moving)
    service = rules.find_service(diary, wish.service)
    if isinstance(service, Refusal):
        return []
    able = rules.find_able(diary, service, wish.dentist if moving else None)
    if isinstance(able, Refusal):
        return []
    # The first and the last day are not wholly in the diary.
    first, last = diary.today(begins) + timedelta(days=1), diary.today(ends) - timedelta(days=1)
    days = rules.days_from(first, min(last, diary.last_day(context.now)))
    slots = rules.free_slots(diary, service, able, days, now=since)
    found = rules.nearest(slots, replace(wish, start=centre), service.length)
    return [slot(one, context) for one in found]


def slot(free: Slot, context: ToolContext) -> dict[str, str]:
    start = rules.local_iso(free.start, context.zone)
    return {"start": start, "when": wording.instant(start, context.locale), "dentist": free.dentist.name}


def midnight(day: date, context: ToolContext) -> datetime:
    """The instant at which a local day begins."""
    return datetime.combine(day, time(), context.zone).astimezone(UTC)
