"""What the mock model says: its phrases, and what came of its calls. It claims nothing that a result does not say."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from typing import Any, Final

from packs.expenses import wording
from packs.expenses.facts import Why
from packs.expenses.locales import language as language_of
from packs.expenses.locales import languages, words
from shared.llm.port import ToolResult
from shared.locales import load
from shared.packs import Refusal

_DONE: Final = {"add_expense": wording.add_done, "delete_expense": wording.delete_done}
_ASK_AMOUNT: Final = (
    Why.AMBIGUOUS_AMOUNT, Why.AMOUNT_MISMATCH, Why.NOT_AN_AMOUNT, Why.NOT_POSITIVE, Why.TOO_PRECISE, Why.TOO_LARGE,
)  # fmt: skip
_BY_TOOL: Final = {"not_permitted_at_level": "not_permitted", "one_action_at_a_time": "one_at_a_time"}
_PHRASES: Final = {  # what else the gate may have said
    "waiting_for_the_customer": "waiting",
    "waiting_for_operator": "waiting_for_operator",
    "waiting_for_the_operator": "waiting_for_operator",
    "declined_by_customer": "declined",
    "declined_by_operator": "declined",
}


def text(key: str, language: str, **values: str) -> str:
    """One of the mock's phrases."""
    phrase: str = words(language)["mock"][key]
    return phrase.format(**values)


def asks_amount(ours: str) -> bool:
    """Whether a text of ours asks which amount is meant, in any language."""
    return any(_said_like(words(known)["mock"]["ask_amount"], ours) for known in languages()) or any(
        _said_like(words(known)["refusal"][why], ours) for known in languages() for why in _ASK_AMOUNT
    )


def asks_item(ours: str) -> bool:
    return any(_said_like(words(known)["mock"]["ask_item"], ours) for known in languages())


def results(told: Sequence[ToolResult], language: str, *, asks_which: bool) -> str:
    """What came of the calls, in their order. What can't be read is owned up to."""
    return " ".join(_result(one, language, asks_which=asks_which) for one in told)


def _said_like(template: str, ours: str) -> bool:
    """Whether a text has a wording in it, whatever its fields were."""
    return bool(re.search(re.sub(r"\\{\w+\\}", ".+", re.escape(template)), ours))


def _result(told: ToolResult, language: str, *, asks_which: bool) -> str:
    try:
        content = _object(told.content)
        code = next((content[key] for key in ("error", "code", "status") if content.get(key)), None)
        if code:
            return _not_done(told.name, str(code), content, language)
        if told.name in _DONE:
            return _DONE[told.name](content["done"], language)
        data = content.get("data") or content
        return (
            _totals(data, language)
            if told.name == "get_total"
            else _list(data, language, asks_which=asks_which)
        )
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        return wording.refusal(Refusal(code="unreadable"), language)


def _not_done(tool: str, code: str, content: Mapping[str, Any], language: str) -> str:
    """A denial, a question that is open, or a refusal of our own."""
    if code in _BY_TOOL and tool in _DONE:
        said: str = words(language)["mock"][_BY_TOOL[code]][tool]
        return said
    if code in _PHRASES:
        return text(_PHRASES[code], language)
    return wording.refusal(Refusal(code=code, detail=content.get("detail") or content), language)


def _object(content: str) -> Mapping[str, Any]:
    """The JSON object in a result, whatever fence stands around it."""
    found = json.loads(content[content.index("{") : content.rindex("}") + 1])
    return found if isinstance(found, dict) else {}


def _totals(data: Mapping[str, Any], language: str) -> str:
    totals = [wording.money(one["total"], one["currency"], language) for one in data["totals"]]
    return text("totals", language, totals=", ".join(totals)) if totals else text("no_expenses", language)


def _list(data: Mapping[str, Any], language: str, *, asks_which: bool) -> str:
    listed = data["expenses"]
    if not listed:
        return text("no_expenses", language)
    lines = "; ".join(_line(one, language) for one in listed)
    whole = data["of"] == len(listed)
    said = (
        text("expenses", language, list=lines)
        if whole
        else text("newest", language, shown=str(len(listed)), of=str(data["of"]), list=lines)
    )
    return f"{said} {text('ask_which', language, id=str(listed[0]['id']))}" if asks_which else said


def _line(one: Mapping[str, Any], language: str) -> str:
    day = datetime.combine(date.fromisoformat(one["added"]), time())
    return text(
        "expense",
        language,
        id=str(one["id"]),
        item=wording.bounded(one["item"]),
        money=wording.money(one["amount"], one["currency"], language),
        added=load(language_of(language)).day(day),
    )
