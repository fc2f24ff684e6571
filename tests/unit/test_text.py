"""What Postgres can hold, and nothing else changed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.text import storable


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("", ""),
        ("Bună 👍", "Bună 👍"),
        ("a\x00b", "a\ufffdb"),
        ("\x00", "\ufffd"),
        ("\ud83d", "\ufffd"),
        ("\udc4d\ud83d", "\ufffd\ufffd"),
        ("\x01\x1f\x7f\u200b\ufffe", "\x01\x1f\x7f\u200b\ufffe"),
    ],
)
def test_storable(text: str, stored: str) -> None:
    assert storable(text) == stored


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00")))
def test_what_can_be_held_stays_as_it_was(text: str) -> None:
    assert storable(text) is text


@given(st.text(st.characters()) | st.text(st.characters(categories=["Cs"])))
def test_what_comes_out_can_be_held_and_is_as_long(text: str) -> None:
    stored = storable(text)
    assert b"\x00" not in stored.encode()
    assert len(stored) == len(text)
    assert storable(stored) == stored
