"""What the mock model has understood so far: a wish gathered over the messages, the later words winning."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Final

from packs.clinic.dates import normal, read_days
from packs.clinic.mock_change import (
    ORDINALS,
    Goal,
    Option,
    Which,
    find_goal,
    picked,
    read_options,
    read_which,
    split_move,
)
from packs.clinic.mock_clock import Clock, read_clock
from packs.clinic.mock_name import read_name, whole_name
from packs.clinic.mock_page import Page
from packs.clinic.mock_phrases import find_dentist, find_service, hears, phrases, says
from shared.llm.port import AssistantText, Message, UserText
from shared.locales import available, load

ANY: Final = Which()
_PARTS: Final = ("morning", "afternoon", "evening")
_DONE: Final = (
    ("book_appointment", "done"),
    ("reschedule_appointment", "done"),
    ("cancel_appointment", "done"),
    ("update_my_name", "done"),
)
_PROMPTS: Final = (("book_appointment", "prompt"), ("reschedule_appointment", "prompt"))
WHICH_ASKED: Final = (("mock", "ask_which_appointment"), ("mock", "which_instead"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Pieces of an appointment; `days` has several when the words may mean several.

    With a `goal` they are of the new time, and `which` describes the appointment that is to change.
    """

    service: str | None = None
    dentist: str | None = None
    days: tuple[date, ...] = ()
    clock: Clock | None = None
    part: str | None = None
    begun: bool = False  # an appointment is what the talk is about
    goal: Goal | None = None
    which: Which = ANY
    name: str | None = None


NOTHING: Final = Wish()


def gather(messages: Sequence[Message], page: Page, *, wish: Wish = NOTHING, offered: str = "") -> Wish:
    """The wish as it stands after all messages; what was done, or a plain no, begins it anew.

    `wish` and `offered`, our last text, are where the messages begin.
    """
    for message in messages:
        if isinstance(message, AssistantText):
            wish, offered = NOTHING if _ends(message.text, wish) else wish, message.text
        elif isinstance(message, UserText):
            wish = heard(message.text, wish, page, offered)
    return wish


def heard(text: str, wish: Wish, page: Page, offered: str = "") -> Wish:
    """The wish with what this text adds or changes; it may pick one of the times in what we `offered`."""
    said = normal(text)
    goal = find_goal(said)
    if hears("keep", said) and goal is None:
        return NOTHING
    if goal is Goal.RENAME or wish.goal is Goal.RENAME or _only_a_name(said, page):
        return _name_heard(text, said, wish, page, offered)
    if goal is Goal.CANCEL and says(offered, *_PROMPTS) and not read_which(said, page):
        return NOTHING  # "cancel that", of what we just asked about
    if goal:
        return _change_asked(said, wish if wish.goal is goal else replace(NOTHING, goal=goal), page)
    if wish.goal and not _begins_a_booking(said, page, offered):
        return _change_told(said, wish, page, offered)
    return _time_heard(text, NOTHING if wish.goal else wish, page, offered)


def _change_asked(said: str, wish: Wish, page: Page) -> Wish:
    """A text that asks to move or cancel."""
    if wish.goal is not Goal.MOVE:
        return replace(wish, which=read_which(said, page) or wish.which)
    old, new = split_move(said)
    wish = replace(wish, which=read_which(old, page) or wish.which)
    return _time_heard(new, wish, page, "") if new else wish


def _change_told(said: str, wish: Wish, page: Page, offered: str) -> Wish:
    """A text that goes on about a change: an answer to which one, else the new time."""
    if hears("negation", said) and not read_which(said, page):
        return NOTHING
    if wish.goal is Goal.MOVE and not says(offered, *WHICH_ASKED):
        return _time_heard(said, wish, page, offered)
    which = picked(said, offered, page) or read_which(said, page)
    return replace(wish, which=which or wish.which)


def _begins_a_booking(said: str, page: Page, offered: str) -> bool:
    if hears("fresh", said):
        return True
    return find_service(said, page) is not None and not says(offered, *WHICH_ASKED)


def _only_a_name(said: str, page: Page) -> bool:
    """A text that tells a name, and wants no appointment."""
    return hears("named", said) and not (hears("book", said) or find_service(said, page) or find_goal(said))


def _name_heard(text: str, said: str, wish: Wish, page: Page, offered: str) -> Wish:
    asked = says(offered, ("mock", "ask_name"))
    if hears("negation", said):
        return NOTHING
    name = read_name(text) or (whole_name(text) if asked and not hears("rename", said) else None)
    if name is None and not asked and not hears("rename", said):
        return _time_heard(text, NOTHING, page, offered)  # it is about something else by now
    return Wish(goal=Goal.RENAME, name=name)


def _time_heard(text: str, wish: Wish, page: Page, offered: str) -> Wish:
    named, rest = read_days(text, page.today)
    rest = phrases("listen", "greeting").sub(" ", rest)  # "good morning" asks for no morning
    clock = read_clock(rest, lone=wish.begun or bool(wish.goal) or bool(named))
    if hears("negation", rest) and not named and clock is None:
        return NOTHING
    service = None if wish.goal else find_service(rest, page)
    part = next((part for part in _PARTS if hears(part, rest)), None)
    wish = replace(
        wish,
        service=service or wish.service,
        dentist=find_dentist(rest, page) or wish.dentist,
        days=named.days(page.today) or wish.days,
        clock=clock or wish.clock,
        part=part or (None if clock else wish.part),  # a new time of day needs no older half of it
        begun=wish.begun or bool(service) or hears("book", rest) or hears("free", rest),
    )
    return wish if named else _with_choice(wish, rest, clock, read_options(offered, page))


def _ends(text: str, wish: Wish) -> bool:
    """Whether a text of ours ends what the talk was about."""
    if says(text, *_DONE, ("mock", "no_appointments")):
        return True
    declined = any(load(known).notice("declined_by_customer") in text for known in available())
    return declined and wish.goal in (Goal.CANCEL, Goal.RENAME)


def _with_choice(wish: Wish, rest: str, clock: Clock | None, options: Sequence[Option]) -> Wish:
    """The wish with the option picked by its place, or by a time that only one of them has."""
    if clock is None:
        place = next((at for at, key in enumerate(ORDINALS) if hears(key, rest)), len(options))
        fitting = list(options[place : place + 1])
    else:
        fitting = [option for option in options if option.at in clock.readings()]
    if len(fitting) != 1:
        return wish
    day, at, dentist = fitting[0].day, fitting[0].at, fitting[0].dentist
    clock = Clock(hour=at.hour, minute=at.minute, exact=True)
    return replace(wish, days=(day,), clock=clock, dentist=dentist or wish.dentist)
