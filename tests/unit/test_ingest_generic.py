"""The generic webhook's parser: our contract, read strictly where it matters and loosely elsewhere."""

import contextlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.ingest.core.events import Inbound, Malformed, Parsed, Part
from services.ingest.core.generic import PARTS_MAX, parse
from shared.messages import MessageKind, PartKind
from tests.support.factories import NOON

STATED = datetime(2026, 12, 3, 9, 59, tzinfo=UTC)


def event(**data: Any) -> dict[str, Any]:
    """A text message of one customer, with other data as given; None takes a field away."""
    plain: dict[str, Any] = {
        "message_id": "booking-77",
        "conversation_id": "thread-5",
        "from": {"id": "customer-12", "phone": "+40700000012", "phone_verified": True, "name": "Maria Test"},
        "text": "Aveți loc vineri la nouă?",
        "locale": "ro",
    }
    merged = {key: value for key, value in (plain | data).items() if value is not None}
    return {"type": "message.received", "timestamp": STATED.isoformat(), "data": merged}


def parsed(content: Any, *, verifies_phones: bool = True) -> Parsed:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return parse(body, webhook_id="msg_1", verifies_phones=verifies_phones, now=NOON)


def message(content: Any, **options: Any) -> Inbound:
    (one,) = parsed(content, **options).messages
    return one


def test_a_text_is_read() -> None:
    content = event()
    assert message(content) == Inbound(
        external_id="msg_1",
        channel_message_id="booking-77",
        thread="thread-5",
        sender="customer-12",
        name="Maria Test",
        phone="+40700000012",
        kind=MessageKind.TEXT,
        text="Aveți loc vineri la nouă?",
        locale="ro",
        channel_at=STATED,
        raw=json.dumps(content).encode(),
    )


def test_a_press_is_read_with_its_label_which_is_no_text_of_the_customer_s() -> None:
    one = message(event(text="Confirm", button={"id": "pa:abc:1:confirm", "title": "Yes, do"}))
    assert (one.kind, one.button, one.text) == (MessageKind.BUTTON, "pa:abc:1:confirm", "Yes, do")


def test_the_raw_body_is_kept_as_it_came() -> None:
    body = b' {"type":"message.received","data":{"message_id":"1","from":{"id":"2"},"text":"\xc4\x83"}}\n'
    assert message(body).raw == body


KINDS = [
    ("text", {"text": "Hi"}, MessageKind.TEXT),
    ("a button", {"button": {"id": "x"}}, MessageKind.BUTTON),
    ("an attachment with a caption", {"attachments": [{"kind": "image", "url": "https://x.test/a.jpg"}]}, MessageKind.MEDIA),
    ("an attachment alone", {"text": None, "attachments": [{}]}, MessageKind.MEDIA),
    ("nothing", {"text": None}, MessageKind.UNSUPPORTED),
    ("an empty text", {"text": ""}, MessageKind.UNSUPPORTED),
]  # fmt: skip


@pytest.mark.parametrize(("data", "kind"), [row[1:] for row in KINDS], ids=[row[0] for row in KINDS])
def test_kinds(data: dict[str, Any], kind: MessageKind) -> None:
    assert message(event(**data)).kind is kind


def test_attachments_are_parts_by_their_address_and_never_fetched() -> None:
    image = {"kind": "image", "url": "https://x.test/a.jpg", "mime": "image/jpeg", "name": "a.jpg"}
    assert message(event(attachments=[image, {"kind": "hologram"}])).parts == (
        Part(kind=PartKind.IMAGE, mime="image/jpeg", name="a.jpg", reference="https://x.test/a.jpg"),
        Part(kind=PartKind.OTHER),
    )


def test_more_attachments_than_anybody_looks_at_are_left_out() -> None:
    assert len(message(event(attachments=[{}] * (PARTS_MAX + 1))).parts) == PARTS_MAX


@pytest.mark.parametrize(
    ("sender", "tenant_verifies", "phone"),
    [
        pytest.param(
            {"phone": "+40 700 000 012", "phone_verified": True}, True, "+40700000012", id="verified"
        ),
        pytest.param(
            {"phone": "+40700000012", "phone_verified": True}, False, None, id="the tenant does not verify"
        ),
        pytest.param({"phone": "+40700000012", "phone_verified": False}, True, None, id="not verified"),
        pytest.param({"phone": "+40700000012"}, True, None, id="nothing said about it"),
        pytest.param({"phone_verified": True}, True, None, id="no number"),
        pytest.param({"phone": "0700 000 012", "phone_verified": True}, True, None, id="no country"),
        pytest.param({"phone": "", "phone_verified": True}, True, None, id="empty"),
        pytest.param({"phone": "+" + "9" * 500, "phone_verified": True}, True, None, id="no number at all"),
    ],
)
def test_a_number_resolves_a_customer_only_when_it_is_proven(
    sender: dict[str, Any], *, tenant_verifies: bool, phone: str | None
) -> None:
    content = event(**{"from": {"id": "customer-12"} | sender})
    assert message(content, verifies_phones=tenant_verifies).phone == phone


