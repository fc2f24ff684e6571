"""A request whose message was edited is dropped, and the next thing its customer hears says so."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from services.agent.commits import silent
from services.agent.core.heard import Part
from services.agent.core.pending import Press
from services.agent.core.turn import Earlier, Pending, Reply, Turn
from services.agent.edited import telling
from services.agent.engines.outcome import Said, SoFar
from shared.ids import ActionId, new_id
from shared.locales import load
from shared.messages import PROMPT_CHARS_MAX, MessageKind, PartKind
from tests.support.factories import heard, turn
from tests.support.kiosk import SOON, Kiosk, asked, decides, presses, says
from tests.support.turns_on_postgres import new_action

EN, RO = load("en"), load("ro")
DROPPED = EN.notice("request_edited")
AGAIN = EN.notice("write_again")
EDITED = Earlier(
    tool="book_appointment",
    arguments="{}",
    state="cleared",
    reason="edited",
    ended_at=SOON - timedelta(seconds=30),
)
LATER, BEFORE = SOON - timedelta(seconds=10), SOON - timedelta(seconds=50)
ENDED: dict[str, Any] = {"earlier": (EDITED,)}
HOW = pytest.mark.parametrize("how", [ENDED, {"dropped": ActionId(new_id())}], ids=["ended", "ends now"])


@pytest.fixture
def kiosk() -> Kiosk:
    return Kiosk()


def reply(text: str, **fields: Any) -> Reply:
    return Reply(**({"state": "sent", "text": text, "basis_seq": 1, "created_at": LATER} | fields))


@HOW
@pytest.mark.parametrize("text", ["Yes", "ok", "No, thanks", "da"])
async def test_a_bare_answer_gets_just_that_and_executes_nothing(
    kiosk: Kiosk, how: dict[str, Any], text: str
) -> None:
    commit = await kiosk.answer(says(text, **how))
    assert (commit.text, commit.outcome) == (f"{DROPPED} {AGAIN}", "edited")
    assert kiosk.engine.questions == 0
    assert not kiosk.diary.booked
    _ends(commit.ends, commit.ends_as, commit.ends_because, how)


def _ends(action: ActionId | None, as_: str | None, because: str | None, how: dict[str, Any]) -> None:
    dropped = how.get("dropped")
    assert (action, as_, because) == ((dropped, "cleared", "edited") if dropped else (None, None, None))


@HOW
@pytest.mark.parametrize("press", Press)
async def test_a_press_of_its_button_gets_just_that(kiosk: Kiosk, how: dict[str, Any], press: Press) -> None:
    commit = await kiosk.answer(replace(presses(asked(), press), pending=None, **how))
    assert commit.text == f"{DROPPED} {AGAIN}"
    assert not kiosk.diary.booked


@HOW
async def test_any_other_reply_begins_with_it(kiosk: Kiosk, how: dict[str, Any]) -> None:
    kiosk.engine.outcome = Said(text="We open at nine.", so_far=SoFar(), last_call=None)
    commit = await kiosk.answer(says("When do you open?", **how))
    assert commit.text == f"{DROPPED} We open at nine."
    _ends(commit.ends, commit.ends_as, commit.ends_because, how)


TOLD: list[tuple[str, Reply, bool]] = [
    ("it was said", reply(f"{DROPPED} {AGAIN}"), True),
    ("in the other language", reply(f"{RO.notice('request_edited')} Bună."), True),
    ("something else was said", reply("We open at nine."), False),
    ("of a request before", reply(f"{DROPPED} {AGAIN}", created_at=BEFORE), False),
    ("it never left", reply(f"{DROPPED} {AGAIN}", state="superseded"), False),
    ("it waits for an operator", reply(f"{DROPPED} {AGAIN}", state="draft"), False),
]


@pytest.mark.parametrize(("said", "was_told"), [row[1:] for row in TOLD], ids=[row[0] for row in TOLD])
async def test_it_is_said_once(kiosk: Kiosk, said: Reply, *, was_told: bool) -> None:
    commit = await kiosk.answer(says("When do you open?", replies=(said,), **ENDED))
    assert (commit.text or "").startswith(DROPPED) is not was_told


async def test_a_new_question_of_ours_ends_the_matter(kiosk: Kiosk) -> None:
    """The last action is another one, which is open: a yes is to that."""
    action = asked()
    await kiosk.answer(says("Yes", action=action, **ENDED))
    assert kiosk.diary.booked == [str(action.id)]


async def test_another_end_of_a_request_is_not_told_so(kiosk: Kiosk) -> None:
    for earlier in (
        (replace(EDITED, reason=None),),
        (EDITED, replace(EDITED, state="executed", reason=None)),
    ):
        kiosk.turns.commits.clear()
        commit = await kiosk.answer(says("When do you open?", earlier=earlier))
        assert not (commit.text or "").startswith(DROPPED)


@pytest.mark.parametrize(("shorter", "told"), [(len(DROPPED) + 1, True), (len(DROPPED), False)])
def test_a_prompt_that_would_grow_too_long_is_not_split(shorter: int, *, told: bool) -> None:
    asks = replace(
        silent(says("Book", **ENDED), "asked"), asks=new_action(), text="x" * (PROMPT_CHARS_MAX - shorter)
    )
    assert (telling(asks).text or "").startswith(DROPPED) is told
    reply_ = replace(asks, asks=None)
    assert (telling(reply_).text or "").startswith(DROPPED), "a reply may be split"


async def test_what_an_operator_decided_about_a_dropped_action_runs_nothing(kiosk: Kiosk) -> None:
    dropped = ActionId(new_id())
    commit = await kiosk.answer(replace(decides(None), dropped=dropped))
    assert (commit.text, commit.ends, commit.ends_because) == (None, dropped, "edited")
    assert not kiosk.diary.booked


# What was taken back, and what nobody typed


async def test_what_was_deleted_before_it_was_answered_is_not_answered(kiosk: Kiosk) -> None:
    commit = await kiosk.answer(turn(heard(2, "", deleted=True), handled_seq=1, pending=asked()))
    assert (commit.text, commit.outcome, commit.ends) == (None, "deleted", None)
    assert kiosk.engine.questions == 0


def not_typed(text: str, action: Pending | None, **fields: Any) -> Turn:
    one = heard(2, text, channel_at=SOON, received_at=SOON, **fields)
    return turn(one, handled_seq=1, now=SOON, pending=action)


VOICE = {"kind": MessageKind.MEDIA, "unsupported": True}


@pytest.mark.parametrize("words", ["Yes", "No", "ok"])
@pytest.mark.parametrize("how", ["edited", "forwarded", "heard"])
async def test_a_bare_answer_that_was_not_typed_is_asked_about_once_more(
    kiosk: Kiosk, words: str, how: str
) -> None:
    action = asked()
    if how == "heard":
        parts = (Part(n=1, kind=PartKind.AUDIO, words=words),)
        commit = await kiosk.answer(not_typed("", action, parts=parts, **VOICE))
    else:
        commit = await kiosk.answer(not_typed(words, action, **{how: True}))
    assert commit.asks_again is not None
    assert (commit.outcome, commit.ends) == ("repeated", None)
    assert not kiosk.diary.booked
    assert kiosk.engine.questions == 0


async def test_a_place_is_answered_by_the_model(kiosk: Kiosk) -> None:
    parts = (Part(n=1, kind=PartKind.LOCATION, words="44.43, 26.1"),)
    await kiosk.answer(not_typed("", None, parts=parts, **VOICE))
    assert kiosk.engine.questions == 1


async def test_a_voice_note_that_nobody_heard_gets_the_fixed_reply(kiosk: Kiosk) -> None:
    commit = await kiosk.answer(not_typed("", asked(), parts=(Part(n=1, kind=PartKind.AUDIO),), **VOICE))
    assert (commit.text, commit.ends) == (EN.notice("unsupported"), None)
