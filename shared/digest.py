"""A value as one text, and what a confirmation stands for as one number. Pure."""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec


def canonical(value: Mapping[str, Any]) -> str:
    """JSON with sorted keys: the same value is always the same text."""
    return msgspec.json.encode(value, order="sorted").decode()


def digest(tool: str, arguments: str, shown: str) -> bytes:
    """SHA-256 over tool, canonical arguments and canonical shown values, with lengths so that no two can run together."""
    parts = (tool.encode(), arguments.encode(), shown.encode())
    return hashlib.sha256(b"".join(len(part).to_bytes(4, "big") + part for part in parts)).digest()


def text_digest(text: str) -> bytes:
    """SHA-256 of a text: what a decision names as the words it saw."""
    return hashlib.sha256(text.encode()).digest()
