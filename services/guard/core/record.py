"""What a judgement makes of the conversation's row: the pure transition that the guard records. Values, not SQL."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from services.guard.core.amending import AMENDS, Amended, Change, Concerned
from services.guard.core.verdict import Facts, Judged, Judgement, Notice, Reason, Unjudged
from shared.autonomy import Mode
from shared.ids import ActionId, BusinessId, ConversationId, MessageId, OutboundId
from shared.messages import MessageKind, Verdict

BURST_MAX = timedelta(seconds=10)
LOCALE_CHARS = 2
EDITED = "edited"  # why an action ended whose request was edited or deleted
# Kinds that no channel takes for a message of the customer's, when it says how long free text may be sent.
_OPENS_NO_WINDOW = frozenset(
    {MessageKind.ECHO, MessageKind.SYSTEM, MessageKind.GROUP, MessageKind.EDIT, MessageKind.DELETION}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The part of `conversation_state` that the guard reads and writes, as it was seen."""

    version: int
    unguarded: int
    guarded_seq: int
    customer_seq: int
    handled_seq: int
    epoch: int = 0
    due_at: datetime | None = None
    leased: bool = False  # a turn is under way: its due time is no longer a customer's
    decision_owed: bool = False  # an approval was decided, and its turn has not run
    window_opened_at: datetime | None = None
    unanswered_since: datetime | None = None
    last_customer_at: datetime | None = None  # by the channel, of their newest message, answered or not
    opted_out_at: datetime | None = None
    locale: str | None = None
    edits_wait: bool = False  # an edit or deletion came before what it concerns


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A conversation to judge: everything gathered in one look."""

    conversation: ConversationId
    business: BusinessId
    business_slug: str
    row: Row
    facts: Facts
    messages: tuple[Unjudged, ...]
    now: datetime
    locales: tuple[str, ...]  # the business's, its default first
    window: timedelta
    action: ActionId | None = None
    action_waits_for_operator: bool = False
    drafts: tuple[OutboundId, ...] = ()
    hint: str | None = None  # the channel's word on the language of the last message
    side_calls: bool = False  # the channel takes typing, read marks and acknowledged presses
    concerned: Concerned = field(default_factory=Concerned)

    @property
    def amends(self) -> bool:
        """Whether what edits and deletions concern bears on it."""
        return self.row.edits_wait or any(one.kind in AMENDS for one in self.messages)

    @property
    def waited(self) -> timedelta:
        """How long its oldest message has waited to be judged."""
        return self.now - min((one.received_at for one in self.messages), default=self.now)

    def received_at(self, message: MessageId) -> datetime | None:
        """When one of its messages was received; None for one that was judged before."""
        return next((one.received_at for one in self.messages if one.id == message), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is written, all of it or nothing: only if the row is still at the version seen."""

    case: Case
    judged: tuple[Judged, ...]
    row: Row
    in_handoff: bool
    again: tuple[tuple[int, Judged], ...] = ()  # of messages that have their seq
    changes: tuple[Change, ...] = ()
    handoff_reason: Reason | None = None  # of a handoff opened now and still open
    released: bool = False
    action_ends: bool = False
    action_ends_because: str | None = None
    drafts_superseded: tuple[OutboundId, ...] = ()
    notices: tuple[tuple[MessageId, Notice], ...] = ()
    flags: tuple[tuple[MessageId, str], ...] = ()

    @property
    def plain(self) -> bool:
        """Nothing but verdicts and what the agent is owed."""
        return not (
            self.handoff_reason
            or self.released
            or self.action_ends
            or self.drafts_superseded
            or self.notices
            or self.flags
            or self.changes
            or self.row.edits_wait != self.case.row.edits_wait
        ) and (self.row.opted_out_at == self.case.row.opted_out_at)

    @property
    def written(self) -> tuple[tuple[MessageId, int, Judged | None, Change | None], ...]:
        """Every message row that changes: its seq, its verdict where that is given or changes, and its new text."""
        changes = {one.message: one for one in self.changes}
        decided = (*enumerate(self.judged, start=self.case.row.guarded_seq + 1), *self.again)
        judged = [(j.message, seq, j, changes.pop(j.message, None)) for seq, j in decided]
        return (
            *judged,
            *((one.message, one.seq, None, one) for one in changes.values() if one.seq is not None),
        )

    @property
    def due_now(self) -> bool:
        """Whether the agent need not wait for a window."""
        return self.row.due_at is not None and self.row.due_at <= self.case.now

    @property
    def courtesies(self) -> tuple[MessageId, ...]:
        """Messages that the channel is told of at once: every press, and the newest that the bot answers by itself."""
        if not self.case.side_calls:
            return ()
        presses = {one.id for one in self.case.messages if one.kind is MessageKind.BUTTON}
        answers = self.case.facts.mode is Mode.AUTO and not self.in_handoff
        answered = [j.message for j in self.judged if j.verdict is Verdict.TURN] if answers else []
        told = presses | set(answered[-1:])
        return tuple(one.id for one in self.case.messages if one.id in told)


