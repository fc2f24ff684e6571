"""What a turn's words mean to a pending action: the table of the specification, and that nothing else confirms."""

from datetime import datetime, timedelta
from itertools import product
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.agent.core.confirmation import Answer
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
    WaitForPrompt,
    meet,
)
from services.agent.core.turn import Heard, PromptState, Taken
from shared.ids import ActionId, MessageId
from shared.messages import MessageKind
from tests.support.factories import NOON, heard, pending

ACTION = pending().id
OTHER = ActionId(UUID(int=0xBAD))
CLEARS, LEAVES = NewRequest(clears=True), NewRequest(clears=False)
NEVER_SENT = {"at_send_seq": None, "sent_at": None}


def said(
    text: str = "yes", *, seq: int = 2, at: datetime | None = None, received: datetime | None = None
) -> Taken:
    at = at or NOON + timedelta(seconds=30)
    return Taken(messages=(heard(seq, text, channel_at=at, received_at=received or at),), seq_to=seq)


def pressed(
    button: str | None = None, *, seq: int = 2, at: datetime | None = None, press: Press = Press.CONFIRM
) -> Taken:
    at = at or NOON + timedelta(seconds=30)
    id_ = Button(action=ACTION, step=1, press=press).encode() if button is None else button
    one = heard(seq, "Confirm", kind=MessageKind.BUTTON, button=id_, channel_at=at, received_at=at)
    return Taken(messages=(one,), seq_to=seq)


def confirmed(seq: int = 2, *, by_button: bool) -> Confirmed:
    return Confirmed(MessageId(UUID(int=seq)), by_button=by_button)


# The table: the prompt's state, against a plain yes and against its button. Seq 1 is older than the prompt, 2 is newer.

TABLE = [
    # prompt, its sending, yes older, yes newer, button
    (PromptState.DRAFT, NEVER_SENT, PromptIsTheAnswer(), CLEARS, PromptIsTheAnswer()),
    (PromptState.QUEUED, NEVER_SENT, WaitForPrompt(), CLEARS, PromptIsTheAnswer()),
    (PromptState.SENDING, {}, WaitForPrompt(), WaitForPrompt(), confirmed(by_button=True)),
    (PromptState.UNKNOWN, {}, Repeat(), Repeat(), confirmed(by_button=True)),
    (PromptState.SENT, {}, PromptIsTheAnswer(), confirmed(by_button=False), confirmed(by_button=True)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("state", "sending", "older", "newer", "button"), TABLE, ids=[row[0].value for row in TABLE]
)
def test_a_prompt_meets_a_yes_and_its_button(
    state: PromptState, sending: dict[str, object], older: Meeting, newer: Meeting, button: Meeting
) -> None:
    action = pending(prompt_state=state, **sending)
    assert meet(action, said(seq=1), Answer.YES) == older
    assert meet(action, said(seq=2), Answer.YES) == newer
    assert meet(action, pressed(seq=2), Answer.OTHER) == button


def test_the_table_has_every_state_of_a_prompt() -> None:
    assert [row[0] for row in TABLE] == list(PromptState)


WORDS = [
    # the turn's text is, answer, turn, outcome
    ("an explicit yes", Answer.YES, said(), confirmed(by_button=False)),
    ("a no", Answer.NO, said("no"), Declined()),
    ("a soft yes, which nothing confirms", Answer.SOFT_YES, said("ok"), CLEARS),
    ("anything else", Answer.OTHER, said("yes but at 3pm"), CLEARS),
    ("the button of this action", Answer.OTHER, pressed(), confirmed(by_button=True)),
    ("its cancel button", Answer.OTHER, pressed(press=Press.CANCEL), Declined()),
    ("the button of another action", Answer.OTHER, pressed(Button(action=OTHER, step=1, press=Press.CONFIRM).encode()),
     NoLongerOpen()),
    ("the cancel button of another action", Answer.OTHER,
     pressed(Button(action=OTHER, step=1, press=Press.CANCEL).encode()), NoLongerOpen()),
    ("the button of another step", Answer.OTHER, pressed(Button(action=ACTION, step=2, press=Press.CONFIRM).encode()),
     NoLongerOpen()),
    ("a button that is none of ours", Answer.OTHER, pressed("buy-now"), NoLongerOpen()),
    ("a button whose label says yes", Answer.YES, pressed("buy-now"), NoLongerOpen()),
    ("a button without an id", Answer.OTHER, pressed(""), NoLongerOpen()),
]  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "taken", "outcome"), [row[1:] for row in WORDS], ids=[row[0] for row in WORDS]
)
def test_a_pending_action_meets(answer: Answer, taken: Taken, outcome: Meeting) -> None:
    assert meet(pending(), taken, answer) == outcome


