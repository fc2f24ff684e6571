"""The outbox in Postgres: claims and outcomes over arrays."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, assert_never
from uuid import UUID
from zoneinfo import ZoneInfo

from services.dispatch.adapters.postgres_addresses import PostgresAddresses
from services.dispatch.core.delivery import (
    Discard,
    DraftReason,
    MakeDraft,
    NotYet,
    Origin,
    Send,
    Snapshot,
    Supersede,
    Wait,
)
from services.dispatch.core.outcome import RETRIES_FOR
from services.dispatch.ports import (
    Claimed,
    Courtesy,
    CourtesyKind,
    Decided,
    Settlement,
    Stored,
    TraceOrigin,
)
from shared.autonomy import Mode
from shared.channels.accounts import has_template
from shared.channels.traits import (
    PLAIN_CHARS_MAX,
    TRAITS,
    WINDOW,
    WINDOW_MARGIN,
    ChannelName,
    Traits,
    traits_of,
)
from shared.database import Database, load_queries
from shared.ids import AccountId, AttemptId, BusinessId, MessageId, OutboundId, new_id
from shared.work.presence import Presence
from shared.work.stage import ATTEMPTS_MAX

QUERIES = load_queries(Path(__file__).with_name("outbox.sql"))
IDEMPOTENT = [name for name, traits in TRAITS.items() if traits.idempotent]
WINDOWED = [ChannelName.WHATSAPP, ChannelName.TWILIO]  # Twilio towards some people: see traits_of
PACED = {name: traits for name, traits in TRAITS.items() if traits.per_account or traits.per_person}

Row = Mapping[str, Any]


class PostgresOutbox:
    def __init__(
        self,
        database: Database,
        *,
        presence: Presence,
        addresses: PostgresAddresses,
        unknown_after: timedelta,
        plain_chars_max: int = PLAIN_CHARS_MAX,
        idempotent: Sequence[str] = IDEMPOTENT,
    ) -> None:
        self._database = database
        self._presence = presence
        self._addresses = addresses
        self._unknown_after = unknown_after
        self._plain_chars_max = plain_chars_max
        self._idempotent = list(idempotent)

    async def claim_plain(self, outbounds: Sequence[OutboundId]) -> Sequence[Claimed]:
        rows = await self._database.fetch(
            QUERIES["claim_plain"],
            outbounds,
            [new_id() for _ in outbounds],
            self._presence.number,
            self._plain_chars_max,
            WINDOWED,
            WINDOW - WINDOW_MARGIN,
            list(PACED),
            [traits.per_account for traits in PACED.values()],
            [traits.account_burst for traits in PACED.values()],
            [traits.per_person for traits in PACED.values()],
        )
        return [_plain(row) for row in rows]

    async def gather(self, outbounds: Sequence[OutboundId]) -> Sequence[Snapshot]:
        rows = await self._database.fetch(QUERIES["gather"], outbounds)
        return [_snapshot(row) for row in rows]

    async def record(self, decided: Sequence[Decided]) -> tuple[Sequence[Claimed], Sequence[OutboundId]]:
        first: dict[UUID, Decided] = {}
        for one in decided:  # one a conversation and statement: the row is compared once
            first.setdefault(one.reply.conversation, one)
        chosen = list(first.values())
        attempts = {one.reply.outbound: AttemptId(new_id()) for one in chosen}
        written = [_written(one) for one in chosen]
        rows = await self._database.fetch(
            QUERIES["record"],
            [one.reply.outbound for one in chosen],
            [one.reply.conversation for one in chosen],
            [one.reply.version for one in chosen],
            [state for state, _, _ in written],
            [reason for _, reason, _ in written],
            [not_before for _, _, not_before in written],
            [attempts[one.reply.outbound] for one in chosen],
            [one.reply.parts_sent + 1 for one in chosen],
            [len(one.parts) for one in chosen],
            [one.reply.account for one in chosen],
            self._presence.number,
            [one.decision == Send(by_template=True) for one in chosen],
            [one.reply.traits.per_account or None for one in chosen],
            [one.reply.traits.per_person or None for one in chosen],
        )
        recorded = [row["outbound"] for row in rows]
        claimed = [
            _claimed(one, attempts[one.reply.outbound])
            for one in chosen
            if one.reply.outbound in recorded and isinstance(one.decision, Send)
        ]
        return claimed, recorded

    async def settle(self, settlements: Sequence[Settlement]) -> Mapping[AttemptId, Stored]:
        rows = await self._database.fetch(
            QUERIES["settle"],
            [one.claimed.attempt for one in settlements],
            [one.claimed.conversation for one in settlements],
            [one.claimed.outbound for one in settlements],
            [one.settled.attempt for one in settlements],
            [one.settled.rank for one in settlements],
            [one.settled.provider_id for one in settlements],
            [one.settled.reason for one in settlements],
            [one.claimed.part for one in settlements],
            [one.next_attempt for one in settlements],
            [one.settled.outbound for one in settlements],
            [one.settled.retry_after for one in settlements],
            self._presence.number,
            RETRIES_FOR,
            [one.settled.gives_up_as for one in settlements],
            [one.settled.taken_at for one in settlements],
            [one.settled.segments for one in settlements],
            [one.settled.opts_out for one in settlements],
            [one.settled.closes_window for one in settlements],
            [_person_waits(one) for one in settlements],
            [_traits(one.claimed.channel, one.claimed.user_id).per_account or None for one in settlements],
        )
        return {
            row["attempt"]: Stored(
                current=row["current"], following=row["next"], answered_after=row["answered_after"]
            )
            for row in rows
        }

    async def bar(self, outbounds: Sequence[OutboundId]) -> None:
        await self._database.fetch(QUERIES["bar"], outbounds)

    async def pause(self, account: AccountId, how_long: timedelta) -> None:
        address = await self._addresses.address(account)
        if address:
            await self._database.fetch(QUERIES["pause_account"], account, address.business, how_long)

    async def disable(self, account: AccountId, why: str) -> bool:
        address = await self._addresses.address(account)
        if address is None:
            return False
        rows = await self._database.fetch(
            QUERIES["disable_account"], account, address.business, why, address.sealed
        )
        if not rows[0]["refused"]:
            self._addresses.forget(account)
        return bool(rows[0]["refused"])

    async def bury(self, claimed: Claimed, reason: str) -> None:
        await self._database.fetch(QUERIES["bury"], new_id(), claimed.outbound, claimed.conversation, reason)

    async def courtesies(self, messages: Sequence[MessageId]) -> Sequence[Courtesy]:
        rows = await self._database.fetch(QUERIES["courtesies"], messages)
        return [
            Courtesy(
                kind=CourtesyKind.PRESSED if row["pressed"] else CourtesyKind.TYPING,
                account=AccountId(row["account"]),
                channel=row["channel"],
                user_id=row["user_id"],
                message_id=row["message_id"],
                quoted=row["quoted"],
            )
            for row in rows
        ]

    async def origin(self, outbound: OutboundId) -> TraceOrigin | None:
        rows = await self._database.fetch(QUERIES["origin"], outbound)
        return (
            TraceOrigin(cause=rows[0]["cause"], subject=rows[0]["subject"], work=rows[0]["work"])
            if rows
            else None
        )

    async def count(self, outbound: OutboundId) -> int:
        rows = await self._database.fetch(QUERIES["count"], outbound)
        return rows[0]["suspect"] if rows else 0

    async def give_up(self, outbound: OutboundId) -> None:
        await self._database.fetch(QUERIES["give_up"], outbound, new_id())

    async def anything_due(self) -> bool:
        rows = await self._database.fetch(QUERIES["anything_due"])
        return bool(rows[0]["due"])

    async def ring_due(self, *, most: int) -> Sequence[UUID]:
        rows = await self._database.fetch(QUERIES["ring_due"], most)
        return [row["id"] for row in rows]

    async def senders(self) -> Sequence[int]:
        """Workers with sends under way."""
        return [row["worker"] for row in await self._database.fetch(QUERIES["senders"])]

    async def abandon(self, worker: int | None) -> Sequence[OutboundId]:
        """What a dead worker was sending, or (None) anyone for too long: unknown, or queued again under its key."""
        rows = await self._database.fetch(
            QUERIES["abandon"], worker, self._unknown_after, self._idempotent, ATTEMPTS_MAX
        )
        return [row["id"] for row in rows]

    async def open_decisions(self) -> int:
        """What is unknown for two minutes becomes a draft that may have arrived; how many did."""
        return len(await self._database.fetch(QUERIES["open_decisions"]))

    async def deliver_sim(self, deliveries: Sequence[tuple[str, Claimed, str, str | None]]) -> None:
        """The sim channel's deliveries (key, send, text, buttons), each key once."""
        businesses = {one.account: await self._addresses.address(one.account) for _, one, _, _ in deliveries}
        known = [
            (key, one, text, buttons, address.business)
            for key, one, text, buttons in deliveries
            if (address := businesses[one.account])
        ]
        await self._database.fetch(
            QUERIES["deliver_sim"],
            [key for key, *_ in known],
            [business for *_, business in known],
            [one.account for _, one, *_ in known],
            [one.user_id for _, one, *_ in known],
            [text for _, _, text, *_ in known],
            [buttons for *_, buttons, _ in known],
        )


