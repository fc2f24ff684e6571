"""What Postgres can't hold in a text becomes U+FFFD; everything else stays as it was received."""

import re

_CANNOT_HOLD = re.compile("[\x00\ud800-\udfff]")


def storable(text: str) -> str:
    """The text without NUL and lone surrogates."""
    return _CANNOT_HOLD.sub("\ufffd", text) if _CANNOT_HOLD.search(text) else text
