"""What the mock model answers with: a text, or one call of a tool that the request offers."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from packs.clinic import mock_words
from packs.clinic.mock_clock import choose
from packs.clinic.mock_page import Page
from packs.clinic.mock_wish import Wish
from shared.llm.port import Answer, Finish, Request, ToolCall

FREE_DAYS: Final = 7  # looked at when what is free was asked without a day


def say(text: str) -> Answer:
    return Answer(text=text)


def call(request: Request, tool: str, arguments: Mapping[str, Any], language: str) -> Answer:
    """The call, if the request offers the tool; its id follows from its place in the conversation."""
    if tool not in {spec.name for spec in request.tools}:
        return say(mock_words.text("fallback", language))
    made = ToolCall(id=f"call_{len(request.messages)}", name=tool, arguments=json.dumps(arguments))
    return Answer(text=None, calls=(made,), finish=Finish.TOOLS)


def call_find_slots(request: Request, page: Page, wish: Wish, language: str) -> Answer:
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
    return call(request, "find_slots", with_dentist(arguments, wish), language)


def with_dentist(arguments: dict[str, str], wish: Wish) -> dict[str, str]:
    return arguments | ({"dentist": wish.dentist} if wish.dentist else {})


def start_of(wish: Wish, page: Page) -> str | None:
    """The start that a wish with one day and a time asks for; None while the time may mean two."""
    assert wish.clock is not None, "asked only once a time is known"
    readings = choose(wish.clock, page.open_on(wish.days[0]), wish.part)
    if len(readings) > 1:
        return None
    return datetime.combine(wish.days[0], readings[0]).isoformat(timespec="minutes")
