"""Telegram's parser: who says what in an update, whatever else it holds, and what proves a number."""

import contextlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.ingest.core.entrance import Account, Post
from services.ingest.core.events import ELSEWHERE, Inbound, Malformed, Parsed, Part
from services.ingest.core.telegram import ENTRANCE, parse
from shared.ids import AccountId, BusinessId
from shared.messages import MessageKind, PartKind
from shared.signing import Signature
from tests.support.factories import NOON

MARIA = 710_000_012
BOT = 710_000_900
SENT_AT = datetime(2026, 12, 3, 9, 58, 30, tzinfo=UTC)
DATE = int(SENT_AT.timestamp())


def person(**fields: Any) -> dict[str, Any]:
    return {
        "id": MARIA,
        "is_bot": False,
        "first_name": "Maria",
        "last_name": "Test",
        "language_code": "ro",
    } | fields


def private(**fields: Any) -> dict[str, Any]:
    return {"id": MARIA, "type": "private", "first_name": "Maria"} | fields


def message(**fields: Any) -> dict[str, Any]:
    """A message of Maria's to the bot; None takes a field away."""
    plain = {"message_id": 41, "date": DATE, "chat": private(), "from": person()}
    return {key: value for key, value in (plain | fields).items() if value is not None}


def from_bot(number: int = 40, **fields: Any) -> dict[str, Any]:
    return (
        message(message_id=number, **{"from": {"id": BOT, "is_bot": True, "first_name": "Clinic"}}) | fields
    )


def update(kind: str, item: Any, **more: Any) -> dict[str, Any]:
    return {"update_id": 610_000_001, kind: item} | more


def parsed(content: Any) -> Parsed:
    return parse(content if isinstance(content, bytes) else json.dumps(content).encode(), now=NOON)


def one(kind: str, item: Any) -> Inbound:
    (found,) = parsed(update(kind, item)).messages
    return found


def said(**fields: Any) -> Inbound:
    return one("message", message(**fields))


# Messages


def test_a_text_is_read_and_its_message_named_by_chat() -> None:
    content = update("message", message(text="Aveți loc vineri?"))
    (found,) = parsed(content).messages
    assert found == Inbound(
        external_id="610000001",
        channel_message_id=f"{MARIA}:41",
        sender=str(MARIA),
        name="Maria Test",
        kind=MessageKind.TEXT,
        text="Aveți loc vineri?",
        locale="ro",
        channel_at=SENT_AT,
        raw=json.dumps(content).encode(),
    )


def test_a_reply_quotes_by_the_name_our_send_was_given() -> None:
    assert said(text="da", reply_to_message=from_bot(40)).quoted == f"{MARIA}:40"


@pytest.mark.parametrize(
    "fields",
    [
        {"external_reply": {"origin": {"type": "user"}}},
        {"reply_to_story": {"id": 3}},
        {"reply_to_message": {"message_id": "x"}},
    ],
    ids=["another chat's message", "a story", "one without a number"],
)
def test_a_reply_to_what_is_not_ours_quotes_something_else(fields: dict[str, Any]) -> None:
    assert said(text="yes", **fields).quoted == ELSEWHERE


@pytest.mark.parametrize("field", [{"forward_origin": {"type": "user"}}, {"forward_date": DATE}])
def test_forwarded_words_are_somebody_else_s(field: dict[str, Any]) -> None:
    assert said(text="yes", **field).forwarded


VOICE = {"file_id": "voice-1", "mime_type": "audio/ogg", "duration": 3}
SIZES = [
    {"file_id": "small", "width": 90},
    {"file_id": "large", "width": 1280},
    {"file_id": "middle", "width": 320},
]
PLACE = {"latitude": 44.4268, "longitude": 26.1025}
MEDIA = [
    ("a voice note", {"voice": VOICE}, Part(kind=PartKind.AUDIO, mime="audio/ogg", reference="voice-1", fetched=True)),
    ("music", {"audio": VOICE | {"file_name": "a.ogg"}}, Part(kind=PartKind.AUDIO, mime="audio/ogg", name="a.ogg", reference="voice-1", fetched=True)),
    ("a photo, its largest size", {"photo": SIZES}, Part(kind=PartKind.IMAGE, reference="large", fetched=True)),
    ("a video", {"video": {"file_id": "v"}}, Part(kind=PartKind.VIDEO, reference="v")),
    ("a round video", {"video_note": {"file_id": "v"}}, Part(kind=PartKind.VIDEO, reference="v")),
    ("an animation, which comes as a document too", {"document": {"file_id": "d"}, "animation": {"file_id": "a"}}, Part(kind=PartKind.VIDEO, reference="a")),
    ("a document", {"document": {"file_id": "d", "file_name": "../x.pdf", "mime_type": "application/pdf"}}, Part(kind=PartKind.DOCUMENT, mime="application/pdf", name="../x.pdf", reference="d")),
    ("a location", {"location": PLACE}, Part(kind=PartKind.LOCATION, words="44.4268, 26.1025")),
    ("a venue", {"location": PLACE, "venue": {"location": PLACE, "title": "Clinic", "address": "Main St 1"}}, Part(kind=PartKind.LOCATION, words="44.4268, 26.1025, Clinic, Main St 1")),
    ("a card", {"contact": {"first_name": "Ion", "last_name": "Pop", "phone_number": "+40700000077"}}, Part(kind=PartKind.CONTACT, words="Ion Pop, +40700000077")),
    ("a file without an id, which can't be fetched", {"voice": {"file_id": 7}}, Part(kind=PartKind.AUDIO)),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "part"), [row[1:] for row in MEDIA], ids=[row[0] for row in MEDIA])
