"""What is a yes, what is a no, and how much is neither."""

import copy
import re
import tomllib
import unicodedata
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import shared.locales
from services.agent.core.confirmation import ANSWER_CHARS_MAX, Answer, match
from shared.locales import Locale, load
from shared.locales.loader import parse

EN, RO = load("en"), load("ro")
BOTH = (EN, RO)
YES_PHRASES = sorted(EN.explicit_yes | RO.explicit_yes)
NO_PHRASES = sorted(EN.no | RO.no)


def answer(*fragments: str, locales: tuple[Locale, ...] = BOTH) -> Answer:
    return match(fragments, locales)


@pytest.mark.parametrize(
    "text",
    [
        "Yes.", "Y!", "y", "Yep", " YES ", "yes please", "Yes, please!", "I confirm", "confirm",
        "Confirm.", "Da!", "da",
        "da, vă rog", "da vă rog", "Da, mulțumesc", "da multumesc", "DA VA ROG", "confirmă",
        "confirma\u0306", "confirma",
        "CONFIRMĂ", "ＹＥＳ", "ＤＡ", "“YES”", "*da*", "yes\n", "y\u200bes", "da :)", "yes 👍", "yes (y)", "(yes)", "yes thanks",
    ],
)  # fmt: skip
def test_an_explicit_yes(text: str) -> None:
    assert answer(text) is Answer.YES


@pytest.mark.parametrize(
    "text",
    [
        "NU", "No.", "n", "nu, mulțumesc", "nu mulţumesc", "no thanks", "No, thank you!", "nu mai vreau",
        "ＮＯ", "nope",
        "definitely not", "absolutely not", "of course not", "sigur că nu", "sigur ca nu", "nici vorbă",
        "never mind", "👎",
    ],
)  # fmt: skip
def test_a_no(text: str) -> None:
    assert answer(text) is Answer.NO


@pytest.mark.parametrize(
    "text",
    [
        "ok",
        "Okay.",
        "OK!",
        "sure",
        "Sure thing",
        "fine",
        "👍",
        "👍🏽",
        "👍\ufe0f",
        "bine",
        "sigur",
        "Desigur!",
        "de acord",
        "go ahead",
        "perfect",
        "(y)",
        "please confirm",
        "Confirmați",
    ],
)
def test_a_soft_yes(text: str) -> None:
    assert answer(text) is Answer.SOFT_YES


@pytest.mark.parametrize(
    "text",
    [
        # words that contain a yes or a no, or look like one
        "yesterday", "bypass", "eyes", "know", "next", "another", "noted", "nothing", "dar", "data",
        "danubiu", "nuca",
        "numai luni", "dad", "yeshiva", "adaptare", "nunta", "noon", "confirmation", "confirmare",
        # a refusal that begins like a yes, irony, doubt
        "sure, not", "yes I don't want that", "That doesn't sound good", "da de unde", "yeah right",
        "da, cum să nu!!?",
        "yes?", "da?", "yes or no?", "yes/no", "yes no", "da nu", "no yes", "yes, no", "da, nu",
        # a yes to something else
        "yes, on Friday please", "yes but at 3pm", "ok for 11?", "da, dar la 11", "da, vineri",
        "bine, însă mai târziu",
        "yes for my daughter", "yes, and also Tuesday", "da, dar mâine", "yes 15:00",
        "yes to the other one", "1 yes",
        # typing errors execute nothing
        "yues", "yse", "ye", "yess no", "dda", "daa nu", "nou", "n0", "yes1", "d a", "y e s",
        # asks us, or is data
        "please confirm?", "[yes]", "[\"yes\"]", "{\"answer\": \"yes\"}", "<b>yes</b>", "yes🏽",
        # other words but for their marks
        "dă", "Dă!", "DĂ", "d\u00e3", "da\u0306", "dă, vă rog",
        # quoted, struck out, hidden, foreign letters
        "> yes", "~yes~", "~da~", "y\u0336e\u0336s\u0336", "d\u0336a\u0336", "уes", "\u202eyes",
        "yes\u20e0",
        "yes :(", "yes ❌", "da 👎", "yes\U000e006e\U000e006f",
        # the domain's words, and the carriers'
        "anulez", "renunț", "renunţ", "renunt", "cancel", "stop", "book it now", "și da", "şi da",
        # nothing
        "", " ", "?", "...", "\u200b", "!!!",
    ],
)  # fmt: skip
def test_neither(text: str) -> None:
    assert answer(text) is Answer.OTHER


