"""Normal forms and nearness of texts."""

import sys
import time
import unicodedata
from difflib import SequenceMatcher

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.words import any_of, is_blank, near_same, normalise, without_ending

LETTER = " ".join(f"sentence{at} tells what nobody reads twice, part {at}." for at in range(16))
ROMANIAN = frozenset("\u0306\u0302\u0326\u0327\u0303\u030c")


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        pytest.param("YES", "yes", id="case"),
        pytest.param("  yes \n", "yes", id="white space outside"),
        pytest.param("yes\u00a0 \n please", "yes please", id="white space inside"),
        pytest.param("ＹＥＳ！", "yes", id="full width"),
        pytest.param("\u200by\u200des\ufeff", "yes", id="zero width"),
        pytest.param("y\u00ades", "yes", id="soft hyphen"),
        pytest.param("\u2068yes\u2069", "yes", id="isolates"),
        pytest.param("“Yes.”", "yes", id="quotes"),
        pytest.param("*yes*", "yes", id="bold"),
        pytest.param("yes :)", "yes", id="a smile"),
        pytest.param("yes…", "yes", id="dots"),
        pytest.param("👍🏽", "👍", id="skin tone"),
        pytest.param("✔\ufe0f", "✔", id="emoji presentation"),
        pytest.param("✌\ufe0f🏽", "✌", id="emoji presentation and skin tone"),
        pytest.param("(Y)", "👍", id="a thumb without a key for it"),
        pytest.param("no (n)!", "no 👎", id="a thumb down"),
        pytest.param("(yes)", "yes", id="brackets"),
        pytest.param("that’s it", "that's it", id="apostrophe"),
        pytest.param("Straße", "strasse", id="folded, not only lowered"),
    ],
)
def test_spelling_is_set_aside(written: str, normal: str) -> None:
    assert normalise(written) == normal


@pytest.mark.parametrize(
    "written",
    [
        "yes?", "yes?!", "¿yes", "yes？", "~yes~", "> yes", "yes :(", "yes/", "1. yes", "yes 👎", "@yes",
        "#yes", "[yes]", '["yes"]', "yes🏽", "{yes}", "<yes>", "`yes`",
        "y\u0336e\u0336s\u0336", "yes\u20e0", "\u202eyes", "yes\U000e006e\U000e006f", "уes", "y e s", "yés",
    ],
)  # fmt: skip
def test_what_changes_the_meaning_stays(written: str) -> None:
    assert normalise(written) != "yes"


@pytest.mark.parametrize("word", ["renunţ", "renunț", "renunt\u0327", "renunt\u0326", "RENUNŢ", "RENUNȚ"])
def test_comma_and_cedilla_are_alike_whether_or_not_marks_are_dropped(word: str) -> None:
    assert normalise(word) == "renunț"
    assert normalise(word, ROMANIAN) == "renunt"


def test_only_the_marks_a_locale_drops_are_dropped() -> None:
    assert normalise("mâine după șase", ROMANIAN) == "maine dupa sase"
    assert normalise("d\u0336a\u0336", ROMANIAN) != "da"
    assert normalise("da \u02dc", ROMANIAN) != "da", "a tilde on no letter"


def test_normal_forms_stay_as_they_are_for_every_character() -> None:
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)) in ("Cn", "Co"):
            continue  # no character, or one of nobody's knowing: it has no other form
        for marks in (frozenset[str](), ROMANIAN):
            once = normalise(chr(code), marks)
            assert normalise(once, marks) == once, hex(code)


@given(st.text())
def test_normal_forms_stay_as_they_are(text: str) -> None:
    for marks in (frozenset[str](), ROMANIAN):
        once = normalise(text, marks)
        assert normalise(once, marks) == once


@given(st.text())
def test_composed_and_decomposed_are_alike(text: str) -> None:
    assert normalise(unicodedata.normalize("NFC", text)) == normalise(unicodedata.normalize("NFD", text))


@pytest.mark.parametrize(
    "text", ["", " ", "\n\t", "\u200b", "\u200b \u2060\ufeff", "\u3164", "\u2800", "\ufe0f"]
)
def test_nothing_to_see_is_blank(text: str) -> None:
    assert is_blank(text)


@pytest.mark.parametrize("text", ["?", "...", "!", "👍", "a", "\u200b?"])
def test_a_sign_is_not_blank(text: str) -> None:
    assert not is_blank(text)


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("stop. thanks a lot", "stop"),
        ("stop thanks", "stop"),
        ("stop, thanks", "stop"),
        ("stopthanks", "stopthanks"),
        ("thanks", "thanks"),
        ("stop it", "stop it"),
    ],
)
def test_thanks_may_follow(text: str, bare: str) -> None:
    assert without_ending(text, ("thanks a lot", "thanks", "a lot")) == bare


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("i want a human", True),
        ("a human, please", True),
        ("a human being", True),
        ("a humanist", False),
        ("la human", False),
        ("", False),
    ],
)
def test_phrases_are_found_as_whole_words(text: str, *, found: bool) -> None:
    assert bool(any_of(["a human", "a human being", "a hug"]).search(text)) is found


def test_no_phrases_find_nothing() -> None:
    assert not any_of([]).search("anything")


@given(st.lists(st.text("ab ", min_size=1, max_size=5).map(str.strip).filter(bool), min_size=1, max_size=8))
def test_each_phrase_finds_itself(phrases: list[str]) -> None:
    assert all(any_of(phrases).search(phrase) for phrase in phrases)


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [
        pytest.param("i am away until monday", "i am away until monday", True, id="equal"),
        pytest.param("i am away until monday", "i am away until mondey", True, id="a letter"),
        pytest.param("i am away until monday", "i am here until tuesday", False, id="another text"),
        pytest.param("monday at 10 please", "monday at 11 please", False, id="another number"),
        pytest.param("and also 1", "and also 2", False, id="counting"),
        pytest.param(
            "your request 1001 was received and will be read by our team",
            "your request 1002 was received and will be read by our team", True, id="a machine that counts",
        ),
        pytest.param("we are closed. " * 20, "we are closed! " * 20, True, id="long"),
        pytest.param("we are closed. " * 20, "we are open now " * 20, False, id="long, another text"),
        pytest.param(
            f"sent at 10:02. {LETTER} your number is 17",
            f"sent at 11:40. {LETTER} your number is 23", True, id="very long, other ends",
        ),
        pytest.param(
            f"dear ana, {LETTER} we are closed today. {LETTER}",
            f"dear dan, {LETTER} we are open today. {LETTER}", True, id="very long, other words inside",
        ),
        pytest.param(LETTER, LETTER[::-1], False, id="very long, the same letters"),
        pytest.param("", "", True, id="both empty"),
        pytest.param("", "a", False, id="one empty"),
    ],
)  # fmt: skip
def test_near_same(one: str, other: str, *, near: bool) -> None:
    assert near_same(one, other) is near
    assert near_same(other, one) is near


@given(st.text("abc ", max_size=60), st.text("abc ", max_size=60))
def test_of_texts_without_numbers_near_is_what_difflib_says(one: str, other: str) -> None:
    assert near_same(one, other) is (SequenceMatcher(None, one, other).ratio() >= 0.9)


@pytest.mark.parametrize("size", [198, 1_998, 100_000])
@pytest.mark.parametrize("letters", ["a", "ab", "abc"])
def test_nearness_of_hostile_texts_costs_little(size: int, letters: str) -> None:
    middle = (letters * size)[:size]
    began = time.perf_counter()
    near_same("x" + middle + "y", "y" + middle + "x")
    assert time.perf_counter() - began < 0.25
