"""Which expense can be added: the call is held against the customer's own words."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packs.expenses.amounts import canonical
from packs.expenses.facts import Addition, Why
from packs.expenses.rules import judge_addition, one_line
from shared.packs import Refusal


def judged(
    amount: str,
    *,
    item: str = "groceries",
    currency: str | None = None,
    said: str = "",
    ledger: str | None = "RON",
) -> Addition | Refusal:
    return judge_addition(item=item, amount=amount, currency=currency, said=said, ledger=ledger)


def test_without_a_currency_it_is_the_ledger_s() -> None:
    assert judged("300") == Addition(item="groceries", value=Decimal("300.00"), currency="RON")


@pytest.mark.parametrize("currency", ["EUR", "eur", "€", "euro"])
def test_a_currency_is_known_by_its_words(currency: str) -> None:
    assert judged("300", currency=currency) == judged("300 €") == judged("300", currency="EUR")


def test_an_ambiguous_amount_is_refused_with_both_readings() -> None:
    assert judged("1.234", said="add 1.234 for rent") == Refusal(
        code=Why.AMBIGUOUS_AMOUNT,
        detail={"amount": "1.234", "readings": ["1234.00", "1.23"], "currency": "RON"},
    )


def test_both_readings_are_in_the_currency_that_the_customer_named() -> None:
    for refused in (judged("1.234", said="1.234 € for rent"), judged("1234", said="1.234 € for rent")):
        assert isinstance(refused, Refusal)
        assert (refused.code, refused.detail["currency"]) == (Why.AMBIGUOUS_AMOUNT, "EUR")


@pytest.mark.parametrize("made_of_it", ["1234", "1234.00", "1.23", "12.34", "123.4"])
def test_a_model_that_settles_what_is_ambiguous_is_not_believed(made_of_it: str) -> None:
    refused = judged(made_of_it, said="please add 1.234 for the rent")

    assert refused == Refusal(
        code=Why.AMBIGUOUS_AMOUNT,
        detail={"amount": "1.234", "readings": ["1234.00", "1.23"], "currency": "RON"},
    )


@pytest.mark.parametrize("made_of_it", ["1250", "125", "1.25", "12500"])
def test_a_model_that_moves_the_mark_is_not_believed(made_of_it: str) -> None:
    refused = judged(made_of_it, said="add 12,50 lei for lunch")

    assert refused == Refusal(code=Why.AMOUNT_MISMATCH, detail={"amount": "12.50", "currency": "RON"})


@pytest.mark.parametrize(
    ("made_of_it", "said", "why"),
    [
        ("5", "add -5 for lunch", Why.NOT_POSITIVE),
        ("1050.2", "add 10.50.2 for lunch", Why.NOT_AN_AMOUNT),
        ("12345", "add 1,2345 for lunch", Why.TOO_PRECISE),
    ],
)
def test_a_model_that_mends_what_can_t_be_read_is_not_believed(made_of_it: str, said: str, why: Why) -> None:
    refused = judged(made_of_it, said=said)

    assert isinstance(refused, Refusal)
    assert refused.code == why


@pytest.mark.parametrize(
    "said",
    [
        "add 12,50 for lunch",
        "12.5 for 2 coffees",
        "not 1250, I said 12,50",
        "lunch, as I wrote",  # the amount came in an earlier message
        "twelve fifty for lunch",
        "yes",
        "",
    ],
)
def test_words_that_name_this_amount_or_none_like_it_say_nothing_against_it(said: str) -> None:
    assert judged("12,50", said=said) == Addition(item="groceries", value=Decimal("12.50"), currency="RON")


@given(cents=st.integers(min_value=1, max_value=999_999_999), shift=st.sampled_from([10, 100, 1000]))
def test_no_model_gets_an_amount_through_that_is_off_by_powers_of_ten(cents: int, shift: int) -> None:
    value = Decimal(cents) / 100
    said = f"add {canonical(value).replace('.', ',')} for lunch"
    for wrong in (value * shift, value / shift):
        text = f"{wrong:f}"
        if Decimal(text) != value:
            assert isinstance(judged(text, said=said), Refusal)


def test_a_currency_that_the_customer_named_is_never_dropped() -> None:
    dropped = judged("3,40", said="3,40 € for bread")
    replaced = judged("3,40", currency="USD", said="3,40 € for bread")

    assert dropped == Refusal(code=Why.WHICH_CURRENCY, detail={"currencies": ["EUR", "RON"]})
    assert replaced == Refusal(code=Why.WHICH_CURRENCY, detail={"currencies": ["EUR", "USD"]})
    assert isinstance(judged("3,40", currency="EUR", said="3,40 € for bread"), Addition)


def test_a_currency_at_another_amount_is_that_one_s() -> None:
    said = "30 for lunch and 40 euro for a taxi"

    assert judged("30", said=said) == Addition(item="groceries", value=Decimal("30.00"), currency="RON")
    assert isinstance(judged("40", said=said), Refusal)


def test_two_currencies_are_asked_about() -> None:
    assert judged("3 €", currency="USD") == Refusal(
        code=Why.WHICH_CURRENCY, detail={"currencies": ["EUR", "USD"]}
    )


def test_an_unknown_currency_is_refused_unless_it_is_the_ledger_s() -> None:
    refused = judged("300", currency="HUF")

    assert refused == Refusal(code=Why.UNKNOWN_CURRENCY, detail={"currencies": ["RON", "EUR", "USD", "GBP"]})
    assert judged("300", currency="huf", ledger="HUF") == judged("300", ledger="HUF")


def test_without_a_ledger_the_customer_is_asked_which_currency() -> None:
    refused = judged("300", ledger=None)

    assert refused == Refusal(code=Why.WHICH_CURRENCY, detail={"currencies": ["RON", "EUR", "USD", "GBP"]})
    assert isinstance(judged("300 lei", ledger=None), Addition)


def test_an_amount_beyond_the_limit_says_the_limit() -> None:
    assert judged("10 000 000") == Refusal(code=Why.TOO_LARGE, detail={"most": "9999999.99"})


@pytest.mark.parametrize("item", [" ", "\n\t", "\u202e\u200b"])
def test_an_item_of_nothing_that_can_be_seen_is_asked_for(item: str) -> None:
    assert judged("300", item=item) == Refusal(code=Why.NO_ITEM)


def test_an_item_is_kept_as_the_prompt_shows_it() -> None:
    assert one_line(" milk\u202e and\n eggs\x00 ") == "milk and eggs"


@given(
    item=st.text(max_size=80),
    amount=st.sampled_from(["300", "12,5", "1.355,90 lei", "1 250,00", "€3.40"]),
    yes=st.sampled_from(["", "yes", "DA, vă rog"]),
)
def test_what_was_judged_passes_again_unchanged(item: str, amount: str, yes: str) -> None:
    """A yes is given to these values, whatever locale the conversation is in by then."""
    first = judged(amount, item=item)
    if isinstance(first, Addition):
        again = judged(canonical(first.value), item=first.item, currency=first.currency, said=yes)
        assert again == first
