"""What a message of Telegram's carries beside its text (core.telegram.org/bots/api#message)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from services.ingest.core.events import Part
from services.ingest.core.fields import Item, item_at, joined, point_of, positive
from services.ingest.core.reading import NAME_CHARS_MAX, clean
from shared.messages import PartKind

REFERENCE_CHARS_MAX: Final = 512

# What a message has one of, the more telling first: an animation comes as a document as well. Whether its content is fetched.
MEDIA: Final[Mapping[str, tuple[PartKind, bool]]] = {
    "voice": (PartKind.AUDIO, True),
    "audio": (PartKind.AUDIO, True),
    "video": (PartKind.VIDEO, False),
    "video_note": (PartKind.VIDEO, False),
    "animation": (PartKind.VIDEO, False),
    "document": (PartKind.DOCUMENT, False),
}


def parts_of(item: Item) -> tuple[Part, ...]:
    photo = _largest(item.get("photo"))
    if photo is not None:
        return (_file(photo, PartKind.IMAGE, fetched=True),)
    for name, (kind, fetched) in MEDIA.items():
        if isinstance(item.get(name), dict):
            return (_file(item[name], kind, fetched=fetched),)
    if isinstance(item.get("sticker"), dict):
        sticker = _file(item["sticker"], PartKind.STICKER, fetched=False)
        return (replace(sticker, words=joined(item["sticker"].get("emoji"))),)
    if isinstance(item.get("location"), dict) or isinstance(item.get("venue"), dict):
        return (Part(kind=PartKind.LOCATION, words=_place(item)),)
    if isinstance(item.get("contact"), dict):
        card = item["contact"]
        names = joined(card.get("first_name"), card.get("last_name"), by=" ")
        return (Part(kind=PartKind.CONTACT, words=joined(names, card.get("phone_number"))),)
    return ()


def _file(item: Item, kind: PartKind, *, fetched: bool) -> Part:
    reference, mime, name = item.get("file_id"), item.get("mime_type"), item.get("file_name")
    known = isinstance(reference, str) and 0 < len(reference) <= REFERENCE_CHARS_MAX
    return Part(
        kind=kind,
        mime=clean(mime, 128) if isinstance(mime, str) else None,
        name=clean(name, NAME_CHARS_MAX) if isinstance(name, str) else None,
        reference=clean(reference) if isinstance(reference, str) and known else None,
        fetched=fetched and known,
    )


def _largest(sizes: object) -> Item | None:
    """A photo comes in several sizes."""
    known = [size for size in sizes if isinstance(size, dict)] if isinstance(sizes, list) else []
    return max(known, key=lambda size: positive(size.get("width")) or 0, default=None)


def _place(item: Item) -> str | None:
    venue = item_at(item, "venue")
    at = item_at(venue if "location" in venue else item, "location")
    return joined(point_of(at), venue.get("title"), venue.get("address"))
