"""May this reply leave now, and if not, what becomes of it: a pure decision on the snapshot it will be recorded against."""

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from enum import StrEnum
from typing import assert_never

from shared.autonomy import Mode, strictest
from shared.channels.traits import WINDOW, WINDOW_MARGIN, Traits
from shared.ids import AccountId, BusinessId, ConversationId, OutboundId
from shared.quiet_hours import quiet_for
from shared.supersede import may_give_way

TEMPLATE_TEXT_MAX = 1_000  # code points of the one parameter; a template's whole body may have 1,024


class Origin(StrEnum):
    """Where a reply comes from."""

    TURN = "turn"
    NOTICE = "notice"
    OPERATOR = "operator"
    REMINDER = "reminder"


class DraftReason(StrEnum):
    """Why a person must decide about a reply."""

    SUGGEST = "suggest"
    MODE_OFF = "mode_off"
    LATE = "late"
    LEVEL_0 = "level_0"
    UNBACKED_CLAIM = "unbacked_claim"
    HANDOFF = "handoff"
    SEND_FAILED = "send_failed"
    MAY_HAVE_ARRIVED = "may_have_arrived"
    PROCESSING_FAILED = "processing_failed"
    WINDOW_CLOSED = "window_closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A queued reply and everything that bears on it, at one version of its conversation's row."""

    outbound: OutboundId
    conversation: ConversationId
    business: BusinessId
    account: AccountId
    channel: str
    traits: Traits  # of the channel towards this person
    user_id: str
    reply_to: str | None
    origin: Origin
    basis_seq: int
    epoch: int
    mode_at_decision: Mode
    held: DraftReason | None  # must become a draft, whatever the mode
    body: str
    buttons: str | None
    round: int
    receipt: bool
    parts_sent: int
    tries: int  # attempts so far
    may_have_left: bool  # one of them had an outcome that nobody knows
    not_before: datetime | None
    thread: str | None
    in_reply_to: str | None
    now: datetime
    version: int
    unguarded: int
    customer_seq: int
    in_handoff: bool
    handoff_epoch: int
    opted_out: bool
    modes: tuple[Mode | None, ...]  # business, channel account, conversation, as they are now
    account_on: bool
    account_waits_until: datetime | None
    account_next_at: datetime | None  # how far its sends have used up its pace
    person_waits_until: datetime | None
    has_template: bool  # an approved one, for what the window keeps out
    last_customer_at: datetime | None
    window_closed_at: datetime | None  # when the channel said so
    sending: bool  # another send of the conversation is under way
    first_in_line: bool
    superseded_in_row: int
    unanswered_since: datetime | None
    local_now: datetime  # business time, in the business's zone
    quiet_from: time
    quiet_to: time
    waited: timedelta | None = (
        None  # from when it was due; None: an operator decided on it, and nobody knows when
    )


def part_key(outbound: OutboundId, round_: int, part: int) -> str:
    """The idempotency key of a part: the same for every attempt at it, another for every decision.

    Letters, digits and underscores only: a webhook-id has no dot.
    """
    return f"out_{outbound.hex}_{round_}_{part}"


@dataclass(frozen=True, slots=True)
class Send:
    """Claim it and call the provider. `by_template`: as the parameter of the approved template."""

    by_template: bool = False


@dataclass(frozen=True, slots=True)
class MakeDraft:
    reason: DraftReason


@dataclass(frozen=True, slots=True)
class Supersede:
    """The customer wrote again: the next turn sees both."""


@dataclass(frozen=True, slots=True)
class Discard:
    """The customer opted out."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Not now: look again at the time."""

    until: datetime


@dataclass(frozen=True, slots=True)
class NotYet:
    """Something else comes first, and whoever ends that rings: a message to judge, a send under way, an older reply."""


Decision = Send | MakeDraft | Supersede | Discard | Wait | NotYet


def decide(reply: Snapshot) -> Decision:
    """What to do with a queued reply, by the checks of the claim in their order."""
    if reply.unguarded or reply.sending or not reply.first_in_line:
        return NotYet()
    if reply.not_before is not None and reply.not_before > reply.now:
        return Wait(reply.not_before)
    if reply.opted_out:
        return Discard()
    if not reply.account_on:
        return Wait(reply.now + timedelta(seconds=60))
    waits = [until for until in (reply.account_waits_until, reply.person_waits_until) if until]
    if waits and max(waits) > reply.now:
        return Wait(max(waits))
    return _autonomy(reply) or (Supersede() if _is_superseded(reply) else _way_out(reply))


def _way_out(reply: Snapshot) -> Decision:
    """Free text, else the template, else people."""
    opened = is_open(reply)
    if not opened and not _fits_template(reply):
        return MakeDraft(DraftReason.WINDOW_CLOSED)
    return _in_quiet(reply) or Send(by_template=not opened)


def is_open(reply: Snapshot) -> bool:
    """Whether the channel takes free text for this person now: for 24 hours after their last message (WhatsApp's customer service
    window), less a margin for clocks, and not where it said no since."""
    if not reply.traits.window:
        return True
    if reply.last_customer_at is None or reply.local_now - reply.last_customer_at >= WINDOW - WINDOW_MARGIN:
        return False
    return reply.window_closed_at is None or reply.window_closed_at < reply.last_customer_at


def _fits_template(reply: Snapshot) -> bool:
    """Whether all of the reply fits the approved template, if there is one."""
    fits = len(reply.body) <= TEMPLATE_TEXT_MAX and reply.traits.length(reply.body) <= reply.traits.text_max
    return reply.has_template and fits and not reply.parts_sent


def _in_quiet(reply: Snapshot) -> Wait | None:
    """Reminders wait for the end of the quiet hours; answers don't."""
    if reply.origin is not Origin.REMINDER or reply.parts_sent:
        return None
    quiet = quiet_for(reply.local_now, reply.quiet_from, reply.quiet_to)
    return None if quiet is None else Wait(reply.now + quiet)


def _autonomy(reply: Snapshot) -> MakeDraft | None:
    """Handoff and mode; an operator's own send asks neither. Once a part has left, the rest follows."""
    if reply.origin is Origin.OPERATOR:
        return None
    if reply.in_handoff and reply.epoch != reply.handoff_epoch:
        return MakeDraft(DraftReason.MAY_HAVE_ARRIVED if reply.may_have_left else DraftReason.HANDOFF)
    if reply.epoch != reply.handoff_epoch and reply.origin is Origin.TURN:
        return MakeDraft(DraftReason.HANDOFF)
    if reply.round > 1 or reply.parts_sent:
        return None
    mode = strictest(reply.mode_at_decision, *reply.modes)
    if reply.held is not None and mode is not Mode.OFF:
        return MakeDraft(reply.held)
    match mode:
        case Mode.AUTO:
            return None
        case Mode.SUGGEST:
            return MakeDraft(DraftReason.SUGGEST)
        case Mode.OFF:
            return MakeDraft(DraftReason.MODE_OFF)
        case _:
            assert_never(mode)


def _is_superseded(reply: Snapshot) -> bool:
    if (
        reply.origin is not Origin.TURN
        or reply.receipt
        or reply.parts_sent
        or reply.may_have_left
        or reply.round > 1
    ):
        return False
    return reply.customer_seq > reply.basis_seq and may_give_way(
        superseded_in_row=reply.superseded_in_row,
        unanswered_since=reply.unanswered_since,
        now=reply.local_now,
    )
