"""Twilio's way in: what is signed, who wrote, what came, and whose it is."""

import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.ingest.core import twilio
from services.ingest.core.addressing import at_home
from services.ingest.core.entrance import Account, Post
from services.ingest.core.events import Inbound, Malformed, Parsed, Part, Status
from shared.channels.accounts import Settings, Twilio
from shared.channels.troubles import Trouble
from shared.ids import AccountId, BusinessId
from shared.messages import MessageKind, PartKind
from shared.signing import Signature
from tests.oracles.signatures import twilio_signed

SID, OTHER_SID = "AC" + "1" * 32, "AC" + "2" * 32
SERVICE = "MG" + "1" * 32
OURS, SECOND = "+40200000001", "+40200000002"
ANA = "+40700000001"
NOW = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
URL = "https://bot.example.test/hooks/twilio/clinic"
FORM = "application/x-www-form-urlencoded"
KEY = "auth-token-1"


def account(*keys: str, settings: Settings | None = None, **more: Any) -> Account:
    usual = Twilio(account_sid=SID, number=OURS, messaging_service_sid=SERVICE, **more)
    return Account(
        id=AccountId(1),
        business=BusinessId(1),
        business_slug="clinic",
        channel="twilio",
        address="clinic",
        keys=tuple(key.encode() for key in keys),
        settings=settings or usual,
        homes={OURS: AccountId(1), SECOND: AccountId(2)},
    )


def post(
    form: dict[str, str] | bytes,
    *,
    url: str = URL,
    signature: str = "",
    content_type: str = FORM,
    **headers: str,
) -> Post:
    body = form if isinstance(form, bytes) else urlencode(form).encode()
    named = {"content-type": content_type, "x-twilio-signature": signature, **headers}
    return Post(
        url=url,
        headers={name.replace("_", "-").encode(): value.encode("latin-1") for name, value in named.items()},
        body=body,
        query=url.partition("?")[2].encode(),
    )


def checked(of: Post, *keys: str, **more: Any) -> Signature:
    return twilio.check(of, account(*(keys or (KEY,)), **more), 0.0)


def sms(text: str | None = "Hello", **more: str) -> dict[str, str]:
    said = {} if text is None else {"Body": text}
    return {"MessageSid": "SM1", "AccountSid": SID, "From": ANA, "To": OURS, "NumMedia": "0", **said, **more}


def parsed(form: dict[str, str], *, url: str = URL) -> Parsed:
    return twilio.parse(post(form, url=url), account(KEY), NOW)


def read(form: dict[str, str]) -> Inbound:
    (message,) = parsed(form).messages
    return message


# The signature

PAIRS = st.lists(st.tuples(st.text(min_size=1, max_size=12), st.text(max_size=20)), max_size=12)


@given(PAIRS, st.sampled_from(["sha1", "sha256"]), st.sampled_from(["", "?v=1", "?o=a%20b&x="]))
def test_what_is_signed_is_taken_and_any_change_of_it_refused(
    pairs: list[tuple[str, str]], algorithm: Any, query: str
) -> None:
    body, url = urlencode(pairs, errors="surrogatepass").encode(), URL + query
    signature = twilio_signed(url, pairs, KEY, algorithm)
    good = post(body, url=url, signature=signature)
    assert checked(good, signature=algorithm) is Signature.GOOD
    assert checked(good, "other", KEY, signature=algorithm) is Signature.GOOD, "while a token is replaced"
    wrong = [
        checked(good, "other", signature=algorithm),
        checked(good, signature="sha1" if algorithm == "sha256" else "sha256"),
        checked(replace(good, url=url + "x"), signature=algorithm),
        checked(replace(good, url=url.replace("https", "http")), signature=algorithm),
        checked(replace(good, body=urlencode([*pairs, ("Extra", "1")]).encode()), signature=algorithm),
        checked(post(body, url=url, signature=signature[:-2]), signature=algorithm),
        twilio.check(good, account(signature=algorithm), 0.0),
    ]
    assert set(wrong) == {Signature.WRONG}


@given(PAIRS)
def test_the_same_pair_twice_is_signed_once_and_blank_values_are_signed(pairs: list[tuple[str, str]]) -> None:
    twice = [*pairs, ("FromCity", ""), ("FromCity", "")]
    good = post(urlencode(twice).encode(), signature=twilio_signed(URL, twice, KEY, "sha1"))
    assert checked(good) is Signature.GOOD
    without = [pair for pair in pairs if pair[0] != "FromCity"]
    assert checked(replace(good, body=urlencode(without).encode())) is Signature.WRONG


