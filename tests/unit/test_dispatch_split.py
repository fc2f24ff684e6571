"""A text in parts: nothing lost, no part too long, cut where a reader would pause."""

import re

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from services.dispatch.core.split import split
from shared.channels.traits import TRAITS, ChannelName, Counts, Traits

PLAIN = Traits(text_max=1)
UTF16 = Traits(text_max=1, counts=Counts.UTF16)
FAMILY = "👨‍👩‍👧‍👦"  # seven code points, eleven UTF-16 units, one letter to a reader
FLAG = "🇷🇴"
LETTERS = [*"ab .!?\n\t…țg👍", "a\u0306", FAMILY, FLAG, "\r\n"]
WORDS = st.lists(st.sampled_from(LETTERS), max_size=200).map("".join)
TEXTS = WORDS | st.text(max_size=200)
COUNTS = st.sampled_from([PLAIN, UTF16])


@given(text=TEXTS, most=st.integers(2, 60), last_most=st.none() | st.integers(2, 60), traits=COUNTS)
def test_nothing_is_lost_and_limits_are_kept(
    *, text: str, most: int, last_most: int | None, traits: Traits
) -> None:
    parts = split(text, length=traits.length, most=most, last_most=last_most)
    assert parts
    assert all(traits.length(part) <= most for part in parts)
    assert traits.length(parts[-1]) <= min(most, last_most or most)
    assert re.sub(r"\s", "", "".join(parts)) == re.sub(r"\s", "", text)


@given(text=TEXTS, most=st.integers(2, 60), traits=COUNTS)
def test_no_part_is_empty_unless_there_is_nothing_to_say(*, text: str, most: int, traits: Traits) -> None:
    parts = split(text, length=traits.length, most=most)
    assert parts == [""] or all(part.strip() for part in parts)


@given(words=st.lists(st.text(alphabet="abc", min_size=1, max_size=10), min_size=1), most=st.integers(20, 60))
def test_words_that_fit_are_not_cut(*, words: list[str], most: int) -> None:
    parts = split(" ".join(words), length=len, most=most)
    assert " ".join(parts).split() == words


def letters(text: str) -> list[str]:
    """What a reader takes for letters, without white space."""
    return [cluster for cluster in regex.findall(r"\X", text) if cluster.strip()]


@given(text=WORDS, most=st.integers(11, 60), traits=COUNTS)
def test_no_letter_is_cut(*, text: str, most: int, traits: Traits) -> None:
    """The longest in these texts is eleven units."""
    parts = split(text, length=traits.length, most=most)
    assert [letter for part in parts for letter in letters(part)] == letters(text.strip())


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
    ("an accent goes with its letter", "abcde\u0301fg", 5, ["abcd", "e\u0301fg"]),
    ("an accent on a space is no pause", "abcd \u0301efg", 6, ["abcd \u0301", "efg"]),
    ("a letter that no part can hold", FAMILY, 4, [FAMILY[:4], FAMILY[4:]]),
]


@pytest.mark.parametrize(("text", "most", "parts"), [cut[1:] for cut in CUTS], ids=[cut[0] for cut in CUTS])
def test_a_cut(text: str, most: int, parts: list[str]) -> None:
    assert split(text, length=len, most=most) == parts


def test_emoji_count_two_where_units_are_counted() -> None:
    assert split("👍" * 10, length=UTF16.length, most=10) == ["👍" * 5] * 2
    assert split("👍" * 10, length=PLAIN.length, most=10) == ["👍" * 10]


# Text beside buttons has a limit of its own


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Yes or no?", ["Yes or no?"]),
        ("One two three. Yes or no?", ["One two three.", "Yes or no?"]),
        ("One two three four five six. Yes or no?", ["One two three four five six.", "Yes or no?"]),
    ],
    ids=["fits beside them", "fits into one part, not beside them", "fits into no one part"],
)
def test_the_last_part_is_as_short_as_buttons_ask(text: str, parts: list[str]) -> None:
    assert split(text, length=len, most=30, last_most=15) == parts


@pytest.mark.parametrize(
    "channel", [ChannelName.WHATSAPP, ChannelName.TELEGRAM, ChannelName.TWILIO, ChannelName.SIM]
)
@pytest.mark.parametrize("characters", [1700, 5000])
@pytest.mark.parametrize("offset", [-2, -1, 0, 1])
def test_snd_13_long_texts_with_emoji_at_the_limit(
    channel: ChannelName, characters: int, offset: int
) -> None:
    traits = TRAITS[channel]
    limit = traits.text_max + offset
    text = ("Lorem ipsum dolor sit amet. " * 200)[:characters]
    text = text[:limit] + FAMILY * 3 + text[limit:]
    parts = split(text, length=traits.length, most=traits.text_max)
    assert len(parts) == -(-traits.length(text) // traits.text_max)
    assert all(traits.length(part) <= traits.text_max for part in parts)
    assert [letter for part in parts for letter in letters(part)] == letters(text)
    assert " ".join(parts).split() == text.split(), "no word is cut"
