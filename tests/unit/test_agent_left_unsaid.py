"""A reply that never left, because the customer wrote again: the next turn, of whatever kind, does not end in silence."""

from dataclasses import replace

import pytest

from services.agent.core.heard import Heard
from services.agent.core.turn import PromptState, Reply
from shared.locales import load
from shared.messages import MessageKind
from tests.support.factories import heard, prompt, turn
from tests.support.kiosk import SOON, Kiosk, asked, presses

EN = load("en")


@pytest.fixture
def kiosk() -> Kiosk:
    return Kiosk()


def reply(state: str, *, firm: bool = False) -> Reply:
    return Reply(
        state=state, text="Cancel: cleaning. This is the last step.", basis_seq=2, created_at=SOON, firm=firm
    )


def sticker() -> Heard:
    return heard(2, "", kind=MessageKind.UNSUPPORTED, unsupported=True)


@pytest.mark.parametrize("state", ["queued", "sending", "sent"])
async def test_a_double_tap_is_answered_by_the_next_question_that_is_on_its_way(state: str) -> None:
    """The first tap confirmed step one; no reply gives way to the second."""
    action = asked(step=2, prompt=prompt(state=PromptState.QUEUED, sent_at=None, at_send_seq=None))
    one = presses(action, step=1)
    (press,) = one.messages
    again = replace(one, messages=(press, replace(press, seq=3)), handled_seq=2)
    answered = await Kiosk().answer(replace(again, replies=(reply(state),)))
    assert (answered.text, answered.outcome) == (None, "pressed_again")


async def test_a_double_tap_whose_answer_is_gone_is_told_so(kiosk: Kiosk) -> None:
    one = presses(asked())
    (press,) = one.messages
    again = replace(one, pending=None, messages=(press, replace(press, seq=3)), handled_seq=2)
    commit = await kiosk.answer(replace(again, replies=(reply("superseded"),)))
    assert commit.text == EN.notice("no_longer_open")


async def test_a_receipt_that_is_on_its_way_is_the_answer_to_a_double_tap(kiosk: Kiosk) -> None:
    one = presses(asked())
    (press,) = one.messages
    again = replace(one, pending=None, messages=(press, replace(press, seq=3)), handled_seq=2)
    commit = await kiosk.answer(replace(again, replies=(reply("queued", firm=True),)))
    assert commit.text is None


@pytest.mark.parametrize(
    ("state", "questions"), [("queued", 1), ("superseded", 1), ("sent", 0), ("sending", 0)]
)
async def test_a_sticker_that_overtook_an_answer_is_answered_with_what_was_asked(
    state: str, questions: int
) -> None:
    kiosk = Kiosk()
    await kiosk.answer(turn(sticker(), handled_seq=1, replies=(reply(state),)))
    assert kiosk.engine.questions == questions


@pytest.mark.parametrize(("state", "questions"), [("queued", 1), ("superseded", 1), ("sent", 0)])
async def test_a_reaction_that_overtook_an_answer_does_not_end_in_silence(state: str, questions: int) -> None:
    kiosk = Kiosk()
    liked = heard(2, "Liked “We open at nine.”")
    await kiosk.answer(turn(liked, handled_seq=1, replies=(reply(state),)))
    assert kiosk.engine.questions == questions
