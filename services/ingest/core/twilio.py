"""Twilio's way in: SMS, MMS and WhatsApp over Twilio, one message or status a request, as a signed form
(twilio.com/docs/messaging/guides/webhook-request and docs/usage/webhooks/webhooks-security).

A sender's id is `From` as it stands: a bare number by SMS, `whatsapp:` and a number or a business-scoped id by WhatsApp.
A form that names another AccountSid is for nobody here, whoever signed it.
"""

import base64
import hashlib
import hmac
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final
from urllib.parse import parse_qs, parse_qsl

from services.ingest.core.entrance import Account, Entrance, Post
from services.ingest.core.events import ELSEWHERE, Inbound, Malformed, Parsed, Part, Status
from services.ingest.core.reading import ID_CHARS_MAX, NAME_CHARS_MAX, clean
from services.ingest.core.twilio_parts import parts_of
from shared.channels.accounts import Twilio
from shared.channels.traits import WHATSAPP_OVER_TWILIO
from shared.channels.troubles import twilio_trouble
from shared.messages import OUR_BUTTONS, MessageKind, PartKind
from shared.phones import e164
from shared.signing import Signature

FIELDS_MOST: Final = 500
FORM: Final = "application/x-www-form-urlencoded"
SIGNATURE_HEADER: Final = b"x-twilio-signature"
SETTINGS_HEADER: Final = b"x-twilio-webhooks-signature-settings"  # of a SharedKey, and anybody's to write
EMPTY_TWIML: Final = b"<Response/>"
NOBODY: Final = "another account's"  # an address that no account of ours can have

_PORTS: Final = {"https": "443", "http": "80"}
_OPT_WORDS: Final = {"STOP": "opt_out", "START": "opt_in"}
_INBOUND_STATES: Final = ("receiving", "received")
# A message's states (docs/messaging/api/message-resource#message-status-values), as ours.
_STATES: Final = {
    **dict.fromkeys(("accepted", "scheduled", "queued", "sending", "sent", "partially_delivered"), "sent"),
    "delivered": "delivered",
    "read": "read",
    **dict.fromkeys(("failed", "undelivered", "canceled"), "failed"),
}

Form = Mapping[str, str]


# The signature


def check(post: Post, account: Account, _: float) -> Signature:
    """X-Twilio-Signature over the URL as Twilio called it and the form's different parameters, blank ones too. Which hash is the
    account's setting: the header that names one is written by whoever calls."""
    settings, given = account.settings, post.headers.get(SIGNATURE_HEADER, b"")
    if not isinstance(settings, Twilio) or not given:
        return Signature.WRONG
    if settings.signature == "sha1" and SETTINGS_HEADER in post.headers:
        return Signature.WRONG
    signed = _signed_beside_url(post)
    if signed is None:
        return Signature.WRONG
    matches = [
        hmac.compare_digest(base64.b64encode(hmac.digest(key, url + signed, settings.signature)), given)
        for key in account.keys
        for url in _urls(post.url)
    ]
    return Signature.GOOD if any(matches) else Signature.WRONG


def _signed_beside_url(post: Post) -> bytes | None:
    """What is signed after the URL; None: there is a body that nothing signs."""
    if _is_form(post):
        try:
            return b"".join(name + value for name, value in sorted(set(_pairs(post.body))))
        except ValueError:
            return None
    stated = parse_qs(post.query.decode("latin-1")).get("bodySHA256")
    if stated is None:
        return None if post.body else b""
    real = hashlib.sha256(post.body).hexdigest()
    return b"" if hmac.compare_digest(real.encode(), stated[0].encode()) else None


def _urls(url: str) -> Iterator[bytes]:
    """As called, and without or with the port: Twilio signs either way."""
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    name, colon, port = host.rpartition(":")
    other = name if colon and port.isdigit() else f"{host}:{_PORTS.get(scheme, '')}"
    for netloc in (host, other):
        yield f"{scheme}://{netloc}{slash}{path}".encode()


def _is_form(post: Post) -> bool:
    content_type = post.headers.get(b"content-type", b"").decode("latin-1")
    return content_type.partition(";")[0].strip().lower() == FORM


def _pairs(body: bytes) -> list[tuple[bytes, bytes]]:
    """The form's pairs as they were before they were quoted, byte for byte. Raises ValueError for what is no form."""
    read = parse_qsl(
        body.decode("ascii"), keep_blank_values=True, encoding="latin-1", max_num_fields=FIELDS_MOST
    )
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in read]


# What it says


def parse(post: Post, account: Account, now: datetime) -> Parsed:
    """The message or the status in the form; of a field that comes twice the first counts. Raises Malformed for neither."""
    if not _is_form(post):
        raise Malformed("the body must be a form")
    try:
        pairs = _pairs(post.body)
    except ValueError as error:
        raise Malformed(f"the body is no form of at most {FIELDS_MOST} fields") from error
    form: dict[str, str] = {}
    for name, value in pairs:
        form.setdefault(name.decode("utf-8", errors="replace"), value.decode("utf-8", errors="replace"))
    state = form.get("MessageStatus")
    if state and state not in _INBOUND_STATES and "Body" not in form:
        return _status(form, post.query, account)
    return Parsed(messages=(message(form, account, at=now, raw=post.body),))