@pytest.mark.parametrize(
    ("called", "signed"),
    [
        ("https://bot.example.test", "https://bot.example.test:443"),  # SIG-04
        ("https://bot.example.test:443", "https://bot.example.test"),
        ("https://bot.example.test:8443", "https://bot.example.test:8443"),
        ("http://bot.example.test", "http://bot.example.test:80"),
    ],
)
def test_a_port_may_be_signed_or_not(called: str, signed: str) -> None:
    path = "/hooks/twilio/clinic?v=1"
    signature = twilio_signed(signed + path, list(sms().items()), KEY, "sha1")
    assert checked(post(sms(), url=called + path, signature=signature)) is Signature.GOOD
    elsewhere = twilio_signed(signed.replace("bot", "bad") + path, list(sms().items()), KEY, "sha1")
    assert checked(post(sms(), url=called + path, signature=elsewhere)) is Signature.WRONG


def test_a_json_body_is_signed_by_its_hash_and_no_other_body_is_taken_unsigned() -> None:
    body = '{"a": "ș"}'.encode()
    url = f"{URL}?bodySHA256={hashlib.sha256(body).hexdigest()}"
    good = post(body, url=url, signature=twilio_signed(url, [], KEY, "sha1"), content_type="application/json")
    assert checked(good) is Signature.GOOD
    assert checked(replace(good, body=body + b" ")) is Signature.WRONG
    unsigned = post(body, signature=twilio_signed(URL, [], KEY, "sha1"), content_type="application/json")
    assert checked(unsigned) is Signature.WRONG
    assert checked(replace(unsigned, body=b"")) is Signature.GOOD, "nothing but the URL, which is signed"


def test_the_header_does_not_choose_the_algorithm() -> None:
    named = {"x_twilio_webhooks_signature_settings": "key=webhooks_sharedkey_1,algorithm=HMAC_SHA256"}
    by_sha1 = twilio_signed(URL, list(sms().items()), KEY, "sha1")
    by_sha256 = twilio_signed(URL, list(sms().items()), KEY, "sha256")
    assert checked(post(sms(), signature=by_sha1, **named)) is Signature.WRONG
    assert checked(post(sms(), signature=by_sha256, **named)) is Signature.WRONG
    assert checked(post(sms(), signature=by_sha256, **named), signature="sha256") is Signature.GOOD
    lying = {"x_twilio_webhooks_signature_settings": "key=none,algorithm=HMAC_SHA1"}
    assert checked(post(sms(), signature=by_sha1, **lying), signature="sha256") is Signature.WRONG


@given(
    st.binary(max_size=60),
    st.binary(max_size=40),
    st.sampled_from([FORM, FORM.upper(), "application/json", ""]),
)
def test_no_bytes_break_the_check(body: bytes, header: bytes, content_type: str) -> None:
    headers = {b"content-type": content_type.encode(), b"x-twilio-signature": header}
    of = Post(url=URL, headers=headers, body=body)
    assert twilio.check(of, account(KEY), 0.0) is Signature.WRONG
    assert twilio.check(of, account(KEY, settings=Settings()), 0.0) is Signature.WRONG


def test_a_form_of_too_many_fields_is_refused_before_it_is_read() -> None:
    pairs = [(f"f{n}", "") for n in range(501)]
    many = post(urlencode(pairs).encode(), signature=twilio_signed(URL, pairs, KEY, "sha1"))
    assert checked(many) is Signature.WRONG
    with pytest.raises(Malformed, match="500"):
        twilio.parse(many, account(KEY), NOW)


# Who wrote, and what


