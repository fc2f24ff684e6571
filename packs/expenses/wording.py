"""What the pack says itself: prompts, what was done, refusals. No word of a model is in it.

Wording depends on a locale, what is worded does not: a yes in another language is the same yes. An amount is always
shown with two decimals and its currency, so that it can be read in one way.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from packs.expenses.facts import ITEM_CHARS_MAX, Why
from packs.expenses.locales import words
from packs.expenses.rules import one_line
from shared.packs import Refusal


def add_prompt(shown: Mapping[str, Any], locale: str) -> str:
    """The question before an addition, without how to answer it."""
    return _said("add_expense", "prompt", shown, locale)


def add_done(result: Mapping[str, Any], locale: str) -> str:
    return _said("add_expense", "done", result, locale)


def delete_prompt(shown: Mapping[str, Any], locale: str) -> str:
    """The question before a deletion; it names all that goes."""
    return _said("delete_expense", "prompt", shown, locale)


def delete_done(result: Mapping[str, Any], locale: str) -> str:
    return _said("delete_expense", "done", result, locale)


def money(amount: str, currency: str, locale: str) -> str:
    """ "1,355.90 RON" of "1355.90", with the marks of the locale's language."""
    text: str = words(locale)["money"]
    return text.format(number=number(amount, locale), currency=currency)


def number(amount: str, locale: str) -> str:
    """ "1,355.90" of "1355.90"."""
    said, (whole, _, cents) = words(locale), amount.partition(".")
    thousands = f"{int(whole):,}".replace(",", said["thousands_mark"])
    return f"{thousands}{said['decimal_mark']}{cents}"


def bounded(text: str) -> str:
    """One line of at most ITEM_CHARS_MAX printable characters."""
    line = one_line(text)
    return line if len(line) <= ITEM_CHARS_MAX else line[: ITEM_CHARS_MAX - 1] + "…"


def refusal(refused: Refusal, locale: str) -> str:
    """Why not, and what else is possible."""
    said, detail = words(locale)["refusal"], refused.detail
    text: str = said[refused.code if refused.code in _FIELDS else "other"]
    values = _FIELDS.get(refused.code, ())
    return text.format(**{name: _FIELD[name](detail, locale) for name in values})


def _said(tool: str, key: str, values: Mapping[str, Any], locale: str) -> str:
    text: str = words(locale)[tool][key]
    return text.format(
        id=values.get("id", ""),
        item=bounded(values["item"]),
        money=money(values["amount"], values["currency"], locale),
    )


def _perhaps_money(amount: str, detail: Mapping[str, Any], locale: str) -> str:
    currency = detail.get("currency")
    return money(amount, currency, locale) if currency else number(amount, locale)


def _readings(detail: Mapping[str, Any], locale: str) -> str:
    either: str = words(locale)["or"]
    return either.join(_perhaps_money(one, detail, locale) for one in detail["readings"])


_FIELD: Final[Mapping[str, Callable[[Mapping[str, Any], str], str]]] = {
    "amount": lambda detail, _: bounded(detail["amount"]),
    "readings": _readings,
    "money": lambda detail, locale: _perhaps_money(detail["amount"], detail, locale),
    "most": lambda detail, locale: number(detail["most"], locale),
    "currencies": lambda detail, _: ", ".join(detail["currencies"]),
    "id": lambda detail, _: str(detail["id"]),
}
# What each refusal's sentence names.
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    Why.AMBIGUOUS_AMOUNT: ("amount", "readings"),
    Why.AMOUNT_MISMATCH: ("money",),
    Why.NOT_AN_AMOUNT: ("amount",),
    Why.NOT_POSITIVE: (),
    Why.TOO_PRECISE: ("amount",),
    Why.TOO_LARGE: ("most",),
    Why.UNKNOWN_CURRENCY: ("currencies",),
    Why.WHICH_CURRENCY: ("currencies",),
    Why.NO_ITEM: (),
    Why.NO_SUCH_EXPENSE: ("id",),
    Why.LIST_FULL: (),
}
