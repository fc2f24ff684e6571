"""What the tools do: gather the facts, let the rules decide, record."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from packs.clinic import rules, wording
from packs.clinic.arguments import BookAppointment, FindSlots, Nothing
from packs.clinic.dates import read_days
from packs.clinic.diary import read_diary
from packs.clinic.facts import PartOfDay, Why
from packs.clinic.locales import language
from packs.clinic.rules import Bookable, Slot, Wish
from shared.errors import ConstraintRefused
from shared.ids import new_id
from shared.locales import load
from shared.packs import Done, Established, Proposal, Refusal, Row, ToolContext

ALTERNATIVES_BACK: Final = timedelta(days=3)
ALTERNATIVES_AHEAD: Final = timedelta(days=14)
_HAVE_ALTERNATIVES: Final = {Why.IN_THE_PAST, Why.CLOSED, Why.SLOT_TAKEN, Why.OVERLAPS_OWN}
_CONSTRAINTS: Final = {
    "appointment_dentist_free": Why.SLOT_TAKEN,
    "appointment_customer_free": Why.OVERLAPS_OWN,
}


async def get_clinic_info(context: ToolContext, _: Nothing) -> Established:
    diary = await read_diary(context, context.now, context.now)
    names = {dentist.no: dentist.name for dentist in diary.dentists}
    weekdays = load(language(context.locale)).weekdays
    return Established(
        data={
            "name": diary.name,
            "address": diary.address,
            "phone": diary.phone,
            "currency": diary.currency,
            "hours": {weekdays[number - 1]: open_then for number, open_then in rules.week(diary).items()},
            "services": [
                {
                    "code": service.code,
                    "name": wording.name(service.names, context.locale),
                    "minutes": service.minutes,
                    "price": service.price,
                    "dentists": [names[one.no] for one in diary.dentists if service.code in one.services],
                }
                for service in diary.services
            ],
            "dentists": list(names.values()),
        }
    )


async def find_slots(context: ToolContext, asked: FindSlots) -> Established | Refusal:
    """Free slots of a service between two local days, or the nearest ones after them where there are none."""
    first, last = date.fromisoformat(asked.first_day), date.fromisoformat(asked.last_day)
    diary = await read_diary(context, _midnight(first, context), _midnight(last + timedelta(days=1), context))
    service = rules.find_service(diary, asked.service)
    if isinstance(service, Refusal):
        return service
    able = rules.find_able(diary, service, asked.dentist)
    if isinstance(able, Refusal):
        return able
    if last < diary.today(context.now):
        return Refusal(code=Why.IN_THE_PAST)
    if first > diary.last_day(context.now):
        return Refusal(code=Why.TOO_FAR, detail={"last_day": diary.last_day(context.now).isoformat()})
    days = rules.days_from(first, min(last, diary.last_day(context.now)))
    part = PartOfDay(asked.part_of_day) if asked.part_of_day else None
    slots = rules.offered(rules.free_slots(diary, service, able, days, now=context.now), context.zone, part)
    name = wording.name(service.names, context.locale)
    data: dict[str, Any] = {
        "service": service.code,
        "name": name,
        "slots": [_slot(one, context) for one in slots],
    }
    if not slots:
        wish = Wish(service=service.code, dentist=asked.dentist, start=_midnight(first, context))
        data["nearest"] = await _alternatives(context, wish, since=max(wish.start, context.now))
    return Established(data=data)


async def list_my_appointments(context: ToolContext, _: Nothing) -> Established:
    rows = await context.sql.fetch("clinic.my_appointments", context.business, context.customer, context.now)
    return Established(data={"appointments": [_mine(row, context) for row in rows]})


async def check_booking(context: ToolContext, asked: BookAppointment) -> Proposal | Refusal:
    """Could it be booked now? Resolves the dentist, and the instant of a local time."""
    start = rules.instant(asked.start, context.zone)
    if isinstance(start, Refusal):
        return start
    wish = Wish(service=asked.service, dentist=asked.dentist, start=start)
    diary = await read_diary(context, start, start + rules.APPOINTMENT_MAX)
    named, _ = read_days(context.said, diary.today(context.now))
    verdict = rules.judge(wish, diary, now=context.now, named=named)
    if isinstance(verdict, Refusal):
        return await _with_alternatives(context, verdict, wish)
    return _proposal(verdict, context)


async def execute_booking(context: ToolContext, proposal: Proposal, key: str) -> Done | Refusal:
    """The appointment, once for a key however often it is tried."""
    service, dentist = proposal.arguments["service"], proposal.arguments["dentist"]
    start = datetime.fromisoformat(proposal.arguments["start"]).astimezone(UTC)
    business, customer = context.business, context.customer
    try:
        async with context.sql.savepoint():
            await context.sql.fetch("clinic.book", business, customer, new_id(), key, service, dentist, start)
    except ConstraintRefused as refused:
        if refused.constraint not in _CONSTRAINTS:
            raise
        return await _lost(
            context, _CONSTRAINTS[refused.constraint], Wish(service=service, dentist=dentist, start=start)
        )
    rows = await context.sql.fetch("clinic.booked", business, customer, key)
    if not rows:  # the service or its dentist went between the check and now
        return Refusal(code=Why.NOT_OFFERED, detail={"dentists": []})
    return Done(result={"appointment": str(rows[0]["id"]), **_shown(rows[0], context)})


async def _with_alternatives(context: ToolContext, refused: Refusal, wish: Wish) -> Refusal:
    if refused.code not in _HAVE_ALTERNATIVES:
        return refused
    found = await _alternatives(context, wish, since=context.now)
    return replace(refused, detail={**refused.detail, "alternatives": found})


async def _lost(context: ToolContext, why: Why, wish: Wish) -> Refusal:
    """Another booking came first. Its row is committed by now, so the alternatives know of it."""
    detail = {"own": rules.local_iso(wish.start, context.zone)} if why is Why.OVERLAPS_OWN else {}
    return await _with_alternatives(context, Refusal(code=why, detail=detail), wish)


async def _alternatives(context: ToolContext, wish: Wish, *, since: datetime) -> list[dict[str, str]]:
    """The nearest free slots after `since`, whatever refused the one that was asked for."""
    centre = max(wish.start, context.now)
    begins, ends = centre - ALTERNATIVES_BACK, centre + ALTERNATIVES_AHEAD
    diary = await read_diary(context, begins, ends)
    service = rules.find_service(diary, wish.service)
    if isinstance(service, Refusal):
        return []
    # The first and the last day are not wholly in the diary.
    first, last = diary.today(begins) + timedelta(days=1), diary.today(ends) - timedelta(days=1)
    days = rules.days_from(first, min(last, diary.last_day(context.now)))
    able = [dentist for dentist in diary.dentists if service.code in dentist.services]
    slots = rules.free_slots(diary, service, able, days, now=since)
    found = rules.nearest(slots, replace(wish, start=centre), service.length)
    return [_slot(slot, context) for slot in found]


def _proposal(verdict: Bookable, context: ToolContext) -> Proposal:
    start = rules.local_iso(verdict.start, context.zone)
    dentist = verdict.dentist.name
    shown = {
        "service": dict(verdict.service.names),
        "dentist": dentist,
        "start": start,
        "zone": context.zone.key,
    }
    return Proposal(
        arguments={"service": verdict.service.code, "dentist": dentist, "start": start}, shown=shown
    )


def _shown(row: Row, context: ToolContext) -> dict[str, Any]:
    """A stored appointment's values as a prompt shows them: in every language, as a yes may be in another."""
    return {
        "service": json.loads(row["names"]),
        "dentist": row["dentist"],
        "start": rules.local_iso(row["starts_at"], context.zone),
        "zone": context.zone.key,
    }


def _mine(row: Row, context: ToolContext) -> dict[str, str]:
    start = rules.local_iso(row["starts_at"], context.zone)
    return {
        "appointment": str(row["id"]),
        "service": wording.name(json.loads(row["names"]), context.locale),
        "dentist": row["dentist"],
        "start": start,
        "when": wording.instant(start, context.locale),
    }


def _slot(slot: Slot, context: ToolContext) -> dict[str, str]:
    start = rules.local_iso(slot.start, context.zone)
    return {"start": start, "when": wording.instant(start, context.locale), "dentist": slot.dentist.name}


def _midnight(day: date, context: ToolContext) -> datetime:
    return datetime.combine(day, time(), context.zone).astimezone(UTC)
