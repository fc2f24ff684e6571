"""Thousands of texts that hold a yes, look like one or speak of one, and are none."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.agent.core.confirmation import Answer, match
from shared.locales import Locale, load
from tests.support.adversarial import DATA, DELIBERATE, TABLES, as_lines, from_lines, phrases
from tests.unit.test_confirmation_matcher import LISTED, words_of

EN, RO = load("en"), load("ro")
BUSINESSES = pytest.mark.parametrize(
    "locales", [(EN,), (RO,), (EN, RO), (RO, EN)], ids=["en", "ro", "en ro", "ro en"]
)
YES_PHRASES = sorted(EN.explicit_yes | RO.explicit_yes)


def listed(name: str) -> tuple[str, ...]:
    return from_lines((DATA / f"adversarial_{name}.txt").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", TABLES)
def test_the_list_is_what_the_tables_make(name: str) -> None:
    assert listed(name) == phrases(name), "python -m tests.support.adversarial writes it"


@pytest.mark.parametrize("name", TABLES)
def test_it_has_a_thousand_phrases_that_differ_in_more_than_spelling(name: str) -> None:
    assert len({load(name).normalise(phrase) for phrase in listed(name)}) >= 1_000


@BUSINESSES
@pytest.mark.parametrize("name", TABLES)
def test_no_adversarial_phrase_is_a_yes(name: str, locales: tuple[Locale, ...]) -> None:
    assert [phrase for phrase in listed(name) if match([phrase], locales) is Answer.YES] == []


@BUSINESSES
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("parting", [" ", ", ", ". ", "\n"], ids=["words", "commas", "sentences", "lines"])
def test_nor_is_it_one_in_pieces(name: str, parting: str, locales: tuple[Locale, ...]) -> None:
    def is_yes(phrase: str) -> bool:
        head, parted, tail = phrase.partition(parting)
        last, _, end = phrase.rpartition(parting)
        return bool(parted) and Answer.YES in (match([head, tail], locales), match([last, end], locales))

    found = [phrase for phrase in listed(name) if is_yes(phrase)]
    assert [phrase for phrase in found if not all(_is_listed(part) for part in phrase.split(parting))] == []


def _is_listed(part: str) -> bool:
    return words_of(part) in LISTED or not words_of(part)


def test_what_is_left_out_as_deliberate_is_listed() -> None:
    assert EN.explicit_yes | RO.explicit_yes >= DELIBERATE


@settings(deadline=None)  # a busy machine is no failure
@given(st.lists(st.text(max_size=20), max_size=5))
def test_what_cannot_be_seen_survives_the_file(texts: list[str]) -> None:
    assert list(from_lines(as_lines(texts))) == texts


# Whatever is put into a yes

SIGNS = st.characters(categories=["So", "Sc", "Sm"], exclude_characters="👍✅😊🙂🙏\u2800")
LETTERS = st.characters(
    categories=["Lu", "Ll", "Lo", "Nd", "Nl"], exclude_characters="\u115f\u1160\u3164\uffa0"
)
ASKING = st.sampled_from("?¿？;⁇؟^~<>{}[]|\\/@#%&+=`\x00\x07\x1b\ufffd\u202d\u202e\U000e0079")


@settings(deadline=None)  # a busy machine is no failure
@given(st.sampled_from(YES_PHRASES), st.integers(0, 60), SIGNS | LETTERS | ASKING)
def test_a_yes_with_one_thing_more_at_any_place_is_none(yes: str, at: int, more: str) -> None:
    text = yes[:at] + more + yes[at:]
    assert match([text], (EN, RO)) is not Answer.YES or words_of(text) in LISTED


@settings(deadline=None)  # a busy machine is no failure
@given(
    st.sampled_from(YES_PHRASES),
    st.sampled_from("\u0336\u0335\u0337\u0338\u20e0\u20e3\u0489\u033d"),
    st.integers(1, 60),
)
def test_a_yes_that_is_struck_out_is_none(yes: str, strike: str, at: int) -> None:
    assert match([yes[:at] + strike + yes[at:]], (EN, RO)) is not Answer.YES


@settings(deadline=None)  # a busy machine is no failure
@given(st.sampled_from(YES_PHRASES), st.sampled_from(YES_PHRASES), st.sampled_from(sorted(EN.no | RO.no)))
def test_a_yes_and_a_no_in_any_order_are_no_yes(yes: str, other: str, no: str) -> None:
    for fragments in (
        [yes, no],
        [no, yes],
        [yes, no, other],
        [yes, other, no],
        [f"{yes} {no}"],
        [f"{no}, {yes}"],
    ):
        assert match(fragments, (EN, RO)) is not Answer.YES or all(
            words_of(one) in LISTED for one in fragments
        )


@settings(deadline=None)  # a busy machine is no failure
@given(
    st.lists(st.sampled_from(YES_PHRASES), min_size=1, max_size=5),
    st.lists(st.sampled_from(["", " ", "\u200b"]), max_size=3),
)
def test_only_yeses_however_many_are_one(yeses: list[str], blanks: list[str]) -> None:
    assert match([*blanks, *yeses, *blanks], (EN, RO)) is Answer.YES


@settings(deadline=None)  # a busy machine is no failure
@given(st.text(min_size=1, max_size=40))
def test_a_random_text_is_a_yes_only_if_its_normal_form_is_listed(text: str) -> None:
    normal = {locale.normalise(text) for locale in (EN, RO)}
    assert match([text], (EN, RO)) is not Answer.YES or normal & (EN.explicit_yes | RO.explicit_yes)


@settings(deadline=None)  # a busy machine is no failure
@given(st.sampled_from(YES_PHRASES), st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]))
def test_however_its_marks_are_stored_it_is_the_same(yes: str, form: str) -> None:
    assert match([unicodedata.normalize(form, yes)], (EN, RO)) is Answer.YES
