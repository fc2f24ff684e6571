"""Which expense can be added. Pure: the call, the customer's words and the ledger go in, a decision comes out."""

from decimal import Decimal

from packs.expenses.amounts import (
    CURRENCIES,
    Mention,
    canonical,
    currency_of,
    mentions,
    read_amount,
    same_digits,
)
from packs.expenses.facts import AMOUNT_MAX, Addition, Ambiguous, Clear, Reading, Unreadable, Why
from shared.packs import Refusal

Heard = tuple[Mention, Reading]  # an amount in the customer's message


def judge_addition(
    *, item: str, amount: str, currency: str | None, said: str, ledger: str | None
) -> Addition | Refusal:
    """The expense as it would be added. `said` is the customer's message, `ledger` the business's currency.

    What comes out passes again unchanged, in any locale, with a yes for a message: the yes is given to these values.
    """
    thing = one_line(item)
    if not thing:
        return Refusal(code=Why.NO_ITEM)
    asked = read_amount(amount)
    heard = [(one, read_amount(one.text)) for one in mentions(said)]
    doubt = _doubt(asked, amount, heard)
    if doubt:
        return _refused(*doubt, usual=currency_of(currency or "") or ledger)
    assert isinstance(asked, Clear), "what can't be read in one way is in doubt"
    chosen = _currency(asked, currency, heard, ledger)
    if isinstance(chosen, Refusal):
        return chosen
    return Addition(item=thing, value=asked.value, currency=chosen)


def one_line(text: str) -> str:
    """The text without line breaks and characters that can't be seen: as the prompt shows it, so it is kept."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _doubt(asked: Reading, amount: str, heard: list[Heard]) -> tuple[Reading, str] | None:
    """What speaks against the amount: that it can't be read, or that the customer wrote these digits as another.

    Words that name no such number say nothing: it may come from an earlier message, or be spelled out.
    """
    value = asked.value if isinstance(asked, Clear) else None
    written = amount if value is None else canonical(value)
    if value is not None and any(_is(reading, value) for _, reading in heard):
        return None
    for mention, reading in heard:
        is_one_of_two = isinstance(reading, Ambiguous) and value in reading.readings
        if is_one_of_two or same_digits(mention.number, written):
            return reading, mention.text
    return None if value is not None else (asked, amount)


def _is(reading: Reading, value: Decimal) -> bool:
    return isinstance(reading, Clear) and reading.value == value


def _refused(reading: Reading, text: str, *, usual: str | None) -> Refusal:
    """`usual` is the currency that both readings are shown in when the customer named none."""
    match reading:
        case Clear(value=value, currency=currency):
            named = _named(currency or usual)
            return Refusal(code=Why.AMOUNT_MISMATCH, detail={"amount": canonical(value), **named})
        case Ambiguous(readings=readings, currency=currency):
            both, named = [canonical(one) for one in readings], _named(currency or usual)
            return Refusal(code=Why.AMBIGUOUS_AMOUNT, detail={"amount": text, "readings": both, **named})
        case Unreadable(why=Why.TOO_LARGE):
            return Refusal(code=Why.TOO_LARGE, detail={"most": canonical(AMOUNT_MAX)})
        case Unreadable(why=Why.WHICH_CURRENCY):
            return Refusal(code=Why.WHICH_CURRENCY, detail={"currencies": list(CURRENCIES)})
        case Unreadable(why=why):
            return Refusal(code=why, detail={"amount": text})


def _named(currency: str | None) -> dict[str, str]:
    return {"currency": currency} if currency else {}


def _currency(asked: Clear, named: str | None, heard: list[Heard], ledger: str | None) -> str | Refusal:
    """The one currency that call, amount and words agree on; the ledger's where none of them names one."""
    known = list(dict.fromkeys([*([ledger] if ledger else []), *CURRENCIES]))
    called = None
    if named:
        called = currency_of(named) or (ledger if named.strip().upper() == ledger else None)
        if called is None:
            return Refusal(code=Why.UNKNOWN_CURRENCY, detail={"currencies": known})
    chosen = called or asked.currency or ledger
    if chosen is None:
        return Refusal(code=Why.WHICH_CURRENCY, detail={"currencies": known})
    beside = {one.currency for _, one in heard if isinstance(one, Clear) and one.value == asked.value}
    said = {asked.currency} if asked.currency else set() if None in beside else beside
    if said and chosen not in said:
        either = sorted(one for one in {chosen, *said} if one)
        return Refusal(code=Why.WHICH_CURRENCY, detail={"currencies": either})
    return chosen
