"""The guard's record in Postgres: one look, one statement over arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from services.guard.core.amending import Concerned, Known
from services.guard.core.record import Case, Record, Row
from services.guard.core.verdict import Budget, Facts, Reason, Said, Unjudged
from shared.autonomy import Mode, strictest
from shared.channels.traits import TRAITS
from shared.database import Database, load_queries
from shared.ids import BusinessId, ConversationId, MessageId, OutboundId, new_id
from shared.messages import MessageKind, Verdict

QUERIES = load_queries(Path(__file__).with_name("conversations.sql"))

Notices = list[tuple[OutboundId, ConversationId, MessageId, str, datetime | None]]


class PostgresConversations:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def gather(self, conversations: Sequence[ConversationId]) -> Sequence[Case]:
        rows = await self._database.fetch(QUERIES["gather"], conversations)
        cases = [_case(row) for row in rows if row["unjudged"]]
        amending = [one.conversation for one in cases if one.amends]
        if not amending:
            return cases
        found = await self._database.fetch(QUERIES["concerned"], amending)
        concerned = {row["conversation"]: _concerned(row) for row in found}
        return [replace(one, concerned=concerned.get(one.conversation, one.concerned)) for one in cases]

    async def record(
        self, records: Sequence[Record], texts: Mapping[tuple[ConversationId, MessageId], str]
    ) -> Mapping[ConversationId, Sequence[OutboundId]]:
        plain = [one for one in records if one.plain]
        full = [one for one in records if not one.plain]
        recorded: dict[ConversationId, list[OutboundId]] = {}
        if plain:
            rows = await self._database.fetch(QUERIES["record"], *_arrays(plain))
            recorded |= {row["conversation"]: [] for row in rows}
        if full:
            notices = _notices(full, texts)
            rows = await self._database.fetch(
                QUERIES["record_full"], *_arrays(full), *_consequences(full, notices)
            )
            recorded |= {row["conversation"]: [] for row in rows}
            for notice, conversation, *_ in notices:
                if conversation in recorded:
                    recorded[conversation].append(notice)
        return recorded

    async def count(self, conversation: ConversationId) -> int:
        rows = await self._database.fetch(QUERIES["count"], conversation)
        return rows[0]["guard_attempts"] if rows else 0

    async def locale(self, conversation: ConversationId) -> str | None:
        rows = await self._database.fetch(QUERIES["locale_of"], conversation)
        return rows[0]["locale"] if rows else None

    async def give_up(self, conversation: ConversationId, notice: str) -> OutboundId | None:
        outbound = OutboundId(new_id())
        rows = await self._database.fetch(QUERIES["give_up"], conversation, new_id(), outbound, notice)
        return outbound if rows else None

    async def anything_due(self) -> bool:
        rows = await self._database.fetch(QUERIES["anything_due"])
        return bool(rows[0]["due"])

    async def ring_due(self, *, most: int) -> Sequence[UUID]:
        rows = await self._database.fetch(QUERIES["ring_due"], most)
        return [row["conversation"] for row in rows]


def _case(row: Mapping[str, Any]) -> Case:
    messages = tuple(
        replace(_unjudged((*m[:7], *m[8:10])), sender=row["sender"], from_us=m[10]) for m in row["unjudged"]
    )
    traits = TRAITS.get(row["channel"])
    return Case(
        conversation=row["conversation"],
        business=BusinessId(row["business"]),
        business_slug=row["slug"],
        row=_row(row),
        facts=_facts(row),
        messages=messages,
        now=row["now"],
        locales=tuple(row["locales"]),
        window=timedelta(milliseconds=row["window_ms"]),
        action=row["action"][0] if row["action"] else None,
        action_waits_for_operator=bool(row["action"]) and row["action"][1] == "operator",
        drafts=tuple(row["drafts"] or ()),
        hint=row["unjudged"][-1][7],
        side_calls=traits is not None and traits.side_calls,
    )


def _unjudged(m: Sequence[Any]) -> Unjudged:
    return Unjudged(
        id=m[0],
        kind=MessageKind(m[1]),
        text=m[2],
        channel_at=m[3],
        received_at=m[4],
        auto_reply=m[5],
        opt_word=m[6],
        channel_message_id=m[7],
        quoted=m[8],
    )


def _concerned(row: Mapping[str, Any]) -> Concerned:
    return Concerned(
        known=tuple(
            Known(message=replace(_unjudged(m), deleted=m[9]), seq=m[10], verdict=Verdict(m[11]))
            for m in row["known"] or ()
        ),
        waiting=tuple(replace(_unjudged(m), deleted=m[9]) for m in row["waiting"] or ()),
        unanswered=tuple(row["unanswered"] or ()),
        action_from=tuple(row["action_from"]) if row["action_from"] else None,
    )


def _row(row: Mapping[str, Any]) -> Row:
    return Row(
        version=row["version"],
        unguarded=row["unguarded"],
        guarded_seq=row["guarded_seq"],
        customer_seq=row["customer_seq"],
        handled_seq=row["handled_seq"],
        epoch=row["handoff_epoch"],
        due_at=row["due_at"],
        leased=row["leased"],
        decision_owed=row["decision_owed"],
        window_opened_at=row["window_opened_at"],
        unanswered_since=row["unanswered_since"],
        last_customer_at=row["last_customer_at"],
        opted_out_at=row["opted_out_at"],
        locale=row["locale"],
        edits_wait=row["edits_wait"],
    )


def _facts(row: Mapping[str, Any]) -> Facts:
    modes = (row["business_mode"], row["account_mode"], row["mode"])
    quiet = timedelta(minutes=row["takeover_quiet_min"])
    takeover = row["handoff_reason"] == Reason.OWNER_TAKEOVER and row["owner_spoke_at"]
    return Facts(
        mode=strictest(*(Mode(mode) for mode in modes if mode)),
        in_handoff=row["state"] == "handoff",
        takeover_ends_at=row["owner_spoke_at"] + quiet if takeover else None,
        opted_out=row["opted_out_at"] is not None,
        account_on=row["account_state"] == "on",
        carrier_takes_cancel=row["carrier_takes_cancel"],
        own_addresses=frozenset([row["sender"]]) if row["own_address"] else frozenset(),
        last_said=tuple(Said(text=said[0], received_at=said[1]) for said in row["last_said"] or ()),
        reply_times=tuple(row["reply_times"] or ()),
        messages_in_10_min=row["recent"],
        newest_answered_at=row["newest_answered_at"],
        cap_reached=Budget(cap_usd=row["day_cap_usd"], spent_usd=row["spent_usd"]).reached,
        stale_after=timedelta(seconds=row["stale_after_s"]),
        rate_per_10_min=row["rate_per_10_min"],
        takeover_quiet=quiet,
    )


def _arrays(records: Sequence[Record]) -> tuple[list[Any], ...]:
    """What `record` and `record_full` share."""
    written = [(one.case.conversation, *w) for one in records for w in one.written]
    return (
        [one.case.conversation for one in records],
        [one.case.row.version for one in records],
        [len(one.judged) for one in records],
        [one.row.guarded_seq for one in records],
        [one.row.customer_seq for one in records],
        [one.row.handled_seq for one in records],
        [one.row.due_at for one in records],
        [one.row.window_opened_at for one in records],
        [one.row.unanswered_since for one in records],
        [one.row.last_customer_at for one in records],
        [one.row.locale for one in records],
        [message for _, message, *_ in written],
        [conversation for conversation, *_ in written],
        [seq for _, _, seq, *_ in written],
        [j.verdict.value if j else None for *_, j, _ in written],
        [j.reason.value if j and j.reason else None for *_, j, _ in written],
    )


def _notices(records: Sequence[Record], texts: Mapping[tuple[ConversationId, MessageId], str]) -> Notices:
    return [
        (
            OutboundId(new_id()),
            one.case.conversation,
            message,
            texts[one.case.conversation, message],
            one.case.received_at(message),
        )
        for one in records
        for message, _ in one.notices
    ]


def _consequences(records: Sequence[Record], notices: Notices) -> tuple[list[Any], ...]:
    drafts = [(draft, one.case.conversation) for one in records for draft in one.drafts_superseded]
    flags = [(message, one.case.conversation, reason) for one in records for message, reason in one.flags]
    return (
        ["handoff" if one.in_handoff else "bot" for one in records],
        [one.row.epoch for one in records],
        [one.row.opted_out_at for one in records],
        [one.handoff_reason.value if one.handoff_reason else None for one in records],
        [one.released for one in records],
        ["cleared" if one.action_ends else None for one in records],
        [draft for draft, _ in drafts],
        [conversation for _, conversation in drafts],
        [notice for notice, *_ in notices],
        [conversation for _, conversation, *_ in notices],
        [origin for _, _, origin, *_ in notices],
        [text for *_, text, _ in notices],
        [message for message, _, _ in flags],
        [conversation for _, conversation, _ in flags],
        [reason for _, _, reason in flags],
        [one.action_ends_because for one in records],
        [one.row.edits_wait for one in records],
        *_changes(records),
        [asked_at for *_, asked_at in notices],
    )


def _changes(records: Sequence[Record]) -> tuple[list[Any], ...]:
    """What edits and deletions change, one for each message of `_arrays`."""
    changes = [change for one in records for *_, change in one.written]
    return (
        [c.kind.value if c and c.kind else None for c in changes],
        [c.text if c else None for c in changes],
        [c.edited_at if c else None for c in changes],
        [c.edited_to if c else None for c in changes],
        [c.deleted_at if c else None for c in changes],
    )