def test_what_a_message_carries_is_a_part_that_people_see(fields: dict[str, Any], part: Part) -> None:
    found = said(caption="from yesterday", **fields)
    assert (found.kind, found.text, found.parts) == (MessageKind.MEDIA, "from yesterday", (part,))


NO_TURN = [
    ("a sticker", {"sticker": {"file_id": "s", "emoji": "👍"}}, MessageKind.UNSUPPORTED),
    ("a poll", {"poll": {"id": "1"}}, MessageKind.UNSUPPORTED),
    ("a rich message", {"rich_message": {"blocks": []}}, MessageKind.UNSUPPORTED),
    ("nothing", {}, MessageKind.UNSUPPORTED),
    ("an empty text", {"text": ""}, MessageKind.UNSUPPORTED),
    ("a text that is none", {"text": ["yes"]}, MessageKind.UNSUPPORTED),
    ("what Telegram says itself", {"pinned_message": from_bot()}, MessageKind.SYSTEM),
    ("a bot", {"text": "yes", "from": person(is_bot=True)}, MessageKind.SYSTEM),
    ("a group", {"text": "yes", "chat": {"id": -1001, "type": "supergroup"}}, MessageKind.GROUP),
    ("a chat that is not said", {"text": "yes", "chat": None}, MessageKind.GROUP),
    ("a bot in a group", {"text": "yes", "chat": {"id": -5, "type": "group"}, "from": person(is_bot=True)}, MessageKind.GROUP),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "kind"), [row[1:] for row in NO_TURN], ids=[row[0] for row in NO_TURN])
def test_what_is_no_word_of_the_customer_s_is_said_so(fields: dict[str, Any], kind: MessageKind) -> None:
    assert said(**fields).kind is kind


def test_a_rich_message_with_a_text_is_its_text() -> None:
    found = said(text="Hello", rich_message={"blocks": []})
    assert (found.kind, found.text) == (MessageKind.TEXT, "Hello")


def test_the_emoji_of_a_sticker_is_no_text_of_the_customer_s() -> None:
    found = said(sticker={"file_id": "s", "emoji": "👍"})
    assert (found.text, found.parts[0].words) == ("", "👍")


# Numbers


@pytest.mark.parametrize("stated", ["40700000012", "+40700000012", "+40 700 000 012"])
def test_a_card_of_one_s_own_proves_the_number(stated: str) -> None:
    found = said(contact={"phone_number": stated, "first_name": "Maria", "user_id": MARIA})
    assert (found.kind, found.phone, found.proves_phone) == (MessageKind.MEDIA, "+40700000012", True)


FOREIGN = [
    ("of somebody else", {"user_id": 710_000_013}, {}),
    ("of nobody on Telegram", {}, {}),
    ("whose owner is no number", {"user_id": str(MARIA)}, {}),
    ("whose owner is true", {"user_id": True}, {}),
    ("with what is no telephone", {"user_id": MARIA, "phone_number": "12"}, {}),
    ("without a number", {"user_id": MARIA, "phone_number": None}, {}),
    ("that was forwarded", {"user_id": MARIA}, {"forward_origin": {"type": "user"}}),
    ("in a group", {"user_id": MARIA}, {"chat": {"id": -7, "type": "group"}}),
    ("of a bot", {"user_id": MARIA}, {"from": person(is_bot=True)}),
]


@pytest.mark.parametrize(("card", "fields"), [row[1:] for row in FOREIGN], ids=[row[0] for row in FOREIGN])
def test_any_other_card_proves_nothing(card: dict[str, Any], fields: dict[str, Any]) -> None:
    found = said(contact={"phone_number": "40700000012", "first_name": "M"} | card, **fields)
    assert (found.phone, found.proves_phone) == (None, False)


# Edits, presses, membership


