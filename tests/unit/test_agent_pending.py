"""What a turn's words mean to a pending action: the two tables of the specification, and that nothing else confirms."""

from datetime import datetime, timedelta
from itertools import product
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.agent.core.confirmation import Answer
from services.agent.core.heard import Part, Taken
from services.agent.core.pending import (
    Button,
    Confirmed,
    Declined,
    Meeting,
    NewRequest,
    NoLongerOpen,
    Press,
    PromptIsTheAnswer,
    Recheck,
    Repeat,
    StillWaiting,
    WaitForPrompt,
    Withdrawn,
    meet,
)
from services.agent.core.turn import Pending, PromptState, WaitsFor
from shared.ids import ActionId, MessageId
from shared.messages import MessageKind, PartKind
from tests.support.factories import NOON, heard, pending, prompt

ACTION = pending().id
OTHER = ActionId(UUID(int=0xBAD))
SOON = NOON + timedelta(seconds=30)
OF_PROMPT = "prompt-on-the-channel"
ELSEWHERE = "another-message"

CLEARS, LEAVES = NewRequest(clears=True), NewRequest(clears=False)
ONCE_MORE = Repeat(counts=True, keeps_clock=True)  # a soft yes: its fifteen minutes stay
ONCE_AGAIN = Repeat(counts=True, keeps_clock=False)  # nobody knows whether it arrived
AIMED_ELSEWHERE = Repeat(counts=False, keeps_clock=True)
OPERATORS = pending(waits_for=WaitsFor.OPERATOR)
NEVER_SENT: dict[str, Any] = {"at_send_seq": None, "sent_at": None, "provider_ids": frozenset()}


def asked(
    state: PromptState = PromptState.SENT, *, sending: dict[str, Any] | None = None, **fields: Any
) -> Pending:
    """An action whose prompt is in that state; seq 1 is older than its sending, 2 is newer."""
    if sending is None:
        sending = NEVER_SENT if state in (PromptState.DRAFT, PromptState.QUEUED) else {}
    return pending(prompt=prompt(state=state, **sending), **fields)


def said(
    text: str = "yes",
    *,
    seq: int = 2,
    at: datetime = SOON,
    received: datetime | None = None,
    **fields: Any,
) -> Taken:
    one = heard(seq, text, channel_at=at, received_at=received or at, **fields)
    return Taken(messages=(one,), seq_to=seq)


def pressed(
    button: str | None = None,
    *,
    seq: int = 2,
    at: datetime = SOON,
    press: Press = Press.CONFIRM,
    step: int = 1,
    action: ActionId = ACTION,
) -> Taken:
    id_ = Button(action=action, step=step, press=press).encode() if button is None else button
    return said("Confirm", seq=seq, at=at, kind=MessageKind.BUTTON, button=id_)


def confirmed(seq: int = 2, *, settles: bool = False) -> Confirmed:
    return Confirmed(MessageId(UUID(int=seq)), settles=settles)


# The first table: the prompt's state, against a plain yes, a yes that quotes it, and its button