@pytest.mark.parametrize("answer", Answer)
def test_words_meet_nothing_when_nothing_is_pending(answer: Answer) -> None:
    assert meet(None, said(), answer) == LEAVES


@pytest.mark.parametrize("press", Press)
def test_a_button_meets_nothing_when_nothing_is_pending(press: Press) -> None:
    assert meet(None, pressed(press=press), Answer.OTHER) == NoLongerOpen()


@pytest.mark.parametrize("answer", Answer)
def test_a_message_that_quotes_another_confirms_nothing(answer: Answer) -> None:
    quoting = heard(2, "yes", quoted="something", channel_at=NOON + timedelta(seconds=30))
    assert meet(pending(), Taken(messages=(quoting,), seq_to=2), answer) == CLEARS


@pytest.mark.parametrize("answer", Answer)
def test_the_words_under_a_picture_are_a_request_and_no_answer(answer: Answer) -> None:
    captioned = heard(2, "yes", kind=MessageKind.MEDIA, channel_at=NOON + timedelta(seconds=30))
    assert meet(pending(), Taken(messages=(captioned,), seq_to=2), answer) == CLEARS


def test_a_picture_without_words_takes_nothing_from_a_yes() -> None:
    at = NOON + timedelta(seconds=30)
    picture = heard(3, "", kind=MessageKind.MEDIA, channel_at=at, received_at=at, unsupported=True)
    with_it = Taken(messages=(*said().messages, picture), seq_to=3)
    assert meet(pending(), with_it, Answer.YES) == confirmed(3, by_button=False)


# Order


def test_the_first_message_of_the_turn_must_be_newer_than_the_prompt() -> None:
    """Two fragments, the first written before the prompt was sent: neither confirms."""
    at = NOON + timedelta(seconds=30)
    straddling = Taken(messages=(heard(1, "yes", channel_at=at), heard(2, "yes", channel_at=at)), seq_to=2)
    assert meet(pending(), straddling, Answer.YES) == PromptIsTheAnswer()


def test_a_burst_of_yes_is_confirmed_by_its_last_message() -> None:
    at = {"channel_at": NOON + timedelta(seconds=30), "received_at": NOON + timedelta(seconds=30)}
    burst = Taken(messages=(heard(2, "yes", **at), heard(3, "yes", **at)), seq_to=3)
    assert meet(pending(), burst, Answer.YES) == confirmed(3, by_button=False)


@pytest.mark.parametrize("taken", [said(seq=5), pressed(seq=5)], ids=["a yes", "a press"])
def test_what_was_judged_before_the_prompt_was_sent_confirms_nothing(taken: Taken) -> None:
    assert meet(pending(at_send_seq=5), taken, Answer.YES) == PromptIsTheAnswer()
    assert isinstance(meet(pending(at_send_seq=4), taken, Answer.YES), Confirmed)


def test_a_yes_stamped_before_the_second_of_the_sending_confirms_nothing() -> None:
    sent = pending(sent_at=NOON + timedelta(seconds=10, milliseconds=700))
    assert meet(sent, said(at=NOON + timedelta(seconds=7)), Answer.YES) == PromptIsTheAnswer()
    assert meet(sent, said(at=NOON + timedelta(seconds=8)), Answer.YES) == confirmed(by_button=False)


def test_a_press_is_proof_whatever_the_channel_s_clock_says() -> None:
    assert meet(pending(), pressed(at=NOON - timedelta(minutes=5)), Answer.OTHER) == confirmed(by_button=True)


# Expiry

