"""WhatsApp's webhooks, read: each item on its own, people by what the item itself states, and never an exception."""

import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.agent.core import pending, reminder
from services.ingest.core import whatsapp, whatsapp_messages
from services.ingest.core.entrance import Account, Post
from services.ingest.core.events import ELSEWHERE, Inbound, Malformed, Parsed, Status
from shared.channels.accounts import WhatsApp
from shared.channels.troubles import Trouble
from shared.ids import AccountId, BusinessId
from shared.messages import OUR_BUTTONS, MessageKind, PartKind
from shared.signing import Signature

NOW = datetime(2026, 12, 1, 9, 5, tzinfo=UTC)
SAID_AT = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
ID, NUMBER = "RO.90000000000000000001", "40700000001"
TEXT = {"type": "text", "text": {"body": "hello"}}


def said(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"from": NUMBER, "from_user_id": ID, "id": "wamid.1", "timestamp": "1796115600"} | message | more


def body(*messages: object, field: str = "messages", **value: Any) -> bytes:
    content = {"metadata": {"phone_number_id": "900"}, "messages": list(messages)} | value
    entry = {"id": "800", "changes": [{"field": field, "value": content}]}
    return json.dumps({"object": "whatsapp_business_account", "entry": [entry]}).encode()


def read(*messages: object, **value: Any) -> Parsed:
    return whatsapp.parse(body(*messages, **value), now=NOW)


def one(message: dict[str, Any], **more: Any) -> Inbound:
    (found,) = read(said(message, **more)).messages
    return found


def account(*keys: bytes, token: bytes | None = None) -> Account:
    return Account(
        id=AccountId(1),
        business=BusinessId(1),
        business_slug="clinic",
        channel="whatsapp",
        address="clinic",
        keys=keys,
        verify_token=token,
        settings=WhatsApp(phone_number_id="900"),
    )


# Kinds


def button(id_: str, title: str) -> dict[str, Any]:
    return {
        "type": "interactive",
        "interactive": {"type": "button_reply", "button_reply": {"id": id_, "title": title}},
    }


KINDS: dict[str, tuple[dict[str, Any], MessageKind, str]] = {
    "text": (TEXT, MessageKind.TEXT, "hello"),
    "empty text": ({"type": "text", "text": {"body": ""}}, MessageKind.UNSUPPORTED, ""),
    "text without its object": ({"type": "text"}, MessageKind.UNSUPPORTED, ""),
    "image": ({"type": "image", "image": {"id": "7", "caption": "look"}}, MessageKind.MEDIA, "look"),
    "voice": ({"type": "audio", "audio": {"id": "7", "voice": True}}, MessageKind.MEDIA, ""),
    "sticker": ({"type": "sticker", "sticker": {"id": "7"}}, MessageKind.UNSUPPORTED, ""),
    "location": ({"type": "location", "location": {"latitude": 1, "longitude": 2}}, MessageKind.MEDIA, ""),
    "reaction": ({"type": "reaction", "reaction": {"message_id": "w", "emoji": "👍"}}, MessageKind.REACTION, "👍"),
    "reaction removed": ({"type": "reaction", "reaction": {"message_id": "w"}}, MessageKind.REACTION, ""),
    "our button": (button("pa:1:1:confirm", "Confirm"), MessageKind.BUTTON, "Confirm"),
    "somebody else's button": (button("slot:3", "10:00"), MessageKind.TEXT, "10:00"),
    "a press without its object": ({"type": "interactive", "errors": [{"code": 131000}]}, MessageKind.UNSUPPORTED, ""),
    "a form": ({"type": "interactive", "interactive": {"type": "nfm_reply", "nfm_reply": {}}}, MessageKind.UNSUPPORTED, ""),
    "quick reply": ({"type": "button", "button": {"payload": "p", "text": "Fine"}}, MessageKind.TEXT, "Fine"),
    "our quick reply": ({"type": "button", "button": {"payload": "rm:1:keep", "text": "Keep"}}, MessageKind.BUTTON, "Keep"),
    "edit": ({"type": "edit", "edit": {"original_message_id": "w", "message": TEXT}}, MessageKind.EDIT, "hello"),
    "revoke": ({"type": "revoke", "revoke": {"original_message_id": "w"}}, MessageKind.DELETION, ""),
    "group": (TEXT | {"group_id": "G"}, MessageKind.GROUP, "hello"),
    "welcome": ({"type": "request_welcome"}, MessageKind.UNSUPPORTED, ""),
    "poll": ({"type": "unsupported", "errors": [{"code": 131051}]}, MessageKind.UNSUPPORTED, ""),
    "of next year": ({"type": "hologram", "hologram": {}}, MessageKind.UNSUPPORTED, ""),
    "no type": ({}, MessageKind.UNSUPPORTED, ""),
}  # fmt: skip


