"""What the reading tools do: gather the facts, let the rules decide, word the times."""

import json
from datetime import date, timedelta
from typing import Any, Final

from packs.clinic import rules, wording
from packs.clinic.alternatives import alternatives, midnight, slot
from packs.clinic.arguments import FindSlots, Nothing
from packs.clinic.diary import read_diary
from packs.clinic.facts import Diary, PartOfDay, Why
from packs.clinic.locales import language
from packs.clinic.rules import Wish
from shared.locales import load
from shared.packs import Established, Refusal, Row, ToolContext

NOTE_CHARS_MAX: Final = 200  # of staff's note, as the model sees it


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
            "closed_days": _closed_days(diary, context),
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
    diary = await read_diary(context, midnight(first, context), midnight(last + timedelta(days=1), context))
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
        "slots": [slot(one, context) for one in slots],
    }
    if not slots:
        wish = Wish(service=service.code, dentist=asked.dentist, start=midnight(first, context))
        data["nearest"] = await alternatives(context, wish, since=max(wish.start, context.now))
    return Established(data=data)


async def list_my_appointments(context: ToolContext, _: Nothing) -> Established:
    rows = await context.sql.fetch("clinic.my_appointments", context.business, context.customer, context.now)
    return Established(data={"appointments": [_mine(row, context) for row in rows]})


def _closed_days(diary: Diary, context: ToolContext) -> list[dict[str, str]]:
    return [
        {
            "day": day.isoformat(),
            "when": wording.day(day, context.locale),
            "why": wording.name(names, context.locale),
        }
        for day, names in sorted(diary.holidays.items())
        if day >= diary.today(context.now)
    ]


def _mine(row: Row, context: ToolContext) -> dict[str, str]:
    start = rules.local_iso(row["starts_at"], context.zone)
    mine = {
        "appointment": str(row["id"]),
        "code": row["service"],
        "service": wording.name(json.loads(row["names"]), context.locale),
        "dentist": row["dentist"],
        "start": start,
        "when": wording.instant(start, context.locale),
    }
    if row["note"]:
        mine["staff_note_untrusted"] = wording.bounded(row["note"], NOTE_CHARS_MAX)
    return mine
