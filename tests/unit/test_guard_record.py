"""What a judgement makes of a conversation's row: sequence, due time, window, and every consequence."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.guard.core.record import BURST_MAX, Case, Record, Row, record
from services.guard.core.verdict import Facts, Judged, Judgement, Notice, Reason, Unjudged
from shared.autonomy import Mode
from shared.ids import ActionId, BusinessId, ConversationId, MessageId, OutboundId
from shared.messages import MessageKind, Verdict
from tests.support.factories import NOON

WINDOW = timedelta(seconds=2)
ACTION = ActionId(UUID(int=7))
DRAFT = OutboundId(UUID(int=8))


def later(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def number(n: int) -> MessageId:
    return MessageId(UUID(int=n))


def judged(n: int = 1, **fields: Any) -> Judged:
    """What the guard says to message n: a plain one, left to a turn."""
    plain = {"message": number(n), "verdict": Verdict.TURN, "customer_spoke": True}
    return Judged(**(plain | fields))


def stored(n: int = 1, **fields: Any) -> Judged:
    return judged(
        n, **({"verdict": Verdict.STORED, "customer_spoke": False, "reason": Reason.STALE} | fields)
    )


def handed_over(n: int = 1, **fields: Any) -> Judged:
    return judged(
        n, **({"verdict": Verdict.HANDOFF, "handoff": True, "clears_action": True, "customer_spoke": False,
               "reason": Reason.RATE_LIMITED} | fields)
    )  # fmt: skip


def opt_out(n: int = 1) -> Judged:
    return judged(n, verdict=Verdict.CONSENT, reason=Reason.OPT_OUT, opt_out=True, clears_action=True)


def opt_in(n: int = 1) -> Judged:
    return judged(n, verdict=Verdict.CONSENT, reason=Reason.OPT_IN, opt_out=False, notice=Notice.OPTED_IN)


def row(**fields: Any) -> Row:
    plain = {"version": 3, "unguarded": 1, "guarded_seq": 0, "customer_seq": 0, "handled_seq": 0}
    return Row(**(plain | fields))


def recorded(
    *decisions: Judged,
    seen: Row | None = None,
    after: Facts | None = None,
    **fields: Any,
) -> Record:
    """The record of these decisions. `after` is the snapshot the judgement left, by default that of a bot's chat."""
    messages = tuple(
        Unjudged(id=one.message, kind=MessageKind.TEXT, text="x", channel_at=NOON, received_at=NOON)
        for one in decisions
    )
    plain = {
        "conversation": ConversationId(UUID(int=99)),
        "business": BusinessId(1),
        "business_slug": "clinic",
        "row": seen or row(unguarded=len(decisions)),
        "facts": Facts(mode=Mode.AUTO),
        "messages": messages,
        "now": NOON,
        "locales": ("en", "ro"),
        "window": WINDOW,
    }
    case = Case(**(plain | fields))
    return record(case, Judgement(judged=decisions, after=after or Facts(mode=Mode.AUTO)))


# Sequence


def test_each_message_gets_the_next_number_and_is_subtracted() -> None:
    made = recorded(judged(1), stored(2), judged(3), seen=row(unguarded=3, guarded_seq=5, customer_seq=4))
    assert made.row.guarded_seq == 8
    assert made.row.unguarded == 0
    assert made.row.version == 4


def test_what_came_in_while_these_were_judged_stays_unguarded() -> None:
    assert recorded(judged(), seen=row(unguarded=3)).row.unguarded == 2


def test_customer_seq_rises_to_the_last_message_in_which_the_customer_spoke() -> None:
    assert recorded(judged(1), stored(2), judged(3), stored(4), seen=row(guarded_seq=5)).row.customer_seq == 8


def test_customer_seq_stays_when_nobody_spoke() -> None:
    assert recorded(stored(), seen=row(guarded_seq=5, customer_seq=4)).row.customer_seq == 4


@pytest.mark.parametrize(
    ("decisions", "handled_seq"),
    [
        pytest.param([judged(1)], 2, id="a plain message leaves it"),
        pytest.param([stored(1)], 2, id="a stored message leaves it"),
        pytest.param([handed_over(1)], 6, id="a handoff takes what came before and itself"),
        pytest.param([judged(1), handed_over(2)], 7, id="also a plain message before it"),
        pytest.param([opt_out(1)], 6, id="an opt-out"),
        pytest.param([opt_in(1)], 6, id="an opt-in"),
        pytest.param([opt_in(1), judged(2)], 6, id="what follows an opt-in is still owed"),
    ],
)
def test_handled_seq(decisions: list[Judged], handled_seq: int) -> None:
    made = recorded(*decisions, seen=row(unguarded=2, guarded_seq=5, customer_seq=5, handled_seq=2))
    assert made.row.handled_seq == handled_seq


