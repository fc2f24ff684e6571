"""Telephone numbers: E.164, and one key for the spellings that a country's networks use for the same telephone."""

import re

import phonenumbers

_OLD_MEXICAN = re.compile(r"^\+521(\d{10})$")  # no possible number since 2019, and still what WhatsApp states
_COUNTRY_VARIANTS = (
    # Brazil: mobile numbers with and without the ninth digit, after a two-digit area.
    (re.compile(r"^\+55(\d{2})9(\d{8})$"), r"+55\1\2"),
    # Mexico: +52 1 … on WhatsApp is the same telephone as +52 …
    (_OLD_MEXICAN, r"+52\1"),
    # Argentina: +54 9 … (mobile from abroad) is the same telephone as +54 …
    (re.compile(r"^\+549(\d{10})$"), r"+54\1"),
)


def e164(text: str) -> str | None:
    """The number as +… digits, or None for what can't be one. A missing + is not repaired: it would be a guess."""
    if not text.startswith("+") or len(text) > 32:
        return None
    text = _OLD_MEXICAN.sub(r"+52\1", re.sub(r"[\s().-]", "", text))
    number = _read(text)
    if number is None or number == text:
        return number
    # Read once more: noughts are dropped one by one.
    return number if _read(number) == number else None


def _read(text: str) -> str | None:
    try:
        number = phonenumbers.parse(text)
    except phonenumbers.NumberParseException:
        return None
    if not phonenumbers.is_possible_number(number):
        return None
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)


def phone_key(number: str) -> str:
    """One key for all spellings of one telephone. `number` is E.164."""
    for pattern, replacement in _COUNTRY_VARIANTS:
        folded, found = pattern.subn(replacement, number)
        if found:
            return folded
    return number