TABLE = [
    # the prompt is, a yes older than it, a yes newer, one that quotes it, its button
    (PromptState.DRAFT, PromptIsTheAnswer(), CLEARS, CLEARS, PromptIsTheAnswer()),
    (PromptState.QUEUED, WaitForPrompt(), CLEARS, CLEARS, PromptIsTheAnswer()),
    (PromptState.SENDING, WaitForPrompt(), WaitForPrompt(), confirmed(settles=True), confirmed(settles=True)),
    (PromptState.UNKNOWN, ONCE_AGAIN, ONCE_AGAIN, confirmed(settles=True), confirmed(settles=True)),
    (PromptState.SENT, PromptIsTheAnswer(), confirmed(), confirmed(settles=True), confirmed(settles=True)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("state", "older", "newer", "quoting", "button"), TABLE, ids=[row[0].value for row in TABLE]
)
def test_a_prompt_meets_a_yes_a_quote_of_it_and_its_button(
    state: PromptState, older: Meeting, newer: Meeting, quoting: Meeting, button: Meeting
) -> None:
    action = asked(state)
    assert meet(action, said(seq=1), Answer.YES) == older
    assert meet(action, said(seq=2), Answer.YES) == newer
    assert meet(action, said(quoted=OF_PROMPT), Answer.YES) == quoting
    assert meet(action, pressed(), Answer.OTHER) == button


def test_the_table_has_every_state_of_a_prompt() -> None:
    assert [row[0] for row in TABLE] == list(PromptState)


@pytest.mark.parametrize("answer", [Answer.YES, Answer.SOFT_YES, Answer.NO])
def test_what_quotes_a_message_nobody_knows_yet_waits_for_a_prompt_that_is_being_sent(answer: Answer) -> None:
    """Its id on the channel comes with the settling: until then nobody can tell that it is not the prompt."""
    sending = asked(PromptState.SENDING, sending={"provider_ids": frozenset()})
    assert meet(sending, said(quoted=OF_PROMPT), answer) == WaitForPrompt()


def test_a_prompt_of_unknown_outcome_is_repeated_once() -> None:
    assert meet(asked(PromptState.UNKNOWN, repeats=1), said(), Answer.YES) == CLEARS
    assert meet(asked(PromptState.UNKNOWN), said(), Answer.SOFT_YES) == ONCE_AGAIN


def test_a_quote_of_the_question_s_first_asking_is_one_of_its_prompt() -> None:
    twice = asked(repeats=1, sending={"provider_ids": frozenset({"first", "second"})})
    for one in ("first", "second"):
        assert meet(twice, said(quoted=one), Answer.YES) == confirmed(settles=True)


# The second table: the turn's text

WORDS = [
    # the turn's text is, answer, turn, outcome
    ("an explicit yes", Answer.YES, said(), confirmed()),
    ("a no", Answer.NO, said("no"), Declined()),
    ("a no that quotes the prompt", Answer.NO, said("no", quoted=OF_PROMPT), Declined()),
    ("a soft yes", Answer.SOFT_YES, said("ok"), ONCE_MORE),
    ("a soft yes that quotes the prompt", Answer.SOFT_YES, said("ok", quoted=OF_PROMPT), ONCE_MORE),
    ("a reaction, typed by a phone", Answer.REACTION, said("Liked “…YES…”"), ONCE_MORE),
    ("anything else", Answer.OTHER, said("yes but at 3pm"), CLEARS),
    ("anything else that quotes the prompt", Answer.OTHER, said("at 3pm", quoted=OF_PROMPT), CLEARS),
    ("anything else that quotes something else", Answer.OTHER, said("at 3pm", quoted=ELSEWHERE), CLEARS),
    ("the button of this action", Answer.OTHER, pressed(), confirmed(settles=True)),
    ("its cancel button", Answer.OTHER, pressed(press=Press.CANCEL), Declined()),
    ("the button of another action", Answer.OTHER, pressed(action=OTHER), NoLongerOpen()),
    ("the cancel button of another action", Answer.OTHER, pressed(action=OTHER, press=Press.CANCEL), NoLongerOpen()),
    ("the button of a step not asked for yet", Answer.OTHER, pressed(step=2), NoLongerOpen()),
    ("a yes that quotes another message", Answer.YES, said(quoted=ELSEWHERE), AIMED_ELSEWHERE),
    ("a soft yes that quotes another message", Answer.SOFT_YES, said("ok", quoted=ELSEWHERE), AIMED_ELSEWHERE),
    ("a no that quotes another message", Answer.NO, said("no", quoted=ELSEWHERE), AIMED_ELSEWHERE),
    ("a button that is none of ours", Answer.OTHER, pressed("buy-now"), NoLongerOpen()),
    ("a button whose label says yes", Answer.YES, pressed("buy-now"), NoLongerOpen()),
    ("a button without an id", Answer.OTHER, pressed(""), NoLongerOpen()),
]  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "taken", "outcome"), [row[1:] for row in WORDS], ids=[row[0] for row in WORDS]
)
def test_a_pending_action_meets(answer: Answer, taken: Taken, outcome: Meeting) -> None:
    assert meet(pending(), taken, answer) == outcome


