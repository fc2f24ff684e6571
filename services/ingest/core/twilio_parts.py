"""What a message by Twilio carries beside its text: `MediaUrlN` with their types, and a place."""

from collections.abc import Iterator, Mapping
from typing import Final

from services.ingest.core.events import Part
from services.ingest.core.reading import WORDS_CHARS_MAX, clean
from shared.messages import PartKind

MEDIA_MOST: Final = 10
REFERENCE_CHARS_MAX: Final = 1024

_CARDS: Final = ("text/vcard", "text/x-vcard", "text/directory")
_BY_CLASS: Final = {
    "audio": PartKind.AUDIO,
    "image": PartKind.IMAGE,
    "video": PartKind.VIDEO,
    "application": PartKind.DOCUMENT,
    "text": PartKind.DOCUMENT,
}
_FETCHED: Final = (PartKind.AUDIO, PartKind.IMAGE)


def parts_of(form: Mapping[str, str]) -> tuple[Part, ...]:
    """In the order of the message; the place last."""
    return (*_media(form), *_place(form))


def _media(form: Mapping[str, str]) -> Iterator[Part]:
    for n in range(MEDIA_MOST):
        url = form.get(f"MediaUrl{n}", "")
        if not url:
            return
        mime = form.get(f"MediaContentType{n}", "").partition(";")[0].strip().lower()
        kind = PartKind.STICKER if form.get("MessageType") == "sticker" else _kind(mime)
        known = len(url) <= REFERENCE_CHARS_MAX and url.startswith(("https://", "http://"))
        yield Part(
            kind=kind,
            mime=clean(mime, 128) or None,
            reference=clean(url) if known else None,
            fetched=known and kind in _FETCHED,
        )


def _kind(mime: str) -> PartKind:
    if mime in _CARDS:
        return PartKind.CONTACT
    return _BY_CLASS.get(mime.partition("/")[0], PartKind.OTHER)


def _place(form: Mapping[str, str]) -> Iterator[Part]:
    """Coordinates as Twilio states them, with what WhatsApp calls the place."""
    latitude, longitude = form.get("Latitude", ""), form.get("Longitude", "")
    if not latitude or not longitude:
        return
    point = f"{latitude}, {longitude}" if _is_degrees(latitude) and _is_degrees(longitude) else ""
    words = ", ".join(word for word in (point, form.get("Label"), form.get("Address")) if word)
    yield Part(kind=PartKind.LOCATION, words=clean(words, WORDS_CHARS_MAX) or None)


def _is_degrees(text: str) -> bool:
    try:
        return abs(float(text)) <= 180
    except ValueError:
        return False
