"""Amounts in a customer's own words: what is clear is read, what could be two amounts is asked, nothing is guessed."""

from collections.abc import Iterator
from decimal import Decimal
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packs.expenses.amounts import canonical, currency_of, mentions, read_amount, same_digits
from packs.expenses.facts import AMOUNT_MAX, Ambiguous, Clear, Unreadable, Why

CENTS = st.integers(min_value=1, max_value=int(AMOUNT_MAX * 100))


@pytest.mark.parametrize(
    ("text", "value", "currency"),
    [
        ("1.355,90 lei", "1355.90", "RON"),
        ("3,40 €", "3.40", "EUR"),
        ("12,5", "12.50", None),
        ("1 250,00", "1250.00", None),
        ("1,234.56", "1234.56", None),
        ("2\u00a0500,50", "2500.50", None),
    ],
)
def test_the_clear_amounts_of_the_field_cases(text: str, value: str, currency: str | None) -> None:
    """PCK-04, and the clear ones of PCK-05."""
    assert read_amount(text) == Clear(value=Decimal(value), currency=currency)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("10.50.2", Why.NOT_AN_AMOUNT),
        ("\u0661\u0662", Why.NOT_AN_AMOUNT),
        ("1e3", Why.NOT_AN_AMOUNT),
        ("-5", Why.NOT_POSITIVE),
        ("0", Why.NOT_POSITIVE),
        ("1e309", Why.NOT_AN_AMOUNT),
    ],
)
def test_what_the_field_cases_refuse(text: str, why: Why) -> None:
    """PCK-05."""
    assert read_amount(text) == Unreadable(why=why)


@pytest.mark.parametrize("text", ["1.234", "1,234", "$1,234", "1.234 lei"])
def test_one_mark_before_three_digits_could_be_two_amounts(text: str) -> None:
    """PCK-05: a factor of 1,000 lies between them, and each is how somebody writes."""
    reading = read_amount(text)

    assert isinstance(reading, Ambiguous)
    assert reading.readings == (Decimal("1234"), Decimal("1.23"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("300", "300.00"),
        ("12.5", "12.50"),
        ("0,99", "0.99"),
        ("1.234.567", "1234567.00"),
        ("1,234,567", "1234567.00"),
        ("1.234.567,89", "1234567.89"),
        ("1 234 567", "1234567.00"),
        ("1\u202f250", "1250.00"),
        ("1.234,5", "1234.50"),
        ("1,234.00", "1234.00"),
        ("9999999.99", "9999999.99"),
    ],
)
def test_marks_that_leave_one_reading_are_read(text: str, value: str) -> None:
    assert read_amount(text) == Clear(value=Decimal(value))


@pytest.mark.parametrize(
    ("text", "currency"),
    [
        ("300 lei", "RON"),
        ("300lei", "RON"),
        ("300 de lei", "RON"),
        ("RON 300", "RON"),
        ("€300", "EUR"),
        ("300 EURO", "EUR"),
        ("$300", "USD"),
        ("300 dolari", "USD"),
        ("£300", "GBP"),
        ("300 pounds", "GBP"),
        ("€ 300 eur", "EUR"),
    ],
)
def test_a_currency_may_stand_on_either_side(text: str, currency: str) -> None:
    assert read_amount(text) == Clear(value=Decimal("300.00"), currency=currency)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", Why.NOT_AN_AMOUNT),
        ("lei", Why.NOT_AN_AMOUNT),
        ("inf", Why.NOT_AN_AMOUNT),
        ("NaN", Why.NOT_AN_AMOUNT),
        ("\uff11\uff12", Why.NOT_AN_AMOUNT),
        ("12 50", Why.NOT_AN_AMOUNT),
        ("1,00,000", Why.NOT_AN_AMOUNT),
        ("1.23.456", Why.NOT_AN_AMOUNT),
        ("007", Why.NOT_AN_AMOUNT),
        ("12.", Why.NOT_AN_AMOUNT),
        (".5", Why.NOT_AN_AMOUNT),
        ("1.234 567", Why.NOT_AN_AMOUNT),
        ("5 euroi", Why.NOT_AN_AMOUNT),
        ("300; 400", Why.NOT_AN_AMOUNT),
        ("9" * 41, Why.NOT_AN_AMOUNT),
        ("€3 lei", Why.WHICH_CURRENCY),
        ("-5 lei", Why.NOT_POSITIVE),
        ("€-5", Why.NOT_POSITIVE),
        ("−5", Why.NOT_POSITIVE),
        ("0,00", Why.NOT_POSITIVE),
        ("0.234", Why.TOO_PRECISE),
        ("1234.567", Why.TOO_PRECISE),
        ("1 234.567", Why.TOO_PRECISE),
        ("12,3456", Why.TOO_PRECISE),
        ("10000000", Why.TOO_LARGE),
        ("9" * 40, Why.TOO_LARGE),
    ],
)
def test_what_is_no_amount_says_why(text: str, why: Why) -> None:
    assert read_amount(text) == Unreadable(why=why)


