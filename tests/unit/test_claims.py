"""What holds of claims in every language: sentences stand alone, quotes are not the reply's, the system's words fit."""

import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import packs.clinic
from services.agent.core.claims import asks_to_confirm, claims_done
from shared.locales import available, load
from tests.unit import test_claims_english as english
from tests.unit import test_claims_romanian as romanian

BOTH = (load("en"), load("ro"))
CLAIMS = [*english.CLAIMS, *romanian.CLAIMS]
NO_CLAIMS = [*english.NO_CLAIMS, *romanian.NO_CLAIMS]
ASKS = [*english.ASKS, *romanian.ASKS]
ASKS_NOTHING = [*english.ASKS_NOTHING, *romanian.ASKS_NOTHING]
QUOTES = set('“”"„«»')  # a quote is the reply's own only when it is all of it
WORDING = sorted((Path(packs.clinic.__file__).parent / "wording").glob("*.toml"))


def test_each_language_has_sixty_sentences_each_way() -> None:
    for language in (english, romanian):
        for sentences in (language.CLAIMS, language.NO_CLAIMS, language.ASKS, language.ASKS_NOTHING):
            assert len(set(sentences)) >= 60


@settings(deadline=None)  # a busy machine is no failure
@given(
    st.sampled_from(NO_CLAIMS),
    st.sampled_from([one for one in CLAIMS if not QUOTES & set(one[:1])]),
    st.sampled_from(NO_CLAIMS),
)
def test_a_claim_stands_out_of_whatever_is_around_it(before: str, claim: str, after: str) -> None:
    assert claims_done(f"{before}\n{claim}\n{after}", BOTH)


@settings(deadline=None)  # a busy machine is no failure
@given(st.lists(st.sampled_from(NO_CLAIMS), max_size=4))
def test_many_sentences_without_a_claim_have_none(sentences: list[str]) -> None:
    assert not claims_done("\n".join(sentences), BOTH)


@settings(deadline=None)  # a busy machine is no failure
@given(
    st.sampled_from(ASKS_NOTHING),
    st.sampled_from([one for one in ASKS if not QUOTES & set(one[:1])]),
    st.sampled_from(ASKS_NOTHING),
)
def test_a_request_for_a_yes_stands_out_of_whatever_is_around_it(before: str, asks: str, after: str) -> None:
    assert asks_to_confirm(f"{before}\n{asks}\n{after}", BOTH)


@pytest.mark.parametrize(
    "quote", ["You wrote “{}” before.", 'It says "{}" there.', "Ați scris „{}” ieri.", "«{}» means nothing."]
)
def test_what_is_quoted_is_not_the_replys_own(quote: str) -> None:
    quotable = [
        text for text in (*CLAIMS, *ASKS) if len(text.split()) > 2 and not set(text) & set('“”"„«»\n')
    ]
    told = [quote.format(text) for text in quotable]
    assert [text for text in told if claims_done(text, BOTH) or asks_to_confirm(text, BOTH)] == []


def test_only_the_locales_of_the_business_are_tried() -> None:
    assert not claims_done("Am programat joi la 10.", (load("en"),))
    assert not claims_done("I've booked it.", (load("ro"),))


@pytest.mark.parametrize("name", available())
def test_of_the_systems_messages_only_the_done_claim_and_only_the_prompts_ask(name: str) -> None:
    notices = load(name).notices
    assert {key for key, text in notices.items() if claims_done(text, BOTH)} == {"executed", "fallback_done"}
    assert {key for key, text in notices.items() if asks_to_confirm(text, BOTH)} == {
        "prompt_suffix_yes_no",
        "prompt_suffix_buttons",
        "prompt_repeated",
    }


def wordings(table: dict[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, str):
            yield f"{path}{key}", value
        elif isinstance(value, dict):
            yield from wordings(value, f"{path}{key}.")


@pytest.mark.parametrize("file", WORDING, ids=lambda file: file.stem)
def test_of_a_packs_wordings_only_those_of_an_execution_claim(file: Path) -> None:
    texts = dict(wordings(tomllib.loads(file.read_text(encoding="utf-8"))))
    claiming = {key for key, text in texts.items() if claims_done(text, BOTH)}
    assert {f"{did}_appointment.done" for did in ("book", "reschedule", "cancel")} <= claiming
    assert [key for key in claiming if not key.endswith(".done")] == []
    assert [key for key, text in texts.items() if asks_to_confirm(text, BOTH)] == []


@pytest.mark.parametrize(
    "piece",
    [
        "if i've booked ",
        "your appointment is it booked not ",
        "(",
        "“",
        '"',
        "booked, ",
        "1. ",
        "am programat nu ",
        "shall i ",
    ],
)
def test_hostile_replies_cost_little(piece: str) -> None:
    text = (piece * 4_096)[:4_096]
    began = time.perf_counter()
    claims_done(text, BOTH)
    asks_to_confirm(text, BOTH)
    assert time.perf_counter() - began < 1


@settings(deadline=None)  # a busy machine is no failure
@given(st.text(max_size=200))
def test_any_text_is_judged(text: str) -> None:
    assert claims_done(text, BOTH) in (True, False)
    assert asks_to_confirm(text, BOTH) in (True, False)
