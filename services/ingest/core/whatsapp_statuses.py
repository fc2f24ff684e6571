"""What WhatsApp says became of our sends (webhooks/reference/messages/status)."""

from collections.abc import Mapping
from typing import Final

from services.ingest.core.events import Status
from services.ingest.core.fields import Item, from_digits, item_at, items_at, text_at, unix_time
from services.ingest.core.reading import ID_CHARS_MAX, clean
from shared.channels.troubles import Trouble, whatsapp_trouble

CORRELATION_CHARS_MAX: Final = 512
REASON_CHARS_MAX: Final = 256

NAMES: Final[Mapping[str, str]] = {
    "sent": "sent",
    "delivered": "delivered",
    "read": "read",
    "played": "read",
    "failed": "failed",
}


def status_of(item: Item, *, to: str | None) -> Status | None:
    """The status in an item; None for what names no send or no state of one. `to`: our phone-number id."""
    said = NAMES.get(text_at(item, "status") or "")
    provider_id = clean(text_at(item, "id"), ID_CHARS_MAX)
    correlation = clean(text_at(item, "biz_opaque_callback_data"), CORRELATION_CHARS_MAX)
    if said is None or not (provider_id or correlation):
        return None
    reason, trouble = _why(item) if said == "failed" else (None, None)
    return Status(
        status=said,
        to=to,
        correlation=correlation,
        provider_id=provider_id,
        reason=reason,
        trouble=trouble,
        at=unix_time(from_digits(item.get("timestamp"))),
        billing=_billing(item_at(item, "pricing")),
    )


def _why(item: Item) -> tuple[str | None, Trouble]:
    """The first error, in the provider's words, and what kind of trouble it is."""
    for error in items_at(item, "errors"):
        code = error.get("code")
        if type(code) is int:
            details = text_at(item_at(error, "error_data"), "details") or text_at(error, "title") or ""
            return clean(f"WhatsApp says {code}: {details}", REASON_CHARS_MAX), whatsapp_trouble(code)
    return None, Trouble.UNKNOWN


def _billing(pricing: Item) -> str | None:
    """What it charges for, as `service regular`. It comes with `sent` and again later: the first is kept."""
    words = [text_at(pricing, name) for name in ("category", "type")]
    return clean(" ".join(word for word in words if word), 64) or None
