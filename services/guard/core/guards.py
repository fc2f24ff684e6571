"""The guards: what becomes of a message before any model is asked. Sixteen, in a table; the first that speaks decides."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final

from services.guard.core.verdict import Facts, Judged, Judgement, Notice, Reason, Said, Unjudged
from shared.autonomy import Mode
from shared.locales import Locale, Reading, read
from shared.messages import MessageKind, Verdict
from shared.words import near_same, without_ending

SAME_TEXTS_MAX: Final = 2  # a third near-same one is a loop
SAME_WITHIN: Final = timedelta(minutes=10)
SAME_CHARS_MIN: Final = 8  # "hello?" thrice is impatience
QUICK_ANSWERS_MAX: Final = 3  # a fourth in a row is a loop
QUICK_WITHIN: Final = timedelta(seconds=3)
RATE_WINDOW: Final = timedelta(minutes=10)
LATE_BEHIND_ANSWERED: Final = timedelta(seconds=60)  # up to that a message joins the next turn
SAID_KEPT: Final = 3  # in the snapshot: what the loop guard looks at

_TYPED: Final = frozenset({MessageKind.TEXT, MessageKind.MEDIA})  # kinds whose text the customer wrote
_NOT_THE_CUSTOMER: Final = frozenset(
    {MessageKind.SYSTEM, MessageKind.REACTION, MessageKind.ECHO, MessageKind.GROUP}
)


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


def judge(messages: Sequence[Unjudged], facts: Facts, locales: Sequence[Locale]) -> Judgement:
    """Decides messages of one conversation one after another; each sees the snapshot the one before left.

    `messages` are in the channel's order (`in_order`); `locales` are the business's, its default first.
    """
    judged: list[Judged] = []
    said_at: list[datetime] = []  # the channel's times of the customer's messages in this batch
    before = facts.messages_in_10_min
    for message in messages:
        if said_at:
            facts = replace(facts, messages_in_10_min=before + _said_since(message.channel_at - RATE_WINDOW, said_at))
        decision, facts = _judge_one(Heard(message, locales), facts)
        judged.append(decision)
        if _from_customer(message, facts) and decision.reason is not Reason.DUPLICATE:
            said_at.append(message.channel_at)
    return Judgement(judged=tuple(judged), after=replace(facts, messages_in_10_min=before + len(said_at)))


def in_order(messages: Sequence[Unjudged]) -> list[Unjudged]:
    """The channel's order: its timestamp by the second, then arrival, which is the order given."""
    return sorted(messages, key=lambda message: message.channel_at.replace(microsecond=0))


def _judge_one(heard: Heard, facts: Facts) -> tuple[Judged, Facts]:
    released = _takeover_is_over(heard.message, facts)
    if released:
        facts = replace(facts, in_handoff=False, takeover_ends_at=None)
    decision = next((spoken for guard in GUARDS if (spoken := guard(heard, facts))), None) or _plain(heard)
    if released:
        decision = replace(decision, releases=True)
    return decision, _after(heard.message, decision, facts)


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
    """What the channel says itself, and reactions: nobody spoke."""
    match heard.message.kind:
        case MessageKind.SYSTEM:
            return _stored(heard, Reason.SYSTEM_MESSAGE)
        case MessageKind.REACTION:
            return _stored(heard, Reason.REACTION)
        case _:
            return None


def from_me(heard: Heard, facts: Facts) -> Judged | None:
    """Our own send coming back is noted; a person who typed on the phone takes over, or goes on having taken over."""
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
    """The channel's word, or a whole message that is one. CANCEL is none unless the carrier takes it as one."""
    said_by_channel = heard.message.opt_word
    out, cancel = _opt_out_word(heard, facts)
    if said_by_channel == "opt_out" or out:
        return _consent(heard, Reason.OPT_OUT, flag=cancel)
    if facts.opted_out and (said_by_channel == "opt_in" or _opt_in_word(heard)):
        answered_by_carrier = facts.carrier_takes_cancel or said_by_channel is not None
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
    if not any(_asks_for_person(locale, normal) for locale, normal in heard.words.forms):
        return None
    return _handoff(heard, Reason.HANDOFF_REQUESTED, Notice.HANDOFF_REQUESTED, customer_spoke=True)


def loop(heard: Heard, facts: Facts) -> Judged | None:
    """A machine at the other end. Handed over silently: a word of ours would be answered."""
    if heard.message.auto_reply or _has_marks(heard.words):
        return _handoff(heard, Reason.LOOP)
    if heard.message.kind is not MessageKind.TEXT or _answers(heard.words):
        return None
    if _repeats_itself(heard, facts) or _answers_too_quickly(heard, facts):
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