def test_a_second_soft_yes_is_a_new_request() -> None:
    assert meet(asked(repeats=1), said("ok"), Answer.SOFT_YES) == CLEARS


def test_quotes_of_something_else_are_repeated_as_often_as_they_come() -> None:
    assert meet(asked(repeats=1), said(quoted=ELSEWHERE), Answer.YES) == AIMED_ELSEWHERE


def test_of_two_quotes_both_must_be_of_the_prompt() -> None:
    at = {"channel_at": SOON, "received_at": SOON}
    one, two = heard(2, "yes", quoted=OF_PROMPT, **at), heard(3, "yes", quoted=ELSEWHERE, **at)
    assert meet(pending(), Taken(messages=(one, two), seq_to=3), Answer.YES) == AIMED_ELSEWHERE


@pytest.mark.parametrize("answer", [one for one in Answer if one is not Answer.REACTION])
def test_words_meet_nothing_when_nothing_is_pending(answer: Answer) -> None:
    assert meet(None, said(), answer) == LEAVES


def test_a_reaction_is_a_request_for_nothing() -> None:
    assert meet(None, said("Liked “…”"), Answer.REACTION) == PromptIsTheAnswer()


@pytest.mark.parametrize("press", Press)
def test_a_button_meets_nothing_when_nothing_is_pending(press: Press) -> None:
    assert meet(None, pressed(press=press), Answer.OTHER) == NoLongerOpen()


@pytest.mark.parametrize("answer", Answer)
@pytest.mark.parametrize("quoted", [None, OF_PROMPT])
def test_the_words_under_a_picture_are_a_request_and_no_answer(answer: Answer, quoted: str | None) -> None:
    assert meet(pending(), said(kind=MessageKind.MEDIA, quoted=quoted), answer) == CLEARS


def test_a_caption_beside_a_yes_makes_it_a_request() -> None:
    at = {"channel_at": SOON, "received_at": SOON}
    captioned = heard(3, "yes", kind=MessageKind.MEDIA, **at)
    both = Taken(messages=(*said().messages, captioned), seq_to=3)
    assert meet(pending(), both, Answer.YES) == CLEARS


def test_a_picture_without_words_takes_nothing_from_a_yes() -> None:
    picture = heard(3, "", kind=MessageKind.MEDIA, channel_at=SOON, received_at=SOON, unsupported=True)
    with_it = Taken(messages=(*said().messages, picture), seq_to=3)
    assert meet(pending(), with_it, Answer.YES) == confirmed(3)


# Words that the customer did not type just so

VOICE = Part(n=1, kind=PartKind.AUDIO, words="yes")
PLACE = Part(n=1, kind=PartKind.LOCATION, words="44.43, 26.1")
NOT_TYPED: list[tuple[str, dict[str, Any]]] = [
    ("edited", {"edited": True}),
    ("forwarded", {"forwarded": True}),
    ("heard by a machine", {"text": "", "kind": MessageKind.MEDIA, "unsupported": True, "parts": (VOICE,)}),
]
HOW = pytest.mark.parametrize("how", [row[1] for row in NOT_TYPED], ids=[row[0] for row in NOT_TYPED])
BARE = pytest.mark.parametrize("answer", [Answer.YES, Answer.SOFT_YES, Answer.NO])


@HOW
@BARE
@pytest.mark.parametrize("quoted", [None, OF_PROMPT, ELSEWHERE])
@pytest.mark.parametrize("repeats", [0, 1])
def test_words_that_were_not_typed_answer_nothing_and_are_asked_about_once_more(
    how: dict[str, Any], answer: Answer, quoted: str | None, repeats: int
) -> None:
    for state in (PromptState.SENT, PromptState.UNKNOWN):
        assert meet(asked(state, repeats=repeats), said(**how, quoted=quoted), answer) == AIMED_ELSEWHERE