def test_an_edit_names_the_message_it_is_about_and_is_no_message_of_that_name() -> None:
    found = one("edited_message", message(text="YES", edit_date=DATE + 40))
    assert (found.kind, found.text, found.quoted) == (MessageKind.EDIT, "YES", f"{MARIA}:41")
    assert (found.channel_message_id, found.external_id) == (None, "610000001")
    assert found.channel_at.timestamp() == DATE + 40


def test_an_edited_caption_may_be_empty_now() -> None:
    found = one("edited_message", message(photo=SIZES, edit_date=DATE))
    assert (found.kind, found.text, found.parts) == (MessageKind.EDIT, "", ())


def test_a_location_that_moves_says_nothing_new() -> None:
    assert parsed(update("edited_message", message(location=PLACE, edit_date=DATE))).messages == ()


def test_an_edit_in_a_group_stays_the_group_s() -> None:
    chat = {"id": -9, "type": "group"}
    assert one("edited_message", message(text="YES", chat=chat)).kind is MessageKind.GROUP


def press(**fields: Any) -> dict[str, Any]:
    keyboard = {"inline_keyboard": [[{"text": "Not now", "callback_data": "pa:1:1:cancel"}, {"text": "Confirm", "callback_data": "pa:1:1:confirm"}]]}  # fmt: skip
    plain = {
        "id": "91000000001",
        "from": person(),
        "data": "pa:1:1:confirm",
        "message": from_bot(40, reply_markup=keyboard),
    }
    return {key: value for key, value in (plain | fields).items() if value is not None}


def test_a_press_is_of_who_pressed_and_happens_now() -> None:
    found = one("callback_query", press())
    assert (found.kind, found.sender, found.button) == (MessageKind.BUTTON, str(MARIA), "pa:1:1:confirm")
    assert (found.channel_message_id, found.quoted) == ("91000000001", f"{MARIA}:40")
    assert (found.text, found.channel_at) == ("Confirm", NOON)


def test_a_press_under_a_message_that_telegram_no_longer_has_is_still_one() -> None:
    gone = {"message_id": 40, "date": 0, "chat": private()}
    found = one("callback_query", press(message=gone))
    assert (found.kind, found.text, found.quoted) == (MessageKind.BUTTON, "", f"{MARIA}:40")
    assert one("callback_query", press(message=None)).kind is MessageKind.BUTTON


def test_a_press_in_a_group_is_the_group_s() -> None:
    shown = from_bot(40, chat={"id": -7, "type": "group"})
    assert one("callback_query", press(message=shown)).kind is MessageKind.GROUP


def test_a_press_without_data_is_passed_over() -> None:
    assert parsed(update("callback_query", press(data=None))) == Parsed(passed_over=("callback_query",))


@pytest.mark.parametrize(
    ("status", "said"), [("kicked", "blocked the bot"), ("member", "started the bot again")]
)
def test_blocking_the_bot_is_told_in_words(status: str, said: str) -> None:
    found = one("my_chat_member", {"chat": private(), "from": person(), "date": DATE, "new_chat_member": {"status": status}})  # fmt: skip
    assert (found.kind, found.text, found.channel_at) == (MessageKind.SYSTEM, said, SENT_AT)


@pytest.mark.parametrize(
    "fields",
    [
        {"new_chat_member": {"status": ["kicked"]}},
        {"new_chat_member": {"status": "administrator"}},
        {"chat": {"id": -4, "type": "group"}},
    ],
)
def test_other_membership_is_passed_over(fields: dict[str, Any]) -> None:
    plain = {"chat": private(), "from": person(), "date": DATE, "new_chat_member": {"status": "kicked"}}
    assert parsed(update("my_chat_member", plain | fields)).passed_over == ("my_chat_member",)


# Whatever arrives


@pytest.mark.parametrize("kind", ["business_message", "guest_message", "message_reaction"])
def test_kinds_we_did_not_ask_for_are_passed_over_by_name(kind: str) -> None:
    assert parsed(update(kind, message(text="yes"))) == Parsed(passed_over=(kind,))


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b'"x"', b"{", b"{}", b"\xff"])
def test_what_is_no_update_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        parsed(body)


@pytest.mark.parametrize("number", [0, -1, 1.0, True, "610000001", None, 2**52, 10**30, [1]])
def test_an_update_without_an_id_could_not_be_known_again(number: object) -> None:
    with pytest.raises(Malformed, match="update_id"):
        parsed({"update_id": number, "message": message(text="hi")})


@pytest.mark.parametrize("sender", [None, 0, -MARIA, float(MARIA), str(MARIA), True, 2**52, {}])
def test_a_message_of_nobody_is_passed_over(sender: object) -> None:
    assert parsed(update("message", message(text="hi", **{"from": {"id": sender}}))).messages == ()


