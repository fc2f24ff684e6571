"""The words that the mock model listens for: the ``[mock]`` tables of every language at once."""

import re
from functools import cache

from packs.clinic.dates import normal, one_of
from packs.clinic.locales import languages, words
from packs.clinic.mock_page import Page


def hears(key: str, normal_text: str) -> bool:
    """Whether a text in normal form has one of the phrases listed under `key`, in any language."""
    return bool(phrases("listen", key).search(normal_text))


@cache
def phrases(table: str, key: str) -> re.Pattern[str]:
    """What is listed under a key, in any language, as whole words."""
    return re.compile(
        one_of(phrase for known in languages() for phrase in words(known)["mock"][table].get(key, ()))
    )


def find_service(normal_text: str, page: Page) -> str | None:
    """The code of the service named, by its name on the page or a word for it; the longest phrase decides."""
    hits = {
        len(match[0]): code
        for code, name in page.services.items()
        for match in (_service_phrases(code, name).search(normal_text),)
        if match
    }
    return hits[max(hits)] if hits else None


def find_dentist(normal_text: str, page: Page) -> str | None:
    """The dentist whose last name is said."""
    said = set(re.findall(r"[\w'-]+", normal_text))
    return next((name for name in page.dentists if normal(name).split()[-1] in said), None)


def says(text: str, *keys: tuple[str, str]) -> bool:
    """Whether a text of ours is one of these wordings (table, key), in any language, whatever it was filled with."""
    return any(_beginning(known, table, key) in text for known in languages() for table, key in keys)


@cache
def _beginning(known: str, table: str, key: str) -> str:
    """What a wording begins with, before its first value."""
    said: str = words(known)[table][key]
    return said.partition("{")[0].strip()


@cache
def _service_phrases(code: str, name: str) -> re.Pattern[str]:
    known = [phrase for lang in languages() for phrase in words(lang)["mock"]["called"].get(code, ())]
    return re.compile(one_of([name, code.replace("_", " "), *known]))
