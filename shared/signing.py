"""Signatures by Standard Webhooks v1 (the specification at standardwebhooks.com): `id.timestamp.body`, HMAC-SHA256."""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from enum import Enum

TOLERANCE_S = 300
SIGNATURES_MAX_CHARS = 4096

_ID = re.compile(rb"[\x21-\x2d\x2f-\x7e]{1,128}")
_TIMESTAMP = re.compile(rb"[0-9]{1,12}")


class Signature(Enum):
    """What became of checking a request's signature."""

    GOOD = "good"
    MISSING = "missing"  # no usable id or timestamp: 400
    OUTSIDE_TOLERANCE = "outside_tolerance"  # 400
    WRONG = "wrong"  # 401


def decode_secret(secret: str) -> bytes:
    """The key of a `whsec_…` secret. Raises ValueError for one that is none."""
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except ValueError as error:  # binascii.Error, or letters beyond ASCII
        raise ValueError("a secret is whsec_ and base64") from error
    if not 24 <= len(key) <= 64:
        raise ValueError("a secret is 24 to 64 bytes")
    return key


def sign(key: bytes, message_id: str, timestamp_s: int, body: bytes) -> str:
    """The signature header of one body under one key."""
    signed = f"{message_id}.{timestamp_s}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def check(headers: Mapping[bytes, bytes], body: bytes, keys: Sequence[bytes], *, now_s: float) -> Signature:
    """Whether any v1 signature matches any active key, over the raw bytes, in constant time. Header names in lower case."""
    message_id = headers.get(b"webhook-id", b"")
    timestamp = headers.get(b"webhook-timestamp", b"")
    signatures = headers.get(b"webhook-signature", b"")
    if not _ID.fullmatch(message_id) or not _TIMESTAMP.fullmatch(timestamp):
        return Signature.MISSING
    if not signatures or len(signatures) > SIGNATURES_MAX_CHARS:
        return Signature.WRONG
    if abs(now_s - int(timestamp)) > TOLERANCE_S:
        return Signature.OUTSIDE_TOLERANCE
    signed = b"%s.%s.%s" % (message_id, timestamp, body)
    wanted = [base64.b64encode(hmac.digest(key, signed, "sha256")) for key in keys]
    given = [part[3:] for part in signatures.split(b" ") if part.startswith(b"v1,")]
    matches = [hmac.compare_digest(want, got) for want in wanted for got in given]
    return Signature.GOOD if any(matches) else Signature.WRONG