@pytest.mark.parametrize("number", [None, 0, -41, 41.0, "41", 2**52])
def test_a_message_without_a_number_is_kept_without_a_name(number: object) -> None:
    found = said(text="hi", message_id=number)
    assert (found.kind, found.channel_message_id) == (MessageKind.TEXT, None)


@pytest.mark.parametrize("date", [None, 0, -5, 10**18, 2**51, "now", 1.5, DATE + 10**6])
def test_a_time_nobody_can_believe_is_now(date: object) -> None:
    assert said(text="hi", date=date).channel_at == NOON


def test_ids_of_fifty_two_bits_are_kept_whole() -> None:
    high = 2**52 - 1
    found = said(text="hi", message_id=high, chat=private(id=high), **{"from": person(id=high)})
    assert (found.sender, found.channel_message_id) == (str(high), f"{high}:{high}")


def test_a_text_that_postgres_can_t_hold_is_mended() -> None:
    assert parsed(b'{"update_id":1,"message":{"from":{"id":7},"chat":{"id":7,"type":"private"},"text":"a\\u0000\\ud800b"}}').messages[0].text == "a��b"  # fmt: skip


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=20,
)
NAMES = [
    "message_id",
    "date",
    "chat",
    "from",
    "text",
    "caption",
    "photo",
    "voice",
    "audio",
    "video",
    "video_note",
    "animation",
    "document",
    "sticker",
    "location",
    "venue",
    "contact",
    "reply_to_message",
    "forward_origin",
    "external_reply",
    "pinned_message",
    "edit_date",
    "data",
    "message",
    "id",
    "new_chat_member",
    "reply_markup",
    "type",
    "user_id",
    "phone_number",
    "latitude",
    "longitude",
    "title",
    "address",
    "file_id",
    "width",
    "is_bot",
    "first_name",
    "language_code",
]
KINDS = ("message", "edited_message", "callback_query", "my_chat_member")
ODD = st.dictionaries(
    st.sampled_from(NAMES), JSON | st.dictionaries(st.sampled_from(NAMES), JSON, max_size=6), max_size=10
)


@given(kind=st.sampled_from(KINDS), item=ODD)
def test_an_arbitrary_item_is_never_an_exception(kind: str, item: dict[str, Any]) -> None:
    found = parsed(update(kind, item))
    assert len(found.messages) + len(found.passed_over) == 1


@given(kind=st.sampled_from(KINDS), odd=ODD)
def test_an_odd_field_never_makes_a_message_somebody_else_s(kind: str, odd: dict[str, Any]) -> None:
    whole = press() if kind == "callback_query" else message(text="hi")
    item = whole | {name: value for name, value in odd.items() if name != "from"}
    for found in parsed(update(kind, item)).messages:
        assert found.sender == str(MARIA)
        assert found.phone is None or found.proves_phone


@given(unknown=st.text(min_size=1).filter(lambda name: name not in NAMES), value=JSON)
def test_an_unknown_field_at_any_level_changes_nothing(unknown: str, value: Any) -> None:
    whole = message(text="hi", reply_to_message=from_bot())
    odd = (
        {unknown: value} | whole | {"from": {unknown: value} | person(), "chat": {unknown: value} | private()}
    )
    plain, found = one("message", whole), one("message", odd)
    assert (found.kind, found.text, found.sender, found.quoted) == (
        plain.kind,
        plain.text,
        plain.sender,
        plain.quoted,
    )


@given(st.binary(max_size=200) | JSON.map(lambda one: json.dumps(one).encode()))
def test_any_bytes_are_read_or_malformed(body: bytes) -> None:
    with contextlib.suppress(Malformed):
        parsed(body)


# The secret


def account(*keys: bytes) -> Account:
    return Account(id=AccountId(1), business=BusinessId(1), business_slug="clinic", channel="telegram", address="clinic", keys=keys)  # fmt: skip


def checked(given: bytes | None, *keys: bytes) -> Signature:
    headers = {} if given is None else {b"x-telegram-bot-api-secret-token": given}
    return ENTRANCE.check(Post(url="", headers=headers, body=b"{}"), account(*keys), 0.0)


@pytest.mark.parametrize("given", [b"current", b"previous"])
def test_either_secret_opens_while_they_are_rotated(given: bytes) -> None:
    assert checked(given, b"current", b"previous") is Signature.GOOD


@pytest.mark.parametrize("given", [None, b"", b"curren", b"current ", b"Current", b"\xff\xfe"])
def test_nothing_else_opens(given: bytes | None) -> None:
    assert checked(given, b"current", b"previous") is Signature.WRONG


@pytest.mark.parametrize("given", [None, b"", b"x"])
def test_without_a_secret_of_ours_nobody_gets_in(given: bytes | None) -> None:
    assert checked(given) is Signature.WRONG


def test_telegram_hears_an_empty_answer() -> None:
    assert ENTRANCE.answer == b""
