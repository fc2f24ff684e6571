"""What edits and deletions do before a message is judged, and to one that was: values in, values out."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.guard.core.amending import Amended, Change, Concerned, Known, amend
from services.guard.core.guards import judge
from services.guard.core.record import EDITED, Case, Record, Row, record
from services.guard.core.verdict import Facts, Reason, Said, Unjudged
from shared.autonomy import Mode
from shared.ids import ActionId, BusinessId, ConversationId, MessageId
from shared.locales import load
from shared.messages import MessageKind, Verdict
from tests.support.factories import ANA, NOON

LOCALES = (load("en"), load("ro"))
ORIGINAL = "on-the-channel-1"
WINDOW = timedelta(seconds=2)
KINDS_OF_OTHERS = (MessageKind.ECHO, MessageKind.SYSTEM, MessageKind.GROUP, MessageKind.REACTION)


def later(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def message(n: int = 1, text: str = "Book 7 Dec at 10", **fields: Any) -> Unjudged:
    at = later(n)
    plain: dict[str, Any] = {
        "id": MessageId(UUID(int=n)),
        "kind": MessageKind.TEXT,
        "channel_at": at,
        "received_at": at,
        "sender": ANA,
        "channel_message_id": f"on-the-channel-{n}",
    }
    return Unjudged(text=text, **(plain | fields))


def edit(n: int = 9, text: str = "Book 7 Dec at 11", **fields: Any) -> Unjudged:
    return message(n, text, **({"kind": MessageKind.EDIT, "quoted": ORIGINAL} | fields))


def deletion(n: int = 9, **fields: Any) -> Unjudged:
    return message(n, "", **({"kind": MessageKind.DELETION, "quoted": ORIGINAL} | fields))


def known(seq: int = 1, verdict: Verdict = Verdict.TURN, **fields: Any) -> Known:
    return Known(message=message(**fields), seq=seq, verdict=verdict)


def amended(*messages: Unjudged, handled_seq: int = 0, leased: bool = False, **concerned: Any) -> Amended:
    return amend(messages, Concerned(**concerned), handled_seq=handled_seq, leased=leased)


def decided(
    *messages: Unjudged,
    concerned: Concerned | None = None,
    facts: Facts | None = None,
    action: bool = False,
    operator: bool = False,
    **row: Any,
) -> Record:
    """The whole of the guard's core. One message was judged before, and its turn is due."""
    plain: dict[str, Any] = {
        "version": 3,
        "unguarded": len(messages),
        "guarded_seq": 1,
        "customer_seq": 1,
        "handled_seq": 0,
        "due_at": later(2),
        "window_opened_at": NOON,
        "unanswered_since": NOON,
    }
    case = Case(
        conversation=ConversationId(UUID(int=0xC0)),
        business=BusinessId(1),
        business_slug="clinic",
        row=Row(**(plain | row)),
        facts=facts or Facts(mode=Mode.AUTO),
        messages=messages,
        now=later(10),
        locales=("en", "ro"),
        window=WINDOW,
        action=ActionId(UUID(int=7)) if action else None,
        action_waits_for_operator=operator,
        concerned=concerned or Concerned(known=(known(),), unanswered=(1,)),
    )
    done = amend(messages, case.concerned, handled_seq=case.row.handled_seq, leased=case.row.leased)
    again = [one.message for one in done.again]
    return record(case, judge(done.messages, case.facts, LOCALES, again=again), done)


# What no turn has taken


@pytest.mark.parametrize("edit_first", [False, True])
def test_an_unjudged_message_is_judged_by_its_new_text(*, edit_first: bool) -> None:
    batch = [edit(0) if edit_first else message(), message() if edit_first else edit()]
    done = amended(*batch)
    assert [one.text for one in done.messages] == ["Book 7 Dec at 11"] * 2
    (change,) = done.changes
    assert (change.message, change.text, change.edited_to, change.deleted_at) == (message().id, "Book 7 Dec at 11", None, None)  # fmt: skip
    assert change.edited_at == batch[0 if edit_first else 1].channel_at


def test_of_several_edits_the_last_counts_and_nothing_comes_after_a_deletion() -> None:
    assert amended(message(), edit(5, "at 11"), edit(6, "at 12")).messages[0].text == "at 12"
    gone = amended(message(), edit(5, "at 11"), deletion(6), edit(7, "at 12"))
    assert (gone.messages[0].text, gone.messages[0].deleted) == ("", True)
    assert {one.message for one in gone.changes if one.text == "" and one.deleted_at} == {
        message(n).id for n in (1, 5, 7)
    }, "an edit's copy of the words goes, too"