def message(form: Form, account: Account, *, at: datetime, raw: bytes) -> Inbound:
    """A customer's message from its parameters, whichever way they came. Raises Malformed without an id or a sender."""
    sid = _first(form, "MessageSid", "SmsMessageSid", "SmsSid")
    sender = _id(form.get("From"))
    if sid is None or sender is None:
        raise Malformed("a message has a MessageSid and a From")
    button = _first(form, "ButtonPayload", "ListId")
    pressed = button if button is not None and button.startswith(OUR_BUTTONS) else None
    text = clean(form.get("Body") or form.get("ButtonText") or form.get("ListTitle")) or ""
    parts = parts_of(form)
    return Inbound(
        external_id=sid,
        channel_message_id=sid,
        sender=sender,
        to=_our_address(form, form.get("To"), account),
        kind=_kind(form, text, pressed, parts),
        text=text,
        channel_at=at,
        raw=raw,
        name=clean(form.get("ProfileName"), NAME_CHARS_MAX) or None,
        also_known_as=_other_id(form, sender),
        phone=_phone(form, sender),
        button=pressed,
        # a label on another's button is no yes by itself
        quoted=_id(form.get("OriginalRepliedMessageSid")) or (ELSEWHERE if button != pressed else None),
        forwarded=form.get("Forwarded", "").lower() == "true",
        opt_word=_OPT_WORDS.get(form.get("OptOutType", "").upper()),
        parts=parts,
    )


def _kind(form: Form, text: str, pressed: str | None, parts: tuple[Part, ...]) -> MessageKind:
    if form.get("OptOutType", "").upper() == "HELP":  # Twilio has answered
        return MessageKind.SYSTEM
    if pressed is not None:
        return MessageKind.BUTTON
    if any(part.kind is not PartKind.STICKER for part in parts):
        return MessageKind.MEDIA
    return MessageKind.TEXT if text else MessageKind.UNSUPPORTED


def _status(form: Form, query: bytes, account: Account) -> Parsed:
    state = form["MessageStatus"]
    status = _STATES.get(state.lower())
    if status is None:
        return Parsed(passed_over=(clean(f"status {state}", 64) or "a status",))
    failed = status == "failed"
    code = form.get("ErrorCode", "")
    known = int(code) if failed and code.isascii() and code.isdigit() and len(code) <= 6 else None
    said = parse_qs(query.decode("latin-1"))
    correlation = next((one for name in ("o", "oid") for one in said.get(name, ())), None)
    return Parsed(
        statuses=(
            Status(
                status=status,
                to=_our_address(form, form.get("From"), account),
                correlation=clean(correlation, ID_CHARS_MAX),
                provider_id=_first(form, "MessageSid", "SmsSid"),
                reason=_reason(state.lower(), known) if failed else None,
                trouble=twilio_trouble(known) if known is not None else None,
            ),
        )
    )


def _reason(state: str, code: int | None) -> str:
    """By state and code: Twilio's own text may hold numbers."""
    return state if code is None else f"{state}: error {code}"


# Whose it is


def _our_address(form: Form, stated: str | None, account: Account) -> str | None:
    """Which of our numbers is meant. A number of our own messaging service's pool is the account's."""
    settings = account.settings
    if not isinstance(settings, Twilio):
        return NOBODY
    if form.get("AccountSid", settings.account_sid) != settings.account_sid:
        return NOBODY
    number = stated.removeprefix(WHATSAPP_OVER_TWILIO).strip() if stated else ""
    service = form.get("MessagingServiceSid")
    if number not in account.homes and service and service == settings.messaging_service_sid:
        return settings.number
    return number or None


def _phone(form: Form, sender: str) -> str | None:
    """E.164: of the sender's id, or as WhatsApp states it beside a business-scoped one."""
    number = e164(sender.removeprefix(WHATSAPP_OVER_TWILIO))
    if number is not None or not sender.startswith(WHATSAPP_OVER_TWILIO) or not form.get("WaId"):
        return number
    return e164("+" + form["WaId"].removeprefix("+"))


def _other_id(form: Form, sender: str) -> str | None:
    """The id that WhatsApp has for the same person beside the sender's: the number, or the business-scoped one."""
    if not sender.startswith(WHATSAPP_OVER_TWILIO):
        return None
    scoped = _first(form, "ExternalUserId", "ExternalUserIdentifier")
    number = f"+{form['WaId'].removeprefix('+')}" if form.get("WaId") else None
    for known in (scoped, number):
        named = _id(WHATSAPP_OVER_TWILIO + known.removeprefix(WHATSAPP_OVER_TWILIO)) if known else None
        if named is not None and named != sender:
            return named
    return None


def _first(form: Form, *names: str) -> str | None:
    return next((known for name in names if (known := _id(form.get(name)))), None)


def _id(value: str | None) -> str | None:
    """An id as it can be stored; one too long would be another one when cut."""
    if not value or len(value) > ID_CHARS_MAX:
        return None
    return clean(value.strip()) or None


ENTRANCE: Final = Entrance(
    check=check,
    parse=parse,
    content_type=b"text/xml",
    answer=EMPTY_TWIML,
    refusal=EMPTY_TWIML,
    status_path=True,
)