@pytest.mark.parametrize(
    ("fragments", "expected"),
    [
        pytest.param(["yes", "da"], Answer.YES, id="each a yes"),
        pytest.param(["Yes", "Yes!", "yes please"], Answer.YES, id="each a yes, thrice"),
        pytest.param(["no", "no thanks"], Answer.NO, id="each a no"),
        pytest.param(["da,", "vă rog"], Answer.YES, id="one yes in two pieces"),
        pytest.param(["nu", "mai vreau"], Answer.NO, id="one no in two pieces"),
        pytest.param(["yes", "\u200b"], Answer.YES, id="a yes and nothing to see"),
        pytest.param(["YES", "but at 3pm"], Answer.OTHER, id="a yes and a but"),
        pytest.param(["yes", "no"], Answer.OTHER, id="a yes and a no"),
        pytest.param(["no", "yes"], Answer.OTHER, id="a no and a yes"),
        pytest.param(["da", "?"], Answer.OTHER, id="a yes and a question"),
        pytest.param(["yes", "ok"], Answer.OTHER, id="a yes and a soft yes"),
        pytest.param(["ok", "ok"], Answer.SOFT_YES, id="a soft yes in two pieces"),
        pytest.param(["yes", "da", "\u200b"], Answer.YES, id="two of a yes and nothing to see"),
        pytest.param(["Liked “YES”", "Loved “YES”"], Answer.REACTION, id="reactions"),
        pytest.param(["yes", "Liked “YES”"], Answer.REACTION, id="a yes beside a reaction is no bare yes"),
        pytest.param(["no", "Disliked “YES”"], Answer.NO, id="a no and a reaction"),
        pytest.param(["ok", "Liked “YES”"], Answer.SOFT_YES, id="a soft yes and a reaction"),
        pytest.param(["Liked “YES”", "but at 3pm"], Answer.OTHER, id="a reaction and a request"),
        pytest.param(["y", "es"], Answer.OTHER, id="a word is not put together"),
        pytest.param([], Answer.OTHER, id="nothing"),
        pytest.param(["", " "], Answer.OTHER, id="only blanks"),
    ],
)
def test_only_the_whole_turn_counts(fragments: list[str], expected: Answer) -> None:
    assert match(fragments, BOTH) is expected


def test_only_the_locales_of_the_business_are_tried() -> None:
    assert answer("da", locales=(EN,)) is Answer.OTHER
    assert answer("da", locales=(RO,)) is Answer.YES
    assert answer("yep", locales=(RO,)) is Answer.OTHER


def _english_with(**words: list[str]) -> Locale:
    data = copy.deepcopy(
        tomllib.loads((Path(shared.locales.__file__).parent / "en.toml").read_text(encoding="utf-8"))
    )
    data["words"].update(words)
    return parse("xx", data)


def test_a_phrase_with_two_meanings_in_two_locales_is_in_none() -> None:
    contrary = _english_with(no=["da"], explicit_yes=["no"], opt_in=["start"])
    assert answer("da", locales=(RO, contrary)) is Answer.OTHER
    assert answer("no", locales=(EN, contrary)) is Answer.OTHER


def test_a_long_text_is_no_bare_answer() -> None:
    assert answer("yes" + " " * ANSWER_CHARS_MAX) is Answer.OTHER
    assert answer(*["yes"] * ANSWER_CHARS_MAX) is Answer.OTHER


# Whatever people write around a yes

BEYOND = {
    "en": (
        "but", "but at 3pm", "not", "no", "never", "maybe", "later", "wait", "if it's free", "on Friday",
        "for two", "why",
        "and Monday", "or not", "actually no", "only if", "cancel", "tomorrow", "11", "don't", "instead",
        "sir?",
    ),
    "ro": (
        "dar", "dar la 3", "nu", "nu chiar", "niciodată", "poate", "mai târziu", "stai", "dacă e liber",
        "vineri", "pentru doi",
        "de ce", "și luni", "sau nu", "de fapt nu", "numai dacă", "anulez", "mâine", "11", "nu vreau",
        "în schimb", "zău?",
    ),
}  # fmt: skip
JOINS = (
    "{yes} {more}",
    "{more} {yes}",
    "{yes}, {more}",
    "{more}, {yes}",
    "{yes}. {more}",
    "{yes}\n{more}",
    "{yes}…{more}",
)


