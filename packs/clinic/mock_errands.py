"""Moving, cancelling and renaming, as the mock model goes about them: list first, ask which, then call."""

from dataclasses import replace
from datetime import date
from typing import Any, Final

from packs.clinic import mock_words
from packs.clinic.mock_calls import call, call_find_slots, say, start_of
from packs.clinic.mock_change import Goal, Mine, read_mine
from packs.clinic.mock_page import Page
from packs.clinic.mock_wish import Wish
from shared.llm.port import Answer, Request, ToolResult

LIST: Final = "list_my_appointments"


def rename(request: Request, wish: Wish, language: str) -> Answer:
    """Ask for the name, or ask the tool to take it."""
    if wish.name is None:
        return say(mock_words.text("ask_name", language))
    return call(request, "update_my_name", {"name": wish.name}, language)


def change(request: Request, page: Page, wish: Wish, language: str, *, looks: bool) -> Answer:
    """The next step towards a move or a cancellation; `looks` when the customer asked what is free."""
    last = request.messages[-1]
    if not (isinstance(last, ToolResult) and last.name == LIST):
        return call(request, LIST, {}, language)
    try:
        found = read_mine(mock_words.content_of(last) or {})
    except (KeyError, ValueError, TypeError):
        return say(mock_words.result(last, "", language))
    if not found:
        return say(mock_words.text("no_appointments", language))
    fitting = [one for one in found if _fits(one, wish, page.today)]
    if len(fitting) != 1:
        phrase, listed = ("ask_which_appointment", fitting) if fitting else ("which_instead", found)
        return say(mock_words.text(phrase, language, list=mock_words.mine(listed, language)))
    if wish.goal is Goal.CANCEL:
        return call(request, "cancel_appointment", {"appointment": fitting[0].id}, language)
    return _move(request, page, _completed(wish, fitting[0], page.today), fitting[0], language, looks=looks)


def _fits(mine: Mine, wish: Wish, today: date) -> bool:
    if not _in_one_breath(wish, today):
        return wish.which.fits(mine)
    of_its_day = wish.which.named.without(mine.day) != wish.which.named
    return of_its_day and wish.which.service in (None, mine.service)


def _in_one_breath(wish: Wish, today: date) -> bool:
    """ "I can't make Friday, please move it, Monday at 10": both days, and the time goes with the new one."""
    return wish.goal is Goal.MOVE and not wish.days and len(wish.which.named.days(today)) > 1


def _completed(wish: Wish, mine: Mine, today: date) -> Wish:
    """The new time; the day stays where none is named."""
    if _in_one_breath(wish, today):
        days = wish.which.named.without(mine.day).days(today)
        return replace(wish, days=days, clock=wish.clock or wish.which.clock)
    return replace(wish, days=wish.days or ((mine.day,) if wish.clock else ()))


def _move(request: Request, page: Page, wish: Wish, mine: Mine, language: str, *, looks: bool) -> Answer:
    if not wish.days and not looks:
        return say(mock_words.text("ask_new_time", language))
    if len(wish.days) > 1:
        return say(mock_words.text("ask_which_day", language, days=mock_words.days(wish.days, language)))
    if wish.clock is None or looks:
        theirs = replace(wish, service=mine.service, dentist=mine.dentist)
        return call_find_slots(request, page, theirs, language)
    start = start_of(wish, page)
    if start is None:
        return say(mock_words.text("ask_time", language))
    arguments: dict[str, Any] = {"appointment": mine.id, "start": start}
    return call(request, "reschedule_appointment", arguments, language)
