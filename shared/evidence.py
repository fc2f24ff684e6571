"""A chain of envelopes: each header's digest covers the one before and, salted, each of its parts. Pure.

Names and texts stand in parts alone: a part and its salt can be erased, and the chain still holds.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from shared.digest import canonical

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """One sealed decision. `parts` is JSON: name → {"salt": hex, "body": canonical JSON}, or null for one that was erased."""

    n: int
    header: str
    digest: bytes
    parts: str


class Found(StrEnum):
    """What checking an envelope found."""

    WHOLE = "whole"
    ERASED = "erased"  # parts are gone, what is there is as it was
    TAMPERED = "tampered"


def seal(
    facts: Mapping[str, Any],
    parts: Mapping[str, Mapping[str, Any]],
    *,
    n: int,
    previous: bytes | None,
    salts: Mapping[str, bytes],
) -> Envelope:
    """The envelope of number `n` (from 1) behind the one with digest `previous`. `salts` has one for each part."""
    bodies = {name: canonical(body) for name, body in parts.items()}
    header = canonical(
        {
            "v": VERSION,
            "n": n,
            "previous": previous.hex() if previous else None,
            "parts": {name: _part_digest(salts[name], body) for name, body in bodies.items()},
            **facts,
        }
    )
    salted = {name: {"salt": salts[name].hex(), "body": body} for name, body in bodies.items()}
    return Envelope(n=n, header=header, digest=_digest(header), parts=canonical(salted))


def check(chain: Sequence[Envelope]) -> list[Found]:
    """What each envelope of a conversation is, from its first on. A gap, or a wrong predecessor, is tampering."""
    found = []
    previous: bytes | None = None
    for n, envelope in enumerate(chain, start=1):
        found.append(_check(envelope, n=n, previous=previous))
        previous = envelope.digest
    return found


def _check(envelope: Envelope, *, n: int, previous: bytes | None) -> Found:
    try:
        header, parts = json.loads(envelope.header), json.loads(envelope.parts)
        named = dict(header["parts"])
        linked = (header["n"], header["previous"]) == (n, previous.hex() if previous else None)
        if (
            not linked
            or envelope.n != n
            or _digest(envelope.header) != envelope.digest
            or parts.keys() - named.keys()
        ):
            return Found.TAMPERED
        there = {name: part for name, part in parts.items() if part is not None}
        whole = all(
            _part_digest(bytes.fromhex(part["salt"]), part["body"]) == named[name]
            for name, part in there.items()
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return Found.TAMPERED
    if not whole:
        return Found.TAMPERED
    return Found.WHOLE if there.keys() == named.keys() else Found.ERASED


def _digest(header: str) -> bytes:
    return hashlib.sha256(header.encode()).digest()


def _part_digest(salt: bytes, body: str) -> str:
    return hashlib.sha256(len(salt).to_bytes(4, "big") + salt + body.encode()).hexdigest()
