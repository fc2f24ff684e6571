"""Telephone numbers: E.164, never guessed, and one key for all spellings of one telephone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.phones import e164, phone_key


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("+40700000001", "+40700000001"),
        ("+40 700 000 001", "+40700000001"),
        ("+40 (700) 000-001", "+40700000001"),
        ("+14155550100", "+14155550100"),
        ("+5511987654321", "+5511987654321"),
        ("+551187654321", "+551187654321"),
        ("+525512345678", "+525512345678"),
        ("+5215512345678", "+525512345678"),
        ("+5491123456789", "+5491123456789"),
        ("+541123456789", "+541123456789"),
    ],
)
def test_a_number(text: str, number: str) -> None:
    assert e164(text) == number


@pytest.mark.parametrize(
    "text",
    ["", "+", "ana", "40700000001", "0700000001", "0040700000001", "+1", "+999123456789", "+4070000000012345678",
     "+40" + "7" * 100, "\uff0b40700000001", "+\u0664\u0660", "+\x00", "tel:+40700000001"],
)  # fmt: skip
def test_what_is_no_number_is_none(text: str) -> None:
    assert e164(text) is None


@pytest.mark.parametrize(
    ("country", "spellings"),
    [
        ("Brazil, with and without the ninth digit", ["+5511987654321", "+551187654321"]),
        ("Mexico, with and without the 1", ["+5215512345678", "+525512345678", "+52 1 55 1234 5678"]),
        ("Argentina, with and without the 9", ["+5491123456789", "+541123456789"]),
    ],
)
def test_a_country_s_spellings_are_one_telephone(country: str, spellings: list[str]) -> None:
    keys = {phone_key(number) for spelling in spellings if (number := e164(spelling))}
    assert all(e164(spelling) for spelling in spellings), country
    assert len(keys) == 1, country


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("+40700000001", "+40700000002"),
        ("+5511987654321", "+5521987654321"),
        ("+5511987654321", "+5511987654322"),
        ("+525512345678", "+525512345679"),
        ("+541123456789", "+541123456780"),
        ("+14155550100", "+14155550101"),
    ],
)
def test_two_telephones_have_two_keys(one: str, other: str) -> None:
    assert phone_key(one) != phone_key(other)


@pytest.mark.parametrize("number", ["+40700000001", "+14155550100", "+393331234567", "+5411987654"])
def test_other_countries_numbers_are_their_own_key(number: str) -> None:
    assert phone_key(number) == number


@given(st.text(max_size=40) | st.from_regex(r"\+[0-9]{1,20}", fullmatch=True))
def test_any_text_is_a_number_or_none_and_a_number_is_read_again_as_itself(text: str) -> None:
    number = e164(text)
    if number is not None:
        assert number[0] == "+"
        assert number[1:].isdigit()
        assert e164(number) == number
        assert phone_key(phone_key(number)) == phone_key(number)


def test_a_number_that_reads_otherwise_each_time_is_none() -> None:
    """The first nought after +31 is not dialled, nor is the next: two readings would be two customers."""
    assert e164("+310000000") is None
    assert e164("+310612345678") == "+31612345678"