def _plain(row: Row) -> Claimed:
    return Claimed(
        attempt=row["attempt"],
        outbound=row["outbound"],
        conversation=row["conversation"],
        account=row["account"],
        channel=row["channel"],
        user_id=row["user_id"],
        parts=(row["body"],),
        part=1,
        round=row["round"],
        buttons=row["buttons"],
        thread=row["thread"],
        in_reply_to=row["in_reply_to"],
        reply_to=row["reply_to"],
        waited=row["waited"],
    )


def _traits(channel: str, user_id: str) -> Traits:
    """A channel that this version has not got takes nothing: its replies wait, whatever their length."""
    return traits_of(channel, user_id) if channel in TRAITS else Traits(text_max=PLAIN_CHARS_MAX)


def _person_waits(one: Settlement) -> timedelta | None:
    """What the outcome asks for; or, where another part follows, the pace of the channel."""
    if one.settled.person_waits is not None or one.next_attempt is None:
        return one.settled.person_waits
    return _traits(one.claimed.channel, one.claimed.user_id).per_person or None


def _claimed(one: Decided, attempt: AttemptId) -> Claimed:
    reply = one.reply
    by_template = one.decision == Send(by_template=True)
    return Claimed(
        attempt=attempt,
        outbound=reply.outbound,
        conversation=reply.conversation,
        account=reply.account,
        channel=reply.channel,
        user_id=reply.user_id,
        parts=one.parts,
        part=min(reply.parts_sent + 1, len(one.parts)),
        round=reply.round,
        buttons=None if by_template else reply.buttons,
        thread=reply.thread,
        in_reply_to=reply.in_reply_to,
        reply_to=reply.reply_to,
        by_template=by_template,
        in_handoff=reply.in_handoff,
        tries=reply.tries,
        waited=reply.waited,
    )


