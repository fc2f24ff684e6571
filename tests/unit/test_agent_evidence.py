"""What a turn's envelope says: enough to replay its decision, names and texts in the parts alone, one a turn in a chain."""

import json
from base64 import b64encode
from dataclasses import replace
from typing import Any

import pytest

from services.agent.core.turn import Chain, Turn
from services.agent.evidence import PARTS, Sealing, registry_digest
from services.agent.ports import Commit, Sealed
from shared.autonomy import Risk
from shared.evidence import Envelope, Found, check
from tests.support.kiosk import Kiosk, asked, decides, dials, presses, says


async def sealed_after(one: Turn, *script: dict[str, Any]) -> tuple[Commit, Sealed]:
    commit = await Kiosk(*script).answer(one)
    assert commit.sealed is not None
    return commit, commit.sealed


def parts_of(sealed: Sealed) -> dict[str, Any]:
    return {name: json.loads(part["body"]) for name, part in json.loads(sealed.parts).items()}


def envelope(sealed: Sealed) -> Envelope:
    return Envelope(n=sealed.n, header=sealed.header, digest=sealed.digest, parts=sealed.parts)


SECRETS = ("Hello Doctor", "+40700000001", "Ana Pop", "Good morning to you")


async def test_names_and_texts_are_in_parts_alone() -> None:
    one = says("Hello Doctor, I am +40700000001", customer_name="Ana Pop")
    _, sealed = await sealed_after(one, {"text": "Good morning to you"})
    for secret in SECRETS:
        assert secret not in sealed.header
        assert secret in sealed.parts
    assert json.loads(sealed.header)["parts"].keys() == set(PARTS) == parts_of(sealed).keys()


async def test_it_says_what_the_turn_began_with_what_was_answered_and_what_came_of_it() -> None:
    one = says("When?", dials=dials(book_appointment=1))
    call = {"calls": [{"name": "find_slots"}, {"name": "book_appointment"}]}
    commit, sealed = await sealed_after(one, call, {"text": "At ten."})
    parts = parts_of(sealed)
    assert [heard["text"] for heard in parts["inputs"]["messages"]] == ["When?"]
    assert parts["inputs"]["taken"] == [2]
    assert parts["inputs"]["dials"] == {
        "mode": "auto", "levels": {"book_appointment": {"level": 1, "asked": None}},
    }  # fmt: skip
    assert [json.loads(answer)["text"] for answer in parts["answers"]["answers"]] == [None, "At ten."]
    assert [(tool["tool"], tool["decision"]) for tool in parts["tools"]["calls"]] == [
        ("find_slots", "allow"), ("book_appointment", "deny"),
    ]  # fmt: skip
    assert json.loads(parts["tools"]["calls"][1]["why"])["level"] == 1
    assert parts["outcome"]["text"] == commit.text == "At ten."


async def test_an_action_s_way_is_in_it_step_by_step() -> None:
    action = asked("cancel_appointment")
    kiosk = Kiosk()
    first = await kiosk.answer(presses(action))
    assert first.sealed is not None
    before, after = parts_of(first.sealed)["inputs"]["pending"], parts_of(first.sealed)["outcome"]
    assert (before["id"], before["step"], before["confirmations_needed"]) == (str(action.id), 1, 2)
    assert (before["arguments"], before["shown"]) == (action.arguments, action.shown)
    assert before["prompt"]["state"] == "sent"
    assert (after["asks_again"]["action"], after["asks_again"]["step"]) == (str(action.id), 2)
    kiosk.turns.commits.clear()
    second = await kiosk.answer(says("Yes", action=replace(action, step=2), seq=3))
    assert second.sealed is not None
    outcome = parts_of(second.sealed)["outcome"]
    assert outcome["ends"] == {"action": str(action.id), "as": "executed", "because": None}
    assert [receipt["digest"] for receipt in outcome["receipts"]] == [b64encode(action.digest).decode()]
    assert json.loads(second.sealed.header)["receipts"] == [str(action.id)]


async def test_a_decision_s_turn_says_so() -> None:
    _, sealed = await sealed_after(decides(None))
    assert json.loads(sealed.header)["cause"] == "decision"
    assert parts_of(sealed)["inputs"]["taken"] == []


async def test_a_conversation_s_envelopes_are_a_chain() -> None:
    chain, envelopes = Chain(), list[Envelope]()
    for text in ("One", "Two", "Three"):
        _, sealed = await sealed_after(says(text, chain=chain), {"text": "Hello!"})
        envelopes.append(envelope(sealed))
        chain = Chain(length=sealed.n, head=sealed.digest)
    assert check(envelopes) == [Found.WHOLE] * 3


async def test_salts_are_fresh_every_time() -> None:
    kiosk = Kiosk()
    commit = await kiosk.answer(says("Hello"))
    sealing = Sealing({"clinic": kiosk.pack})
    one, other = sealing.seal(commit).sealed, sealing.seal(commit).sealed
    assert one is not None
    assert other is not None
    assert one.digest != other.digest


@pytest.mark.parametrize(
    "change", [{"level": 4}, {"floor": 2}, {"risk": Risk.IRREVERSIBLE}, {"description": "x"}]
)
def test_another_registry_has_another_number(change: dict[str, Any]) -> None:
    tools = Kiosk().pack.tools
    assert registry_digest(tools) == registry_digest(Kiosk().pack.tools)
    changed = [*tools[:-1], replace(tools[-1], **change)]
    assert registry_digest(changed) != registry_digest(tools)
