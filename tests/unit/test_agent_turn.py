"""Which messages a turn takes, and what the model is told was said before."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.agent.core.heard import Heard, Taken, take
from services.agent.core.history import HISTORY_MESSAGES, history
from services.agent.core.turn import Reply
from shared.llm.port import AssistantText, UserText
from shared.messages import MessageKind, Verdict
from tests.support.factories import NOON, heard, pending, prompt, turn

SECOND = timedelta(seconds=1)


def press(seq: int) -> Heard:
    return heard(seq, "Confirm", kind=MessageKind.BUTTON, button="pa:x:1:confirm")


def stored(seq: int, **fields: Any) -> Heard:
    return heard(seq, verdict=Verdict.STORED, **fields)


def seqs(taken: Taken) -> list[int]:
    return [one.seq for one in taken.messages]


TAKES = [
    # id, messages, handled so far, seqs taken, covered up to
    ("one message", [heard(1)], 0, [1], 1),
    ("a burst as one", [heard(1), heard(2), heard(3)], 0, [1, 2, 3], 3),
    ("only what no turn took yet", [heard(1), heard(2), heard(3)], 2, [3], 3),
    ("not what the guard stored, which it covers", [heard(1), stored(2), heard(3), stored(4)], 0, [1, 3], 4),
    ("not consent nor handoff words", [heard(1, verdict=Verdict.CONSENT), heard(2, verdict=Verdict.HANDOFF), heard(3)],
     0, [3], 3),
    ("a press by itself", [press(1)], 0, [1], 1),
    ("a press, and not what comes after it", [press(1), heard(2)], 0, [1], 1),
    ("a press, and stored messages after it", [press(1), stored(2), heard(3)], 0, [1], 2),
    ("what comes before a press, first", [heard(1), heard(2), press(3), heard(4)], 0, [1, 2], 2),
    ("stored messages before a press are covered", [heard(1), stored(2), press(3)], 0, [1], 2),
    ("of two presses the first", [press(1), press(2)], 0, [1], 1),
    ("the last press with all that is stored after it", [press(1), stored(2)], 0, [1], 2),
    ("nothing when nothing is new", [heard(1)], 1, [], 1),
    ("nothing when nothing was said", [], 0, [], 0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("messages", "after", "taken", "seq_to"), [case[1:] for case in TAKES], ids=[case[0] for case in TAKES]
)
def test_a_turn_takes(messages: list[Heard], after: int, taken: list[int], seq_to: int) -> None:
    share = take(messages, after=after)
    assert seqs(share) == taken
    assert share.seq_to == seq_to


MESSAGES = st.lists(st.sampled_from([heard, press, stored]), max_size=12).map(
    lambda makers: [make(seq) for seq, make in enumerate(makers, start=1)]
)


@given(MESSAGES)
def test_turn_after_turn_every_message_is_taken_once_and_in_order(messages: list[Heard]) -> None:
    handled, taken = 0, list[int]()
    last = max((one.seq for one in messages if one.verdict is Verdict.TURN), default=0)
    while handled < last:
        share = take(messages, after=handled)
        assert share.messages, "a turn that takes nothing would go on for ever"
        assert share.seq_to > handled
        presses = [one for one in share.messages if one.kind is MessageKind.BUTTON]
        assert not presses or len(share.messages) == 1, "a press is a turn by itself"
        taken += seqs(share)
        handled = share.seq_to
    assert taken == [one.seq for one in messages if one.verdict is Verdict.TURN]


def test_the_button_of_a_turn_is_its_press() -> None:
    assert take([press(1)], after=0).button == press(1)
    assert take([heard(1), press(2)], after=0).button is None


def test_the_texts_leave_out_what_has_none() -> None:
    share = take([heard(1, "Yes"), heard(2, "", unsupported=True), heard(3, "please")], after=0)
    assert share.texts == ("Yes", "please")
    assert not share.nothing_to_read


def test_a_turn_of_stickers_has_nothing_to_read() -> None:
    assert take([heard(1, "", unsupported=True), heard(2, "", unsupported=True)], after=0).nothing_to_read


def test_a_turn_is_late_when_its_newest_message_is_older_than_the_limit() -> None:
    received = {"received_at": NOON}
    limit = timedelta(hours=1)
    assert not turn(heard(1, **received), now=NOON + limit).is_late
    assert turn(heard(1, **received), now=NOON + limit + SECOND).is_late
    assert not turn(heard(1, **received), heard(2, received_at=NOON + limit), now=NOON + 2 * limit).is_late


# History


def reply(text: str, *, basis: int, state: str = "sent", after_s: float = 0) -> Reply:
    return Reply(
        state=state, text=text, basis_seq=basis, created_at=NOON + timedelta(seconds=basis + after_s)
    )


def test_history_is_told_in_order_each_reply_after_what_it_answers() -> None:
    told = history(
        turn(
            heard(1, "Hi"),
            heard(2, "A place on Monday?"),
            heard(3, "Yes"),
            handled_seq=2,
            replies=(reply("Hello!", basis=1), reply("At ten?", basis=2)),
        )
    )
    assert told == [
        UserText(text="Hi"),
        AssistantText(text="Hello!"),
        UserText(text="A place on Monday?"),
        AssistantText(text="At ten?"),
        UserText(text="Yes"),
    ]


@pytest.mark.parametrize("state", ["superseded", "discarded", "draft"])
def test_history_has_no_reply_that_the_customer_never_saw(state: str) -> None:
    assert history(turn(replies=(reply("Never seen", basis=0, state=state),))) == [UserText(text="Hello")]


def test_history_has_no_queued_reply_that_the_new_message_supersedes() -> None:
    """It would be taken for an answer, and nobody would ever get one."""
    queued = reply("Not yet sent", basis=1, state="queued")
    told = history(turn(heard(1, "First"), heard(2, "Second"), handled_seq=1, replies=(queued,)))
    assert told == [UserText(text="First"), UserText(text="Second")]


def test_history_has_a_queued_reply_that_nothing_supersedes() -> None:
    receipt = replace(reply("Booked", basis=0, state="queued"), firm=True)
    told = history(turn(heard(1), replies=(receipt,)))
    assert told == [AssistantText(text="Booked"), UserText(text="Hello")]


@pytest.mark.parametrize("state", ["sending", "sent", "delivered", "read", "unknown"])
def test_history_has_replies_that_left_or_will(state: str) -> None:
    told = history(turn(heard(1), replies=(reply("Seen", basis=0, state=state),)))
    assert told == [AssistantText(text="Seen"), UserText(text="Hello")]


def test_history_has_what_a_person_typed_on_the_phone_as_ours() -> None:
    told = history(turn(stored(1, text="I am Dr. Pop", kind=MessageKind.ECHO), heard(2, "Good")))
    assert told == [AssistantText(text="I am Dr. Pop"), UserText(text="Good")]


@pytest.mark.parametrize("kind", [MessageKind.SYSTEM, MessageKind.REACTION, MessageKind.GROUP])
def test_history_leaves_out_what_nobody_said_to_us(kind: MessageKind) -> None:
    assert history(turn(stored(1, text="x", kind=kind), heard(2, "Hi"))) == [UserText(text="Hi")]


def test_history_names_what_has_no_text() -> None:
    assert history(turn(heard(1, "", kind=MessageKind.MEDIA))) == [UserText(text="(media without text)")]


def test_history_ends_at_the_last_message_of_the_turn() -> None:
    assert history(turn(heard(1, "Before"), press(2), heard(3, "After"))) == [UserText(text="Before")]


def test_history_has_the_last_twenty_messages() -> None:
    told = history(turn(*(heard(seq, str(seq)) for seq in range(1, 40)), handled_seq=38))
    assert told == [UserText(text=str(seq)) for seq in range(20, 40)]
    assert len(told) == HISTORY_MESSAGES


def test_history_is_a_day_long() -> None:
    now = NOON + timedelta(days=1)
    old = heard(1, "Old", received_at=NOON - SECOND)
    edge = heard(2, "Edge", received_at=NOON)
    assert history(turn(old, edge, heard(3, "New", received_at=now), now=now)) == [
        UserText(text="Edge"),
        UserText(text="New"),
    ]


# A turn for a decision


def test_a_turn_for_a_decision_takes_no_message() -> None:
    one = replace(turn(heard(1), heard(2), handled_seq=1), decides=True)
    assert one.taken == Taken(messages=(), seq_to=1)
    assert not one.is_late


# What was said after a prompt was sent


def asked_at(seq: int | None) -> Any:
    return pending(prompt=prompt(at_send_seq=seq))


SINCE = [
    # id, messages before the turn's own, which is 4, said since the prompt of seq 2
    ("nothing", [heard(1), heard(2)], False),
    ("a message", [heard(3)], True),
    ("a button", [press(3)], True),
    ("a sticker", [heard(3, "", unsupported=True)], False),
    ("what the guard stored", [stored(3)], False),
    ("an opt-in word", [heard(3, verdict=Verdict.CONSENT)], False),
]


@pytest.mark.parametrize(("before", "since"), [case[1:] for case in SINCE], ids=[case[0] for case in SINCE])
def test_whether_something_was_said_since_the_prompt(before: list[Heard], since: bool) -> None:
    one = turn(*before, heard(4), handled_seq=3, pending=asked_at(2))
    assert one.said_since_the_prompt is since


def test_without_a_prompt_that_was_sent_nothing_was_said_since() -> None:
    for action in (None, pending(prompt=None), asked_at(None)):
        assert not turn(heard(3), heard(4), handled_seq=3, pending=action).said_since_the_prompt


# A button pressed again


def pressing(seq: int, button: str = "pa:x:1:confirm") -> Heard:
    return heard(seq, "Confirm", kind=MessageKind.BUTTON, button=button)


AGAIN = [
    ("the same just before", [pressing(1)], True),
    ("another just before", [pressing(1, "pa:y:1:confirm")], False),
    ("words in between", [pressing(1), heard(2)], False),
    ("stored messages in between", [pressing(1), stored(2)], True),
    ("nothing before", [], False),
]


@pytest.mark.parametrize(("before", "again"), [case[1:] for case in AGAIN], ids=[case[0] for case in AGAIN])
def test_whether_a_button_is_pressed_again(before: list[Heard], again: bool) -> None:
    assert turn(*before, pressing(4), handled_seq=3).presses_again is again


def test_words_press_nothing_again() -> None:
    assert not turn(pressing(1), heard(4), handled_seq=3).presses_again