def record(case: Case, judgement: Judgement, amended: Amended | None = None) -> Record:
    """The row after the judgement, and what else follows. Raises nothing; the row seen is not changed.

    `amended`: what the batch's edits and deletions did, where it has some.
    """
    judged, now = judgement.judged, case.now
    changed = amended or Amended(messages=case.messages)
    again = tuple(zip((one.seq for one in changed.again), judgement.again, strict=True))
    numbered = [*again, *enumerate(judged, start=case.row.guarded_seq + 1)]
    every = [j for _, j in numbered]
    spoke = [seq for seq, j in numbered if j.customer_spoke]
    handed = [j for j in every if j.handoff]
    edited_away = changed.clears_action and case.action is not None
    handled_seq = _handled(case, numbered)
    owed = [(seq, j) for seq, j in numbered if j.verdict is Verdict.TURN and seq > handled_seq]
    still_owed = case.row.customer_seq > handled_seq
    if again and not owed:
        still_owed = still_owed and bool({*case.concerned.unanswered} - {seq for seq, _ in again})
        if not still_owed:
            handled_seq = max(handled_seq, case.row.guarded_seq)  # nothing up to here is for a turn
    due_at, opened_at = _due(case, owed, still_owed=still_owed)
    if case.row.decision_owed and not (judgement.after.in_handoff or judgement.after.opted_out):
        due_at = now if due_at is None else min(due_at, now)
    row = Row(
        version=case.row.version + 1,
        unguarded=case.row.unguarded - len(judged),
        guarded_seq=case.row.guarded_seq + len(judged),
        customer_seq=max([case.row.customer_seq, *spoke]),
        handled_seq=handled_seq,
        epoch=case.row.epoch + len(handed) + sum(j.releases for j in every),
        due_at=due_at,
        leased=case.row.leased,
        decision_owed=case.row.decision_owed,
        window_opened_at=opened_at,
        unanswered_since=_unanswered_since(
            case, owed=bool(owed), nothing_left=bool(again) and not still_owed
        ),
        last_customer_at=_last_customer_at(case, judged),
        opted_out_at=(case.row.opted_out_at or now) if judgement.after.opted_out else None,
        locale=_locale(case, judged),
        edits_wait=changed.still_wait,
    )
    return Record(
        case=case,
        judged=judged,
        row=row,
        in_handoff=judgement.after.in_handoff,
        again=again,
        changes=changed.changes,
        handoff_reason=handed[-1].reason if handed and judgement.after.in_handoff else None,
        released=any(j.releases for j in every),
        action_ends=edited_away or _ends_action(case, every),
        action_ends_because=EDITED if edited_away else None,
        drafts_superseded=case.drafts if spoke or handed else (),
        notices=tuple((j.message, j.notice) for j in every if j.notice is not None),
        flags=tuple((j.message, j.reason.value if j.reason else "media") for j in every if j.flag),
    )


def _handled(case: Case, numbered: list[tuple[int, Judged]]) -> int:
    """Up to where nothing is owed: consent and handoffs end what was. One judged again ends all that came before the batch."""
    ends = [seq for seq, j in numbered if j.handoff or j.opt_out is not None]
    return max([case.row.handled_seq, *(max(seq, case.row.guarded_seq) for seq in ends)])


def _ends_action(case: Case, judged: list[Judged]) -> bool:
    """What waits for an operator stays, but for somebody who wants no more of us."""
    opted_out = any(j.opt_out for j in judged)
    cleared = opted_out or any(j.clears_action or j.handoff for j in judged)
    return case.action is not None and (opted_out if case.action_waits_for_operator else cleared)


def _unanswered_since(case: Case, *, owed: bool, nothing_left: bool) -> datetime | None:
    if owed:
        return case.row.unanswered_since or case.now
    return None if nothing_left else case.row.unanswered_since


def _last_customer_at(case: Case, judged: tuple[Judged, ...]) -> datetime | None:
    """By the channel's time, which may run ahead, but not beyond our receipt."""
    told = {j.message for j in judged if j.reason not in (Reason.SELF_ECHO, Reason.DUPLICATE)}
    times = [
        min(one.channel_at, one.received_at)
        for one in case.messages
        if one.id in told and one.kind not in _OPENS_NO_WINDOW
    ]
    return max([*times, *([case.row.last_customer_at] if case.row.last_customer_at else [])], default=None)


def _due(
    case: Case, owed: list[tuple[int, Judged]], *, still_owed: bool
) -> tuple[datetime | None, datetime | None]:
    """When the agent must look, and when the burst began. A window that has run out or was closed does not open again."""
    row, now = case.row, case.now
    if not owed:
        return (row.due_at, row.window_opened_at) if still_owed or row.leased else (None, None)
    opened = row.window_opened_at if still_owed and row.window_opened_at else now
    ripe = still_owed and not row.leased and row.due_at is not None and row.due_at <= now
    if ripe or any(j.closes_window for _, j in owed):
        return now, opened
    return min(opened + BURST_MAX, now + case.window), opened


def _locale(case: Case, judged: tuple[Judged, ...]) -> str | None:
    recognised = [j.locale for j in judged if j.locale]
    if recognised:
        return recognised[-1]
    if case.row.locale:
        return case.row.locale
    hint = (case.hint or "").lower()[:LOCALE_CHARS]
    return hint if hint in case.locales else None
