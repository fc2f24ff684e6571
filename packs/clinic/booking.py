"""Booking an appointment: the dry run, and the write that only the schema's constraints can refuse."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from packs.clinic import rules
from packs.clinic.alternatives import with_alternatives
from packs.clinic.arguments import BookAppointment
from packs.clinic.dates import read_days
from packs.clinic.diary import read_diary
from packs.clinic.facts import Why
from packs.clinic.rules import Bookable, Wish
from shared.errors import ConstraintRefused
from shared.ids import new_id
from shared.packs import Done, Proposal, Refusal, Row, ToolContext

HOLD: Final = timedelta(minutes=15)
CONSTRAINTS: Final = {
    "appointment_dentist_free": Why.SLOT_TAKEN,
    "appointment_customer_free": Why.OVERLAPS_OWN,
}


async def check_booking(context: ToolContext, asked: BookAppointment) -> Proposal | Refusal:
    """Could it be booked now? Resolves the dentist, and the instant of a local time.

    Where the clinic holds what is proposed, the slot is the customer's for a while.
    """
    start = rules.instant(asked.start, context.zone)
    if isinstance(start, Refusal):
        return start
    wish = Wish(service=asked.service, dentist=asked.dentist, start=start)
    diary = await read_diary(context, start, start + rules.APPOINTMENT_MAX)
    named, _ = read_days(context.said, diary.today(context.now))
    verdict = rules.judge(wish, diary, now=context.now, named=named)
    if isinstance(verdict, Bookable) and diary.holds and not await _hold(context, verdict):
        verdict = Refusal(code=Why.SLOT_TAKEN)
    if isinstance(verdict, Refusal):
        return await with_alternatives(context, verdict, wish)
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
        if refused.constraint not in CONSTRAINTS:
            raise
        wish = Wish(service=service, dentist=dentist, start=start)
        return await with_alternatives(context, lost(context, CONSTRAINTS[refused.constraint], start), wish)
    rows = await context.sql.fetch("clinic.booked", business, customer, key)
    if not rows:  # the service or its dentist went between the check and now
        return Refusal(code=Why.NOT_OFFERED, detail={"dentists": []})
    return Done(result={"appointment": str(rows[0]["id"]), **_shown(rows[0], context)})


def lost(context: ToolContext, why: Why, start: datetime) -> Refusal:
    """Another came first. Their row is committed by now, so the alternatives know of it."""
    detail = {"own": rules.local_iso(start, context.zone)} if why is Why.OVERLAPS_OWN else {}
    return Refusal(code=why, detail=detail)


async def _hold(context: ToolContext, verdict: Bookable) -> bool:
    """Whether the slot is the customer's from now on. Two who want it are served in turn."""
    business, no = context.business, verdict.dentist.no
    await context.sql.fetch("clinic.lock_dentist", business, no)
    end, until = verdict.start + verdict.service.length, context.now + HOLD
    held = await context.sql.fetch(
        "clinic.hold", business, context.customer, no, verdict.start, end, until, context.now
    )
    return bool(held)


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