def test_a_judged_message_that_no_turn_has_taken_is_judged_again_under_its_seq() -> None:
    one = decided(edit())
    assert [(seq, j.verdict) for seq, j in one.again] == [(1, Verdict.TURN)]
    assert [(j.verdict, j.reason) for j in one.judged] == [(Verdict.STORED, Reason.EDIT)]
    assert one.changes == (
        Change(message=message().id, seq=1, kind=MessageKind.TEXT, text="Book 7 Dec at 11", edited_at=later(9)),
    )  # fmt: skip
    assert (one.row.guarded_seq, one.row.unguarded, one.row.customer_seq) == (2, 0, 1)
    assert one.row.due_at is not None
    assert not one.plain


def test_an_edit_prolongs_the_burst_but_not_beyond_its_end() -> None:
    assert decided(edit(), due_at=later(11), window_opened_at=later(9)).row.due_at == later(12)
    assert decided(edit(), due_at=later(11), window_opened_at=later(1)).row.due_at == later(11)


def test_an_edit_to_a_word_to_stop_opts_out_and_owes_nothing() -> None:
    one = decided(edit(text="STOP"), action=True)
    assert one.row.opted_out_at == later(10)
    assert (one.row.handled_seq, one.row.due_at) == (1, None)
    assert one.action_ends


def test_an_edit_to_a_word_to_stop_ends_what_was_fragmented_behind_it() -> None:
    concerned = Concerned(known=(known(),), unanswered=(1, 2))
    one = decided(edit(text="STOP"), guarded_seq=2, customer_seq=2, concerned=concerned)
    assert (one.row.handled_seq, one.row.due_at) == (2, None)


def test_an_edit_that_makes_nothing_to_answer_leaves_nothing_owed() -> None:
    concerned = Concerned(known=(known(),), unanswered=(1,))
    one = decided(edit(text="Hi"), concerned=concerned, facts=Facts(mode=Mode.OFF))
    assert one.again[0][1].reason is Reason.AUTONOMY_OFF
    assert (one.row.due_at, one.row.unanswered_since, one.row.handled_seq) == (None, None, 1)


def test_a_deletion_leaves_nothing_owed_but_what_else_was_said() -> None:
    one = decided(deletion())
    assert [(seq, j.verdict, j.reason) for seq, j in one.again] == [(1, Verdict.STORED, Reason.DELETION)]
    assert (one.row.due_at, one.row.handled_seq) == (None, 1)
    assert one.changes == (Change(message=message().id, seq=1, text="", deleted_at=later(9)),)
    other = Concerned(known=(known(),), unanswered=(1, 2))
    two = decided(deletion(), guarded_seq=2, customer_seq=2, concerned=other)
    assert (two.row.due_at, two.row.handled_seq) == (later(2), 0)


def test_a_deleted_message_beside_a_new_one_is_not_answered_with_it() -> None:
    one = decided(deletion(), message(10, "Are you open?"))
    assert [j.verdict for j in one.judged] == [Verdict.STORED, Verdict.TURN]
    assert one.row.due_at is not None


def test_a_sticker_that_was_edited_into_words_is_a_text() -> None:
    one = decided(
        edit(text="Hello"), concerned=Concerned(known=(known(kind=MessageKind.UNSUPPORTED, text=""),))
    )
    assert one.again[0][1].reason is None
    assert one.changes[0].kind is MessageKind.TEXT


def test_its_own_old_words_make_an_edit_neither_a_loop_nor_too_much() -> None:
    said = [Said(text="Book 7 Dec at 10", received_at=at) for at in (later(-9), message().received_at)]
    facts = Facts(mode=Mode.AUTO, last_said=said, messages_in_10_min=20, rate_per_10_min=20)
    assert decided(edit(text="Book 7 Dec at 10!"), facts=facts).again[0][1].verdict is Verdict.TURN
    thrice = replace(facts, last_said=[said[0], *said])
    assert decided(edit(text="Book 7 Dec at 10!"), facts=thrice).again[0][1].reason is Reason.LOOP, (
        "two others are near the same"
    )


@pytest.mark.parametrize("kind", [*KINDS_OF_OTHERS, MessageKind.BUTTON])
def test_only_the_customer_s_own_words_are_replaced(kind: MessageKind) -> None:
    assert amended(message(kind=kind), edit()).messages[0].text == "Book 7 Dec at 10"


# What a turn has taken, or is answering


@pytest.mark.parametrize("how", [{"handled_seq": 1}, {"leased": True}], ids=["taken", "under way"])
def test_what_a_turn_has_taken_stays_with_the_edit_beside_it(how: dict[str, Any]) -> None:
    one = decided(edit(), **how)
    assert one.again == ()
    assert one.changes == (
        Change(message=message().id, seq=1, edited_at=later(9), edited_to="Book 7 Dec at 11"),
    )
    assert one.row.handled_seq == how.get("handled_seq", 0)
    assert one.row.customer_seq == 1, "nobody spoke"


def test_no_turn_starts_for_an_edit_of_what_was_answered() -> None:
    for amends in (edit(), deletion(), edit(text="STOP")):
        one = decided(amends, handled_seq=1, due_at=None, window_opened_at=None)
        assert (one.row.due_at, one.row.opted_out_at) == (None, None)


