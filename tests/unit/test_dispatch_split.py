"""A text in parts: nothing lost, no part too long, cut where a reader would pause."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.dispatch.core.split import split

WORDS = st.text(alphabet="ab .!?\n\t…ăț👍", max_size=300)


@given(text=WORDS | st.text(max_size=200), most=st.integers(1, 60))
def test_nothing_is_lost_and_limits_are_kept(*, text: str, most: int) -> None:
    parts = split(text, characters_max=most)
    assert parts
    assert all(len(part) <= most for part in parts)
    assert re.sub(r"\s", "", "".join(parts)) == re.sub(r"\s", "", text)


@given(text=WORDS | st.text(max_size=200), most=st.integers(1, 60))
def test_no_part_is_empty_unless_there_is_nothing_to_say(*, text: str, most: int) -> None:
    parts = split(text, characters_max=most)
    assert parts == [""] or all(part.strip() for part in parts)


@given(words=st.lists(st.text(alphabet="abc", min_size=1, max_size=10), min_size=1), most=st.integers(20, 60))
def test_words_that_fit_are_not_cut(*, words: list[str], most: int) -> None:
    parts = split(" ".join(words), characters_max=most)
    assert " ".join(parts).split() == words


CUTS = [
    ("short", "Hello.", 10, ["Hello."]),
    ("just fits", "0123456789", 10, ["0123456789"]),
    ("nothing", "", 10, [""]),
    ("white space", " \n ", 10, [""]),
    ("a sentence's end", "One two. Three four.", 12, ["One two.", "Three four."]),
    ("a paragraph before a sentence", "One. Two.\n\nThree.", 15, ["One. Two.", "Three."]),
    ("a line before a sentence", "One. Two\nThree. F", 12, ["One. Two", "Three. F"]),
    ("a word where no sentence ends", "one two three", 8, ["one two", "three"]),
    ("a word too long for a part", "a" * 25, 10, ["a" * 10, "a" * 10, "a" * 5]),
    ("an abbreviation's dot is an end like any", "Dr. Pop comes", 8, ["Dr. Pop", "comes"]),
    ("a pause too early is passed over", "A. bcdefghijk lmno", 14, ["A. bcdefghijk", "lmno"]),
]


@pytest.mark.parametrize(("text", "most", "parts"), [cut[1:] for cut in CUTS], ids=[cut[0] for cut in CUTS])
def test_a_cut(text: str, most: int, parts: list[str]) -> None:
    assert split(text, characters_max=most) == parts
