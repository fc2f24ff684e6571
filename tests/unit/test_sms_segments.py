"""How an SMS is counted, by hand and by rule, and what plain letters may change."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.dispatch.core.sms import plain_letters, segments


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 1),
        ("a" * 160, 1),
        ("a" * 161, 2),
        ("a" * 306, 2),
        ("a" * 307, 3),
        ("€" * 80, 1),  # two septets each
        ("€" * 81, 2),
        ("a" * 152 + "€" + "a" * 152, 3),  # the euro goes over to the second, which is full a letter earlier
        ("a" * 151 + "€" + "a" * 153, 2),
        ("^{}[]~|\\" * 10, 1),
        ("^{}[]~|\\" * 10 + "a", 2),
        ("Ñ¿é£ÆØÅ§" * 20, 1),
        ("ș" * 70, 1),
        ("ș" * 71, 2),
        ("a" * 134 + "ă", 3),
        ("a" * 133 + "ă", 2),
        ("👍" * 35, 1),  # two units each
        ("👍" * 36, 2),
        ("a" * 66 + "👍" + "a" * 66, 3),  # no letter is divided
        ("a" * 65 + "👍" + "a" * 67, 2),
        ("Programarea dumneavoastră: marți la 10.", 1),
        ("it’s" + "a" * 67, 2),  # one curly quote
        ("`" + "a" * 70, 2),  # in no alphabet of GSM-7, as keyboards have it
    ],
)
def test_segments_by_hand(text: str, count: int) -> None:
    assert segments(text) == count


def test_a_diacritic_makes_a_long_text_dearer_and_plain_letters_do_not() -> None:
    text = "Vă așteptăm marți, la ora 10, la consultația cu doamna doctor Ionescu. Dacă nu puteți veni, scrieți-ne. Mulțumim!"
    assert 70 < len(text) <= 160
    assert (segments(text), segments(plain_letters(text))) == (2, 1)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("ăâîșț ĂÂÎȘȚ", "aaist AAIST"),
        ("şţ with cedillas", "st with cedillas"),
        ("“quoted” — it’s", '"quoted" - it\'s'),
        ("wait…", "wait..."),
        ("a\u00a0b", "a b"),
        ("à é ñ ü ö Ç €", "à é ñ ü ö Ç €"),  # GSM-7 has them
        ("s\u0326i", "si"),  # taken apart already
        ("e\u0301", "é"),
        ("10½ m², ①", "10½ m², ①"),
        ("дaй 👍", "дaй 👍"),  # nothing plain says the same
        ("10:00, Dr. Ionescu", "10:00, Dr. Ionescu"),
    ],
)
def test_plain_letters(text: str, plain: str) -> None:
    assert plain_letters(text) == plain


TEXTS = st.text(alphabet=st.sampled_from("ab €^ăș👍é\n’") | st.characters(codec="utf-8"), max_size=700)


@given(TEXTS, TEXTS)
def test_more_text_is_never_fewer_segments(text: str, more: str) -> None:
    assert 1 <= segments(text) <= segments(text + more)


@given(TEXTS)
def test_segments_hold_what_they_are_counted_for(text: str) -> None:
    """Between what fits at best and what a letter left over at each end costs."""
    units = len(text.encode("utf-16-le")) // 2
    assert segments(text) <= 1 + units // 66 + (units > 70)
    assert segments(text) * 160 >= units


@given(TEXTS)
def test_plain_letters_change_no_digit_and_make_nothing_dearer(text: str) -> None:
    plain = plain_letters(text)
    assert plain_letters(plain) == plain
    assert [one for one in plain if one.isdigit()] == [
        one for one in unicodedata.normalize("NFC", text) if one.isdigit()
    ]
    if len(plain) <= len(text):
        assert segments(plain) <= segments(text)
