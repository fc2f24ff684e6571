"""Moving and cancelling an appointment of the sender's. Another's is met exactly as one that does not exist.

What is written must still be what was shown: each update names the old values, and finds no row when they changed.
"""

import json
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from packs.clinic import rules
from packs.clinic.alternatives import with_alternatives
from packs.clinic.arguments import CancelAppointment, RescheduleAppointment
from packs.clinic.booking import CONSTRAINTS, lost
from packs.clinic.dates import read_days
from packs.clinic.diary import read_diary
from packs.clinic.facts import Appointment, Why
from packs.clinic.rules import Wish
from shared.errors import ConstraintRefused
from shared.packs import Done, Proposal, Refusal, ToolContext

KEY_USED: Final = "change_once"  # the constraint: an attempt beside ours carried it out


async def check_reschedule(context: ToolContext, asked: RescheduleAppointment) -> Proposal | Refusal:
    """Could it be moved there now? It keeps its service and its dentist."""
    own = await _own(context, asked.appointment)
    if isinstance(own, Refusal):
        return own
    start = rules.instant(asked.start, context.zone)
    if isinstance(start, Refusal):
        return start
    before = rules.local_iso(own.starts_at, context.zone)
    if start == own.starts_at:
        return Refusal(code=Why.SAME_TIME, detail={"start": before})
    leaving = own.starts_at.astimezone(context.zone).date()
    wish = Wish(service=own.service, dentist=own.dentist, start=start, leaving=leaving)
    diary = await read_diary(context, start, start + rules.APPOINTMENT_MAX, without=own.id)
    named, _ = read_days(context.said, diary.today(context.now))
    verdict = rules.judge(wish, diary, now=context.now, named=named)
    if isinstance(verdict, Refusal):
        return await with_alternatives(context, verdict, wish, moving=own.id)
    after = rules.local_iso(start, context.zone)
    shown = {**_shown(own, context), "from": before, "start": after}
    return Proposal(arguments={"appointment": str(own.id), "start": after}, shown=shown)


async def execute_reschedule(context: ToolContext, proposal: Proposal, key: str) -> Done | Refusal:
    """The move, once for a key. When the new slot is lost, the appointment stands where it stood."""
    if await carried_out(context, key):
        return _done(proposal)
    own = await _own(context, proposal.arguments["appointment"])
    if isinstance(own, Refusal):
        return own
    start, before = _instant(proposal.shown["start"]), _instant(proposal.shown["from"])
    business, customer, dentist = context.business, context.customer, proposal.shown["dentist"]
    try:
        async with context.sql.savepoint():
            await context.sql.fetch(
                "clinic.reschedule", business, customer, own.id, key, own.service, dentist, before, start
            )
    except ConstraintRefused as refused:
        if refused.constraint in CONSTRAINTS:
            why = lost(context, CONSTRAINTS[refused.constraint], start)
            wish = Wish(service=own.service, dentist=own.dentist, start=start)
            return await with_alternatives(context, why, wish, moving=own.id)
        if refused.constraint != KEY_USED:
            raise
    return await _outcome(context, proposal, key)


async def check_cancel(context: ToolContext, asked: CancelAppointment) -> Proposal | Refusal:
    """Could it be cancelled now?"""
    own = await _own(context, asked.appointment)
    if isinstance(own, Refusal):
        return own
    start = rules.local_iso(own.starts_at, context.zone)
    return Proposal(arguments={"appointment": str(own.id)}, shown={**_shown(own, context), "start": start})


async def execute_cancel(context: ToolContext, proposal: Proposal, key: str) -> Done | Refusal:
    """The cancellation, once for a key."""
    if await carried_out(context, key):
        return _done(proposal)
    own = await _own(context, proposal.arguments["appointment"])
    if isinstance(own, Refusal):  # or the same key was at it at the same moment
        return _done(proposal) if await carried_out(context, key) else own
    start, dentist = _instant(proposal.shown["start"]), proposal.shown["dentist"]
    try:
        async with context.sql.savepoint():
            await context.sql.fetch(
                "clinic.cancel", context.business, context.customer, own.id, key, dentist, start
            )
    except ConstraintRefused as refused:
        if refused.constraint != KEY_USED:
            raise
    return await _outcome(context, proposal, key)


async def carried_out(context: ToolContext, key: str) -> bool:
    """Whether the key has changed something for the sender already."""
    return bool(await context.sql.fetch("clinic.changed", context.business, context.customer, key))


async def _own(context: ToolContext, appointment: str) -> Appointment | Refusal:
    """The sender's appointment, if it is still to come."""
    rows = await context.sql.fetch(
        "clinic.own_appointment", context.business, context.customer, UUID(appointment)
    )
    if not rows:
        return Refusal(code=Why.NO_SUCH_APPOINTMENT)
    row = rows[0]
    if row["state"] != "booked":
        return Refusal(code=Why.APPOINTMENT_CANCELLED)
    if row["starts_at"] <= context.now:
        return Refusal(code=Why.APPOINTMENT_PAST)
    return Appointment(
        id=row["id"],
        service=row["service"],
        names=json.loads(row["names"]),
        dentist=row["dentist"],
        starts_at=row["starts_at"],
    )


async def _outcome(context: ToolContext, proposal: Proposal, key: str) -> Done | Refusal:
    """Done if the key is stored now; else staff changed the appointment between the check and the update."""
    if await carried_out(context, key):
        return _done(proposal)
    return Refusal(code=Why.APPOINTMENT_CHANGED)


def _done(proposal: Proposal) -> Done:
    """The same at every attempt: the update found the values that were shown."""
    return Done(result={"appointment": proposal.arguments["appointment"], **proposal.shown})


def _shown(own: Appointment, context: ToolContext) -> dict[str, Any]:
    return {"service": dict(own.names), "dentist": own.dentist, "zone": context.zone.key}


def _instant(local: str) -> datetime:
    return datetime.fromisoformat(local).astimezone(UTC)