# When the agent must look


DUE = [
    # id, decisions, row seen, due in seconds (None: nothing owed), window opened in seconds
    ("the first message opens a window", [judged()], row(), 2, 0),
    ("a second one in the window puts it off", [judged()],
     row(guarded_seq=1, customer_seq=1, due_at=later(1), window_opened_at=later(-1)), 2, -1),
    ("at most ten seconds after the first", [judged()],
     row(guarded_seq=5, customer_seq=5, due_at=later(0.5), window_opened_at=later(-9)), 1, -9),
    ("a window that has run out does not open again", [judged()],
     row(guarded_seq=1, customer_seq=1, due_at=later(-1), window_opened_at=later(-3)), 0, -3),
    ("a window that ends now has run out", [judged()],
     row(guarded_seq=1, customer_seq=1, due_at=later(0), window_opened_at=later(-2)), 0, -2),
    ("a press closes the window", [judged(1, closes_window=True)], row(), 0, 0),
    ("a press among others closes it", [judged(1), judged(2, closes_window=True), judged(3)], row(unguarded=3), 0, 0),
    ("a stored message owes nothing", [stored()], row(), None, None),
    ("a stored message leaves an open window alone", [stored()],
     row(guarded_seq=1, customer_seq=1, due_at=later(1), window_opened_at=later(-1)), 1, -1),
    ("a stored message leaves a due turn due", [stored()],
     row(guarded_seq=1, customer_seq=1, due_at=later(-1), window_opened_at=later(-3)), -1, -3),
    ("while a turn is under way a new message opens a window of its own", [judged()],
     row(guarded_seq=1, customer_seq=1, due_at=later(-5), leased=True), 2, 0),
    ("two of them share it", [judged()],
     row(guarded_seq=2, customer_seq=2, due_at=later(1), window_opened_at=later(-9.5), leased=True), 0.5, -9.5),
    ("a stored message leaves the lease its due time", [stored()],
     row(guarded_seq=1, customer_seq=1, handled_seq=1, due_at=later(-5), leased=True), -5, None),
    ("the window of an answered burst is not taken up", [judged()],
     row(guarded_seq=1, customer_seq=1, handled_seq=1, window_opened_at=later(-60)), 2, 0),
    ("a handoff ends what was owed", [handed_over()],
     row(guarded_seq=1, customer_seq=1, due_at=later(1), window_opened_at=later(-1)), None, None),
    ("an opt-out ends what was owed", [opt_out()],
     row(guarded_seq=1, customer_seq=1, due_at=later(1), window_opened_at=later(-1)), None, None),
    ("an opt-in owes nothing", [opt_in()], row(opted_out_at=later(-60)), None, None),
    ("what follows an opt-in opens a window", [opt_in(1), judged(2)], row(unguarded=2, opted_out_at=later(-60)), 2, 0),
    ("a handoff under a lease leaves the lease its due time", [handed_over()],
     row(guarded_seq=1, customer_seq=1, due_at=later(-5), leased=True), -5, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("decisions", "seen", "due_s", "opened_s"), [case[1:] for case in DUE], ids=[case[0] for case in DUE]
)
def test_when_the_agent_must_look(
    decisions: list[Judged], seen: Row, due_s: float | None, opened_s: float | None
) -> None:
    made = recorded(*decisions, seen=seen)
    assert made.row.due_at == (None if due_s is None else later(due_s))
    assert made.row.window_opened_at == (None if opened_s is None else later(opened_s))


def test_with_a_window_of_nought_every_message_is_due_at_once() -> None:
    made = recorded(judged(), window=timedelta())
    assert made.row.due_at == NOON
    assert made.due_now


def test_a_window_that_is_open_is_not_rung() -> None:
    assert not recorded(judged()).due_now


def test_what_owes_nothing_is_not_rung() -> None:
    assert not recorded(stored()).due_now


@given(
    gaps=st.lists(st.floats(0, 6), min_size=1, max_size=12),
    window_s=st.floats(0, 10),
)
def test_however_long_a_customer_goes_on_writing_a_turn_is_due_ten_seconds_after_the_first(
    gaps: list[float], window_s: float
) -> None:
    """One message after another, each judged by itself: the window never runs past ten seconds, nor backwards."""
    seen, now, first = row(), NOON, NOON
    for gap in gaps:
        if seen.due_at is not None and seen.due_at <= now:
            break  # an agent would have taken it
        made = recorded(judged(), seen=seen, now=now, window=timedelta(seconds=window_s)).row
        assert made.due_at is not None
        assert now <= made.due_at <= first + BURST_MAX
        assert made.window_opened_at == first
        seen = replace(made, unguarded=1)
        now += timedelta(seconds=gap)


# The 30-second rule and the 24-hour window


def test_unanswered_since_is_the_first_message_that_was_owed() -> None:
    assert recorded(judged()).row.unanswered_since == NOON
    assert recorded(judged(), seen=row(unanswered_since=later(-9))).row.unanswered_since == later(-9)
    assert recorded(stored()).row.unanswered_since is None
    assert recorded(stored(), seen=row(unanswered_since=later(-9))).row.unanswered_since == later(-9)


def told(kind: MessageKind, n: int = 1, *, at: float = 0, received: float = 5) -> Unjudged:
    return Unjudged(id=number(n), kind=kind, text="", channel_at=later(at), received_at=later(received))


def last_customer_at(*messages: Unjudged, decision: Judged | None = None, seen: float | None = -60) -> datetime | None:  # fmt: skip
    before = row(last_customer_at=None if seen is None else later(seen))
    decisions = [replace(decision or stored(), message=one.id) for one in messages]
    return recorded(*decisions, seen=before, messages=messages).row.last_customer_at


def test_last_customer_at_is_the_channel_s_time_of_the_customer_s_newest_message_also_of_one_that_was_stored() -> (
    None
):
    assert last_customer_at(told(MessageKind.TEXT, at=-9)) == later(-9)
    assert last_customer_at(told(MessageKind.TEXT, at=-9), told(MessageKind.MEDIA, 2, at=-3)) == later(-3)
    assert last_customer_at(told(MessageKind.TEXT, at=-9), decision=judged(), seen=None) == later(-9)


def test_last_customer_at_never_goes_back_and_lies_never_beyond_our_receipt() -> None:
    assert last_customer_at(told(MessageKind.TEXT, at=-600)) == later(-60)
    assert last_customer_at(told(MessageKind.TEXT, at=3600, received=5)) == later(5)


@pytest.mark.parametrize("kind", MessageKind)
def test_what_is_none_of_the_customer_s_messages_opens_no_window(kind: MessageKind) -> None:
    theirs = kind in {"text", "button", "media", "reaction", "unsupported"}
    assert last_customer_at(told(kind)) == (NOON if theirs else later(-60))


def test_a_message_from_ourselves_opens_no_window() -> None:
    echo = stored(reason=Reason.SELF_ECHO)
    assert last_customer_at(told(MessageKind.TEXT), decision=echo) == later(-60)


# Handoff


HANDED = Facts(mode=Mode.AUTO, in_handoff=True)


def test_a_handoff_opens_with_its_reason_and_a_new_epoch() -> None:
    made = recorded(handed_over(reason=Reason.LOOP), seen=row(epoch=4), after=HANDED)
    assert made.handoff_reason is Reason.LOOP
    assert made.row.epoch == 5
    assert made.in_handoff
    assert not made.plain


def test_a_message_in_handoff_opens_no_other() -> None:
    made = recorded(stored(reason=Reason.HANDOFF_ACTIVE), seen=row(epoch=4), after=HANDED)
    assert made.handoff_reason is None
    assert made.row.epoch == 4
    assert made.in_handoff
    assert made.plain


def test_a_takeover_that_ran_out_is_released() -> None:
    made = recorded(judged(releases=True), seen=row(epoch=4))
    assert made.released
    assert not made.in_handoff
    assert made.row.epoch == 5
    assert made.row.due_at == later(2)


def test_released_and_handed_over_in_one_message_are_two_epochs() -> None:
    made = recorded(handed_over(releases=True), seen=row(epoch=4), after=HANDED)
    assert made.released
    assert made.handoff_reason is Reason.RATE_LIMITED
    assert made.row.epoch == 6


def test_a_handoff_released_in_the_same_batch_leaves_none_open() -> None:
    made = recorded(handed_over(1), judged(2, releases=True), seen=row(epoch=4, unguarded=2))
    assert made.handoff_reason is None
    assert made.released
    assert made.row.epoch == 6
    assert made.row.due_at == later(2)


def test_of_two_handoffs_in_a_batch_the_last_one_stands() -> None:
    made = recorded(
        handed_over(1, reason=Reason.OWNER_TAKEOVER),
        handed_over(2, reason=Reason.LOOP, releases=True),
        seen=row(unguarded=2),
        after=HANDED,
    )
    assert made.handoff_reason is Reason.LOOP


# Consent


def test_an_opt_out_is_stamped_once() -> None:
    out = Facts(mode=Mode.AUTO, opted_out=True)
    assert recorded(opt_out(), after=out).row.opted_out_at == NOON
    again = recorded(opt_out(), seen=row(opted_out_at=later(-60)), after=out)
    assert again.row.opted_out_at == later(-60)


def test_an_opt_in_takes_the_stamp_away() -> None:
    made = recorded(opt_in(), seen=row(opted_out_at=later(-60)))
    assert made.row.opted_out_at is None
    assert not made.plain
    assert made.notices == ((number(1), Notice.OPTED_IN),)


def test_an_opt_out_is_never_plain() -> None:
    assert not recorded(opt_out(), after=Facts(mode=Mode.AUTO, opted_out=True)).plain


# What else ends or is said


@pytest.mark.parametrize(
    ("decision", "ends"),
    [
        pytest.param(judged(), False, id="a plain message"),
        pytest.param(stored(), False, id="a stored one"),
        pytest.param(judged(clears_action=True), True, id="one that clears it"),
        pytest.param(handed_over(), True, id="a handoff"),
        pytest.param(opt_out(), True, id="an opt-out"),
    ],
)
def test_a_pending_action_ends_with(decision: Judged, *, ends: bool) -> None:
    assert recorded(decision, action=ACTION).action_ends is ends
    assert not recorded(decision, action=None).action_ends


def test_what_waits_for_an_operator_ends_with_an_opt_out_alone() -> None:
    waiting: dict[str, Any] = {"action": ACTION, "action_waits_for_operator": True}
    for decision in (handed_over(), judged(clears_action=True), judged(), stored()):
        assert not recorded(decision, **waiting).action_ends
    assert recorded(opt_out(), after=Facts(mode=Mode.AUTO, opted_out=True), **waiting).action_ends
    assert recorded(handed_over(1), opt_out(2), **waiting).action_ends


# A decision that is owed its turn

OWED = {"decision_owed": True, "due_at": NOON}


@pytest.mark.parametrize(
    "decisions",
    [(judged(),), (stored(),), (stored(1), judged(2)), (opt_in(),)],
    ids=["a message", "nothing for a turn", "both", "an opt-in"],
)
def test_a_decision_stays_due_whatever_is_judged(decisions: tuple[Judged, ...]) -> None:
    made = recorded(*decisions, seen=row(unguarded=len(decisions), **OWED))
    assert (made.row.due_at, made.row.decision_owed) == (NOON, True)
    assert made.due_now


def test_a_decision_does_not_wait_for_a_burst() -> None:
    """It became due while the guard looked at a message that opens a window."""
    made = recorded(judged(), seen=row(decision_owed=True, due_at=later(5)))
    assert made.row.due_at == NOON


def test_a_decision_does_not_wait_for_a_turn_under_way_either() -> None:
    made = recorded(stored(), seen=row(decision_owed=True, leased=True, due_at=later(-3)))
    assert made.row.due_at == later(-3)


@pytest.mark.parametrize(
    ("decision", "after"),
    [
        (handed_over(), Facts(mode=Mode.AUTO, in_handoff=True)),
        (stored(reason=Reason.HANDOFF_ACTIVE), Facts(mode=Mode.AUTO, in_handoff=True)),
        (opt_out(), Facts(mode=Mode.AUTO, opted_out=True)),
    ],
    ids=["handed over", "in handoff", "opted out"],
)
def test_a_decision_waits_while_the_bot_may_not_speak(decision: Judged, after: Facts) -> None:
    made = recorded(decision, seen=row(**OWED), after=after)
    assert (made.row.due_at, made.row.decision_owed) == (None, True)


@pytest.mark.parametrize(
    ("decision", "superseded"),
    [
        pytest.param(judged(), (DRAFT,), id="the customer wrote"),
        pytest.param(stored(), (), id="nobody spoke"),
        pytest.param(handed_over(), (DRAFT,), id="a handoff"),
    ],
)
def test_drafts_are_superseded_when(decision: Judged, superseded: tuple[OutboundId, ...]) -> None:
    assert recorded(decision, drafts=(DRAFT,)).drafts_superseded == superseded


def test_notices_are_queued_with_the_message_they_answer() -> None:
    made = recorded(handed_over(1, notice=Notice.RATE_LIMITED), stored(2), seen=row(unguarded=2))
    assert made.notices == ((number(1), Notice.RATE_LIMITED),)


def test_flags_carry_the_reason_or_that_there_is_media() -> None:
    made = recorded(stored(1, flag=True), judged(2, flag=True), judged(3), seen=row(unguarded=3))
    assert made.flags == ((number(1), "stale"), (number(2), "media"))


PLAIN = [
    ("plain messages", [judged(1), stored(2)], {}, True),
    ("a handoff", [handed_over()], {}, False),
    ("a release", [judged(releases=True)], {}, False),
    ("an action ends", [judged(clears_action=True)], {"action": ACTION}, False),
    ("a draft is superseded", [judged()], {"drafts": (DRAFT,)}, False),
    ("a notice", [judged(notice=Notice.BUDGET)], {}, False),
    ("a flag", [stored(flag=True)], {}, False),
]


@pytest.mark.parametrize(
    ("decisions", "fields", "plain"), [case[1:] for case in PLAIN], ids=[case[0] for case in PLAIN]
)
def test_the_plain_form_holds_nothing_but_verdicts(
    decisions: list[Judged], fields: dict[str, Any], *, plain: bool
) -> None:
    after = HANDED if decisions[0].handoff else None
    assert recorded(*decisions, seen=row(unguarded=2), after=after, **fields).plain is plain


# Locale


@pytest.mark.parametrize(
    ("recognised", "known", "hint", "locale"),
    [
        pytest.param(["en", "ro"], "en", None, "ro", id="the last one recognised"),
        pytest.param(["ro", None], "en", None, "ro", id="a text that tells nothing changes nothing"),
        pytest.param([None], "ro", "en", "ro", id="what was known goes before the hint"),
        pytest.param([None], None, "ro-RO", "ro", id="the channel's hint"),
        pytest.param([None], None, "RO", "ro", id="in any spelling"),
        pytest.param([None], None, "fr", None, id="a language the business has not got"),
        pytest.param([None], None, "", None, id="an empty hint"),
        pytest.param([None], None, None, None, id="no hint"),
    ],
)
def test_the_locale(
    recognised: list[str | None], known: str | None, hint: str | None, locale: str | None
) -> None:
    decisions = [judged(n, locale=name) for n, name in enumerate(recognised, start=1)]
    assert recorded(*decisions, seen=row(locale=known, unguarded=2), hint=hint).row.locale == locale


# Whatever is judged

DECISIONS = st.lists(
    st.sampled_from([judged, stored, handed_over, opt_out, opt_in, lambda n: judged(n, closes_window=True)]),
    min_size=1,
    max_size=6,
).map(lambda makers: [make(n) for n, make in enumerate(makers, start=1)])
INSTANTS = st.none() | st.floats(-30, 30).map(later)


@given(
    decisions=DECISIONS,
    due_at=INSTANTS,
    opened=INSTANTS,
    leased=st.booleans(),
    owed=st.integers(0, 3),
    handled=st.integers(0, 3),
)
def test_sequences_only_rise_and_what_is_owed_has_a_due_time(
    *,
    decisions: list[Judged],
    due_at: datetime | None,
    opened: datetime | None,
    leased: bool,
    owed: int,
    handled: int,
) -> None:
    seen = row(
        unguarded=len(decisions) + 1,
        guarded_seq=6,
        customer_seq=handled + owed,
        handled_seq=handled,
        due_at=due_at or (NOON if owed else None),
        window_opened_at=opened,
        leased=leased,
    )
    made = recorded(*decisions, seen=seen)
    after = made.row
    assert after.version == seen.version + 1
    assert after.guarded_seq == 6 + len(decisions)
    assert after.unguarded == 1
    assert seen.customer_seq <= after.customer_seq <= after.guarded_seq
    assert seen.handled_seq <= after.handled_seq <= after.guarded_seq
    last_turn = max(
        (seq for seq, one in enumerate(decisions, start=7) if one.verdict is Verdict.TURN), default=0
    )
    if last_turn > after.handled_seq or after.customer_seq > after.handled_seq:
        assert after.due_at is not None
    elif not leased:
        assert after.due_at is None
