"""The record of replies without a database: replies as snapshots, claimed and settled by the pure decisions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from services.dispatch.core.delivery import (
    Discard,
    MakeDraft,
    Origin,
    Send,
    Snapshot,
    Supersede,
    Wait,
    decide,
)
from services.dispatch.ports import Claimed, Courtesy, Decided, Settlement, Stored, TraceOrigin
from shared.errors import Unavailable
from shared.ids import AccountId, AttemptId, ConversationId, MessageId, OutboundId, new_id
from tests.support.factories import snapshot


@dataclass
class Kept:
    """One reply, and the attempts at it by their state."""

    reply: Snapshot
    state: str = "queued"
    reason: str | None = None
    attempts: dict[AttemptId, str] = field(default_factory=dict)
    suspect: int = 0
    barred: int = 0


@dataclass
class Row:
    version: int = 1
    sending: AttemptId | None = None


class MemoryOutbox:
    """services.dispatch.ports.Outbox. `before_record` runs first in each record: what others do meanwhile."""

    def __init__(self, *, characters_max: int = 50) -> None:
        self.characters_max = characters_max
        self.kept: dict[OutboundId, Kept] = {}
        self.rows: dict[ConversationId, Row] = {}
        self.before_record: Callable[[], None] = lambda: None
        self.gathers = 0
        self.paused: list[tuple[AccountId, timedelta]] = []
        self.disabled: list[tuple[AccountId, str]] = []
        self.buried: list[tuple[OutboundId, str]] = []
        self.dead: list[OutboundId] = []
        self.asked_for: dict[MessageId, Courtesy] = {}
        self.origins: dict[OutboundId, TraceOrigin] = {}
        self.customers_waited: dict[OutboundId, timedelta] = {}  # for what their first part answers
        self.away = False

    def new(self, conversation: ConversationId | None = None, **fields: Any) -> OutboundId:
        """A reply that waits."""
        outbound = OutboundId(new_id())
        conversation = conversation or ConversationId(new_id())
        self.rows.setdefault(conversation, Row())
        self.kept[outbound] = Kept(snapshot(outbound=outbound, conversation=conversation, **fields))
        return outbound

    def changed(self, outbound: OutboundId, **fields: Any) -> None:
        """Something that bears on the reply is another now."""
        kept = self.kept[outbound]
        kept.reply = replace(kept.reply, **fields)
        self.rows[kept.reply.conversation].version += 1

    async def claim_plain(self, outbounds: Sequence[OutboundId]) -> Sequence[Claimed]:
        self._reach()
        return [self._claimed(one, (self._now(one).body,)) for one in outbounds if self._is_plain(one)]

    async def gather(self, outbounds: Sequence[OutboundId]) -> Sequence[Snapshot]:
        self._reach()
        self.gathers += 1
        return [self._now(one) for one in outbounds if one in self.kept and self.kept[one].state == "queued"]

    async def record(self, decided: Sequence[Decided]) -> tuple[Sequence[Claimed], Sequence[OutboundId]]:
        self._reach()
        self.before_record()
        claimed: list[Claimed] = []
        recorded: list[OutboundId] = []
        for one in decided:
            row = self.rows[one.reply.conversation]
            if row.version != one.reply.version:
                continue
            recorded.append(one.reply.outbound)
            if isinstance(one.decision, Send):
                claimed.append(
                    self._claimed(one.reply.outbound, one.parts, by_template=one.decision.by_template)
                )
                continue
            row.version += 1
            kept = self.kept[one.reply.outbound]
            kept.state, kept.reason = _became(one.decision)
        return claimed, recorded

    async def settle(self, settlements: Sequence[Settlement]) -> Mapping[AttemptId, Stored]:
        self._reach()
        return {one.claimed.attempt: self._settled(one) for one in settlements}

    async def bar(self, outbounds: Sequence[OutboundId]) -> None:
        self._reach()
        for one in outbounds:
            self.kept[one].barred += 1

    async def pause(self, account: AccountId, how_long: timedelta) -> None:
        self.paused.append((account, how_long))

    async def disable(self, account: AccountId, why: str) -> bool:
        self.disabled.append((account, why))
        return True

    async def bury(self, claimed: Claimed, reason: str) -> None:
        self.buried.append((claimed.outbound, reason))

    async def courtesies(self, messages: Sequence[MessageId]) -> Sequence[Courtesy]:
        self._reach()
        return [self.asked_for[message] for message in messages if message in self.asked_for]

    async def origin(self, outbound: OutboundId) -> TraceOrigin | None:
        self._reach()
        return self.origins.get(outbound)

    async def count(self, outbound: OutboundId) -> int:
        kept = self.kept[outbound]
        if kept.state != "queued":
            return 0
        kept.suspect += 1
        return kept.suspect

    async def give_up(self, outbound: OutboundId) -> None:
        kept = self.kept[outbound]
        if kept.state == "queued":
            kept.state, kept.reason = "draft", "processing_failed"
            self.rows[kept.reply.conversation].version += 1
            self.dead.append(outbound)

    def _now(self, outbound: OutboundId) -> Snapshot:
        """The reply with what its conversation's row says."""
        kept = self.kept[outbound]
        row = self.rows[kept.reply.conversation]
        queued = [
            other for other in self.kept.values()
            if other.state == "queued" and other.reply.conversation == kept.reply.conversation
        ]  # fmt: skip
        first = min(queued, key=lambda other: (other.reply.basis_seq, other.reply.outbound), default=None)
        return replace(
            kept.reply,
            version=row.version,
            sending=row.sending is not None,
            first_in_line=first is None or first is kept,
            tries=len(kept.attempts),
        )

    def _is_plain(self, outbound: OutboundId) -> bool:
        if outbound not in self.kept or self.kept[outbound].state != "queued":
            return False
        reply = self._now(outbound)
        simple = reply.origin is Origin.TURN and reply.round == 1 and not reply.parts_sent and not reply.tries
        return (
            simple
            and len(reply.body) <= self.characters_max
            and reply.customer_seq <= reply.basis_seq
            and decide(reply) == Send()
        )

    def _claimed(self, outbound: OutboundId, parts: tuple[str, ...], *, by_template: bool = False) -> Claimed:
        reply = self._now(outbound)
        kept, row = self.kept[outbound], self.rows[reply.conversation]
        attempt = AttemptId(new_id())
        kept.state = "sending"
        kept.attempts[attempt] = "sending"
        row.sending = attempt
        row.version += 1
        return Claimed(
            attempt=attempt,
            outbound=outbound,
            conversation=reply.conversation,
            account=reply.account,
            channel=reply.channel,
            user_id=reply.user_id,
            parts=parts,
            part=reply.parts_sent + 1,
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

    def _settled(self, one: Settlement) -> Stored:
        kept, row = self.kept[one.claimed.outbound], self.rows[one.claimed.conversation]
        current = row.sending == one.claimed.attempt
        if current:
            kept.attempts[one.claimed.attempt] = one.settled.attempt
            row.sending = one.next_attempt
            row.version += 1
            if one.next_attempt is not None:
                kept.attempts[one.next_attempt] = "sending"
            if one.settled.rank:
                kept.reply = replace(kept.reply, parts_sent=one.claimed.part)
            self._learnt(one)
            if one.settled.outbound is not None:
                kept.state, kept.reason = one.settled.outbound, one.settled.reason
        following = next(
            (other.reply.outbound for other in self.kept.values()
             if other.state == "queued" and other.reply.conversation == one.claimed.conversation
             and other is not kept), None,
        )  # fmt: skip
        taken = bool(one.settled.rank) and one.claimed.part == one.claimed.round == 1
        waited = self.customers_waited.get(one.claimed.outbound) if taken else None
        return Stored(current=current, following=following, answered_after=waited)

    def _learnt(self, one: Settlement) -> None:
        """What holds for all replies to this person from now on."""
        for kept in self.kept.values():
            if kept.reply.conversation != one.claimed.conversation:
                continue
            if one.settled.opts_out:
                kept.reply = replace(kept.reply, opted_out=True)
            if one.settled.closes_window:
                kept.reply = replace(kept.reply, window_closed_at=kept.reply.local_now)
            if one.settled.person_waits:
                kept.reply = replace(kept.reply, person_waits_until=kept.reply.now + one.settled.person_waits)

    def _reach(self) -> None:
        if self.away:
            raise Unavailable("taken away by a test")


def _became(decision: object) -> tuple[str, str | None]:
    match decision:
        case MakeDraft(reason=reason):
            return "draft", reason.value
        case Supersede():
            return "superseded", "customer_wrote"
        case Discard():
            return "discarded", "opted_out"
        case Wait():
            return "queued", None
        case _:
            raise AssertionError(f"nothing to record: {decision}")
