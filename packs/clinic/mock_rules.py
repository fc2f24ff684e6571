"""The rule-based mock model at the clinic's desk: deterministic, EN and RO; it knows its request alone.

It asks for what is missing, calls a tool as soon as it can, and words what the tool said. What it may do is
not its concern: the gate is in code, for it as for any model.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from packs.clinic import mock_words
from packs.clinic.dates import normal
from packs.clinic.mock_clock import choose
from packs.clinic.mock_page import Page, read_page
from packs.clinic.mock_wish import Wish, gather, heard, hears
from shared.llm.port import Answer, AssistantText, Finish, Message, Request, ToolCall, ToolResult, UserText
from shared.locales import available, load, read

FREE_DAYS: Final = 7  # looked at when what is free was asked without a day


def answer(request: Request) -> Answer:
    """One answer: a text, or one call of a tool that the request offers."""
    page = read_page(request.system)
    before, latest = _split(request.messages)
    said = "\n".join(message.text for message in latest)
    language = _language(said, page)
    last = request.messages[-1] if request.messages else None
    if isinstance(last, ToolResult):
        return _say(mock_words.result(last, said, language))
    if page is None:
        return _say(mock_words.text("fallback", language))
    earlier = gather(before, page)
    wish = gather(latest, page, wish=earlier, offered=_last_of_ours(before))
    adds = wish != earlier or heard(said, Wish(begun=True), page) != Wish(begun=True)
    return _desk(request, page, normal(said), wish, adds=adds, language=language)


def _desk(request: Request, page: Page, said: str, wish: Wish, *, adds: bool, language: str) -> Answer:
    """The first rule that fits, from the most particular to small talk."""
    books = hears("book", said)
    if not hears("change", said):
        if hears("mine", said):
            return _call(request, "list_my_appointments", {}, language)
        if hears("free", said):
            return _find_slots(request, page, wish, language)
        if not books and mock_words.topics(said):
            return _call(request, "get_clinic_info", {}, language)
        if wish.begun and (adds or books):
            return _towards_booking(request, page, wish, language)
    return _say(mock_words.text(_small_talk(said), language))


def _small_talk(said: str) -> str:
    """The phrase for words that call for no tool."""
    answers = (
        ("change", "no_changes"),
        ("negation", "left_alone"),
        ("thanks", "welcome"),
        ("greeting", "greeting"),
    )
    return next((phrase for key, phrase in answers if hears(key, said)), "fallback")


def _towards_booking(request: Request, page: Page, wish: Wish, language: str) -> Answer:
    """Ask for the first piece that is missing; with all of them, call."""
    if wish.service is None:
        return _say(mock_words.text("ask_service", language, services=", ".join(page.services.values())))
    if not wish.days:
        return _say(mock_words.text("ask_day", language))
    if len(wish.days) > 1:
        return _say(mock_words.text("ask_which_day", language, days=mock_words.days(wish.days, language)))
    if wish.clock is None:
        return _find_slots(request, page, wish, language)
    readings = choose(wish.clock, page.calendar.get(wish.days[0], ()))
    if len(readings) > 1:
        return _say(mock_words.text("ask_time", language))
    start = datetime.combine(wish.days[0], readings[0]).isoformat(timespec="minutes")
    arguments = {"service": wish.service, "start": start}
    return _call(request, "book_appointment", _with_dentist(arguments, wish), language)


def _find_slots(request: Request, page: Page, wish: Wish, language: str) -> Answer:
    """Without a service what is free for the first one is shown: better than a question in return."""
    first = wish.days[0] if wish.days else page.today
    last = wish.days[-1] if wish.days else page.today + timedelta(days=FREE_DAYS)
    arguments = {
        "service": wish.service or next(iter(page.services)),
        "first_day": first.isoformat(),
        "last_day": last.isoformat(),
    }
    if wish.part:
        arguments["part_of_day"] = wish.part
    return _call(request, "find_slots", _with_dentist(arguments, wish), language)


def _with_dentist(arguments: dict[str, str], wish: Wish) -> dict[str, str]:
    return arguments | ({"dentist": wish.dentist} if wish.dentist else {})


def _call(request: Request, tool: str, arguments: Mapping[str, Any], language: str) -> Answer:
    """The call, if the request offers the tool; its id follows from its place in the conversation."""
    if tool not in {spec.name for spec in request.tools}:
        return _say(mock_words.text("fallback", language))
    call = ToolCall(id=f"call_{len(request.messages)}", name=tool, arguments=json.dumps(arguments))
    return Answer(text=None, calls=(call,), finish=Finish.TOOLS)


def _say(text: str) -> Answer:
    return Answer(text=text)


def _split(messages: Sequence[Message]) -> tuple[Sequence[Message], Sequence[UserText]]:
    """What was said before, and the customer's newest texts, in front of this turn's calls and results."""
    end = len(messages)
    while end and not isinstance(messages[end - 1], UserText):
        end -= 1
    start = end
    while start and isinstance(messages[start - 1], UserText):
        start -= 1
    return messages[:start], [message for message in messages[start:end] if isinstance(message, UserText)]


def _last_of_ours(messages: Sequence[Message]) -> str:
    return next((one.text for one in reversed(messages) if isinstance(one, AssistantText)), "")


def _language(said: str, page: Page | None) -> str:
    """That of the newest words, else the page's."""
    return read(said, [load(name) for name in available()]).locale() or (page.language if page else "en")