@given(cents=CENTS)
def test_the_canonical_text_reads_as_the_same_amount(cents: int) -> None:
    """It is what a confirmation stands for, and is read again at the execution."""
    value = Decimal(cents) / 100

    assert read_amount(canonical(value)) == Clear(value=value)


def spellings(cents: int) -> Iterator[tuple[str, bool]]:
    """How people anywhere write an amount, and whether the writer's marks leave one reading."""
    whole, part = divmod(cents, 100)
    for group, mark in product(("", ".", ",", " ", "\u00a0"), (".", ",")):
        if group == mark:
            continue
        grouped = f"{whole:,}".replace(",", group)
        if part:
            yield f"{grouped}{mark}{part:02}", True
            if part % 10 == 0:
                yield f"{grouped}{mark}{part // 10}", True
        else:
            yield f"{grouped}{mark}00", True
            yield grouped, not (group in ".," and group and grouped.count(group) == 1)


@given(cents=CENTS)
def test_no_spelling_is_ever_read_as_another_amount(cents: int) -> None:
    """The one that matters: never a factor of 100 or 1,000. What has two readings is asked, and the right one is among them."""
    value = Decimal(cents) / 100
    for text, is_clear in spellings(cents):
        reading = read_amount(text)
        if is_clear:
            assert reading == Clear(value=value), text
        else:
            assert isinstance(reading, Ambiguous), text
            assert value in reading.readings, text


@given(text=st.text(alphabet="0123456789., -+eE'\u00a0€$", max_size=14))
def test_what_is_read_has_the_digits_that_were_written(text: str) -> None:
    reading = read_amount(text)
    if isinstance(reading, Clear):
        assert 0 < reading.value <= AMOUNT_MAX
        assert same_digits(text, canonical(reading.value))
        assert "e" not in text.lower()


@given(text=st.text(max_size=60))
def test_any_text_at_all_is_read_or_refused(text: str) -> None:
    assert isinstance(read_amount(text), Clear | Ambiguous | Unreadable)
    assert all(text[one.begins : one.ends] == one.text for one in mentions(text))


@given(digits=st.text(alphabet="0123456789", min_size=4, max_size=8))
def test_a_mark_somewhere_gives_one_reading_or_a_question(digits: str) -> None:
    """ "123456" with one mark in each place, as dot and as comma: both read alike, so no locale can change the amount."""
    for place in range(1, len(digits)):
        dot, comma = (read_amount(f"{digits[:place]}{mark}{digits[place:]}") for mark in ".,")
        assert dot == comma


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("Add 300 for groceries, then delete expense 1", ["300", "1"]),
        ("add 12,50 lei for lunch", ["12,50 lei"]),
        ("am dat 1 250,00 de lei pe chirie.", ["1 250,00 de lei"]),
        ("€3,40 on bread, 5 on milk", ["€3,40", "5"]),
        ("it was 1.234.", ["1.234"]),
        ("1e3, -5 and \u0661\u0662", ["1e3", "-5", "\u0661\u0662"]),
        ("order A12", []),
    ],
)
def test_amounts_are_found_in_a_sentence_as_they_are_written(said: str, found: list[str]) -> None:
    assert [one.text for one in mentions(said)] == found


@pytest.mark.parametrize(
    ("word", "code"),
    [("lei", "RON"), ("ron", "RON"), (" Euro ", "EUR"), ("$", "USD"), ("lire sterline", "GBP"), ("HUF", None), ("", None)],
)  # fmt: skip
def test_currencies_by_their_words(word: str, code: str | None) -> None:
    assert currency_of(word) == code
