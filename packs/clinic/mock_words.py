"""What the mock model says: its phrases, and a tool's result in words."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from itertools import groupby
from operator import itemgetter
from typing import Any

from packs.clinic import wording
from packs.clinic.dates import normal
from packs.clinic.locales import words
from packs.clinic.mock_change import Mine
from packs.clinic.mock_phrases import hears
from shared.llm.port import ToolResult
from shared.locales import available, load
from shared.packs import Refusal

_CLOSED_DAYS_MAX = 4
_TOPICS = ("hours", "address", "services", "dentists")


def text(key: str, language: str, **values: str) -> str:
    """One of the mock's phrases."""
    phrase: str = words(language)["mock"][key]
    return phrase.format(**values)


def topics(said: str) -> list[str]:
    """What a text in normal form asks about the clinic."""
    return [topic for topic in _TOPICS if hears(topic, said)]


def days(named: Iterable[date], language: str) -> str:
    return "; ".join(wording.day(one, language) for one in named)


def result(told: ToolResult, said: str, language: str) -> str:
    """A tool's result for the customer; `said` is what they asked. What can't be read is owned up to."""
    try:
        content = _object(told.content)
        code = next((content[key] for key in ("code", "error", "refused") if content.get(key)), None)
        if code:
            refused = Refusal(code=str(code), detail=content.get("detail") or content)
            return wording.refusal(refused, language)
        data = content.get("data") or content.get("result") or content
        return _ESTABLISHED[told.name](data, said, language)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        return wording.refusal(Refusal(code="unreadable"), language)


def mine(found: Iterable[Mine], language: str) -> str:
    """Appointments in a row, as they are listed for the customer."""
    return "; ".join(_appointment(one.listed, language) for one in found)


def content_of(told: ToolResult) -> Mapping[str, Any] | None:
    """What a read tool found; None for a refusal, and for what can't be read."""
    try:
        content = _object(told.content)
    except ValueError:
        return None
    refused = any(content.get(key) for key in ("code", "error", "refused"))
    return None if refused else content.get("data") or content.get("result") or content


def _object(content: str) -> Mapping[str, Any]:
    """The JSON object in a result, whatever fence stands around it."""
    found = json.loads(content[content.index("{") : content.rindex("}") + 1])
    return found if isinstance(found, dict) else {}


def _info(data: Mapping[str, Any], said: str, language: str) -> str:
    named = {
        "hours": {"hours": _hours(data["hours"], language)},
        "address": {"address": data["address"], "phone": data["phone"]},
        "services": {
            "services": ", ".join(_service(one, data["currency"], language) for one in data["services"])
        },
        "dentists": {"dentists": ", ".join(data["dentists"])},
    }
    asked = topics(normal(said)) or ["hours", "address"]
    told = [text(topic, language, **named[topic]) for topic in asked]
    closed = data.get("closed_days", ())[:_CLOSED_DAYS_MAX]
    if "hours" in asked and closed:
        listed = (f"{days([date.fromisoformat(one['day'])], language)} ({one['why']})" for one in closed)
        told.append(text("closed_days", language, list="; ".join(listed)))
    return " ".join(told)


def _service(service: Mapping[str, Any], currency: str, language: str) -> str:
    return text(
        "service",
        language,
        name=service["name"],
        minutes=str(service["minutes"]),
        price=service["price"],
        currency=currency,
    )


def _hours(hours: Mapping[str, Sequence[str]], language: str) -> str:
    """Days in a row that are open alike are said together; closed ones are not said. From Monday on."""
    weekdays = _weekdays(language)  # the tool's are in the conversation's language, in any order
    told = next(names for names in map(_weekdays, available()) if hours.keys() == set(names))
    week = [(weekday, hours[name]) for weekday, name in zip(weekdays, told, strict=True)]
    spans = []
    for stretches, group in groupby(week, key=itemgetter(1)):
        row = [weekday for weekday, _ in group]
        if stretches:
            spans.append(f"{row[0]}{f' – {row[-1]}' if len(row) > 1 else ''} {', '.join(stretches)}")
    return "; ".join(spans)


def _weekdays(language: str) -> Sequence[str]:
    return load(language).weekdays


def _slots(data: Mapping[str, Any], _: str, language: str) -> str:
    name = data["name"]
    if data["slots"]:
        return text("slots", language, service=name, slots=_offers(data["slots"], language))
    none = text("no_slots", language, service=name)
    if not data.get("nearest"):
        return none
    return f"{none} {text('later', language, slots=_offers(data['nearest'], language))}"


def _offers(slots: Iterable[Mapping[str, str]], language: str) -> str:
    return "; ".join(wording.slot(one, language) for one in slots)


def _mine(data: Mapping[str, Any], _: str, language: str) -> str:
    found = data["appointments"]
    if not found:
        return text("no_appointments", language)
    return text("appointments", language, list="; ".join(_appointment(one, language) for one in found))


def _appointment(one: Mapping[str, Any], language: str) -> str:
    return text(
        "appointment",
        language,
        service=one["service"],
        dentist=one["dentist"],
        when=wording.instant(one["start"], language),
    )


_DONE = {
    "book_appointment": wording.book_done,
    "reschedule_appointment": wording.reschedule_done,
    "cancel_appointment": wording.cancel_done,
    "update_my_name": wording.name_done,
}


def _done(tool: str) -> Callable[[Mapping[str, Any], str, str], str]:
    return lambda data, _, language: _DONE[tool](data, language)


_ESTABLISHED = {
    "get_clinic_info": _info,
    "find_slots": _slots,
    "list_my_appointments": _mine,
    **{tool: _done(tool) for tool in _DONE},
}