@pytest.mark.parametrize(("message", "kind", "text"), KINDS.values(), ids=KINDS)
def test_each_kind_is_what_it_must_be_treated_as(
    message: dict[str, Any], kind: MessageKind, text: str
) -> None:
    found = one(message)
    assert (found.kind, found.text) == (kind, text)
    assert (found.external_id, found.channel_message_id, found.to) == ("wamid.1", "wamid.1", "900")
    assert (found.sender, found.phone, found.channel_at) == (ID, "+" + NUMBER, SAID_AT)
    assert json.loads(found.raw)["id"] == "wamid.1"


def test_our_buttons_are_those_that_the_agent_makes() -> None:
    assert {f"{pending.BUTTON_PREFIX}:", f"{reminder.BUTTON_PREFIX}:"} == set(OUR_BUTTONS)


def test_a_label_of_somebody_elses_button_quotes_what_it_stands_on() -> None:
    """A template's "Yes" is no yes to a question of ours, even where the template is not named."""
    press = {"type": "button", "button": {"payload": "campaign", "text": "Yes"}}
    assert one(press).quoted == ELSEWHERE
    assert one(press, context={"from": "1", "id": "wamid.tpl"}).quoted == "wamid.tpl"


def test_a_forwarded_text_is_somebody_elses_words_and_quotes_nothing() -> None:
    for how in ("forwarded", "frequently_forwarded"):
        found = one(TEXT, context={how: True, "id": "wamid.0"})
        assert (found.forwarded, found.quoted) == (True, None)


def test_where_an_ad_came_from_is_not_what_the_customer_said() -> None:
    found = one(TEXT, referral={"headline": "Whitening offer", "body": "Book now"})
    assert (found.text, b"Whitening" in found.raw) == ("hello", True)


# Parts


def test_voice_and_pictures_are_fetched_and_films_are_not() -> None:
    for kind, fetched in (("audio", True), ("image", True), ("video", False), ("document", False)):
        (part,) = one({"type": kind, kind: {"id": "77", "mime_type": "x/y", "filename": "a.pdf"}}).parts
        assert (part.reference, part.mime, part.fetched, part.name) == ("77", "x/y", fetched, "a.pdf")


@pytest.mark.parametrize("reference", ["../me", "a/b", "", "x" * 200, 7, None], ids=repr)
def test_a_reference_that_cannot_stand_in_a_url_is_not_fetched(reference: object) -> None:
    (part,) = one({"type": "image", "image": {"id": reference}}).parts
    assert (part.reference, part.fetched) == (None, False)


def test_places_cards_and_orders_are_described() -> None:
    place = {"type": "location", "location": {"latitude": 44.4, "longitude": 26.1, "name": "Home"}}
    order = {
        "type": "order",
        "order": {"product_items": [{"product_retailer_id": "KIT", "quantity": 2, "item_price": 9.5, "currency": "RON"}]},
    }  # fmt: skip
    card = {"type": "contacts", "contacts": [{"name": {"formatted_name": "Dan"}, "phones": [{"phone": "+4070"}]}]}  # fmt: skip
    described = [one(message).parts[0] for message in (place, order, card)]
    assert [(part.kind, part.words) for part in described] == [
        (PartKind.LOCATION, "44.4, 26.1, Home"),
        (PartKind.ORDER, "2 × KIT at 9.5 RON"),
        (PartKind.CONTACT, "Dan +4070"),
    ]


# Who


def test_a_hidden_number_is_known_by_the_id_alone() -> None:
    (found,) = read({"from_user_id": ID, "id": "w", "timestamp": "1", **TEXT}).messages
    assert (found.sender, found.also_known_as, found.reply_to, found.phone) == (ID, None, None, None)


def test_a_number_without_an_id_is_known_by_the_number() -> None:
    (found,) = read({"from": NUMBER, "id": "w", "timestamp": "1", **TEXT}).messages
    assert (found.sender, found.also_known_as, found.reply_to) == ("+" + NUMBER, None, "+" + NUMBER)


