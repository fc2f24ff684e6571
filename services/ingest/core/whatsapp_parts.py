"""What a message of WhatsApp's carries beside its text (webhooks/reference/messages)."""

from collections.abc import Mapping
from typing import Final

from services.ingest.core.events import Part
from services.ingest.core.fields import Item, item_at, items_at, joined, point_of, text_at
from services.ingest.core.reading import NAME_CHARS_MAX, clean
from shared.channels.whatsapp import MEDIA_REFERENCE, NUMBER
from shared.messages import PartKind

OWN_CARD: Final = "contact_request"  # the answer to our asking: the sender's own number

# Each kind of message that has something beside its text, and whether its content is fetched.
PARTS: Final[Mapping[str, tuple[PartKind, bool]]] = {
    "image": (PartKind.IMAGE, True),
    "audio": (PartKind.AUDIO, True),
    "video": (PartKind.VIDEO, False),
    "document": (PartKind.DOCUMENT, False),
    "sticker": (PartKind.STICKER, False),
    "location": (PartKind.LOCATION, False),
    "contacts": (PartKind.CONTACT, False),
    "order": (PartKind.ORDER, False),
}


def parts_of(item: Item) -> tuple[Part, ...]:
    """The one part that a message of one of PARTS has."""
    name = str(item.get("type"))
    kind, fetched = PARTS[name]
    about = item_at(item, name)
    words = None
    if kind is PartKind.LOCATION:
        words = _place(about)
    elif kind is PartKind.CONTACT:
        words = joined(*(_card(card) for card in items_at(item, name)), by="; ")
    elif kind is PartKind.ORDER:
        words = joined(*(_ordered(one) for one in items_at(about, "product_items")), by="; ")
    reference = text_at(about, "id")
    known = bool(reference and MEDIA_REFERENCE.fullmatch(reference))
    return (
        Part(
            kind=kind,
            mime=clean(text_at(about, "mime_type"), 128),
            name=clean(text_at(about, "filename"), NAME_CHARS_MAX),
            reference=reference if known else None,
            fetched=fetched and known,
            words=words,
        ),
    )


def contact_number(item: Item) -> str | None:
    """The sender's own number, without a plus: of a card that answers our asking for it, and of no other."""
    for card in items_at(item, "contacts") if item.get("type") == "contacts" else ():
        if OWN_CARD in (item.get("origin"), card.get("origin")):
            for phone in items_at(card, "phones"):
                stated = text_at(phone, "wa_id") or (text_at(phone, "phone") or "").removeprefix("+")
                if NUMBER.fullmatch(stated):
                    return stated
    return None


def _place(location: Item) -> str | None:
    return joined(point_of(location), text_at(location, "name"), text_at(location, "address"))


def _card(card: Item) -> str | None:
    name = text_at(item_at(card, "name"), "formatted_name")
    numbers = (text_at(phone, "phone") for phone in items_at(card, "phones"))
    return joined(name, *numbers, by=" ")


def _ordered(product: Item) -> str | None:
    """One line of an order. Its price is the telephone's word."""
    name, quantity = text_at(product, "product_retailer_id"), product.get("quantity")
    price, currency = product.get("item_price"), text_at(product, "currency")
    counted = f"{quantity} × {name}" if type(quantity) is int else name
    priced = f"at {price} {currency}" if isinstance(price, int | float) and currency else None
    return joined(counted, priced, by=" ")