@pytest.mark.parametrize(
    ("form", "fields"),
    [
        (sms(), {"kind": MessageKind.TEXT, "sender": ANA, "phone": ANA, "text": "Hello", "to": OURS, "opt_word": None}),
        (sms(None), {"kind": MessageKind.UNSUPPORTED, "text": ""}),
        (sms(""), {"kind": MessageKind.UNSUPPORTED}),
        (sms(" YES "), {"kind": MessageKind.TEXT, "text": " YES "}),
        (sms(From="12345"), {"sender": "12345", "phone": None}),  # a short code
        (sms(From="INFO"), {"sender": "INFO", "phone": None}),
        (sms(From=f"whatsapp:{ANA}", To=f"whatsapp:{OURS}", ProfileName="Ana"), {"sender": f"whatsapp:{ANA}", "phone": ANA, "name": "Ana", "to": OURS}),
        (sms(From="whatsapp:RO.9"), {"sender": "whatsapp:RO.9", "phone": None, "also_known_as": None}),
        (sms(From="whatsapp:RO.9", ExternalUserId="whatsapp:RO.9", WaId=ANA[1:]), {"phone": ANA, "also_known_as": f"whatsapp:{ANA}"}),
        (sms(From=f"whatsapp:{ANA}", ExternalUserIdentifier="RO.9"), {"sender": f"whatsapp:{ANA}", "also_known_as": "whatsapp:RO.9"}),
        (sms(ExternalUserId="RO.9", WaId="40799"), {"also_known_as": None, "phone": ANA}),  # by SMS nobody has one
        (sms("CANCEL", OptOutType="STOP"), {"kind": MessageKind.TEXT, "text": "CANCEL", "opt_word": "opt_out"}),  # OPT-01
        (sms("START", OptOutType="START"), {"kind": MessageKind.TEXT, "opt_word": "opt_in"}),  # OPT-08
        (sms("HELP", OptOutType="HELP"), {"kind": MessageKind.SYSTEM, "opt_word": None}),
        (sms("STOP"), {"kind": MessageKind.TEXT, "opt_word": None}),  # the guard knows the word
        (sms(Forwarded="true"), {"forwarded": True}),
        (sms("Confirm", ButtonPayload="pa:1:1:confirm", OriginalRepliedMessageSid="SM9"), {"kind": MessageKind.BUTTON, "button": "pa:1:1:confirm", "quoted": "SM9", "text": "Confirm"}),
        (sms("", ButtonPayload="rm:1:keep", ButtonText="I come"), {"kind": MessageKind.BUTTON, "button": "rm:1:keep", "text": "I come"}),
        (sms("Yes", ButtonPayload="promo-yes", OriginalRepliedMessageSid="SM9"), {"kind": MessageKind.TEXT, "button": None, "quoted": "SM9", "text": "Yes"}),
        (sms(ReferralBody="An ad", ReferralNumMedia="1"), {"kind": MessageKind.TEXT, "text": "Hello", "parts": ()}),
        (sms("", NumMedia="1", MediaUrl0="https://m.example.test/1", MediaContentType0="image/jpeg"),
         {"kind": MessageKind.MEDIA, "text": "", "parts": (Part(kind=PartKind.IMAGE, mime="image/jpeg", reference="https://m.example.test/1", fetched=True),)}),
        (sms("See", MediaUrl0="https://m.example.test/1", MediaContentType0="audio/ogg; codecs=opus", MediaUrl1="https://m.example.test/2", MediaContentType1="application/pdf"),
         {"kind": MessageKind.MEDIA, "text": "See", "parts": (
             Part(kind=PartKind.AUDIO, mime="audio/ogg", reference="https://m.example.test/1", fetched=True),
             Part(kind=PartKind.DOCUMENT, mime="application/pdf", reference="https://m.example.test/2"))}),
        (sms("", MediaUrl0="file:///etc/passwd", MediaContentType0="image/png"), {"parts": (Part(kind=PartKind.IMAGE, mime="image/png"),)}),
        (sms("", MediaUrl0="https://m.example.test/1", MediaContentType0="text/vcard"), {"parts": (Part(kind=PartKind.CONTACT, mime="text/vcard", reference="https://m.example.test/1"),)}),
        (sms("", MediaUrl0="https://m.example.test/1", MediaContentType0="image/webp", MessageType="sticker"), {"kind": MessageKind.UNSUPPORTED}),
        (sms("", Latitude="44.4", Longitude="26.1", Label="Home", Address="Str. 1"), {"kind": MessageKind.MEDIA, "text": "", "parts": (Part(kind=PartKind.LOCATION, words="44.4, 26.1, Home, Str. 1"),)}),
        (sms("", Latitude="nan", Longitude="x"), {"parts": (Part(kind=PartKind.LOCATION),)}),
    ],
)  # fmt: skip
def test_a_form_is_a_message(form: dict[str, str], fields: dict[str, Any]) -> None:
    message = read(form)
    assert {name: getattr(message, name) for name in fields} == fields
    assert (message.external_id, message.channel_message_id, message.channel_at) == ("SM1", "SM1", NOW)
    assert message.raw == urlencode(form).encode()


@pytest.mark.parametrize(
    "form", [{}, {"MessageSid": "SM1"}, {"From": ANA}, sms(From="x" * 300), sms(From=" ")]
)
def test_what_has_no_id_or_sender_is_malformed(form: dict[str, str]) -> None:
    with pytest.raises(Malformed):
        parsed(form)


def test_a_body_that_is_no_form_is_malformed() -> None:
    with pytest.raises(Malformed):
        twilio.parse(post(b"{}", content_type="application/json"), account(KEY), NOW)
    with pytest.raises(Malformed):
        twilio.parse(post("Body=ș".encode()), account(KEY), NOW)


NAMES = st.sampled_from(["MessageSid", "From", "To", "Body", "AccountSid", "MediaUrl0", "MediaContentType0", "NumMedia", "MessageStatus",
                         "ErrorCode", "ButtonPayload", "Latitude", "Longitude", "WaId", "ExternalUserId", "OptOutType", "MessagingServiceSid"])  # fmt: skip


