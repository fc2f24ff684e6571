"""What the bench posts to Leeway, built in the driver's process: signed webhooks of both channels."""

import hashlib
import hmac
import itertools
import secrets
import time
from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from shared.signing import sign
from tests.bench.driver import raw_request
from tests.bench.job import BODY, META_SECRET

CUSTOMERS = 2_000
PHONE_NUMBER_ID = "900000000000001"
QUESTIONS = (
    "Hello, this is about my visit, reference",
    "Good morning! I have a word to say, note",
    "Bună ziua, am un mesaj, numărul",
    "Hi there, one more thing, ticket",
)


def number_of(person: int) -> str:
    """A customer's telephone number at the sim channel."""
    return f"+4072{person:06d}1"


def sim_requests(
    key: bytes, path: str, webhooks: Sequence[Sequence[int]], wave: int, host: str
) -> Iterator[bytes]:
    """One webhook for each group of people, with a message of each of them. `wave` tells their messages apart."""
    for people in webhooks:
        messages = [
            {
                "id": f"{wave}-{person}",
                "from": number_of(person),
                "text": f"{QUESTIONS[(person + wave) % len(QUESTIONS)]} ({secrets.token_hex(8)})",
            }
            for person in people
        ]
        yield _signed(key, path, host, {"messages": messages})


def generic_requests(key: bytes, path: str, count: int | None, host: str) -> Iterator[bytes]:
    """One message a webhook, of some 500 bytes, from one of 2,000 customers after another; `count` or for ever."""
    for nth in islice(itertools.count(1), count):
        sender = {"id": f"cust-{nth % CUSTOMERS}", "name": "Ana Pop"}
        data = {"message_id": f"m{nth}", "from": sender, "text": BODY, "locale": "ro"}
        timestamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        yield _signed(key, path, host, {"type": "message.received", "timestamp": timestamp, "data": data})


def whatsapp_requests(path: str, count: int | None, host: str) -> Iterator[bytes]:
    """The same as Meta sends them: one text a webhook, from people with a number and an id; `count` or for ever."""
    prefix, at = secrets.token_hex(8), str(int(time.time()))  # noqa: TID251
    for nth in islice(itertools.count(1), count):
        number, user = f"4072{nth % CUSTOMERS:06d}1", f"RO.{nth % CUSTOMERS:020d}"
        text = {
            "from": number,
            "from_user_id": user,
            "id": f"wamid.{prefix}{nth}",
            "timestamp": at,
            "type": "text",
            "text": {"body": BODY},
        }
        value = {
            "messaging_product": "whatsapp",
            "metadata": {"display_phone_number": "40700000100", "phone_number_id": PHONE_NUMBER_ID},
            "contacts": [{"profile": {"name": "Ana Pop"}, "user_id": user, "wa_id": number}],
            "messages": [text],
        }
        entry = {"id": "800000000000001", "changes": [{"value": value, "field": "messages"}]}
        body = msgspec.json.encode({"object": "whatsapp_business_account", "entry": [entry]})
        signature = "sha256=" + hmac.new(META_SECRET.encode(), body, hashlib.sha256).hexdigest()
        headers = {"content-type": "application/json", "x-hub-signature-256": signature}
        yield raw_request(host, path, body, headers)


def _signed(key: bytes, path: str, host: str, content: object) -> bytes:
    """A raw request with the headers that Standard Webhooks asks for."""
    body = msgspec.json.encode(content)
    webhook_id, now = f"msg_{secrets.token_hex(10)}", int(time.time())  # noqa: TID251
    headers = {
        "content-type": "application/json",
        "webhook-id": webhook_id,
        "webhook-timestamp": str(now),
        "webhook-signature": sign(key, webhook_id, now, body),
    }
    return raw_request(host, path, body, headers)