@pytest.mark.parametrize("locale", BOTH, ids=lambda locale: locale.name)
def test_a_thousand_adversarial_phrases_never_match(locale: Locale) -> None:
    tried = {
        join.format(yes=yes, more=more)
        for join, yes, more in product(JOINS, sorted(locale.explicit_yes), BEYOND[locale.name])
    }
    tried |= {
        form.format(yes)
        for form in ("{}?", "{} ?", "> {}", "~{}~", "{}/", "Liked “{}”", "x{}", "{}x")
        for yes in locale.explicit_yes
    }
    assert len(tried) > 1_000
    assert [text for text in sorted(tried) if answer(text) is Answer.YES] == []


def words_of(text: str) -> tuple[str, ...]:
    """An account of a text's words that shares no code with the matcher."""
    plain = unicodedata.normalize("NFKD", text).casefold()
    return tuple(
        re.findall(r"\w+|👍|✅|😊|🙂|🙏|\?", "".join(c for c in plain if not unicodedata.combining(c)))
    )


LISTED = {words_of(phrase) for phrase in YES_PHRASES}
PIECES = st.sampled_from(
    [*YES_PHRASES, *NO_PHRASES, "but", "dar", "not", "?", "!", ",", ".", "👍", "(", "3pm", "\n"]
)


@given(
    st.lists(PIECES, max_size=4).map(" ".join)
    | st.lists(PIECES, max_size=4).map("".join)
    | st.text(max_size=12)
)
def test_whatever_is_a_yes_has_the_words_of_a_listed_phrase_and_no_other(text: str) -> None:
    if answer(text) is Answer.YES:
        assert words_of(text) in LISTED


NO_WORD_IS_SEEN = "ʼ\u115f\u1160\u3164\uffa0"  # an apostrophe and fillers, which Unicode calls letters
LETTERS = st.characters(categories=["L", "N"], exclude_characters=NO_WORD_IS_SEEN)


@given(st.sampled_from(YES_PHRASES), st.text(LETTERS, min_size=1, max_size=8))
def test_a_yes_with_a_word_more_is_a_yes_only_if_that_is_listed(yes: str, more: str) -> None:
    for text in (f"{yes} {more}", f"{more} {yes}", yes + more):
        assert answer(text) is not Answer.YES or words_of(text) in LISTED


def full_width(text: str) -> str:
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)


def as_cedilla(text: str) -> str:
    return text.replace("ș", "ş").replace("ț", "ţ")


SPELLINGS = st.sampled_from(
    [str.upper, str.title, full_width, as_cedilla, lambda text: unicodedata.normalize("NFD", text)]
)
UNSEEN = st.text("\u200b\u200d\u2060\ufeff\u00ad\u200e", max_size=3)
BEFORE = st.text(" \n.,!-*_\"'“„«", max_size=4)
AFTER = st.text(" \n.,!-*_\"'”»)…", max_size=4)


@given(st.sampled_from(YES_PHRASES + NO_PHRASES), SPELLINGS, UNSEEN, BEFORE, AFTER, st.integers(0, 40))
def test_spelling_and_outer_punctuation_change_nothing(phrase, respell, unseen, before, after, at) -> None:
    at = min(at, len(phrase))
    written = before + respell(phrase[:at] + unseen + phrase[at:]) + after
    assert answer(written) is answer(phrase)


@given(st.sampled_from(["confirmă", "da, vă rog", "nu, mulțumesc", "în regulă", "așa e", "renunț", "și da"]))
def test_marks_may_be_missing_in_romanian(phrase: str) -> None:
    bare = "".join(c for c in unicodedata.normalize("NFD", phrase) if not unicodedata.combining(c))
    assert answer(bare) is answer(phrase) is answer(as_cedilla(phrase))


@given(st.lists(st.text(max_size=20), max_size=5))
def test_any_text_has_exactly_one_answer(fragments: list[str]) -> None:
    assert match(fragments, BOTH) in Answer