@given(
    st.dictionaries(
        NAMES | st.text(max_size=9),
        st.text(max_size=300) | st.sampled_from([SID, OURS, ANA, "sent", "99999999"]),
    ),
    st.binary(max_size=40),
)
def test_any_form_is_read_or_malformed_and_nobody_is_made_up(form: dict[str, str], query: bytes) -> None:
    try:
        found = twilio.parse(replace(post(form), query=query), account(KEY), NOW)
    except Malformed:
        return
    for message in found.messages:
        assert message.sender == form["From"].strip().replace("\x00", "\ufffd")
        assert message.opt_word is None or form["OptOutType"].upper() in ("STOP", "START")
        assert message.button is None or form["ButtonPayload"].startswith(("pa:", "rm:"))


# Statuses


@pytest.mark.parametrize(
    ("said", "status"),
    [
        *(
            (one, "sent")
            for one in ("accepted", "scheduled", "queued", "sending", "sent", "partially_delivered")
        ),
        ("delivered", "delivered"),
        ("read", "read"),
        *((one, "failed") for one in ("failed", "undelivered", "canceled")),
    ],
)
def test_a_status_is_one_of_ours(said: str, status: str) -> None:
    form = {
        "MessageSid": "SM5",
        "MessageStatus": said,
        "AccountSid": SID,
        "From": f"whatsapp:{OURS}",
        "To": ANA,
    }
    (found,) = parsed(form, url=f"{URL}/status?o=0190").statuses
    reason = said if status == "failed" else None
    assert found == Status(status=status, to=OURS, correlation="0190", provider_id="SM5", reason=reason)
    (older,) = parsed(form, url=f"{URL}?oid=0191").statuses
    assert older.correlation == "0191", "wherever it comes"


@pytest.mark.parametrize(
    ("code", "trouble"),
    [
        ("30007", Trouble.CONTENT), ("30005", Trouble.RECIPIENT), ("30003", Trouble.RECIPIENT), ("21610", Trouble.OPTED_OUT),
        ("63016", Trouble.WINDOW_CLOSED), ("99999", Trouble.UNKNOWN), ("x", None), ("", None), ("9" * 30, None),
    ],
)  # fmt: skip
def test_a_failure_says_what_kind_and_no_number(code: str, trouble: Trouble | None) -> None:
    form = {"MessageSid": "SM5", "MessageStatus": "undelivered", "From": OURS, "To": ANA, "ErrorCode": code, "ErrorMessage": f"no {ANA}"}  # fmt: skip
    (found,) = parsed(form).statuses
    assert found.trouble is trouble
    assert ANA not in str(found)


def test_a_state_of_next_year_is_passed_over_and_a_message_that_has_one_is_a_message() -> None:
    unknown = parsed({"MessageSid": "SM5", "MessageStatus": "teleported", "From": OURS})
    assert (unknown.messages, unknown.statuses, unknown.passed_over) == ((), (), ("status teleported",))
    assert read(sms(MessageStatus="received")).text == "Hello"
    assert read(sms(MessageStatus="sent")).text == "Hello", "a customer's words are never lost for a status"


# Whose it is


@pytest.mark.parametrize(
    ("form", "home"),
    [
        (sms(), 1),
        (sms(To=f"whatsapp:{OURS}"), 1),
        (sms(To=SECOND), 2),
        (sms(To="+40999999999"), None),
        (sms(To="+40999999999", MessagingServiceSid=SERVICE), 1),  # another number of our pool
        (sms(To=SECOND, MessagingServiceSid=SERVICE), 2),
        (sms(To="+40999999999", MessagingServiceSid="MG9"), None),
        (sms(AccountSid=OTHER_SID), None),
        (sms(AccountSid=OTHER_SID, MessagingServiceSid=SERVICE), None),
        ({name: value for name, value in sms().items() if name != "AccountSid"}, 1),
        ({name: value for name, value in sms().items() if name != "To"}, 1),
        ({"MessageSid": "SM5", "MessageStatus": "sent", "From": OURS}, 1),
        ({"MessageSid": "SM5", "MessageStatus": "sent", "MessagingServiceSid": SERVICE}, 1),
        ({"MessageSid": "SM5", "MessageStatus": "sent", "From": OURS, "AccountSid": OTHER_SID}, None),
    ],
)
def test_what_is_addressed_to_somebody_else_is_dropped_and_counted(
    form: dict[str, str], home: int | None
) -> None:
    housed, strays = at_home(parsed(form), account(KEY))
    assert [one.id for one, _, _ in housed] == ([home] if home else [])
    assert strays == (0 if home else 1)


def test_every_answer_is_empty_twiml() -> None:
    entrance = twilio.ENTRANCE
    assert (entrance.answer, entrance.refusal, entrance.content_type) == (
        b"<Response/>",
        b"<Response/>",
        b"text/xml",
    )