@HOW
@BARE
@pytest.mark.parametrize(
    ("state", "seq", "outcome"),
    [
        (PromptState.DRAFT, 2, PromptIsTheAnswer()),
        (PromptState.QUEUED, 2, PromptIsTheAnswer()),
        (PromptState.SENDING, 2, WaitForPrompt()),
        (PromptState.UNKNOWN, 1, PromptIsTheAnswer()),
        (PromptState.SENT, 1, PromptIsTheAnswer()),
    ],
)
def test_nor_do_they_before_the_customer_has_the_prompt(
    how: dict[str, Any], answer: Answer, state: PromptState, seq: int, outcome: Meeting
) -> None:
    assert meet(asked(state), said(**how, seq=seq), answer) == outcome


@HOW
def test_one_of_them_beside_a_yes_of_their_own_is_no_yes(how: dict[str, Any]) -> None:
    both = Taken(messages=(*said().messages, *said(seq=3, **how).messages), seq_to=3)
    assert meet(pending(), both, Answer.YES) == AIMED_ELSEWHERE


@HOW
def test_whatever_else_they_say_is_a_request(how: dict[str, Any]) -> None:
    assert meet(pending(), said(**how), Answer.OTHER) == CLEARS
    assert meet(OPERATORS, said(**how), Answer.OTHER) == LEAVES


@HOW
@BARE
def test_they_take_nothing_back_that_waits_for_an_operator(how: dict[str, Any], answer: Answer) -> None:
    assert meet(OPERATORS, said(**how), answer) == StillWaiting()


@given(
    st.lists(
        st.tuples(st.booleans(), st.booleans(), st.booleans(), st.sampled_from([None, OF_PROMPT, ELSEWHERE])),
        min_size=1, max_size=4,
    ),
    st.sampled_from(Answer), st.sampled_from(PromptState), st.sampled_from(WaitsFor), st.integers(1, 3), st.integers(0, 2),
)  # fmt: skip
def test_nothing_but_the_customer_s_own_typing_ever_confirms_or_declines(
    how: list[tuple[bool, bool, bool, str | None]], answer: Answer, state: PromptState, waits_for: WaitsFor, seq: int, repeats: int
) -> None:  # fmt: skip
    messages = tuple(
        heard(seq + n, "yes", edited=edited, forwarded=forwarded, parts=(VOICE,) if voice else (), quoted=quoted, channel_at=SOON, received_at=SOON)
        for n, (edited, forwarded, voice, quoted) in enumerate(how)
    )  # fmt: skip
    met = meet(asked(state, waits_for=waits_for, repeats=repeats), Taken(messages=messages, seq_to=9), answer)
    if any(any(one[:3]) for one in how):
        assert not isinstance(met, Confirmed | Declined | Withdrawn | Recheck)


def test_a_place_alone_leaves_the_action_and_asks_once_more() -> None:
    place = said("", kind=MessageKind.MEDIA, unsupported=True, parts=(PLACE,))
    assert meet(pending(), place, Answer.OTHER) == AIMED_ELSEWHERE
    assert meet(None, place, Answer.OTHER) == LEAVES
    assert meet(OPERATORS, place, Answer.OTHER) == LEAVES


def test_a_place_beside_a_yes_takes_nothing_from_it() -> None:
    place = heard(3, "", kind=MessageKind.MEDIA, channel_at=SOON, received_at=SOON, unsupported=True, parts=(PLACE,))  # fmt: skip
    with_it = Taken(messages=(*said().messages, place), seq_to=3)
    assert with_it.spoken == ("yes",)
    assert meet(pending(), with_it, Answer.YES) == confirmed(3)


