"""Reminders of what is booked, one per appointment and time: a moved appointment is worth another."""

import json
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID, uuid5

from packs.clinic import rules, wording
from shared.ids import CustomerId
from shared.packs import Reminder, ReminderWords, Row, ToolContext


async def reminders(context: ToolContext, *, ahead: timedelta) -> Sequence[Reminder]:
    """What is booked and begins after now, within `ahead`. As many as can be: no dentist has two at a time."""
    rows = await context.sql.fetch("clinic.reminders", context.business, context.now, context.now + ahead)
    return [_reminder(row, context) for row in rows]


def reminder_key(appointment: UUID, start: str) -> UUID:
    """Of an appointment and its instant; the same whatever the clinic's zone."""
    return uuid5(appointment, start)


def _reminder(row: Row, context: ToolContext) -> Reminder:
    values = {
        "service": json.loads(row["names"]),
        "dentist": row["dentist"],
        "start": rules.local_iso(row["starts_at"], context.zone),
    }

    def word(locale: str) -> ReminderWords:
        return wording.reminder(values, locale)

    return Reminder(
        key=reminder_key(row["id"], row["starts_at"].isoformat()),
        customer=CustomerId(row["customer"]),
        tool="cancel_appointment",
        arguments={"appointment": str(row["id"])},
        word=word,
    )
