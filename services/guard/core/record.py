"""What a judgement makes of the conversation's row: the pure transition that the guard records. Values, not SQL."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from services.guard.core.verdict import Facts, Judged, Judgement, Notice, Reason, Unjudged
from shared.ids import ActionId, BusinessId, ConversationId, MessageId, OutboundId
from shared.messages import Verdict

BURST_MAX = timedelta(seconds=10)
LOCALE_CHARS = 2


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
    last_customer_at: datetime | None = None
    opted_out_at: datetime | None = None
    locale: str | None = None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is written, all of it or nothing: only if the row is still at the version seen."""

    case: Case
    judged: tuple[Judged, ...]
    row: Row
    in_handoff: bool
    handoff_reason: Reason | None = None  # of a handoff opened now and still open
    released: bool = False
    action_ends: bool = False
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
        ) and (self.row.opted_out_at == self.case.row.opted_out_at)

    @property
    def due_now(self) -> bool:
        """Whether the agent need not wait for a window."""
        return self.row.due_at is not None and self.row.due_at <= self.case.now


def record(case: Case, judgement: Judgement) -> Record:
    """The row after the judgement, and what else follows. Raises nothing; the row seen is not changed."""
    judged, now = judgement.judged, case.now
    spoke = [seq for seq, j in _numbered(case, judged) if j.customer_spoke]
    ends_debt = [seq for seq, j in _numbered(case, judged) if j.handoff or j.opt_out is not None]
    handed = [j for j in judged if j.handoff]
    cleared = any(j.clears_action or j.handoff or j.opt_out for j in judged)
    opted_out = any(j.opt_out for j in judged)
    handled_seq = max([case.row.handled_seq, *ends_debt])
    owed = [(seq, j) for seq, j in _numbered(case, judged) if j.verdict is Verdict.TURN and seq > handled_seq]
    due_at, opened_at = _due(case, owed, handled_seq=handled_seq)
    if case.row.decision_owed and not (judgement.after.in_handoff or judgement.after.opted_out):
        due_at = now if due_at is None else min(due_at, now)
    row = Row(
        version=case.row.version + 1,
        unguarded=case.row.unguarded - len(judged),
        guarded_seq=case.row.guarded_seq + len(judged),
        customer_seq=max([case.row.customer_seq, *spoke]),
        handled_seq=handled_seq,
        epoch=case.row.epoch + len(handed) + sum(j.releases for j in judged),
        due_at=due_at,
        leased=case.row.leased,
        decision_owed=case.row.decision_owed,
        window_opened_at=opened_at,
        unanswered_since=(case.row.unanswered_since or now) if owed else case.row.unanswered_since,
        last_customer_at=now if spoke else case.row.last_customer_at,
        opted_out_at=(case.row.opted_out_at or now) if judgement.after.opted_out else None,
        locale=_locale(case, judged),
    )
    return Record(
        case=case,
        judged=judged,
        row=row,
        in_handoff=judgement.after.in_handoff,
        handoff_reason=handed[-1].reason if handed and judgement.after.in_handoff else None,
        released=any(j.releases for j in judged),
        # What waits for an operator stays, but for somebody who wants no more of us.
        action_ends=case.action is not None and (opted_out if case.action_waits_for_operator else cleared),
        drafts_superseded=case.drafts if spoke or handed else (),
        notices=tuple((j.message, j.notice) for j in judged if j.notice is not None),
        flags=tuple((j.message, j.reason.value if j.reason else "media") for j in judged if j.flag),
    )


def _numbered(case: Case, judged: tuple[Judged, ...]) -> list[tuple[int, Judged]]:
    return list(enumerate(judged, start=case.row.guarded_seq + 1))


def _due(
    case: Case, owed: list[tuple[int, Judged]], *, handled_seq: int
) -> tuple[datetime | None, datetime | None]:
    """When the agent must look, and when the burst began. A window that has run out or was closed does not open again."""
    row, now = case.row, case.now
    still_owed = row.customer_seq > handled_seq
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