def test_a_recording_beside_a_yes_is_part_of_what_is_said() -> None:
    voice = Part(n=1, kind=PartKind.AUDIO, words="but at three")
    note = heard(3, "", kind=MessageKind.MEDIA, unsupported=True, parts=(voice,))
    assert Taken(messages=(*said().messages, note), seq_to=3).spoken == ("yes", "but at three")


# A reaction that came as a text answers nothing

REACTIONS = [
    ("before the prompt was sent", pending(), said(seq=1)),
    ("after the question was repeated", asked(repeats=1), said()),
    ("after its fifteen minutes", pending(), said(at=NOON + timedelta(minutes=16))),
    ("while the prompt is being sent", asked(PromptState.SENDING), said()),
    ("while the prompt waits", asked(PromptState.QUEUED), said()),
    ("while the prompt is a draft", asked(PromptState.DRAFT), said()),
]


@pytest.mark.parametrize(
    ("action", "taken"), [row[1:] for row in REACTIONS], ids=[row[0] for row in REACTIONS]
)
def test_a_reaction_does_nothing(action: Pending, taken: Taken) -> None:
    assert meet(action, taken, Answer.REACTION) == PromptIsTheAnswer()


# Two steps

SECOND = asked(confirmations_needed=2, step=2)


def test_the_second_step_is_confirmed_by_its_own_button() -> None:
    assert meet(SECOND, pressed(step=2), Answer.OTHER) == confirmed(settles=True)


@pytest.mark.parametrize("minutes", [1, 16, 60 * 30])
def test_the_button_of_the_first_step_confirms_nothing_more(minutes: int) -> None:
    at = NOON + timedelta(minutes=minutes)
    assert meet(SECOND, pressed(step=1, at=at), Answer.OTHER) == AIMED_ELSEWHERE


@pytest.mark.parametrize("step", [1, 2])
def test_either_step_s_cancel_button_declines(step: int) -> None:
    assert meet(SECOND, pressed(step=step, press=Press.CANCEL), Answer.OTHER) == Declined()


def test_the_button_of_the_step_asked_for_is_ignored_while_nobody_can_have_seen_it() -> None:
    queued = asked(PromptState.QUEUED, confirmations_needed=2, step=2)
    assert meet(queued, pressed(step=2), Answer.OTHER) == PromptIsTheAnswer()
    assert meet(queued, pressed(step=2, press=Press.CANCEL), Answer.OTHER) == PromptIsTheAnswer()
    assert meet(queued, pressed(step=1), Answer.OTHER) == AIMED_ELSEWHERE
    assert meet(queued, pressed(step=1, press=Press.CANCEL), Answer.OTHER) == Declined()


# What waits for an operator

WAITING = [
    ("a yes", Answer.YES, said(), StillWaiting()),
    ("a soft yes", Answer.SOFT_YES, said("ok"), StillWaiting()),
    ("a no", Answer.NO, said("no"), Withdrawn()),
    ("a no that quotes another message", Answer.NO, said("no", quoted=ELSEWHERE), Withdrawn()),
    ("anything else", Answer.OTHER, said("and a question"), LEAVES),
    ("a caption that says no", Answer.NO, said("no", kind=MessageKind.MEDIA), LEAVES),
    ("a reaction", Answer.REACTION, said("Liked “…”"), PromptIsTheAnswer()),
    ("the confirm button it had", Answer.OTHER, pressed(), StillWaiting()),
    ("the cancel button it had", Answer.OTHER, pressed(press=Press.CANCEL), Withdrawn()),
    ("the cancel button of another action", Answer.OTHER, pressed(action=OTHER, press=Press.CANCEL), NoLongerOpen()),
]  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "taken", "outcome"), [row[1:] for row in WAITING], ids=[row[0] for row in WAITING]
)
def test_what_waits_for_an_operator_meets(answer: Answer, taken: Taken, outcome: Meeting) -> None:
    assert meet(OPERATORS, taken, answer) == outcome


