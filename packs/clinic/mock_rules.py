"""The rule-based mock model at the clinic's desk: deterministic, EN and RO; it knows its request alone.

It asks for what is missing, calls a tool as soon as it can, and words what the tool said. What it may do is
not its concern: the gate is in code, for it as for any model.
"""

from collections.abc import Sequence

from packs.clinic import mock_errands, mock_words
from packs.clinic.dates import normal
from packs.clinic.mock_calls import call, call_find_slots, say, start_of, with_dentist
from packs.clinic.mock_change import Goal, find_goal
from packs.clinic.mock_page import Page, read_page
from packs.clinic.mock_phrases import hears, says
from packs.clinic.mock_wish import WHICH_ASKED, Wish, gather, heard
from shared.llm.port import Answer, AssistantText, Message, Request, ToolResult, UserText
from shared.locales import available, load, read


def answer(request: Request) -> Answer:
    """One answer: a text, or one call of a tool that the request offers."""
    page = read_page(request.system)
    before, latest = _split(request.messages)
    said = "\n".join(message.text for message in latest)
    language = _language(said, page)
    last = request.messages[-1] if request.messages else None
    result = mock_words.result(last, said, language) if isinstance(last, ToolResult) else None
    if page is None:
        return say(result or mock_words.text("fallback", language))
    earlier = gather(before, page)
    wish = gather(latest, page, wish=earlier, offered=_last_of_ours(before))
    begun = Wish(begun=True)
    adds = wish != earlier or heard(said, begun, page) != begun
    asked = says(_last_of_ours(before), *WHICH_ASKED) and not hears("thanks", normal(said))
    changes = _changes(normal(said), wish, adds=adds or asked)
    if result and not (changes and isinstance(last, ToolResult) and last.name == mock_errands.LIST):
        return say(result)
    if changes:
        looks = hears("free", normal(said))
        return mock_errands.change(request, page, wish, language, looks=looks)
    return _desk(request, page, normal(said), wish, adds=adds, language=language)


def _changes(said: str, wish: Wish, *, adds: bool) -> bool:
    """Whether the newest words are about moving or cancelling; `adds` when they should be, as we have asked."""
    if wish.goal not in (Goal.MOVE, Goal.CANCEL):
        return False
    if find_goal(said) is wish.goal:
        return True
    asks_else = hears("mine", said) or mock_words.topics(said)
    looks = hears("free", said) and wish.goal is Goal.MOVE
    return not asks_else and (adds or looks)


def _desk(request: Request, page: Page, said: str, wish: Wish, *, adds: bool, language: str) -> Answer:
    """The first rule that fits, from the most particular to small talk."""
    books = hears("book", said)
    if wish.goal is Goal.RENAME and adds:
        return mock_errands.rename(request, wish, language)
    if find_goal(said) is None and not hears("keep", said):
        if hears("mine", said):
            return call(request, mock_errands.LIST, {}, language)
        if hears("free", said):
            return call_find_slots(request, page, wish, language)
        if not books and mock_words.topics(said):
            return call(request, "get_clinic_info", {}, language)
        if wish.begun and wish.goal is None and (adds or books):
            return _towards_booking(request, page, wish, language)
    return say(mock_words.text(_small_talk(said), language))


def _small_talk(said: str) -> str:
    """The phrase for words that call for no tool."""
    if find_goal(said):
        return "left_alone"  # "cancel that", of what we only asked about
    answers = (
        ("keep", "left_alone"),
        ("negation", "left_alone"),
        ("thanks", "welcome"),
        ("greeting", "greeting"),
    )
    return next((phrase for key, phrase in answers if hears(key, said)), "fallback")


def _towards_booking(request: Request, page: Page, wish: Wish, language: str) -> Answer:
    """Ask for the first piece that is missing; with all of them, call."""
    if wish.service is None:
        return say(mock_words.text("ask_service", language, services=", ".join(page.services.values())))
    if not wish.days:
        return say(mock_words.text("ask_day", language))
    if len(wish.days) > 1:
        return say(mock_words.text("ask_which_day", language, days=mock_words.days(wish.days, language)))
    if wish.clock is None:
        return call_find_slots(request, page, wish, language)
    start = start_of(wish, page)
    if start is None:
        return say(mock_words.text("ask_time", language))
    arguments = {"service": wish.service, "start": start}
    return call(request, "book_appointment", with_dentist(arguments, wish), language)


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
