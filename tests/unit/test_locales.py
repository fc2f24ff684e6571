"""The shipped locales, and what the loader refuses."""

import copy
import tomllib
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import shared.locales
from services.guard.core.verdict import Notice
from shared.errors import Misconfigured
from shared.locales import Locale, available, load, read
from shared.locales.loader import NOTICES, parse

LISTS = ("explicit_yes", "soft_yes", "no", "opt_out", "carrier_opt_out", "opt_in", "handoff_words")


def english() -> dict[str, Any]:
    file = Path(shared.locales.__file__).parent / "en.toml"
    return copy.deepcopy(tomllib.loads(file.read_text(encoding="utf-8")))


@pytest.fixture(params=available())
def locale(request: pytest.FixtureRequest) -> Locale:
    return load(request.param)


def test_english_and_romanian_are_there_from_the_start() -> None:
    assert {"en", "ro"} <= set(available())


def test_a_locale_is_read_once() -> None:
    assert load("en") is load("en")


def test_an_unknown_locale_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(Misconfigured, match="en, ro"):
        load("../en")


def test_phrases_are_in_normal_form(locale: Locale) -> None:
    for key in (*LISTS, "common_words"):
        for phrase in getattr(locale, key):
            assert locale.normalise(phrase) == phrase


def test_every_notice_of_the_guard_has_words(locale: Locale) -> None:
    for notice in Notice:
        assert locale.notice(notice.value).strip()


def test_the_carriers_own_words_are_in_every_locale(locale: Locale) -> None:
    assert {"stop", "stopall", "unsubscribe", "end", "quit", "revoke", "optout"} <= locale.opt_out
    assert locale.carrier_opt_out == {"cancel"}
    assert {"start", "yes", "unstop"} <= locale.opt_in


def test_no_wording_asks_for_a_word_that_a_carrier_takes(locale: Locale) -> None:
    for name, wording in locale.notices.items():
        if name.startswith("prompt"):
            words = {word.strip(".,:") for word in wording.split()}
            assert not words & {"CANCEL", "END", "STOP", "QUIT"}, name


def test_the_words_the_prompts_ask_for_are_explicit(locale: Locale) -> None:
    capitals = [word.strip(".,:") for word in locale.notices["prompt_suffix_yes_no"].split()]
    yes, no = (word for word in capitals if word.isupper())
    assert locale.normalise(yes) in locale.explicit_yes
    assert locale.normalise(no) in locale.no


def test_no_shipped_phrase_means_two_things_in_two_locales() -> None:
    for one in map(load, available()):
        for other in map(load, available()):
            for here in LISTS:
                for there in LISTS:
                    if here != there and {here, there} != {"explicit_yes", "opt_in"}:
                        assert not getattr(one, here) & getattr(other, there), (
                            one.name,
                            here,
                            other.name,
                            there,
                        )


def test_romanian_is_written_with_commas_below_not_cedillas() -> None:
    text = (Path(shared.locales.__file__).parent / "ro.toml").read_text(encoding="utf-8")
    assert not set(text) & set("şţŞŢãÃ")


@pytest.mark.parametrize(
    ("name", "moment", "day"),
    [
        ("en", "Thursday 3 December, 10:00", "Thursday 3 December"),
        ("ro", "joi 3 decembrie, 10:00", "joi 3 decembrie"),
    ],
)
def test_times_are_worded_as_people_write_them(name: str, moment: str, day: str) -> None:
    at = datetime(2026, 12, 3, 10, 0)  # noqa: DTZ001  # already in the business's zone
    assert load(name).moment(at) == moment
    assert load(name).day(at) == day


def test_values_are_put_in_as_they_are() -> None:
    assert load("en").notice("executed", summary="{weekday} {0} %s") == "Done: {weekday} {0} %s."


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Hi, can I book a cleaning on Thursday?", "en"),
        ("Bună ziua, aș vrea o programare mâine", "ro"),
        ("Buna ziua, as vrea o programare maine", "ro"),
        ("Buna ziua, aş vrea la doctor", "ro"),
        ("da", "ro"),
        ("nu, mulţumesc", "ro"),
        ("no thanks", "en"),
        ("I am not sure", "en"),
        ("ok", None),
        ("stop", None),
        ("10:30", None),
        ("👍", None),
        ("", None),
        ("Привет, можно записаться?", None),
        ("hello, vreau", None),
    ],
)
def test_the_locale_is_recognised_by_its_words_or_not_at_all(text: str, name: str | None) -> None:
    assert read(text, (load("en"), load("ro"))).locale() == name


