"""What becomes of a message before any model is asked: sixteen guards; the first that speaks decides."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final

from services.guard.core import signs
from services.guard.core.snapshot import following, from_customer, takeover_is_over
from services.guard.core.verdict import Facts, Judged, Judgement, Notice, Reason, Unjudged
from shared.autonomy import Mode
from shared.channels.traits import WHATSAPP_OVER_TWILIO
from shared.locales import Locale, Reading, read
from shared.messages import MessageKind, Verdict

RATE_WINDOW: Final = timedelta(minutes=10)
LATE_BEHIND_ANSWERED: Final = timedelta(seconds=60)  # up to that a message joins the next turn

_TYPED: Final = frozenset({MessageKind.TEXT, MessageKind.MEDIA})  # kinds whose text the customer wrote


@dataclass(frozen=True)
class Heard:
    """A message with its words read once. The label of a button is ours and is not read."""

    message: Unjudged
    locales: Sequence[Locale]

    @cached_property
    def words(self) -> Reading:
        return read(self.message.text if self.message.kind in _TYPED else "", self.locales)

    @cached_property
    def locale(self) -> str | None:
        return self.words.locale()


Guard = Callable[[Heard, Facts], Judged | None]


def judge(
    messages: Sequence[Unjudged],
    facts: Facts,
    locales: Sequence[Locale],
    *,
    again: Sequence[Unjudged] = (),
) -> Judgement:
    """Decides messages of one conversation one after another; each sees the snapshot the one before left.

    `messages` are in the channel's order (`in_order`); `locales` are the business's, its default first. `again`: messages
    judged before, whose text was edited since; they come first, and their own old words count for nothing.
    """
    anew: list[Judged] = []
    for message in again:
        decision, facts = _judge_again(Heard(message, locales), facts)
        anew.append(decision)
    judged: list[Judged] = []
    said_at: list[datetime] = []  # the channel's seconds of the customer's messages in this batch
    before = facts.messages_in_10_min
    for message in messages:
        if said_at:
            lately = len(said_at) - bisect_left(said_at, message.channel_at - RATE_WINDOW)
            facts = replace(facts, messages_in_10_min=before + lately)
        decision, facts = _judge_one(Heard(message, locales), facts)
        judged.append(decision)
        if from_customer(message, facts) and decision.reason is not Reason.DUPLICATE:
            said_at.append(message.channel_at.replace(microsecond=0))
    after = replace(facts, messages_in_10_min=before + len(said_at))
    return Judgement(judged=tuple(judged), again=tuple(anew), after=after)


def in_order(messages: Sequence[Unjudged]) -> list[Unjudged]:
    """The channel's order: its timestamp by the second, then arrival, which is the order given."""
    return sorted(messages, key=lambda message: message.channel_at.replace(microsecond=0))


def _judge_one(heard: Heard, facts: Facts) -> tuple[Judged, Facts]:
    released = takeover_is_over(heard.message, facts)
    if released:
        facts = replace(facts, in_handoff=False, takeover_ends_at=None)
    decision = next((spoken for guard in GUARDS if (spoken := guard(heard, facts))), None) or _plain(heard)
    if released:
        decision = replace(decision, releases=True)
    return decision, following(heard.message, decision, facts)


def _judge_again(heard: Heard, facts: Facts) -> tuple[Judged, Facts]:
    """One that is in the snapshot already, with the words it had."""
    at, before = heard.message.received_at, facts.messages_in_10_min
    others = tuple(said for said in facts.last_said if said.received_at != at)
    decision, after = _judge_one(
        heard, replace(facts, last_said=others, messages_in_10_min=max(before - 1, 0))
    )
    said_now = tuple(
        replace(said, text=heard.message.text) if said.received_at == at else said for said in facts.last_said
    )
    return decision, replace(after, last_said=said_now, messages_in_10_min=before)


def _plain(heard: Heard) -> Judged:
    kind = heard.message.kind
    return Judged(
        message=heard.message.id,
        verdict=Verdict.TURN,
        customer_spoke=True,
        flag=kind is MessageKind.MEDIA,
        closes_window=kind is MessageKind.BUTTON,
        locale=heard.locale,
    )


# The guards, in the order of the table


def duplicate(heard: Heard, facts: Facts) -> Judged | None:
    return _stored(heard, Reason.DUPLICATE) if heard.message.id in facts.seen else None


def system_message(heard: Heard, _: Facts) -> Judged | None:
    """What the channel says itself, reactions, edits and deletions, and what was taken back: nobody spoke."""
    if heard.message.deleted:
        return _stored(heard, Reason.DELETION)
    match heard.message.kind:
        case MessageKind.EDIT:
            return _stored(heard, Reason.EDIT)
        case MessageKind.DELETION:
            return _stored(heard, Reason.DELETION)
        case MessageKind.SYSTEM:
            return _stored(heard, Reason.SYSTEM_MESSAGE)
        case MessageKind.REACTION:
            return _stored(heard, Reason.REACTION)
        case _:
            return None


def from_me(heard: Heard, facts: Facts) -> Judged | None:
    """Our own send coming back is noted; a person who typed on the phone takes over, or stays."""
    if heard.message.kind is not MessageKind.ECHO:
        return None
    if heard.message.from_us:
        return _stored(heard, Reason.FROM_ME)
    if facts.in_handoff:
        goes_on = facts.takeover_ends_at is not None
        return _stored(heard, Reason.OWNER_TAKEOVER if goes_on else Reason.FROM_ME)
    return replace(_stored(heard, Reason.OWNER_TAKEOVER), handoff=True, clears_action=True)


