"""The guard's record without a database: rows that go on by the pure transition, and compare their version."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from services.guard.core.amending import AMENDS, Concerned, Known
from services.guard.core.record import Case, Record, Row
from services.guard.core.verdict import Facts, Judged, Reason, Unjudged
from shared.autonomy import Mode
from shared.errors import Unavailable
from shared.ids import BusinessId, ConversationId, MessageId, OutboundId, new_id
from shared.messages import MessageKind, Verdict
from tests.support.factories import ANA, NOON


@dataclass
class Kept:
    """One conversation."""

    row: Row
    facts: Facts
    unjudged: list[Unjudged] = field(default_factory=list)
    judged: list[Judged] = field(default_factory=list)
    known: dict[MessageId, Known] = field(default_factory=dict)
    notices: dict[OutboundId, str] = field(default_factory=dict)
    attempts: int = 0
    dead: bool = False


class MemoryConversations:
    """services.guard.ports.Conversations. `before_record` runs first in each record: what others do meanwhile."""

    def __init__(
        self,
        *,
        now: datetime = NOON,
        window: timedelta = timedelta(seconds=2),
        locales: tuple[str, ...] = ("en", "ro"),
        side_calls: bool = False,
    ) -> None:
        self.now = now
        self.window = window
        self.locales = locales
        self.side_calls = side_calls
        self.kept: dict[ConversationId, Kept] = {}
        self.before_record: Callable[[], None] = lambda: None
        self.gathers = 0
        self.away = False

    def new(self, **facts: Any) -> ConversationId:
        conversation = ConversationId(new_id())
        row = Row(version=0, unguarded=0, guarded_seq=0, customer_seq=0, handled_seq=0)
        self.kept[conversation] = Kept(row=row, facts=Facts(**({"mode": Mode.AUTO} | facts)))
        return conversation

    def wrote(self, conversation: ConversationId, text: str = "Hello", **fields: Any) -> MessageId:
        """As ingest leaves it."""
        plain = {"kind": MessageKind.TEXT, "channel_at": self.now, "received_at": self.now, "sender": ANA}
        message = Unjudged(id=MessageId(new_id()), text=text, **(plain | fields))
        kept = self.kept[conversation]
        kept.unjudged.append(message)
        kept.row = replace(kept.row, unguarded=kept.row.unguarded + 1, version=kept.row.version + 1)
        return message.id

    async def gather(self, conversations: Sequence[ConversationId]) -> Sequence[Case]:
        self._reach()
        self.gathers += 1
        found = [(one, self.kept[one]) for one in conversations if one in self.kept]
        return [self._case(conversation, kept) for conversation, kept in found if kept.unjudged]

    async def record(
        self, records: Sequence[Record], texts: Mapping[tuple[ConversationId, MessageId], str]
    ) -> Mapping[ConversationId, Sequence[OutboundId]]:
        self._reach()
        self.before_record()
        current = [
            one for one in records if self.kept[one.case.conversation].row.version == one.case.row.version
        ]
        return {one.case.conversation: self._written(one, texts) for one in current}

    async def count(self, conversation: ConversationId) -> int:
        self._reach()
        kept = self.kept.get(conversation)
        if kept is None or not kept.row.unguarded:
            return 0
        kept.attempts += 1
        return kept.attempts

    async def locale(self, conversation: ConversationId) -> str | None:
        self._reach()
        kept = self.kept.get(conversation)
        return (kept.row.locale or self.locales[0]) if kept else None

    async def give_up(self, conversation: ConversationId, notice: str) -> OutboundId | None:
        self._reach()
        kept = self.kept[conversation]
        if not kept.row.unguarded:
            return None
        last = kept.row.guarded_seq + kept.row.unguarded
        kept.row = replace(
            kept.row, version=kept.row.version + 1, unguarded=0, guarded_seq=last, customer_seq=last,
            handled_seq=last, due_at=None, epoch=kept.row.epoch + 1,
        )  # fmt: skip
        kept.facts = replace(kept.facts, in_handoff=True)
        kept.unjudged.clear()
        kept.dead = True
        kept.attempts = 0
        outbound = OutboundId(new_id())
        kept.notices[outbound] = notice
        return outbound

    def _case(self, conversation: ConversationId, kept: Kept) -> Case:
        return Case(
            conversation=conversation,
            business=BusinessId(1),
            business_slug="clinic",
            row=kept.row,
            facts=kept.facts,
            messages=tuple(sorted(kept.unjudged, key=lambda one: one.channel_at.replace(microsecond=0))),
            now=self.now,
            locales=self.locales,
            window=self.window,
            side_calls=self.side_calls,
            concerned=_concerned(kept),
        )

    def _written(
        self, one: Record, texts: Mapping[tuple[ConversationId, MessageId], str]
    ) -> Sequence[OutboundId]:
        kept = self.kept[one.case.conversation]
        kept.row = one.row
        kept.attempts = 0
        kept.facts = replace(
            kept.facts, in_handoff=one.in_handoff, opted_out=one.row.opted_out_at is not None
        )
        decided = {judged.message for judged in one.judged}
        kept.unjudged = [message for message in kept.unjudged if message.id not in decided]
        kept.judged += one.judged
        texts_of = {message.id: message for message in one.case.messages}
        for message, seq, judged, change in one.written:
            known = kept.known.get(message) or Known(
                message=texts_of[message], seq=seq, verdict=Verdict.STORED
            )
            known = replace(known, verdict=judged.verdict if judged else known.verdict)
            if change is not None and change.text is not None:
                told = replace(known.message, text=change.text, deleted=change.deleted_at is not None)
                known = replace(known, message=told)
            kept.known[message] = known
        notices = {OutboundId(new_id()): texts[one.case.conversation, message] for message, _ in one.notices}
        kept.notices |= notices
        return list(notices)

    def _reach(self) -> None:
        if self.away:
            raise Unavailable("taken away by a test")


def _concerned(kept: Kept) -> Concerned:
    """By the rules of the real query; actions are none of this twin's."""
    about = {one.quoted for one in kept.unjudged if one.kind in AMENDS}
    judged = sorted(kept.known.values(), key=lambda one: one.seq)
    here = {one.message.channel_message_id for one in judged if one.message.kind not in AMENDS}
    return Concerned(
        known=tuple(one for one in judged if _named(one.message) in about),
        waiting=tuple(
            one.message for one in judged if one.message.kind in AMENDS and one.message.quoted not in here
        ),
        unanswered=tuple(
            one.seq for one in judged if one.verdict is Verdict.TURN and one.seq > kept.row.handled_seq
        ),
    )


def _named(message: Unjudged) -> str | None:
    return message.quoted if message.kind in AMENDS else message.channel_message_id


def reasons(conversations: MemoryConversations, conversation: ConversationId) -> list[Reason | None]:
    return [judged.reason for judged in conversations.kept[conversation].judged]