@pytest.mark.parametrize("state", PromptState)
def test_how_far_its_notice_came_does_not_matter_to_what_waits_for_an_operator(state: PromptState) -> None:
    action = asked(state, waits_for=WaitsFor.OPERATOR)
    assert meet(action, said(), Answer.YES) == StillWaiting()
    assert meet(action, said("no"), Answer.NO) == Withdrawn()
    assert meet(pending(waits_for=WaitsFor.OPERATOR, prompt=None), said(), Answer.YES) == StillWaiting()


# Order


def test_the_first_message_of_the_turn_must_be_newer_than_the_prompt() -> None:
    """Two fragments, the first written before the prompt was sent: neither confirms."""
    at = {"channel_at": SOON, "received_at": SOON}
    straddling = Taken(messages=(heard(1, "yes", **at), heard(2, "yes", **at)), seq_to=2)
    assert meet(pending(), straddling, Answer.YES) == PromptIsTheAnswer()


def test_a_burst_of_yes_is_confirmed_by_its_last_message() -> None:
    at = {"channel_at": SOON, "received_at": SOON}
    burst = Taken(messages=(heard(2, "yes", **at), heard(3, "yes", **at)), seq_to=3)
    assert meet(pending(), burst, Answer.YES) == confirmed(3)


def test_a_yes_stamped_before_the_second_in_which_the_channel_took_the_prompt_confirms_nothing() -> None:
    """The channel's own time decides, where it said one: later than our sending, or earlier by a clock of its own."""
    for taken_at in (NOON + timedelta(seconds=20, milliseconds=700), NOON - timedelta(seconds=40)):
        sent = asked(sending={"sent_at": NOON + timedelta(seconds=2), "taken_at": taken_at})
        second = taken_at.replace(microsecond=0)
        before = second - timedelta(seconds=1)
        assert meet(sent, said(at=before), Answer.YES) == PromptIsTheAnswer()
        assert meet(sent, said("ok", at=before), Answer.SOFT_YES) == PromptIsTheAnswer()
        assert isinstance(meet(sent, said(at=second, received=NOON + timedelta(minutes=1)), Answer.YES), Confirmed)  # fmt: skip
        assert meet(sent, pressed(at=before), Answer.OTHER) == confirmed(settles=True), "it was there to be pressed"  # fmt: skip


@pytest.mark.parametrize(
    "taken", [said(seq=5), said(seq=5, quoted=OF_PROMPT), pressed(seq=5)], ids=["a yes", "a quote", "a press"]
)
def test_what_was_judged_before_the_prompt_was_sent_confirms_nothing(taken: Taken) -> None:
    assert meet(asked(sending={"at_send_seq": 5}), taken, Answer.YES) == PromptIsTheAnswer()
    assert isinstance(meet(asked(sending={"at_send_seq": 4}), taken, Answer.YES), Confirmed)


@pytest.mark.parametrize("minutes", [-60, 0, 5])
def test_no_clock_makes_up_for_the_order(minutes: int) -> None:
    taken = said(seq=5, at=NOON + timedelta(minutes=minutes))
    assert meet(asked(sending={"at_send_seq": 5}), taken, Answer.YES) == PromptIsTheAnswer()


def test_a_yes_stamped_before_the_second_of_the_sending_confirms_nothing() -> None:
    sent = asked(sending={"sent_at": NOON + timedelta(seconds=10, milliseconds=700)})
    assert meet(sent, said(at=NOON + timedelta(seconds=7)), Answer.YES) == PromptIsTheAnswer()
    assert meet(sent, said(at=NOON + timedelta(seconds=8)), Answer.YES) == confirmed()
    assert meet(sent, said("ok", at=NOON + timedelta(seconds=7)), Answer.SOFT_YES) == PromptIsTheAnswer()


