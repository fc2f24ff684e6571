"""Recordings and pictures that we take: which types, told by how a file begins, whatever anybody calls it."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from shared.messages import PartKind


class Medium(StrEnum):
    """What a model may be given besides text, as LEEWAY_MEDIA names it."""

    AUDIO = "audio"
    IMAGES = "images"


MEDIUM: Final[Mapping[PartKind, Medium]] = {PartKind.AUDIO: Medium.AUDIO, PartKind.IMAGE: Medium.IMAGES}

TYPES: Final[Mapping[PartKind, frozenset[str]]] = {
    PartKind.AUDIO: frozenset(
        {"audio/ogg", "audio/mpeg", "audio/mp4", "audio/aac", "audio/amr", "audio/wav", "audio/webm"}
    ),
    PartKind.IMAGE: frozenset({"image/jpeg", "image/png", "image/webp"}),
}
"""By the kind of the part."""

_OTHER_NAMES: Final[Mapping[str, str]] = {
    "audio/opus": "audio/ogg",
    "audio/mp3": "audio/mpeg",
    "audio/m4a": "audio/mp4",
    "audio/x-m4a": "audio/mp4",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "image/jpg": "image/jpeg",
}
_BEGINNINGS: Final[tuple[tuple[int, bytes, str], ...]] = (
    (0, b"OggS", "audio/ogg"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"\xff\xfb", "audio/mpeg"),
    (0, b"\xff\xf3", "audio/mpeg"),
    (0, b"\xff\xf2", "audio/mpeg"),
    (0, b"\xff\xf1", "audio/aac"),
    (0, b"\xff\xf9", "audio/aac"),
    (4, b"ftyp", "audio/mp4"),
    (0, b"#!AMR", "audio/amr"),
    (8, b"WAVE", "audio/wav"),
    (0, b"\x1a\x45\xdf\xa3", "audio/webm"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (8, b"WEBP", "image/webp"),
)  # magic numbers of IANA's media types and the formats' specifications


def plain_type(stated: str | None) -> str | None:
    """A type as its own row of IANA's has it, without parameters; None: nothing is stated, or nothing that says anything."""
    name = (stated or "").partition(";")[0].strip().lower()
    if name in ("", "application/octet-stream", "binary/octet-stream"):
        return None
    return _OTHER_NAMES.get(name, name)


def type_of(content: bytes) -> str | None:
    """The type that the first bytes show; None: none that we take."""
    for at, beginning, mime in _BEGINNINGS:
        if content[at : at + len(beginning)] == beginning and (at != 8 or content[:4] == b"RIFF"):
            return mime
    return None
