"""What a model is told of the conversation: everybody's words, and what nobody typed as what it is."""

from datetime import timedelta
from typing import Any

import pytest

from services.agent.core.heard import Heard, Part
from services.agent.core.history import history
from shared.llm.port import UserText
from shared.messages import MessageKind, PartKind
from tests.support.factories import NOON, heard, turn

PHOTO = Part(n=1, kind=PartKind.IMAGE)
PLACE = Part(n=1, kind=PartKind.LOCATION, words="44.43, 26.1")
VOICE = Part(n=1, kind=PartKind.AUDIO, words="I would like to come on Monday")
MEDIA: dict[str, Any] = {"kind": MessageKind.MEDIA}
ALONE: dict[str, Any] = MEDIA | {"text": "", "unsupported": True}


def told(*messages: Heard) -> list[str]:
    return [one.text for one in history(turn(*messages)) if isinstance(one, UserText)]


TOLD = [
    ("a text", {}, "Hello"),
    ("a caption, with what it is under", MEDIA | {"text": "Is this tooth ok?", "parts": (PHOTO,)}, "Is this tooth ok?\n(image)"),
    ("a photo alone", ALONE | {"parts": (PHOTO,)}, "(image)"),
    ("a place", ALONE | {"parts": (PLACE,)}, "(location: 44.43, 26.1)"),
    ("a voice note", ALONE | {"parts": (VOICE,)}, "(voice note, as a machine heard it: I would like to come on Monday)"),
    ("one that nobody heard", ALONE | {"parts": (Part(n=1, kind=PartKind.AUDIO),)}, "(voice note)"),
    ("several parts", ALONE | {"parts": (PLACE, PHOTO)}, "(location: 44.43, 26.1)\n(image)"),
    ("a sticker", {"text": "", "kind": MessageKind.UNSUPPORTED, "unsupported": True}, "(unsupported without text)"),
    ("what somebody else wrote", {"forwarded": True}, "(forwarded: Hello)"),
    ("edited before it was answered", {"edited": True}, "Hello"),
    ("edited afterwards", {"edited": True, "edited_to": "Bye"}, "Hello\n(edited afterwards to: Bye)"),
    ("deleted", {"text": "", "deleted": True, "parts": (PLACE,)}, "(a message that the customer deleted)"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "text"), [row[1:] for row in TOLD], ids=[row[0] for row in TOLD])
def test_a_model_is_told_of(fields: dict[str, Any], text: str) -> None:
    assert told(heard(**({"text": "Hello"} | fields))) == [text]


@pytest.mark.parametrize("kind", [MessageKind.EDIT, MessageKind.DELETION, MessageKind.REACTION])
def test_what_is_about_another_message_is_not_told_by_itself(kind: MessageKind) -> None:
    assert told(heard(1, "Hello"), heard(2, "Hello!", kind=kind)) == ["Hello"]


def test_a_fragment_that_came_late_is_told_where_it_was_written() -> None:
    late = heard(2, "the first of two things", channel_at=NOON - timedelta(seconds=30))
    assert told(heard(1, "and the second of them"), late) == [
        "the first of two things",
        "and the second of them",
    ]


def test_what_was_answered_stays_where_it_was_answered() -> None:
    answered = heard(1, "What does it cost?")
    late = heard(2, "Hello", channel_at=NOON - timedelta(seconds=30))
    told_of = history(turn(answered, late, handled_seq=1))
    assert [one.text for one in told_of if isinstance(one, UserText)] == ["What does it cost?", "Hello"]