def self_echo(heard: Heard, facts: Facts) -> Judged | None:
    return _stored(heard, Reason.SELF_ECHO) if heard.message.sender in facts.own_addresses else None


def group(heard: Heard, _: Facts) -> Judged | None:
    return _stored(heard, Reason.GROUP) if heard.message.kind is MessageKind.GROUP else None


def consent(heard: Heard, facts: Facts) -> Judged | None:
    """The channel says so, or the whole message is such a word; CANCEL only where the carrier takes it, which hears SMS alone."""
    said_by_channel = heard.message.opt_word
    cancel = signs.is_cancel(heard.words)
    carrier = facts.carrier_takes_cancel and not heard.message.sender.startswith(WHATSAPP_OVER_TWILIO)
    if said_by_channel == "opt_out" or signs.opts_out(heard.words) or (cancel and carrier):
        return _consent(heard, Reason.OPT_OUT, flag=cancel)
    if facts.opted_out and (said_by_channel == "opt_in" or signs.opts_in(heard.words)):
        answered_by_carrier = carrier or said_by_channel is not None
        return _consent(heard, Reason.OPT_IN, notice=None if answered_by_carrier else Notice.OPTED_IN)
    return None


def opted_out(heard: Heard, facts: Facts) -> Judged | None:
    return _stored(heard, Reason.OPTED_OUT) if facts.opted_out else None


def channel_disabled(heard: Heard, facts: Facts) -> Judged | None:
    return None if facts.account_on else _stored(heard, Reason.CHANNEL_DISABLED)


def autonomy_off(heard: Heard, facts: Facts) -> Judged | None:
    return _stored(heard, Reason.AUTONOMY_OFF) if facts.mode is Mode.OFF else None


def handoff_active(heard: Heard, facts: Facts) -> Judged | None:
    return _stored(heard, Reason.HANDOFF_ACTIVE) if facts.in_handoff else None


def handoff_requested(heard: Heard, _: Facts) -> Judged | None:
    if not signs.asks_for_person(heard.words):
        return None
    return _handoff(heard, Reason.HANDOFF_REQUESTED, Notice.HANDOFF_REQUESTED, customer_spoke=True)


def loop(heard: Heard, facts: Facts) -> Judged | None:
    """A machine at the other end. Handed over silently: a word of ours would be answered."""
    message, words = heard.message, heard.words
    if message.auto_reply or signs.answers_by_itself(words):
        return _handoff(heard, Reason.LOOP)
    if message.kind is not MessageKind.TEXT or signs.answers(words):
        return None
    if signs.repeats_itself(words, message.received_at, facts) or (
        signs.answers_too_quickly(message.received_at, facts, heard.locales)
    ):
        return _handoff(heard, Reason.LOOP)
    return None


def rate_limited(heard: Heard, facts: Facts) -> Judged | None:
    if facts.messages_in_10_min < facts.rate_per_10_min:
        return None
    return _handoff(heard, Reason.RATE_LIMITED, Notice.RATE_LIMITED)


def stale(heard: Heard, facts: Facts) -> Judged | None:
    message, answered_at = heard.message, facts.newest_answered_at
    too_old = message.received_at - message.channel_at > facts.stale_after
    overtaken = answered_at is not None and answered_at - message.channel_at > LATE_BEHIND_ANSWERED
    return _stored(heard, Reason.STALE, flag=True) if too_old or overtaken else None


def unsupported(heard: Heard, _: Facts) -> Judged | None:
    """Nothing to answer in words: it joins the burst, and the turn says what works."""
    kind = heard.message.kind
    if kind is not MessageKind.UNSUPPORTED and not (kind in _TYPED and heard.words.blank):
        return None
    return replace(_plain(heard), reason=Reason.UNSUPPORTED)


def budget(heard: Heard, facts: Facts) -> Judged | None:
    return _handoff(heard, Reason.BUDGET, Notice.BUDGET) if facts.cap_reached else None


GUARDS: Final[tuple[Guard, ...]] = (
    duplicate,
    system_message,
    from_me,
    self_echo,
    group,
    consent,
    opted_out,
    channel_disabled,
    autonomy_off,
    handoff_active,
    handoff_requested,
    loop,
    rate_limited,
    stale,
    unsupported,
    budget,
)


# What a decision looks like


def _stored(heard: Heard, reason: Reason, *, flag: bool = False) -> Judged:
    return Judged(
        message=heard.message.id, verdict=Verdict.STORED, reason=reason, flag=flag, locale=heard.locale
    )


def _consent(heard: Heard, reason: Reason, *, flag: bool = False, notice: Notice | None = None) -> Judged:
    leaves = reason is Reason.OPT_OUT
    return Judged(
        message=heard.message.id,
        verdict=Verdict.CONSENT,
        reason=reason,
        customer_spoke=True,
        opt_out=leaves,
        clears_action=leaves,
        notice=notice,
        flag=flag,
        locale=heard.locale,
    )


def _handoff(
    heard: Heard, reason: Reason, notice: Notice | None = None, *, customer_spoke: bool = False
) -> Judged:
    return Judged(
        message=heard.message.id,
        verdict=Verdict.HANDOFF,
        reason=reason,
        customer_spoke=customer_spoke,
        handoff=True,
        clears_action=True,
        notice=notice,
        locale=heard.locale,
    )
