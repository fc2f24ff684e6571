"""What the mock model hears in a message: additions and deletions in the customer's order, and what else is asked."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from packs.expenses.amounts import Mention, mentions, read_amount
from packs.expenses.facts import ITEM_CHARS_MAX, Unreadable
from packs.expenses.locales import languages, words
from shared.words import any_of

_EDGES: Final = " \t\n.,;:!?\"'“”„«»()-–"
_SENTENCE_END: Final = re.compile(r"[.;!?\n](?=\s|$)")
_NUMBERS: Final = r"#?\d{1,5}(?![.,]?\d)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Add:
    """An expense; what was not said is empty."""

    item: str = ""
    amount: str = ""  # letter by letter
    currency: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Expenses to delete, by number. None: the customer named none, so nothing may go."""

    numbers: tuple[int, ...] = ()


Wish = Add | Delete


def plain(text: str) -> str:
    """Small letters without accents, each at its place: the text's positions stay."""
    return "".join(unicodedata.normalize("NFD", char)[0].lower()[:1] or char for char in text)


def wishes(text: str) -> list[Wish]:
    """What is to be added and deleted, verb by verb; what is said not to be done is left out."""
    folded = plain(text)
    verbs = sorted(
        (found.start(), found.end(), key)
        for key in ("add", "delete", "tidy")
        for found in _listens(key).finditer(folded)
    )
    heard: list[Wish] = []
    for at, (begins, ends, key) in enumerate(verbs):
        until = verbs[at + 1][0] if at + 1 < len(verbs) else len(text)
        if _negated(folded[:begins]):
            continue
        heard += _additions(text[ends:until]) if key == "add" else [_deletion(text[ends:until])]
    return heard


def hears(key: str, text: str) -> bool:
    """Whether a text has one of the phrases listed under `key`, in any language."""
    return bool(_listens(key).search(plain(text)))


def speaks(language: str, text: str) -> int:
    """How many of a language's own phrases a text has."""
    return len(_own(language).findall(plain(text)))


def with_amount(item: str, text: str) -> Add:
    """An addition of the first amount in a text, if there is one."""
    return next((_added(item, one) for one in mentions(text)), Add(item=item))


def tidy_item(text: str) -> str:
    """A thing's name without the small words around it."""
    sentence = _SENTENCE_END.split(text, maxsplit=1)[0].strip(_EDGES)
    parts = sentence.split()
    while parts and plain(parts[-1].strip(_EDGES)) in _phrases("between") | {""}:
        parts.pop()
    while parts and plain(parts[0].strip(_EDGES)) in _phrases("filler") | {""}:
        parts.pop(0)
    return " ".join(parts).strip(_EDGES)[:ITEM_CHARS_MAX]


def _additions(text: str) -> Iterator[Add]:
    """ "300 for groceries and 50 for taxi", or "groceries 300"; amounts after the first need their "for"."""
    found = list(mentions(text))
    if not found:
        yield Add(item=tidy_item(text))
        return
    for at, one in enumerate(found):
        after = text[one.ends : found[at + 1].begins if at + 1 < len(found) else len(text)]
        if _listens("for").match(plain(after.lstrip())):
            yield _added(tidy_item(after), one)
        elif at == 0:
            yield _added(tidy_item(text[: one.begins]) or tidy_item(after), one)


def _added(item: str, mention: Mention) -> Add:
    reading = read_amount(mention.text)
    currency = None if isinstance(reading, Unreadable) else reading.currency
    return Add(item=item, amount=mention.number, currency=currency or "")


def _deletion(text: str) -> Delete:
    """The numbers right behind the verb: "expense 1", "#2 and 3". Amounts of money are none."""
    found = _numbered().match(plain(text))
    if not found:
        return Delete()
    numbers = tuple(int(one) for one in re.findall(r"\d+", found["numbers"], re.ASCII))
    money = next(mentions(text[found.start("numbers") :]), None)
    return Delete() if money and money.text != money.number else Delete(numbers=numbers)


def _negated(before: str) -> bool:
    """Whether what stands right before a verb turns it round, or asks whether it was done."""
    return bool(_ends_negating().search(before))


@cache
def _phrases(key: str) -> frozenset[str]:
    return frozenset(plain(one) for known in languages() for one in words(known)["mock"]["listen"][key])


@cache
def _listens(key: str) -> re.Pattern[str]:
    return any_of(_phrases(key))


@cache
def _own(language: str) -> re.Pattern[str]:
    listed = words(language)["mock"]["listen"]
    return any_of(plain(one) for key in ("add", "delete", "tidy", "total", "list") for one in listed[key])


@cache
def _ends_negating() -> re.Pattern[str]:
    return re.compile(rf"{any_of(_phrases('not_asked')).pattern}(?:\s+\w+)?\s*$")


@cache
def _numbered() -> re.Pattern[str]:
    named = any_of(_phrases("numbered")).pattern
    joint = r"(?:\s*,\s+|\s*&\s*|\s+(?:and|si)\s+)"
    return re.compile(
        rf"\W*?(?:{named}\W+)*(?P<numbers>{_NUMBERS}(?:{joint}(?:{named}\W+)*{_NUMBERS})*)", re.ASCII
    )
