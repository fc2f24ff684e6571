"""An amount of money in a customer's own words: read, or asked about, never guessed. Pure.

Dot and comma are each a decimal mark here and a thousands separator there, and a locale is a guess of its own. So the
text alone decides, alike in every locale: "1.355,90" can mean one amount, "1.234" could mean two and is asked.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

from packs.expenses.facts import AMOUNT_MAX, Ambiguous, Clear, Reading, Unreadable, Why

TEXT_CHARS_MAX: Final = 40
CURRENCIES: Final = {
    "RON": ("ron", "lei", "leu"),
    "EUR": ("€", "eur", "euro", "euros"),
    "USD": ("$", "usd", "dollar", "dollars", "dolar", "dolari"),
    "GBP": ("£", "gbp", "pound", "pounds", "lire sterline", "liră sterlină"),
}

_CENT: Final = Decimal("0.01")
_BY_WORD: Final = {word: code for code, words in CURRENCIES.items() for word in words}
_WORD: Final = "|".join(re.escape(word) for word in sorted(_BY_WORD, key=len, reverse=True))
_BEFORE: Final = rf"(?P<before>(?<![^\W\d_])(?:{_WORD}))"
_AFTER: Final = rf"(?:de\s+)?(?P<after>(?:{_WORD})(?![^\W\d_]))"  # Romanian: 300 de lei
_WITH_CURRENCY: Final = re.compile(
    rf"(?:{_BEFORE}\s*)?(?P<number>.*?)(?:\s*{_AFTER})?", re.IGNORECASE | re.DOTALL
)

_SPACES: Final = str.maketrans(dict.fromkeys("\u00a0\u2009\u202f", " "))
_MINUS: Final = re.compile(r"[-−–]\s*(?=\d)")
_SIMPLE: Final = re.compile(r"(?P<whole>0|[1-9]\d*)(?:[.,](?P<part>\d+))?", re.ASCII)
_GROUPED: Final = re.compile(
    r"(?P<whole>[1-9]\d{0,2}(?:(?P<separator>[ .,])\d{3})(?:(?P=separator)\d{3})*)"
    r"(?:(?!(?P=separator))[.,](?P<part>\d+))?",
    re.ASCII,
)
# An amount inside a sentence: digits with marks between them, then groups of three after single spaces.
_IN_TEXT: Final = re.compile(
    rf"(?:{_BEFORE}\s?)?(?P<number>(?<![\w.,])[-−]?\d(?:[\w.,]*\w)?(?:[ \u00a0\u2009\u202f]\d{{3}}(?![\d])(?:[.,]\d+)?)*)"
    rf"(?:\s?{_AFTER})?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """An amount as it stands in a sentence."""

    text: str  # letter by letter, with the currency beside it
    number: str  # without
    begins: int
    ends: int


def read_amount(text: str) -> Reading:
    """The amount, its two readings, or what is wrong with it. The text may name its currency: "1.355,90 lei"."""
    found = _WITH_CURRENCY.fullmatch(text.translate(_SPACES).strip()) if len(text) <= TEXT_CHARS_MAX else None
    if found is None:
        return Unreadable(why=Why.NOT_AN_AMOUNT)
    named = {currency_of(word) for word in (found["before"], found["after"]) if word}
    if len(named) > 1:
        return Unreadable(why=Why.WHICH_CURRENCY)
    return _number(found["number"], named.pop() if named else None)


def currency_of(word: str) -> str | None:
    """The code of a currency that we know a word for: "lei" → RON."""
    known = word.strip().casefold()
    return _BY_WORD.get(known) or (known.upper() if known.upper() in CURRENCIES else None)


def canonical(value: Decimal) -> str:
    """ "1355.90": two decimals after a dot, which is clear to read_amount as well."""
    return f"{value:.2f}"


def mentions(said: str) -> Iterator[Mention]:
    """What looks like an amount in a sentence, in order; numbers of other things too."""
    for found in _IN_TEXT.finditer(said):
        yield Mention(text=found[0], number=found["number"], begins=found.start(), ends=found.end())


def same_digits(one: str, other: str) -> bool:
    """Whether two numbers differ in nothing but where their marks stand, and noughts at the ends: 12,5 and 1250."""
    return _significant(one) == _significant(other) != ""


def _number(text: str, currency: str | None) -> Reading:
    if _MINUS.match(text):
        return Unreadable(why=Why.NOT_POSITIVE)
    simple, grouped = _SIMPLE.fullmatch(text), _GROUPED.fullmatch(text)
    if simple and grouped:  # one mark with three digits after it
        whole = Decimal(re.sub(r"[.,]", "", text))
        small = Decimal(text.replace(",", ".")).quantize(_CENT, ROUND_HALF_UP)
        return Ambiguous(readings=(whole, small), currency=currency)
    found = simple or grouped
    if found is None:
        return Unreadable(why=Why.NOT_AN_AMOUNT)
    part = found["part"] or ""
    if len(part) > 2:
        return Unreadable(why=Why.TOO_PRECISE)
    return _bounded(Decimal(f"{re.sub(r'[ .,]', '', found['whole'])}.{part or '0'}"), currency)


def _bounded(value: Decimal, currency: str | None) -> Reading:
    if value <= 0:
        return Unreadable(why=Why.NOT_POSITIVE)
    if value > AMOUNT_MAX:
        return Unreadable(why=Why.TOO_LARGE)
    return Clear(value=value.quantize(_CENT), currency=currency)


def _significant(text: str) -> str:
    return re.sub(r"\D", "", text).strip("0")
