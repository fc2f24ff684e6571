"""What the bench posts to Leeway, built in the driver's process: signed webhooks of both channels."""

import itertools
import secrets
import time
from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from shared.signing import sign
from tests.bench.driver import raw_request
from tests.bench.job import BODY

CUSTOMERS = 2_000
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
