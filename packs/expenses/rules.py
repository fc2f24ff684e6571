"""Which expense can be added. Pure: the call, the customer's words and the ledger go in, a decision comes out."""

from packs.expenses.amounts import (
    CURRENCIES,
    Mention,
    canonical,
    currency_of,
    mentions,
    read_amount,
    same_digits,
)
from packs.expenses.facts import AMOUNT_MAX, Addition, Ambiguous, Clear, Reading, Why
from shared.packs import Refusal


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
    if not isinstance(asked, Clear):
        return _refused(asked, amount)
    heard = [(one, read_amount(one.text)) for one in mentions(said)]
    doubt = _doubt(asked, heard)
    if doubt:
        return doubt
    chosen = _currency(asked, currency, heard, ledger)
    if isinstance(chosen, Refusal):
        return chosen
    return Addition(item=thing, value=asked.value, currency=chosen)


def one_line(text: str) -> str:
    """The text without line breaks and characters that can't be seen: as the prompt shows it, so it is kept."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _doubt(asked: Clear, heard: list[tuple[Mention, Reading]]) -> Refusal | None:
    """What speaks against an amount in the customer's own words, when a model made 1234 of their "1.234".

    Words that name no such number say nothing: it may come from an earlier message, or be spelled out.
    """
    if any(isinstance(reading, Clear) and reading.value == asked.value for _, reading in heard):
        return None
    for mention, reading in heard:
        two = isinstance(reading, Ambiguous) and asked.value in reading.readings
        if two or same_digits(mention.number, canonical(asked.value)):
            return _refused(reading, mention.text)
    return None


def _refused(reading: Reading, text: str) -> Refusal:
    match reading:
        case Clear(value=value, currency=currency):
            detail = {"amount": canonical(value)} | ({"currency": currency} if currency else {})
            return Refusal(code=Why.AMOUNT_MISMATCH, detail=detail)
        case Ambiguous(readings=readings, currency=currency):
            both = [canonical(one) for one in readings]
            named = {"currency": currency} if currency else {}
            return Refusal(code=Why.AMBIGUOUS_AMOUNT, detail={"amount": text, "readings": both} | named)
        case _ if reading.why is Why.TOO_LARGE:
            return Refusal(code=reading.why, detail={"most": canonical(AMOUNT_MAX)})
        case _ if reading.why is Why.WHICH_CURRENCY:
            return Refusal(code=reading.why, detail={"currencies": list(CURRENCIES)})
    return Refusal(code=reading.why, detail={"amount": text})


def _currency(
    asked: Clear, named: str | None, heard: list[tuple[Mention, Reading]], ledger: str | None
) -> str | Refusal:
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
    others = {asked.currency} if asked.currency else set() if None in beside else beside
    if others and chosen not in others:
        return Refusal(
            code=Why.WHICH_CURRENCY, detail={"currencies": sorted({chosen, *filter(None, others)})}
        )
    return chosen