def test_a_deletion_of_what_was_answered_takes_the_words_away() -> None:
    earlier = known(2, kind=MessageKind.EDIT, n=5, quoted=ORIGINAL)
    one = decided(deletion(), handled_seq=1, concerned=Concerned(known=(known(), earlier)))
    assert {(c.message, c.text, c.deleted_at) for c in one.changes} == {
        (message(n).id, "", later(9)) for n in (1, 5)
    }


def test_what_was_deleted_takes_no_words_again() -> None:
    one = decided(edit(), handled_seq=1, concerned=Concerned(known=(known(deleted=True),)))
    assert all(c.edited_to is None and not c.text for c in one.changes)


CLEARS = [
    # the action came from, the original's verdict, handled up to, does it end
    ((1, 1), Verdict.TURN, 1, True),
    ((1, 3), Verdict.TURN, 3, True),
    ((2, 3), Verdict.TURN, 3, False),
    ((1, 1), Verdict.STORED, 1, False),
    (None, Verdict.TURN, 1, False),
]


@pytest.mark.parametrize("amends", [edit(), deletion()], ids=["edit", "deletion"])
@pytest.mark.parametrize("operator", [False, True], ids=["customer", "operator"])
@pytest.mark.parametrize(("action_from", "verdict", "handled", "ends"), CLEARS)
def test_the_action_ends_that_came_from_it(
    amends: Unjudged, action_from: tuple[int, int] | None, verdict: Verdict, handled: int, *, operator: bool, ends: bool
) -> None:  # fmt: skip
    concerned = Concerned(known=(known(verdict=verdict),), action_from=action_from)
    one = decided(
        amends, concerned=concerned, action=True, operator=operator, guarded_seq=3, handled_seq=handled
    )
    assert (one.action_ends, one.action_ends_because) == (ends, EDITED if ends else None)


# What has not come yet


def test_an_edit_before_its_original_waits_for_it() -> None:
    early = decided(edit(), concerned=Concerned())
    assert early.row.edits_wait
    assert not early.plain
    came = Concerned(waiting=(edit(),))
    late = decided(message(10, channel_message_id=ORIGINAL), concerned=came, edits_wait=True)
    assert not late.row.edits_wait
    assert [(c.message, c.text) for c in late.changes] == [(message(10).id, "Book 7 Dec at 11")]
    assert late.judged[0].verdict is Verdict.TURN


def test_a_deletion_before_its_original_leaves_nothing_to_answer() -> None:
    came = Concerned(waiting=(deletion(),))
    late = decided(
        message(10, channel_message_id=ORIGINAL),
        concerned=came,
        edits_wait=True,
        customer_seq=0,
        due_at=None,
    )
    assert (late.judged[0].verdict, late.judged[0].reason) == (Verdict.STORED, Reason.DELETION)
    assert late.row.due_at is None


def test_another_message_does_not_end_the_wait() -> None:
    other = decided(message(10), concerned=Concerned(waiting=(edit(),)), edits_wait=True)
    assert other.row.edits_wait
    assert not other.changes


# Whatever comes


@given(
    st.lists(
        st.tuples(st.sampled_from(MessageKind), st.sampled_from(["yes", "STOP", "", "a human please"]), st.integers(1, 3), st.integers(1, 3)),
        min_size=1, max_size=6,
    ),
    st.integers(0, 2), st.booleans(),
)  # fmt: skip
def test_every_message_is_judged_once_and_debts_name_a_message(
    batch: list[tuple[MessageKind, str, int, int]], handled: int, leased: bool
) -> None:
    messages = tuple(
        message(10 + n, text, kind=kind, channel_message_id=f"on-the-channel-{own}", quoted=f"on-the-channel-{quoted}")
        for n, (kind, text, own, quoted) in enumerate(batch)
    )  # fmt: skip
    judged_before = tuple(known(seq, n=seq) for seq in (1, 2))
    concerned = Concerned(known=judged_before, unanswered=tuple(seq for seq in (1, 2) if seq > handled))
    due = later(2) if handled < 2 else None
    one = decided(
        *messages, concerned=concerned, guarded_seq=2, customer_seq=2, handled_seq=handled, leased=leased, due_at=due
    )  # fmt: skip
    assert [j.message for j in one.judged] == [m.id for m in messages]
    written = [w[0] for w in one.written]
    assert len(written) == len(set(written)), "two changes of one row lose one"
    verdicts = {1: Verdict.TURN, 2: Verdict.TURN} | {seq: j.verdict for _, seq, j, _ in one.written if j}
    for_a_turn = [seq for seq, v in verdicts.items() if v is Verdict.TURN and seq > one.row.handled_seq]
    if not leased:
        assert bool(for_a_turn) == (one.row.due_at is not None)
