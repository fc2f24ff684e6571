"""The system's own words around a pending action, on every channel."""

import json
import re
from uuid import UUID

import pytest

from services.agent.core.confirmation import Answer, match
from services.agent.core.pending import Button, Press
from services.agent.core.wording import buttons_json, last_step, prompt, repeated
from shared.ids import ActionId
from shared.locales import available, load
from shared.messages import PROMPT_CHARS_MAX

ACTION = ActionId(UUID(int=5))
CARRIER_WORDS = re.compile(r"\b(CANCEL|END|STOP|QUIT|UNSUBSCRIBE|STOPALL)\b")


@pytest.mark.parametrize("name", available())
def test_the_prompt_says_what_and_how_to_answer(name: str) -> None:
    text = prompt("Book: cleaning.", load(name))
    assert text.startswith("Book: cleaning. ")
    assert text == f"Book: cleaning. {load(name).notice('prompt_suffix_yes_no')}"


@pytest.mark.parametrize("name", available())
def test_the_last_step_s_prompt_says_that_it_is_the_last(name: str) -> None:
    locale = load(name)
    text = last_step("Cancel: cleaning.", locale)
    assert text.startswith("Cancel: cleaning. ")
    assert locale.notice("prompt_last_step") in text
    assert text.endswith(locale.notice("prompt_suffix_yes_no")), "how to answer comes last"
    assert locale.notice("prompt_last_step") not in prompt("Cancel: cleaning.", locale)


@pytest.mark.parametrize("name", available())
def test_a_repeated_prompt_asks_for_the_same_and_says_so(name: str) -> None:
    locale = load(name)
    text = repeated("Book: cleaning.", locale, last=False)
    assert text == f"{locale.notice('prompt_repeated')} Book: cleaning."
    assert repeated("Book: cleaning.", locale, last=True) == f"{text} {locale.notice('prompt_last_step')}"


@pytest.mark.parametrize("name", available())
def test_it_never_asks_for_a_word_that_carriers_take_as_an_opt_out(name: str) -> None:
    locale = load(name)
    for text in (prompt("Book.", locale), last_step("Book.", locale), repeated("Book.", locale, last=True)):
        assert not CARRIER_WORDS.search(text)
        assert len(text) < PROMPT_CHARS_MAX / 2, "most of a message is the summary's"


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("name", available())
def test_the_buttons_carry_the_action_and_its_step(name: str, step: int) -> None:
    confirm, cancel = json.loads(buttons_json(ACTION, step, load(name)))
    assert Button.decode(confirm["id"]) == Button(action=ACTION, step=step, press=Press.CONFIRM)
    assert Button.decode(cancel["id"]) == Button(action=ACTION, step=step, press=Press.CANCEL)
    for button in (confirm, cancel):
        assert 0 < len(button["title"]) <= 20, "WhatsApp shows twenty characters"
    assert confirm["title"] != cancel["title"]


@pytest.mark.parametrize("name", available())
@pytest.mark.parametrize("notice", ["prompt_suffix_yes_no", "prompt_repeated"])
def test_every_way_of_asking_names_the_words_that_answer(name: str, notice: str) -> None:
    locale = load(name)
    asked = re.findall(r"\b[A-Z]{2,}\b", locale.notice(notice))
    assert [match([word], [locale]) for word in asked] == [Answer.YES, Answer.NO]
