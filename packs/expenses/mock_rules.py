"""The rule-based mock model of the pack: deterministic, EN and RO; it knows its request alone.

It turns what it hears into calls, in the customer's order, and words what came of them. What it may do is not its
concern: the gate is in code, for it as for any model. Of what nobody named it deletes nothing.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from packs.expenses import mock_words
from packs.expenses.locales import FALLBACK, languages
from packs.expenses.mock_hear import Add, Delete, Wish, hears, speaks, tidy_item, wishes, with_amount
from shared.llm.port import Answer, AssistantText, Finish, Message, Request, ToolCall, ToolResult, UserText
from shared.locales import available, load, read

CALLS_MAX: Final = 8
_PAGE_LANGUAGE: Final = re.compile(r"^Language of the chat: ([a-z]+)$", re.MULTILINE)


def answer(request: Request) -> Answer:
    """One answer: a text, or the calls that the customer's newest words ask for."""
    before, latest, results = _split(request.messages)
    said = "\n".join(message.text for message in latest)
    language = _language(said, request.system)
    if results:
        asks_which = any(isinstance(wish, Delete) and not wish.numbers for wish in wishes(said))
        return Answer(text=mock_words.results(results, language, asks_which=asks_which))
    heard = wishes(said) or _finished(said, before)
    calls = list(_calls(heard)) or _reads(heard, said)
    offered = {spec.name for spec in request.tools}
    if calls and all(name in offered for name, _ in calls):
        return _call(calls[:CALLS_MAX], at=len(request.messages))
    return Answer(text=mock_words.text(_small_talk(heard, said), language))


def _calls(heard: Sequence[Wish]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """A call for each wish that lacks nothing."""
    for wish in heard:
        match wish:
            case Add(item=item, amount=amount, currency=currency) if item and amount:
                named = {"currency": currency} if currency else {}
                yield "add_expense", {"item": item, "amount": amount} | named
            case Delete(numbers=numbers):
                yield from (("delete_expense", {"id": number}) for number in numbers)


def _reads(heard: Sequence[Wish], said: str) -> list[tuple[str, Mapping[str, Any]]]:
    unnamed = any(isinstance(wish, Delete) for wish in heard)
    if not unnamed and hears("total", said):
        return [("get_total", {})]
    return [("list_expenses", {})] if unnamed or (not heard and hears("list", said)) else []


def _small_talk(heard: Sequence[Wish], said: str) -> str:
    """The phrase for words that call for no tool, or lack something."""
    wanting = next(
        (wish for wish in heard if isinstance(wish, Add) and not (wish.item and wish.amount)), None
    )
    if wanting:
        return "ask_amount" if wanting.item else "ask_item"
    answers = (("negation", "left_alone"), ("thanks", "welcome"), ("greeting", "greeting"))
    return next((phrase for key, phrase in answers if hears(key, said)), "fallback")


def _finished(said: str, before: Sequence[Message]) -> list[Wish]:
    """The addition of the message before, with what we asked for and now hear."""
    ours = next((one.text for one in reversed(before) if isinstance(one, AssistantText)), "")
    earlier = next((one.text for one in reversed(before) if isinstance(one, UserText)), "")
    begun = next((wish for wish in wishes(earlier) if isinstance(wish, Add)), None)
    if begun is None or hears("negation", said):
        return []
    if mock_words.asks_amount(ours):
        told = with_amount(begun.item, said)
        return [replace(told, currency=told.currency or begun.currency)] if told.amount else []
    if mock_words.asks_item(ours):
        return [replace(begun, item=tidy_item(said))]
    return []


def _call(calls: Sequence[tuple[str, Mapping[str, Any]]], *, at: int) -> Answer:
    """The calls; their ids follow from their place in the conversation."""
    made = (
        ToolCall(id=f"call_{at}_{place}", name=name, arguments=json.dumps(arguments, ensure_ascii=False))
        for place, (name, arguments) in enumerate(calls)
    )
    return Answer(text=None, calls=tuple(made), finish=Finish.TOOLS)


def _split(
    messages: Sequence[Message],
) -> tuple[Sequence[Message], Sequence[UserText], Sequence[ToolResult]]:
    """What was said before, the customer's newest texts, and what came of this turn's calls."""
    end = len(messages)
    while end and not isinstance(messages[end - 1], UserText | AssistantText):
        end -= 1
    start = end
    while start and isinstance(messages[start - 1], UserText):
        start -= 1
    latest = [message for message in messages[start:end] if isinstance(message, UserText)]
    return messages[:start], latest, [one for one in messages[end:] if isinstance(one, ToolResult)]


def _language(said: str, system: str) -> str:
    """That of the newest words: by the locales' common words, then by our own; else the chat's."""
    known = read(said, [load(name) for name in available()]).locale()
    if known in languages():
        return known
    weights = {language: speaks(language, said) for language in languages()}
    best = max(weights, key=weights.__getitem__)
    if weights[best] and list(weights.values()).count(weights[best]) == 1:
        return best
    page = _PAGE_LANGUAGE.search(system)
    return page[1] if page and page[1] in languages() else FALLBACK