def _written(one: Decided) -> tuple[str, str | None, datetime | None]:
    """A decision as state, reason and not-before."""
    match one.decision:
        case Send():
            return "sending", None, None
        case MakeDraft(reason=reason):
            return "draft", reason.value, None
        case Supersede():
            return "superseded", "customer_wrote", None
        case Discard():
            return "discarded", "opted_out", None
        case Wait(until=until):
            return "queued", None, until
        case NotYet():
            raise AssertionError("nothing to record")
        case _:
            assert_never(one.decision)


def _snapshot(row: Row) -> Snapshot:
    modes = (row["business_mode"], row["account_mode"], row["mode"])
    return Snapshot(
        outbound=row["outbound"],
        conversation=row["conversation"],
        business=BusinessId(row["business"]),
        account=AccountId(row["account"]),
        channel=row["channel"],
        traits=_traits(row["channel"], row["user_id"]),
        user_id=row["user_id"],
        reply_to=row["reply_to"],
        origin=Origin(row["origin_kind"]),
        basis_seq=row["basis_seq"],
        epoch=row["epoch"],
        mode_at_decision=Mode(row["mode_at_decision"]),
        held=DraftReason(row["held"]) if row["held"] else None,
        body=row["body"],
        buttons=row["buttons"],
        round=row["round"],
        receipt=row["receipt"],
        parts_sent=row["parts_sent"],
        tries=row["tries"],
        may_have_left=row["may_have_left"],
        not_before=row["not_before"],
        thread=row["thread"],
        in_reply_to=row["in_reply_to"],
        now=row["now"],
        version=row["version"],
        unguarded=row["unguarded"],
        customer_seq=row["customer_seq"],
        in_handoff=row["state"] == "handoff",
        handoff_epoch=row["handoff_epoch"],
        opted_out=row["opted_out"],
        modes=tuple(Mode(mode) if mode else None for mode in modes),
        account_on=row["account_state"] == "on",
        account_waits_until=row["wait_until"],
        account_next_at=row["next_at"],
        person_waits_until=row["pair_wait_until"],
        has_template=has_template(row["channel"], row["settings"]),
        last_customer_at=row["last_customer_at"],
        window_closed_at=row["window_closed_at"],
        sending=row["sending_attempt"] is not None,
        first_in_line=row["first_in_line"],
        superseded_in_row=row["superseded_in_row"],
        unanswered_since=row["unanswered_since"],
        local_now=row["business_now"].astimezone(ZoneInfo(row["time_zone"])),
        quiet_from=row["quiet_from"],
        quiet_to=row["quiet_to"],
        waited=row["waited"],
    )
