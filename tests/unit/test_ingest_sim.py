"""The simulated telephone's parser: item by item, so that a bad one costs its neighbours nothing."""

import contextlib
import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.ingest.core.events import Inbound, Malformed, Parsed, Status
from services.ingest.core.sim import ITEMS_MAX, parse
from shared.messages import MessageKind
from tests.support.factories import ANA, NOON


def message(**fields: Any) -> dict[str, Any]:
    plain = {"id": "m1", "from": ANA, "text": "Hello"}
    return {key: value for key, value in (plain | fields).items() if value is not None}


def parsed(content: Any) -> Parsed:
    return parse(content if isinstance(content, bytes) else json.dumps(content).encode(), now=NOON)


def one(**fields: Any) -> Inbound:
    (found,) = parsed({"messages": [message(**fields)]}).messages
    return found


def test_a_text_is_read() -> None:
    assert one(name="Ana", locale="ro", quoted="m0", at=(NOON - timedelta(seconds=5)).isoformat()) == Inbound(
        external_id="m1",
        channel_message_id="m1",
        sender=ANA,
        name="Ana",
        phone=ANA,
        kind=MessageKind.TEXT,
        text="Hello",
        quoted="m0",
        locale="ro",
        channel_at=NOON - timedelta(seconds=5),
        raw=json.dumps(
            message(name="Ana", locale="ro", quoted="m0", at=(NOON - timedelta(seconds=5)).isoformat())
        ).encode(),
    )


KINDS = [
    ("text", {}, MessageKind.TEXT),
    ("no text", {"text": None}, MessageKind.UNSUPPORTED),
    ("an empty text", {"text": ""}, MessageKind.UNSUPPORTED),
    ("a button, whatever it calls itself", {"button": "b"}, MessageKind.BUTTON),
    ("media", {"kind": "media", "text": None}, MessageKind.MEDIA),
    ("a reaction", {"kind": "reaction"}, MessageKind.REACTION),
    ("an echo", {"kind": "echo"}, MessageKind.ECHO),
    ("a system message", {"kind": "system"}, MessageKind.SYSTEM),
    ("a group message", {"kind": "group"}, MessageKind.GROUP),
    ("a kind nobody has seen yet", {"kind": "hologram"}, MessageKind.UNSUPPORTED),
]


@pytest.mark.parametrize(("fields", "kind"), [row[1:] for row in KINDS], ids=[row[0] for row in KINDS])
def test_kinds(fields: dict[str, Any], kind: MessageKind) -> None:
    assert one(**fields).kind is kind


def test_the_sender_s_number_is_what_the_transport_states() -> None:
    assert one(**{"from": "+40 700 000 001"}).phone == ANA
    assert one(**{"from": "ana"}).phone is None


def test_messages_and_statuses_come_together_and_in_order() -> None:
    content = {
        "messages": [message(id="m1"), message(id="m2")],
        "statuses": [
            {"status": "sent", "correlation": "c"},
            {"status": "failed", "provider_id": "p", "reason": "r"},
        ],
    }
    found = parsed(content)
    assert [item.external_id for item in found.messages] == ["m1", "m2"]
    assert found.statuses == (
        Status(status="sent", correlation="c"),
        Status(status="failed", provider_id="p", reason="r"),
    )


def test_a_bad_item_costs_its_neighbours_nothing() -> None:
    content = {
        "messages": [message(id="m1"), {"id": ""}, 7, None, [], message(id="m2")],
        "statuses": [{}, {"status": "sent"}],
    }
    found = parsed(content)
    assert [item.external_id for item in found.messages] == ["m1", "m2"]
    assert len(found.statuses) == 1
    assert len(found.passed_over) == 5


def test_a_message_that_says_whose_it_is_and_no_more_is_kept_raw_as_unsupported() -> None:
    found = parsed({"messages": [message(id="m1", text={"rich": "text"}), message(id="m2")]})
    assert [(item.external_id, item.kind) for item in found.messages] == [
        ("m1", MessageKind.UNSUPPORTED),
        ("m2", MessageKind.TEXT),
    ]
    assert b"rich" in found.messages[0].raw
    assert len(found.passed_over) == 1


MALFORMED = [
    ("no JSON", b"hello"),
    ("a list", []),
    ("nothing in it", {}),
    ("only bad items", {"messages": [{}]}),
    ("messages that are no list", {"messages": "all"}),
    ("too many", {"messages": [{}] * (ITEMS_MAX + 1)}),
]


@pytest.mark.parametrize("content", [row[1] for row in MALFORMED], ids=[row[0] for row in MALFORMED])
def test_what_holds_nothing_readable_is_refused(content: Any) -> None:
    with pytest.raises(Malformed) as error:
        parsed(content)
    assert str(error.value)


@pytest.mark.parametrize("depth", [50, 500, 900, 950, 970, 980, 985, 990, 995, 1_000, 5_000, 100_000])
def test_nesting_in_a_field_we_ignore_is_stored_or_refused(depth: int) -> None:
    """However deep: what can be read can also be kept."""
    nested = b"[" * depth + b"]" * depth
    body = b'{"messages":[{"id":"1","from":"2","text":"x","more":%s}]}' % nested
    with contextlib.suppress(Malformed):
        assert parsed(body).messages


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
ITEMS = JSON | st.fixed_dictionaries(
    {"id": JSON | st.just("x"), "from": JSON | st.just("y")},
    optional=dict.fromkeys(
        ("text", "kind", "button", "quoted", "locale", "auto_reply", "opt_word", "at"), JSON
    ),
)


@given(before=st.lists(ITEMS, max_size=3), after=st.lists(ITEMS, max_size=3), statuses=JSON)
def test_a_well_formed_message_is_never_lost(*, before: list[Any], after: list[Any], statuses: Any) -> None:
    content = {"messages": [*before, message(id="the one"), *after]}
    if isinstance(statuses, list):
        content["statuses"] = statuses
    found = parsed(content)
    assert "the one" in [item.external_id for item in found.messages]
    for item in found.messages:
        for text in (
            item.external_id,
            item.sender,
            item.text,
            item.name,
            item.button,
            item.quoted,
            item.locale,
        ):
            assert text is None or ("\x00" not in text and text.encode() is not None)


@given(JSON | st.binary())
def test_anything_is_read_or_refused(content: Any) -> None:
    with contextlib.suppress(Malformed):
        parsed(content)