@pytest.mark.parametrize(
    "taken",
    [pressed(at=NOON - timedelta(minutes=5)), said(at=NOON - timedelta(minutes=5), quoted=OF_PROMPT)],
    ids=["a press", "a quote"],
)
def test_what_names_the_prompt_is_proof_whatever_the_channel_s_clock_says(taken: Taken) -> None:
    assert meet(pending(), taken, Answer.YES) == confirmed(settles=True)


# Expiry

MINUTES_15, DAY = timedelta(minutes=15), timedelta(days=1)
MOMENT = timedelta(microseconds=1)

AGES = [
    # after the sending, what an explicit yes is; None: the confirmation
    ("at once", timedelta(), None),
    ("15 minutes", MINUTES_15, None),
    ("more than 15 minutes", MINUTES_15 + MOMENT, Recheck()),
    ("a day", DAY, Recheck()),
    ("more than a day", DAY + MOMENT, CLEARS),
]


@pytest.mark.parametrize(("after", "outcome"), [row[1:] for row in AGES], ids=[row[0] for row in AGES])
def test_a_yes_expires(after: timedelta, outcome: Meeting | None) -> None:
    at = NOON + after
    assert meet(pending(), said(at=at), Answer.YES) == (outcome or confirmed())
    assert meet(pending(), said(at=at, quoted=OF_PROMPT), Answer.YES) == (outcome or confirmed(settles=True))
    assert meet(pending(), pressed(at=at), Answer.OTHER) == (outcome or confirmed(settles=True))


def test_a_yes_too_late_is_a_new_request_when_something_was_said_since() -> None:
    late = said(at=NOON + timedelta(minutes=16))
    assert meet(pending(), late, Answer.YES, said_since=True) == CLEARS
    assert meet(pending(), said(), Answer.YES, said_since=True) == confirmed(), (
        "in time it is a yes all the same"
    )


def test_a_soft_yes_too_late_is_a_new_request() -> None:
    assert meet(pending(), said("ok", at=NOON + MINUTES_15), Answer.SOFT_YES) == ONCE_MORE
    assert meet(pending(), said("ok", at=NOON + MINUTES_15 + MOMENT), Answer.SOFT_YES) == CLEARS


@pytest.mark.parametrize(
    ("stated", "received", "outcome"),
    [
        pytest.param(5, 60, confirmed(), id="a backlog of ours does not expire a timely yes"),
        pytest.param(61, 60, Recheck(), id="a stamp after our receipt is not believed"),
        pytest.param(20, 21, Recheck(), id="late by both"),
        pytest.param(0, 1, confirmed(), id="in the moment of the sending"),
        pytest.param(-0.02, 20, Recheck(), id="a stamp before the sending is not believed"),
    ],
)
def test_age_is_the_channel_s_time_where_it_can_be_believed(
    stated: float, received: float, outcome: Meeting
) -> None:
    taken = said(at=NOON + timedelta(minutes=stated), received=NOON + timedelta(minutes=received))
    assert meet(pending(), taken, Answer.YES) == outcome


def test_a_repeated_question_keeps_the_clock_it_began_with() -> None:
    sent_again = {"at_send_seq": 3, "sent_at": NOON + timedelta(minutes=14)}
    again = asked(repeats=1, clock_from=NOON, sending=sent_again)
    assert meet(again, said(seq=4, at=NOON + MINUTES_15), Answer.YES) == confirmed(4)
    assert meet(again, said(seq=4, at=NOON + timedelta(minutes=16)), Answer.YES) == Recheck()


def test_a_question_asked_anew_has_fifteen_minutes_of_its_own() -> None:
    anew = asked(repeats=1, sending={"at_send_seq": 3, "sent_at": NOON + timedelta(minutes=14)})
    assert meet(anew, said(seq=4, at=NOON + timedelta(minutes=16)), Answer.YES) == confirmed(4)


def test_an_expired_yes_that_is_older_than_the_prompt_is_still_older() -> None:
    assert meet(pending(), said(seq=1, at=NOON + DAY), Answer.YES) == PromptIsTheAnswer()


# Whatever comes together