MINUTES_15, DAY = timedelta(minutes=15), timedelta(days=1)
MOMENT = timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("after", "outcome"),
    [
        pytest.param(timedelta(), confirmed(by_button=False), id="at once"),
        pytest.param(MINUTES_15, confirmed(by_button=False), id="15 minutes"),
        pytest.param(MINUTES_15 + MOMENT, Recheck(), id="more than 15 minutes"),
        pytest.param(DAY, Recheck(), id="a day"),
        pytest.param(DAY + MOMENT, CLEARS, id="more than a day"),
    ],
)
def test_a_yes_expires(after: timedelta, outcome: Meeting) -> None:
    assert meet(pending(), said(at=NOON + after), Answer.YES) == outcome


@pytest.mark.parametrize(
    ("after", "outcome"),
    [(MINUTES_15, confirmed(by_button=True)), (MINUTES_15 + MOMENT, Recheck()), (DAY + MOMENT, CLEARS)],
    ids=["15 minutes", "more than 15 minutes", "more than a day"],
)
def test_a_press_expires(after: timedelta, outcome: Meeting) -> None:
    assert meet(pending(), pressed(at=NOON + after), Answer.OTHER) == outcome


@pytest.mark.parametrize(
    ("stated", "received", "outcome"),
    [
        pytest.param(5, 60, confirmed(by_button=False), id="a backlog of ours does not expire a timely yes"),
        pytest.param(61, 60, Recheck(), id="a stamp after our receipt is not believed"),
        pytest.param(20, 21, Recheck(), id="late by both"),
        pytest.param(0, 1, confirmed(by_button=False), id="in the moment of the sending"),
    ],
)
def test_age_is_the_channel_s_time_where_it_can_be_believed(
    stated: float, received: float, outcome: Meeting
) -> None:
    taken = said(at=NOON + timedelta(minutes=stated), received=NOON + timedelta(minutes=received))
    assert meet(pending(), taken, Answer.YES) == outcome


def test_an_expired_yes_that_is_older_than_the_prompt_is_still_older() -> None:
    assert meet(pending(), said(seq=1, at=NOON + DAY), Answer.YES) == PromptIsTheAnswer()


# Whatever comes together

STATES = st.sampled_from(PromptState)
ANSWERS = st.sampled_from(Answer)


@given(
    state=STATES,
    answer=ANSWERS,
    seq=st.integers(1, 4),
    at_send_seq=st.none() | st.integers(1, 4),
    minutes=st.floats(-5, 3000),
    press=st.none() | st.sampled_from([*Press, "other action", "other step", "rubbish"]),
    quoted=st.booleans(),
)
def test_nothing_else_confirms(
    *,
    state: PromptState,
    answer: Answer,
    seq: int,
    at_send_seq: int | None,
    minutes: float,
    press: str | None,
    quoted: bool,
) -> None:
    at = NOON + timedelta(minutes=minutes)
    sent_at = None if at_send_seq is None else NOON
    action = pending(prompt_state=state, at_send_seq=at_send_seq, sent_at=sent_at)
    buttons = {
        "other action": Button(action=OTHER, step=1, press=Press.CONFIRM).encode(),
        "other step": Button(action=ACTION, step=2, press=Press.CONFIRM).encode(),
        "rubbish": "rubbish",
    }
    if press is None:
        one: Heard = heard(seq, channel_at=at, received_at=at, quoted="x" if quoted else None)
        taken = Taken(messages=(one,), seq_to=seq)
    else:
        taken = pressed(
            buttons.get(press), seq=seq, at=at, press=Press.CANCEL if press == "cancel" else Press.CONFIRM
        )
    outcome = meet(action, taken, answer)
    if isinstance(outcome, Confirmed):
        assert at_send_seq is not None
        assert seq > at_send_seq
        assert timedelta(minutes=minutes) <= MINUTES_15
        if press is None:
            assert answer is Answer.YES
            assert state is PromptState.SENT
            assert not quoted
            assert not outcome.by_button
        else:
            assert press == Press.CONFIRM
            assert state in (PromptState.SENDING, PromptState.UNKNOWN, PromptState.SENT)
            assert outcome.by_button


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
    assert found is None or found.step != 1