def test_the_id_of_a_number_may_stand_among_the_contacts_alone() -> None:
    contact = {"wa_id": NUMBER, "user_id": ID, "profile": {"name": "Ana", "username": "@ana"}}
    (found,) = read({"from": NUMBER, "id": "w", **TEXT}, contacts=[contact]).messages
    assert (found.sender, found.also_known_as, found.name) == (ID, "+" + NUMBER, "Ana")


@pytest.mark.parametrize(
    ("origin", "of_card", "proves"),
    [("contact_request", None, True), (None, "contact_request", True), ("other", None, False), (None, None, False)],
)  # fmt: skip
def test_only_the_answer_to_our_asking_proves_a_number(
    origin: str | None, of_card: str | None, *, proves: bool
) -> None:
    card = {"phones": [{"phone": "+40700000009", "wa_id": "40700000009"}], "origin": of_card}
    message = {"type": "contacts", "contacts": [card], "origin": origin, "from": None}
    found = one(message)
    assert (found.phone, found.proves_phone) == (("+40700000009", True) if proves else (None, False))


def test_an_announced_change_is_told_of_the_old_id_and_proves_nothing() -> None:
    new = {"wa_id": "40700000011", "user_id": "RO.2", "previous_user_id": ID}
    system = {"type": "system", "system": {"type": "user_changed_number", "body": "x", **new}}
    (found,) = read({"from": NUMBER, "id": "w", "timestamp": "1", **system}).messages
    assert (found.kind, found.sender, found.renamed_to) == (MessageKind.SYSTEM, ID, "RO.2")
    assert (found.phone, found.reply_to) == (None, None)


def test_an_echo_is_our_side_speaking_to_somebody() -> None:
    echo = {"from": "40700000100", "to": NUMBER, "to_user_id": ID, "id": "wamid.E", "timestamp": "1", **TEXT}
    for field, name in (("smb_message_echoes", "message_echoes"), ("message_echoes", "message_echoes")):
        (found,) = read(field=field, **{name: [echo]}).messages
        assert (found.kind, found.sender, found.text) == (MessageKind.ECHO, ID, "hello")


def test_what_another_agent_handles_is_stored_and_no_more() -> None:
    (found,) = read(said(TEXT), field="standby").messages
    assert found.kind is MessageKind.SYSTEM


# Statuses


def status(**fields: Any) -> Status:
    (found,) = read(
        statuses=[{"id": "wamid.O", "status": "sent", "timestamp": "1796115600"} | fields]
    ).statuses
    return found


def test_a_status_says_how_far_when_and_what_it_costs() -> None:
    found = status(status="played", pricing={"category": "service", "type": "regular"}, biz_opaque_callback_data="x")  # fmt: skip
    assert (found.status, found.at, found.billing) == ("read", SAID_AT, "service regular")
    assert (found.correlation, found.to) == ("x", "900")


def test_a_failure_says_why_and_what_kind_of_trouble_it_is() -> None:
    found = status(status="failed", errors=[{"code": 131047, "title": "Re-engagement message"}])
    assert (found.trouble, "131047" in (found.reason or "")) == (Trouble.WINDOW_CLOSED, True)
    assert status(status="failed").trouble is Trouble.UNKNOWN


def test_a_status_nobody_knows_is_passed_over() -> None:
    parsed = read(statuses=[{"id": "w", "status": "teleported"}, {"status": "sent"}, 7])
    assert (parsed.statuses, len(parsed.passed_over)) == ((), 3)


# Whatever comes


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.sampled_from(
    ["type", "from", "from_user_id", "id", "timestamp", "context", "group_id", "text", "image", "contacts", "interactive",
     "button", "edit", "revoke", "reaction", "system", "order", "location", "errors", "origin", "audio", "referral"]
)  # fmt: skip
TYPES = st.sampled_from(
    [*whatsapp_messages.READERS, "system", "unsupported", "request_welcome", "interactive"]
)
ITEMS = st.builds(
    lambda fields, kind: fields | {"type": kind}, st.dictionaries(NAMES, ANYTHING, max_size=8), TYPES
)


@given(items=st.lists(ITEMS | ANYTHING, max_size=4), at=st.integers(0, 4))
def test_a_well_formed_neighbour_is_never_lost(items: list[Any], at: int) -> None:
    at = min(at, len(items))
    parsed = read(*items[:at], said(TEXT), *items[at:])
    assert ("wamid.1", ID, "hello") in [(m.external_id, m.sender, m.text) for m in parsed.messages]


