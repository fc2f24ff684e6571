"""The record as the clock sees it, in Postgres: approvals, handoffs, reminders. Looks without a lock, writes that compare."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5
from zoneinfo import ZoneInfo

from services.agent.clock_ports import Struck
from services.agent.core.clock import Strike, Times, Unclaimed, Unset
from services.agent.core.reminder import (
    UNBROKEN,
    NewReminder,
    Recipient,
    Reminding,
    Sent,
    Unsent,
    buttons_json,
)
from shared.database import Database, Queries, load_queries
from shared.ids import BusinessId, ConversationId, CustomerId, OutboundId, new_id
from shared.packs import Sql
from shared.text import storable

QUERIES = load_queries(Path(__file__).with_name("clocks.sql"))

Row = Mapping[str, Any]


class PostgresClocks:
    """services.agent.clock_ports.ClockRecord, ReminderRecord and SentReminders. `pack_queries`: each pack's, by its name."""

    def __init__(self, database: Database, *, pack_queries: Mapping[str, Queries]) -> None:
        self._database = database
        self._pack_queries = pack_queries

    async def expire_approvals(self, *, most: int) -> Sequence[ConversationId]:
        rows = await self._database.fetch(QUERIES["expire_approvals"], [new_id() for _ in range(most)])
        return [row["conversation"] for row in rows]

    async def unset(self, *, most: int) -> Sequence[Unset]:
        return [_unset(row) for row in await self._database.fetch(QUERIES["unset"], most)]

    async def set_times(self, times: Sequence[tuple[Unset, Times]]) -> None:
        await self._database.fetch(
            QUERIES["set_times"],
            [unset.conversation for unset, _ in times],
            [unset.epoch for unset, _ in times],
            [one.remind_at for _, one in times],
            [one.tell_at for _, one in times],
        )

    async def unclaimed(self, *, most: int) -> Sequence[Unclaimed]:
        return [_unclaimed(row) for row in await self._database.fetch(QUERIES["unclaimed"], most)]

    async def strike(self, strikes: Sequence[tuple[Unclaimed, Strike, str]]) -> Sequence[Struck]:
        outbounds = [OutboundId(new_id()) for _ in strikes]
        rows = await self._database.fetch(
            QUERIES["strike"],
            [one.conversation for one, _, _ in strikes],
            [one.version for one, _, _ in strikes],
            [one.epoch for one, _, _ in strikes],
            [does.reminds for _, does, _ in strikes],
            [does.tells for _, does, _ in strikes],
            [does.drops for _, does, _ in strikes],
            outbounds,
            [uuid5(one.conversation, f"{one.epoch}/tell") for one, _, _ in strikes],
            [text for _, _, text in strikes],
        )
        written = {row["conversation"] for row in rows}
        return [
            (one, outbound if does.tells else None)
            for (one, does, _), outbound in zip(strikes, outbounds, strict=True)
            if one.conversation in written
        ]

    async def release_takeovers(self, *, most: int) -> Sequence[ConversationId]:
        rows = await self._database.fetch(QUERIES["release_takeovers"], most)
        return [row["conversation"] for row in rows]

    def tenant(self, business: BusinessId, pack: str) -> AbstractAsyncContextManager[Sql]:
        return self._database.tenant(business, self._pack_queries[pack])

    # Reminders

    async def reminding(self, packs: Sequence[str]) -> Sequence[Reminding]:
        return [_reminding(row) for row in await self._database.fetch(QUERIES["reminding"], list(packs))]

    async def recipients(
        self, business: BusinessId, wanted: Mapping[UUID, CustomerId]
    ) -> Mapping[UUID, Recipient]:
        rows = await self._database.fetch(
            QUERIES["recipients"], business, list(wanted.keys()), list(wanted.values()), UNBROKEN
        )
        return {
            row["key"]: Recipient(
                conversation=row["conversation"], version=row["version"], locale=row["locale"]
            )
            for row in rows
        }

    async def remind(self, business: BusinessId, reminders: Sequence[NewReminder]) -> Sequence[OutboundId]:
        rows = await self._database.fetch(
            QUERIES["remind"],
            business,
            [one.recipient.conversation for one in reminders],
            [one.recipient.version for one in reminders],
            [one.key for one in reminders],
            [one.tool for one in reminders],
            [storable(one.arguments) for one in reminders],
            [storable(one.words.thanks) for one in reminders],
            [one.outbound for one in reminders],
            [storable(one.words.text) for one in reminders],
            [storable(buttons_json(one.key, one.words)) for one in reminders],
        )
        return [row["id"] for row in rows]

    async def unsent(self, business: BusinessId) -> Sequence[Unsent]:
        rows = await self._database.fetch(QUERIES["unsent"], business)
        return [
            Unsent(outbound=row["id"], conversation=row["conversation"], key=row["origin"]) for row in rows
        ]

    async def withdraw(self, unsent: Sequence[Unsent]) -> None:
        await self._database.fetch(
            QUERIES["withdraw"],
            [one.outbound for one in unsent],
            [one.conversation for one in unsent],
        )

    async def reminder(self, conversation: ConversationId, key: UUID) -> Sent | None:
        rows = await self._database.fetch(QUERIES["reminder"], conversation, key)
        if not rows:
            return None
        return Sent(tool=rows[0]["tool"], arguments=rows[0]["arguments"], thanks=rows[0]["thanks"])


def _unset(row: Row) -> Unset:
    return Unset(
        conversation=row["conversation"],
        epoch=row["epoch"],
        reason=row["reason"],
        opened_at=row["opened_at"],
        business=BusinessId(row["business"]),
        slug=row["slug"],
        pack=row["pack"],
        time_zone=row["time_zone"],
        locale=row["locale"],
        now=row["now"],
        remind_after=timedelta(minutes=row["handoff_remind_min"]),
        tell_after=timedelta(minutes=row["handoff_tell_min"]),
    )


def _unclaimed(row: Row) -> Unclaimed:
    return Unclaimed(
        conversation=row["conversation"],
        epoch=row["epoch"],
        version=row["version"],
        slug=row["slug"],
        reason=row["reason"],
        locale=row["locale"],
        now=row["now"],
        remind_at=row["remind_at"],
        reminded_at=row["reminded_at"],
        tell_at=row["tell_at"],
        told_at=row["told_at"],
        answered=row["answered"],
        opted_out=row["opted_out"],
    )


def _reminding(row: Row) -> Reminding:
    return Reminding(
        id=BusinessId(row["id"]),
        slug=row["slug"],
        pack=row["pack"],
        zone=ZoneInfo(row["time_zone"]),
        locale=row["locale"],
        ahead=timedelta(hours=row["reminder_hours"]),
        quiet_from=row["quiet_from"],
        quiet_to=row["quiet_to"],
        now=row["now"],
    )