def test_a_business_of_one_locale_recognises_only_that() -> None:
    assert read("hello there", (load("en"),)).locale() == "en"
    assert read("vreau o programare", (load("en"),)).locale() is None


def test_alternatives_are_spelled_out_and_a_comma_may_be_missing() -> None:
    data = english()
    data["words"]["no"] = ["nope, (not|never) (today|)"]
    assert parse("xx", data).no == {
        "nope, not today", "nope not today", "nope, not", "nope not",
        "nope, never today", "nope never today", "nope, never", "nope never",
    }  # fmt: skip


def test_a_phrase_with_two_meanings_is_refused_by_name() -> None:
    data = english()
    data["words"]["soft_yes"].append("NO!")
    with pytest.raises(Misconfigured, match="'no' has two meanings, soft_yes and no"):
        parse("xx", data)


def test_an_answer_that_asks_for_a_person_is_refused() -> None:
    data = english()
    data["words"]["no"].append("no, talk to a person")
    with pytest.raises(Misconfigured, match="also asks for a person"):
        parse("xx", data)


@pytest.mark.parametrize(
    ("table", "key", "value", "complaint"),
    [
        ("words", "no", "no", "list of phrases"),
        ("words", "no", [1], "list of phrases"),
        ("words", "no", ["!!"], "nothing but punctuation"),
        ("words", "maybe", [], "unknown entries: maybe"),
        ("reactions", "to_words", "liked", "to_words must be a list of phrases"),
        ("reactions", "to_things", [" "], "to_things has an empty entry"),
        ("reactions", "to_nobody", [], "unknown entries: to_nobody"),
        ("claims", "done", "booked", "claims.done must be a list of phrases"),
        ("claims", "actors", [""], "claims.actors has an empty entry"),
        ("claims", "doubts", [], r"\[claims\] has unknown entries: doubts"),
        ("asking", "phrases", [3], "asking.phrases must be a list of phrases"),
        ("asking", "demands", [], r"\[asking\] has unknown entries: demands"),
        ("dates", "weekdays", ["Monday"], "7 different names"),
        ("dates", "moment", "{weekday} {day}", "must be a text that names day, month, time, weekday"),
        ("notices", "fallback", "I'll ask {who}.", "must be a text that names no field"),
        ("notices", "fallback", " ", "must be a text"),
        ("notices", "executed", "Done.", "names summary"),
        ("notices", "executed", "Done: {summary.__class__}", "names summary"),
        ("notices", "executed", "Done: {summary!r}", "names summary"),
        ("notices", "executed", "Done: {summary", "stray brace"),
        ("notices", "greeting", "Hi", "unknown entries: greeting"),
    ],
)
def test_a_wrong_entry_is_refused_by_name(table: str, key: str, value: object, complaint: str) -> None:
    data = english()
    data[table][key] = value
    with pytest.raises(Misconfigured, match=complaint):
        parse("xx", data)


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ("words", "no"),
        ("reactions", "to_words"),
        ("claims", "done"),
        ("asking", "phrases"),
        ("dates", "day"),
        *(("notices", n) for n in NOTICES),
    ],
)
def test_a_missing_entry_is_refused_by_name(table: str, key: str) -> None:
    data = english()
    del data[table][key]
    with pytest.raises(Misconfigured, match=f"lacks {key}"):
        parse("xx", data)


def test_a_missing_table_is_refused() -> None:
    data = english()
    del data["words"]
    with pytest.raises(Misconfigured, match="lacks words"):
        parse("xx", data)


def test_a_word_that_no_dropped_mark_tells_is_refused() -> None:
    data = english()
    data["told_by_marks"] = ["dă"]
    with pytest.raises(Misconfigured, match="told_by_marks has 'dă', which has none of the marks"):
        parse("xx", data)
