"""WhatsApp's way in: the Cloud API's webhooks (developers.facebook.com, webhooks/reference, as of November 2026).

One request carries up to a thousand messages and statuses of any kind. Each is read on its own: one that says whose it
is and can't be read otherwise is kept raw as `unsupported`, and costs its neighbours nothing.
"""

import hashlib
import hmac
from datetime import datetime
from typing import Final
from urllib.parse import parse_qs

from services.ingest.core.entrance import Account, Entrance, Post
from services.ingest.core.events import Inbound, Malformed, Parsed, Status
from services.ingest.core.fields import Item, item_at, items_at, list_at, text_at
from services.ingest.core.reading import clean, parse_json
from services.ingest.core.whatsapp_messages import around_of, echo_of, message_of
from services.ingest.core.whatsapp_statuses import status_of
from shared.channels.accounts import WhatsApp
from shared.signing import Signature

BODY_BYTES_MAX: Final = 4 * 1024 * 1024  # payloads have up to 3 MB
CHALLENGE_CHARS_MAX: Final = 256
SIGNATURE_HEADER: Final = b"x-hub-signature-256"
OBJECT: Final = "whatsapp_business_account"

_ECHOES: Final = ("message_echoes", "smb_message_echoes")


def parse(body: bytes, *, now: datetime) -> Parsed:
    """Every message and status in the body; what means nothing to us is passed over, so that it is not delivered for days.

    Raises Malformed for what is no object.
    """
    content = parse_json(body)
    if not isinstance(content, dict):
        raise Malformed("a webhook is an object")
    messages: list[Inbound] = []
    statuses: list[Status] = []
    passed: list[str] = []
    if content.get("object") != OBJECT:
        return Parsed(passed_over=("not a webhook of WhatsApp's",))
    for entry in items_at(content, "entry"):
        for change in items_at(entry, "changes"):
            _read_change(change, now, messages, statuses, passed)
    return Parsed(messages=tuple(messages), statuses=tuple(statuses), passed_over=tuple(passed))


def _read_change(
    change: Item, now: datetime, messages: list[Inbound], statuses: list[Status], passed: list[str]
) -> None:
    value, field = item_at(change, "value"), text_at(change, "field") or "no field"
    around = around_of(value, field, now)
    before = len(messages) + len(statuses) + len(passed)
    for item in list_at(value, "messages"):
        message = message_of(item, around) if isinstance(item, dict) else None
        messages.append(message) if message else passed.append("a message of nobody")
    for name in _ECHOES:
        for item in list_at(value, name):
            echo = echo_of(item, around) if isinstance(item, dict) else None
            messages.append(echo) if echo else passed.append("an echo to nobody")
    for item in list_at(value, "statuses"):
        status = status_of(item, to=around.to) if isinstance(item, dict) else None
        statuses.append(status) if status else passed.append("a status that is none")
    passed += [f"error {error.get('code')}"[:64] for error in items_at(value, "errors")]
    if len(messages) + len(statuses) + len(passed) == before:
        passed.append(clean(field, 64) or "")


# Who posts it


def _check(post: Post, account: Account, _: float) -> Signature:
    """HMAC-SHA256 of the raw body under the app secret, current or previous; the prefix is part of the header."""
    given = post.headers.get(SIGNATURE_HEADER, b"")
    if not given.startswith(b"sha256="):
        return Signature.WRONG
    hexadecimal = given[7:].lower()
    wanted = [hmac.new(key, post.body, hashlib.sha256).hexdigest().encode() for key in account.keys]
    matches = [hmac.compare_digest(one, hexadecimal) for one in wanted]
    return Signature.GOOD if any(matches) else Signature.WRONG


def _handshake(query: bytes, account: Account) -> str | None:
    """The challenge of a verification that knows the account's token; None for any other."""
    try:
        asked = parse_qs(query.decode("ascii"), max_num_fields=20)
    except ValueError:
        return None
    mode, token, challenge = (
        asked.get(f"hub.{name}", [""])[0] for name in ("mode", "verify_token", "challenge")
    )
    known = account.verify_token is not None and hmac.compare_digest(
        account.verify_token, token.encode(errors="replace")
    )
    fits = 0 < len(challenge) <= CHALLENGE_CHARS_MAX
    return challenge if known and mode == "subscribe" and fits else None


def _parse(post: Post, account: Account, now: datetime) -> Parsed:
    assert isinstance(account.settings, WhatsApp), "settings of another channel"
    return parse(post.body, now=now)


ENTRANCE: Final = Entrance(check=_check, parse=_parse, handshake=_handshake, body_bytes_max=BODY_BYTES_MAX)
