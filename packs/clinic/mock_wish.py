"""What the mock model has understood so far: a wish gathered over the messages, the later words winning."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, time
from functools import cache
from typing import Final

from packs.clinic.dates import normal, one_of, read_days
from packs.clinic.locales import languages, words
from packs.clinic.mock_clock import Clock, read_clock
from packs.clinic.mock_page import Page
from shared.llm.port import AssistantText, Message, UserText

_ORDINALS: Final = ("first", "second", "third")
_PARTS: Final = ("morning", "afternoon", "evening")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Pieces of an appointment; `days` has several when the words may mean several."""

    service: str | None = None
    dentist: str | None = None
    days: tuple[date, ...] = ()
    clock: Clock | None = None
    part: str | None = None
    begun: bool = False  # an appointment is what the talk is about


NOTHING: Final = Wish()


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A time that we offered."""

    day: date
    at: time
    dentist: str | None


def gather(messages: Sequence[Message], page: Page, *, wish: Wish = NOTHING, offered: str = "") -> Wish:
    """The wish as it stands after all messages; a booking that was made, or a plain no, begins it anew.

    `wish` and `offered`, our last text, are where the messages begin.
    """
    for message in messages:
        if isinstance(message, AssistantText):
            wish, offered = NOTHING if _tells_of_booking(message.text) else wish, message.text
        elif isinstance(message, UserText):
            wish = heard(message.text, wish, page, offered)
    return wish


def heard(text: str, wish: Wish, page: Page, offered: str = "") -> Wish:
    """The wish with what this text adds or changes; it may pick one of the times in what we `offered`."""
    named, rest = read_days(text, page.today)
    rest = _phrases("listen", "greeting").sub(" ", rest)  # "good morning" asks for no morning
    clock = read_clock(rest, lone=wish.begun or bool(named))
    if hears("negation", rest) and not named and clock is None:
        return NOTHING
    service = find_service(rest, page)
    wish = replace(
        wish,
        service=service or wish.service,
        dentist=find_dentist(rest, page) or wish.dentist,
        days=named.days(page.today) or wish.days,
        clock=clock or wish.clock,
        part=next((part for part in _PARTS if hears(part, rest)), wish.part),
        begun=wish.begun or bool(service) or hears("book", rest) or hears("free", rest),
    )
    return wish if named else _with_choice(wish, rest, clock, _options(offered, page))


def hears(key: str, normal_text: str) -> bool:
    """Whether a text in normal form has one of the phrases listed under `key`, in any language."""
    return bool(_phrases("listen", key).search(normal_text))


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


def _tells_of_booking(text: str) -> bool:
    return any(
        words(known)["book_appointment"]["done"].partition("{")[0].strip() in text for known in languages()
    )


def _options(offered: str, page: Page) -> list[Option]:
    """The times in a text of ours, in its order."""
    options = []
    for part in offered.split(";"):
        named, rest = read_days(part, page.today)
        clock = read_clock(rest, lone=False)
        days = named.days(page.today)
        if clock and days:
            at = time(clock.hour, clock.minute)
            options.append(Option(day=days[0], at=at, dentist=find_dentist(rest, page)))
    return options


def _with_choice(wish: Wish, rest: str, clock: Clock | None, options: Sequence[Option]) -> Wish:
    """The wish with the option picked by its place, or by a time that only one of them has."""
    if clock is None:
        place = next((at for at, key in enumerate(_ORDINALS) if hears(key, rest)), len(options))
        fitting = options[place : place + 1]
    else:
        fitting = [option for option in options if option.at in clock.readings()]
    if len(fitting) != 1:
        return wish
    day, at, dentist = fitting[0].day, fitting[0].at, fitting[0].dentist
    clock = Clock(hour=at.hour, minute=at.minute)
    return replace(wish, days=(day,), clock=clock, dentist=dentist or wish.dentist)


@cache
def _phrases(table: str, key: str) -> re.Pattern[str]:
    return re.compile(
        one_of(phrase for known in languages() for phrase in words(known)["mock"][table].get(key, ()))
    )


@cache
def _service_phrases(code: str, name: str) -> re.Pattern[str]:
    known = [phrase for lang in languages() for phrase in words(lang)["mock"]["called"].get(code, ())]
    return re.compile(one_of([name, code.replace("_", " "), *known]))
