"""How an SMS is paid for: in segments, by the alphabet that its letters need (3GPP TS 23.038 and 23.040).

One letter outside GSM-7 makes the whole message UCS-2, which is twice as dear and more."""

import unicodedata
from typing import Final

# TS 23.038, 6.2.1: one septet each. 6.2.1.1: an escape and one more.
_BASIC: Final = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
_EXTENDED: Final = frozenset("\f^{}\\[~]|€")

_GSM_ALONE, _GSM_EACH = 160, 153  # septets; a message of several segments has a header in each
_UCS_ALONE, _UCS_EACH = 70, 67  # units of UTF-16

# Punctuation that is in no alphabet of GSM-7, and says the same there.
_PLAIN_MARKS: Final = str.maketrans(
    {"‘": "'", "’": "'", "‚": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "–": "-", "—": "-", "−": "-", "•": "-"}
)  # fmt: skip


def segments(text: str) -> int:
    """How many segments a text is sent and billed as; an empty one is one. A letter is never divided between two."""
    if all(one in _BASIC or one in _EXTENDED for one in text):
        return _count([1 + (one in _EXTENDED) for one in text], alone=_GSM_ALONE, each=_GSM_EACH)
    return _count([1 + (ord(one) > 0xFFFF) for one in text], alone=_UCS_ALONE, each=_UCS_EACH)


def _count(sizes: list[int], *, alone: int, each: int) -> int:
    if sum(sizes) <= alone:
        return 1
    count, filled = 1, 0
    for size in sizes:
        if filled + size > each:
            count, filled = count + 1, 0
        filled += size
    return count


def plain_letters(text: str) -> str:
    """The text without what makes it dearer, where that says the same: ș as s, curly quotes straight, dashes short, odd blanks
    plain. A letter that GSM-7 has stays as it is; so does one that has no plain form there, or only digits: ½ is not 1 and 2."""
    whole = unicodedata.normalize("NFC", text)
    return "".join(one if one in _BASIC or one in _EXTENDED else _plain(one) for one in whole)


def _plain(letter: str) -> str:
    taken_apart = unicodedata.normalize("NFKD", letter.translate(_PLAIN_MARKS))
    bare = "".join(one for one in taken_apart if not unicodedata.combining(one))
    says_the_same = bare and all(one in _BASIC and not one.isdigit() for one in bare)
    return bare if says_the_same else letter
