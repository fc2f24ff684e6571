"""What the record tells a turn of a customer who went on: words are answered together with what came before, a press by itself."""

import pytest

from services.agent.adapters.postgres_turns import PostgresTurns
from shared.ids import CallId, new_id
from tests.support.factories import Ground
from tests.support.turns_on_postgres import claim_one

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize(
    ("kinds", "newest"),
    [
        pytest.param([], 1, id="nothing more"),
        pytest.param(["button"], 1, id="a press"),
        pytest.param(["button", "button"], 1, id="two presses"),
        pytest.param(["text"], 2, id="words"),
        pytest.param(["button", "text"], 3, id="a press and words"),
        pytest.param(["text", "button"], 2, id="words and a press"),
    ],
)
async def test_a_turn_is_overtaken_by_words_and_not_by_a_press(
    place: Ground, turns: PostgresTurns, kinds: list[str], newest: int
) -> None:
    conversation = await place.conversation()
    await place.said(conversation)
    turn = await claim_one(turns, conversation)
    for kind in kinds:
        message = await place.said(conversation)
        await place.set("inbound_message", {"id": message}, kind=kind)
    going = await turns.begin_call(turn, CallId(new_id()), n=2, try_=1, reserved=None, tools=())
    assert going is not None
    assert going.customer_seq == newest
