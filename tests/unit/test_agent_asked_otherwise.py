"""What waits for an operator, when the customer or the business has said otherwise before the approval is carried out."""

import json
from dataclasses import replace
from typing import Any

import pytest

from services.agent.core.pending import Press
from services.agent.core.turn import Decided, Decision, Pending, Turn, WaitsFor
from shared.autonomy import Asked
from shared.ids import MessageId, new_id
from shared.locales import load
from shared.messages import MessageKind
from tests.support.factories import heard
from tests.support.kiosk import SOON, Kiosk, asked, decides, dials, presses

EN = load("en")
OPERATOR_ALONE: dict[str, Any] = {
    "tool": "note_wish",
    "asked": Asked.OPERATOR,
    "confirmations_needed": 0,
    "prompt": None,
}


def approved(**fields: Any) -> Pending:
    decision = Decision(decided=Decided.APPROVED, reason=None, by="Ioana")
    plain: dict[str, Any] = {"waits_for": WaitsFor.OPERATOR, "decision": decision}
    return asked(**(plain | OPERATOR_ALONE | fields))


def while_waiting(action: Pending, *texts: str) -> Turn:
    """The decision's turn, with messages that the customer sent before it and that had no turn yet."""
    said = [heard(2 + n, text) for n, text in enumerate(texts)]
    turn = decides(action, dials=dials(asked=Asked.OPERATOR, note_wish=2))
    return replace(turn, messages=tuple(said))


# A no of the customer's


@pytest.mark.parametrize("texts", [("no",), ("Nu, mulțumesc",), ("no", "no thanks")])
async def test_a_no_said_before_the_approval_is_carried_out_withdraws(texts: tuple[str, ...]) -> None:
    kiosk = Kiosk()
    action = approved()
    commit = await kiosk.answer(while_waiting(action, *texts))
    assert kiosk.diary.booked == []
    assert (commit.ends, commit.ends_as, commit.text) == (action.id, "declined", EN.notice("withdrawn"))
    assert (commit.turn.decides, commit.seq_to) == (True, 1 + len(texts)), "the no is answered with it"


async def test_the_evidence_of_a_withdrawal_names_the_no() -> None:
    kiosk = Kiosk()
    commit = await kiosk.answer(while_waiting(approved(), "no"))
    assert commit.sealed is not None
    assert json.loads(json.loads(commit.sealed.parts)["inputs"]["body"])["taken"] == [2]


async def test_a_press_of_cancel_before_the_approval_is_carried_out_withdraws() -> None:
    kiosk = Kiosk()
    action = approved(tool="book_appointment", asked=Asked.BOTH, confirmations_needed=1)
    kiosk.turns.confirmations[action.id] = {MessageId(new_id())}
    press = presses(action, Press.CANCEL).messages[0]
    commit = await kiosk.answer(replace(decides(action), messages=(press,)))
    assert (kiosk.diary.booked, commit.ends_as, commit.seq_to) == ([], "declined", 2)


@pytest.mark.parametrize("texts", [(), ("Are you there?",), ("yes",), ("no, wait, yes",), ("hello", "no")])
async def test_other_messages_withdraw_nothing_and_keep_their_turn(texts: tuple[str, ...]) -> None:
    kiosk = Kiosk()
    action = approved()
    one = while_waiting(action, *texts)
    commit = await kiosk.answer(one)
    assert (kiosk.diary.booked, commit.ends_as) == ([str(action.id)], "executed")
    assert commit.seq_to == one.handled_seq


async def test_a_no_under_a_picture_withdraws_nothing() -> None:
    kiosk = Kiosk()
    action = approved()
    captioned = heard(2, "no", kind=MessageKind.MEDIA, channel_at=SOON, received_at=SOON)
    await kiosk.answer(replace(while_waiting(action), messages=(captioned,)))
    assert kiosk.diary.booked == [str(action.id)]


async def test_a_no_takes_nothing_back_that_was_called_for_outside() -> None:
    """An earlier attempt called, and nobody knows what came of it: that nothing was changed could be a lie."""
    kiosk = Kiosk()
    commit = await kiosk.answer(while_waiting(approved(executing=True), "no"))
    assert (commit.ends_as, commit.flag) == ("unknown", "action_unknown")


# Who is asked


@pytest.mark.parametrize("who", [Asked.CUSTOMER, Asked.BOTH])
async def test_where_the_customer_is_asked_by_now_an_approval_alone_writes_nothing(who: Asked) -> None:
    """The gate as it is now asks them, and nobody has: they are asked, and the approval is no yes of theirs."""
    kiosk = Kiosk()
    action = approved()
    commit = await kiosk.answer(decides(action, dials=dials(asked=who, note_wish=2)))
    assert kiosk.diary.booked == []
    assert (commit.ends, commit.ends_as) == (action.id, "replaced")
    assert commit.asks is not None
    assert (commit.asks.asked, commit.asks.waits_for) == (who, WaitsFor.CUSTOMER)
    assert commit.asks.confirmations_needed == 1


async def test_a_floor_that_the_pack_has_by_now_holds_for_what_waits_for_an_operator() -> None:
    kiosk = Kiosk()
    action = approved(tool="cancel_appointment")
    setting = dials(asked=Asked.OPERATOR, cancel_appointment=2)
    commit = await kiosk.answer(decides(action, dials=setting))
    assert kiosk.diary.cancelled == []
    assert commit.asks is not None
    assert (commit.asks.confirmations_needed, commit.asks.asked) == (2, Asked.BOTH)


async def test_at_a_level_that_asks_nobody_by_now_the_approval_is_enough() -> None:
    kiosk = Kiosk()
    action = approved()
    await kiosk.answer(decides(action, dials=dials(asked=Asked.CUSTOMER, note_wish=3)))
    assert kiosk.diary.booked == [str(action.id)]