@given(item=ITEMS)
def test_nobody_is_made_up(item: dict[str, Any]) -> None:
    contact = {"wa_id": "40799999999", "user_id": "RO.999", "profile": {"name": "Other"}}
    for message in read(item, contacts=[contact]).messages:
        stated = json.dumps(item)
        assert message.sender.removeprefix("+") in stated or (
            message.sender == "RO.999" and "40799999999" in stated
        )


@given(content=ANYTHING)
def test_any_json_is_read_or_refused(content: object) -> None:
    try:
        whatsapp.parse(json.dumps(content).encode(), now=NOW)
    except Malformed:
        assert not isinstance(content, dict)


@given(value=ANYTHING, field=ANYTHING)
def test_any_change_is_read(value: object, field: object) -> None:
    content = {
        "object": "whatsapp_business_account",
        "entry": [{"changes": [{"value": value, "field": field}]}],
    }
    whatsapp.parse(json.dumps(content).encode(), now=NOW)


def test_a_thousand_messages_are_read_in_order() -> None:
    batch = [said(TEXT, id=f"wamid.{n}") for n in range(1000)]
    assert [m.external_id for m in read(*batch).messages] == [f"wamid.{n}" for n in range(1000)]


def test_a_change_that_means_nothing_is_named_whatever_came_before_it() -> None:
    changes = [{"field": "account_update", "value": {}}, {"field": "flows", "value": {}}]
    content = {"object": "whatsapp_business_account", "entry": [{"changes": changes}]}
    assert whatsapp.parse(json.dumps(content).encode(), now=NOW).passed_over == ("account_update", "flows")


# Who posts it


def signed(content: bytes, key: bytes, prefix: str = "sha256=") -> Post:
    value = prefix + hmac.new(key, content, hashlib.sha256).hexdigest()
    return Post(url="", headers={b"x-hub-signature-256": value.encode()}, body=content)


def test_either_secret_of_a_rotation_signs_and_no_other_does() -> None:
    desk = account(b"now", b"before")
    check = whatsapp.ENTRANCE.check
    assert [check(signed(b"{}", key), desk, 0) for key in (b"now", b"before", b"other", b"")] == [
        Signature.GOOD, Signature.GOOD, Signature.WRONG, Signature.WRONG,
    ]  # fmt: skip
    assert check(signed(b"{}", b"now", prefix=""), desk, 0) is Signature.WRONG
    assert check(Post(url="", headers={}, body=b"{}"), desk, 0) is Signature.WRONG
    assert check(signed(b"{}", b""), account(), 0) is Signature.WRONG, (
        "an account without a secret takes nothing"
    )


def test_the_same_json_in_another_spelling_is_not_what_was_signed() -> None:
    """SIG-01."""
    content = b'{"object":"whatsapp_business_account","entry":[],"x":"p\\u00e2n\\u0103"}'
    headers = signed(content, b"now").headers
    respelt = json.dumps(json.loads(content), ensure_ascii=False).encode()
    assert (
        whatsapp.ENTRANCE.check(Post(url="", headers=headers, body=content), account(b"now"), 0)
        is Signature.GOOD
    )
    assert (
        whatsapp.ENTRANCE.check(Post(url="", headers=headers, body=respelt), account(b"now"), 0)
        is Signature.WRONG
    )


SHAKES: dict[str, tuple[bytes, str | None]] = {
    "right": (b"hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=tok", "1158201444"),
    "another token": (b"hub.mode=subscribe&hub.challenge=1&hub.verify_token=tok2", None),
    "no token": (b"hub.mode=subscribe&hub.challenge=1", None),
    "another mode": (b"hub.mode=unsubscribe&hub.challenge=1&hub.verify_token=tok", None),
    "no challenge": (b"hub.mode=subscribe&hub.verify_token=tok", None),
    "too long": (b"hub.mode=subscribe&hub.verify_token=tok&hub.challenge=" + b"1" * 300, None),
    "nothing": (b"", None),
    "not ASCII": (b"hub.mode=subscribe&hub.verify_token=tok&hub.challenge=\xff", None),
}


@pytest.mark.parametrize(("query", "answer"), SHAKES.values(), ids=SHAKES)
def test_a_handshake_is_answered_to_who_knows_the_token(query: bytes, answer: str | None) -> None:
    assert whatsapp.ENTRANCE.handshake is not None
    assert whatsapp.ENTRANCE.handshake(query, account(token=b"tok")) == answer
    assert whatsapp.ENTRANCE.handshake(query, account()) is None, "no token is set"