@pytest.mark.parametrize(
    ("stated", "at"),
    [
        pytest.param("2026-12-03T11:59:00+02:00", STATED, id="with a zone"),
        pytest.param("2026-12-03T09:59:00", STATED, id="without one it is UTC"),
        pytest.param(STATED.timestamp(), STATED, id="as a number"),
        pytest.param(
            (NOON + timedelta(seconds=60)).isoformat(), NOON + timedelta(seconds=60), id="a minute ahead"
        ),
        pytest.param((NOON + timedelta(seconds=61)).isoformat(), NOON, id="from the future"),
        pytest.param("1999-12-31T23:59:59Z", NOON, id="before messaging began"),
        pytest.param("0001-01-01T00:00:00+14:00", NOON, id="the first instant"),
        pytest.param("9999-12-31T23:59:59-14:00", NOON, id="the last instant"),
        pytest.param("soon", NOON, id="no time"),
        pytest.param(None, NOON, id="null"),
        pytest.param(10**400, NOON, id="a number too large"),
        pytest.param({}, NOON, id="an object"),
        pytest.param(True, NOON, id="a truth"),
    ],
)
def test_the_channel_s_time_where_it_can_be_believed(stated: object, at: datetime) -> None:
    assert message(event() | {"timestamp": stated}).channel_at == at


@pytest.mark.parametrize("text", ["a\x00b", "\ud83d", "\udc4d\ud83d", "x" * 100_000])
def test_a_text_is_stored_as_received_but_for_what_postgres_cannot_hold(text: str) -> None:
    stored = message(event(text=text)).text
    stored.encode()
    assert "\x00" not in stored
    assert stored[:1] == (text[:1] if text[0] in "ax" else "\ufffd")


def test_a_pair_of_surrogates_is_a_character() -> None:
    body = json.dumps(event(text="👍")).encode()
    assert b"\\ud83d\\udc4d" in body
    assert message(body).text == "👍"


def test_bytes_that_are_no_utf_8_become_replacement_characters() -> None:
    assert message(json.dumps(event(text="X")).encode().replace(b'"X"', b'"\xff\xfe"')).text == "\ufffd\ufffd"


MALFORMED = [
    ("nothing", b"", "not JSON"),
    ("no JSON", b"hello", "not JSON"),
    ("half of it", b'{"type":"message.received"', "not JSON"),
    ("deep nesting", b"[" * 100_000, "not JSON"),
    ("a list", [], "an object with a type"),
    ("a number", 5, "an object with a type"),
    ("null", None, "an object with a type"),
    ("no type", {"data": {}}, "an object with a type"),
    ("a type that is no text", {"type": 1}, "an object with a type"),
    ("no data", {"type": "message.received"}, "data: Field required"),
    ("no sender", {"type": "message.received", "data": {"message_id": "1"}}, "data.from: Field required"),
    ("an empty sender", event(**{"from": {"id": ""}}), "data.from.id: "),
    ("a sender that is a number", event(**{"from": {"id": 7}}), "data.from.id: "),
    ("a message id too long", event(message_id="x" * 257), "data.message_id: "),
    ("a text that is a list", event(text=["x"]), "data.text: "),
    ("a number of 5,000 digits", b'{"type":"message.received","data":' + b"9" * 5000 + b"}", ""),
]


@pytest.mark.parametrize(
    ("content", "says"), [row[1:] for row in MALFORMED], ids=[row[0] for row in MALFORMED]
)
def test_what_is_no_event_is_refused_with_what_was_wrong(content: Any, says: str) -> None:
    with pytest.raises(Malformed) as error:
        parsed(content)
    assert says in str(error.value)
    assert len(str(error.value)) < 400


def test_the_refusal_does_not_repeat_the_sender_s_words() -> None:
    with pytest.raises(Malformed) as error:
        parsed(event(text=["my secret"]))
    assert "secret" not in str(error.value)


def test_an_event_of_another_type_is_passed_over() -> None:
    assert parsed({"type": "message.deleted", "data": 7}) == Parsed(passed_over=("message.deleted",))


def test_unknown_fields_are_nobody_s_business() -> None:
    assert message(event(mood="good") | {"version": 9}).text == message(event()).text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
def test_any_json_is_read_or_refused(content: Any) -> None:
    with contextlib.suppress(Malformed):
        parsed(content)


@given(
    st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(
            ("message_id", "conversation_id", "from", "text", "button", "locale", "attachments", "quoted_id"),
            JSON,
        ),
    ),
    JSON,
)
def test_any_data_is_read_or_refused_and_what_is_read_can_be_stored(
    data: dict[str, Any], timestamp: Any
) -> None:
    try:
        result = parsed({"type": "message.received", "timestamp": timestamp, "data": data})
    except Malformed:
        return
    (one,) = result.messages
    for text in (one.text, one.sender, one.name, one.thread, one.button, one.quoted, one.locale):
        assert text is None or ("\x00" not in text and text.encode() is not None)
    assert one.sender
    assert one.channel_at.tzinfo is UTC


@given(st.binary())
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    with contextlib.suppress(Malformed):
        parsed(body)