@given(
    state=st.sampled_from(PromptState),
    answer=st.sampled_from(Answer),
    seq=st.integers(1, 4),
    at_send_seq=st.none() | st.integers(1, 4),
    minutes=st.floats(-5, 3000),
    press=st.none() | st.sampled_from(Press),
    button=st.sampled_from(["this", "other action", "rubbish"]),
    steps=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    quoted=st.sampled_from([None, OF_PROMPT, ELSEWHERE]),
    kind=st.sampled_from([MessageKind.TEXT, MessageKind.MEDIA]),
    waits_for=st.sampled_from(WaitsFor),
    repeats=st.integers(0, 2),
    said_since=st.booleans(),
)
def test_nothing_else_confirms(
    *,
    state: PromptState,
    answer: Answer,
    seq: int,
    at_send_seq: int | None,
    minutes: float,
    press: Press | None,
    button: str,
    steps: tuple[int, int],
    quoted: str | None,
    kind: MessageKind,
    waits_for: WaitsFor,
    repeats: int,
    said_since: bool,
) -> None:
    at, (step, pressed_step) = NOON + timedelta(minutes=minutes), steps
    sending = {"at_send_seq": at_send_seq, "sent_at": None if at_send_seq is None else NOON}
    action = asked(state, sending=sending, step=step, repeats=repeats, waits_for=waits_for)
    if press is None:
        taken = said(seq=seq, at=at, quoted=quoted, kind=kind)
    else:
        of = OTHER if button == "other action" else ACTION
        id_ = "rubbish" if button == "rubbish" else None
        taken = pressed(id_, seq=seq, at=at, press=press, step=pressed_step, action=of)
    outcome = meet(action, taken, answer, said_since=said_since)
    if not isinstance(outcome, Confirmed):
        return
    assert waits_for is WaitsFor.CUSTOMER
    assert at_send_seq is not None
    assert seq > at_send_seq
    assert timedelta(minutes=minutes) <= MINUTES_15
    if press is None:
        assert answer is Answer.YES
        assert kind is MessageKind.TEXT
        assert quoted != ELSEWHERE
        assert state is PromptState.SENT or quoted == OF_PROMPT
        assert outcome.settles is (quoted == OF_PROMPT)
    else:
        assert (press, button, pressed_step) == (Press.CONFIRM, "this", step)
        assert outcome.settles
    assert state in (PromptState.SENDING, PromptState.UNKNOWN, PromptState.SENT)


# The button's id


@pytest.mark.parametrize(("step", "press"), list(product([1, 2, 9], Press)))
def test_a_button_is_read_as_it_was_written(step: int, press: Press) -> None:
    button = Button(action=ACTION, step=step, press=press)
    assert Button.decode(button.encode()) == button
    assert len(button.encode()) <= 64, "Telegram carries 64 bytes"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pa",
        "pa:::",
        f"pa:{ACTION.hex}:1",
        f"pa:{ACTION.hex}:1:confirm:more",
        f"xx:{ACTION.hex}:1:confirm",
        f"pa:{ACTION.hex}:one:confirm",
        f"pa:{ACTION.hex}:-1:confirm",
        f"pa:{ACTION.hex}:\u0661:confirm",
        f"pa:{ACTION.hex}:1:execute",
        f"pa:{ACTION.hex[:-1]}:1:confirm",
        "pa:01TESTPENDINGACTION0004:1:confirm",
        "YES",
        "pa:" + "9" * 5000 + ":1:confirm",
    ],
)
def test_what_is_no_button_is_none(text: str) -> None:
    assert Button.decode(text) is None


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    assert Button.decode(text) is None
    assert meet(pending(), pressed(text or "x"), Answer.OTHER) == NoLongerOpen()


def test_an_endless_step_is_no_step_of_ours() -> None:
    found = Button.decode(f"pa:{ACTION.hex}:{'1' * 9999}:confirm")
    assert found is None or found.step > 9
