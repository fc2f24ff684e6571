"""The system's own words around a pending action, on every channel."""

import json
import re
from uuid import UUID

import pytest

from services.agent.core.confirmation import Answer, match
from services.agent.core.pending import Button, Press
from services.agent.core.wording import buttons_json, prompt
from shared.ids import ActionId
from shared.locales import available, load

ACTION = ActionId(UUID(int=5))
CARRIER_WORDS = re.compile(r"\b(CANCEL|END|STOP|QUIT|UNSUBSCRIBE|STOPALL)\b")


@pytest.mark.parametrize("name", available())
def test_the_prompt_says_what_and_how_to_answer(name: str) -> None:
    text = prompt("Book: cleaning.", load(name))
    assert text.startswith("Book: cleaning. ")
    assert text == f"Book: cleaning. {load(name).notice('prompt_suffix_yes_no')}"


@pytest.mark.parametrize("name", available())
def test_the_words_it_asks_for_are_read_as_what_they_say(name: str) -> None:
    locale = load(name)
    asked = re.findall(r"\b[A-Z]{2,}\b", locale.notice("prompt_suffix_yes_no"))
    assert [match([word], [locale]) for word in asked] == [Answer.YES, Answer.NO]


@pytest.mark.parametrize("name", available())
def test_it_never_asks_for_a_word_that_carriers_take_as_an_opt_out(name: str) -> None:
    assert not CARRIER_WORDS.search(prompt("Book.", load(name)))


@pytest.mark.parametrize("name", available())
def test_the_buttons_carry_the_action_and_its_step(name: str) -> None:
    confirm, cancel = json.loads(buttons_json(ACTION, load(name)))
    assert Button.decode(confirm["id"]) == Button(action=ACTION, step=1, press=Press.CONFIRM)
    assert Button.decode(cancel["id"]) == Button(action=ACTION, step=1, press=Press.CANCEL)
    for button in (confirm, cancel):
        assert 0 < len(button["title"]) <= 20, "WhatsApp shows twenty characters"
    assert confirm["title"] != cancel["title"]
