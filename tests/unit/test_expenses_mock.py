"""The expenses pack's mock model in conversation, EN and RO, with the real tools and the gate's answers at each level."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packs.expenses import PACK
from packs.expenses.locales import languages, words
from packs.expenses.prompt import prompt_facts
from services.agent.core.claims import asks_to_confirm, claims_done
from shared.autonomy import Ruling, decide
from shared.llm.port import (
    Answer,
    AssistantCalls,
    AssistantText,
    Finish,
    Message,
    Request,
    ToolCall,
    ToolResult,
    ToolSpec,
    UserText,
)
from shared.locales import available, load
from shared.packs import Done, Established, Proposal, Refusal
from tests.unit.expenses_demo import FakeSql, context

TOOLS = {tool.name: tool for tool in PACK.tools}
SPECS = [
    ToolSpec(name=tool.name, description=tool.description, parameters=tool.arguments.model_json_schema())
    for tool in PACK.tools
]
SENTENCE = "Add 300 for groceries, then delete expense 1"


class Talk:
    """A conversation with the mock; the gate answers as at `level`. `called` is what it asked of the tools."""

    def __init__(self, locale: str = "en", *, level: int = 2) -> None:
        self.sql = FakeSql()
        self.called: list[tuple[str, dict[str, Any]]] = []
        self._messages: list[Message] = []
        self._locale, self._level, self._said = locale, level, ""

    async def hear(self, *texts: str) -> str:
        """One turn: what the customer writes, the calls that follow, and our answer."""
        self._messages += [UserText(text=text) for text in texts]
        self._said = "\n".join(texts)
        working = list(self._messages)
        for _ in range(4):
            answer = await self._answer(working)
            if answer.text is not None:
                return self._say(answer.text)
            working.append(AssistantCalls(text=None, calls=answer.calls))
            prompt = await self._run_all(answer.calls, working)
            if prompt:
                return self._say(prompt)
        raise AssertionError("four calls and no answer")

    async def _answer(self, messages: Sequence[Message]) -> Answer:
        facts = await prompt_facts(context(self.sql, locale=self._locale))
        request = Request(
            system=f"You are the assistant.\n\n{facts}\nNow: today.", messages=messages, tools=SPECS
        )
        answer = PACK.mock_answer(request)
        assert answer == PACK.mock_answer(request)
        assert answer.finish is (Finish.TOOLS if answer.calls else Finish.END)
        return answer

    async def _run_all(self, calls: Sequence[ToolCall], working: list[Message]) -> str | None:
        """In order; the first that asks is the turn's prompt, and later ones are refused."""
        prompt = None
        for call in calls:
            self.called.append((call.name, json.loads(call.arguments)))
            told, asked = await self._run(call, asking=prompt is not None)
            working.append(ToolResult(call_id=call.id, name=call.name, content=json.dumps(told)))
            prompt = prompt or asked
        return prompt

    async def _run(self, call: ToolCall, *, asking: bool) -> tuple[Mapping[str, Any], str | None]:
        tool = TOOLS[call.name]
        ruling = decide(self._level, tool.risk)
        if ruling is Ruling.DENY:
            return {"error": "not_permitted_at_level"}, None
        if asking and ruling is Ruling.ASK:
            return {"error": "one_action_at_a_time"}, None
        here = context(self.sql, locale=self._locale, said=self._said)
        run = tool.read or tool.check
        assert run
        outcome = await run(here, tool.arguments.model_validate_json(call.arguments))
        if isinstance(outcome, Refusal):
            return {"error": outcome.code, **outcome.detail}, None
        if isinstance(outcome, Established):
            return dict(outcome.data), None
        assert isinstance(outcome, Proposal)
        assert tool.execute
        assert tool.word_prompt
        assert tool.word_done
        if ruling is Ruling.ASK:
            asked = f"{tool.word_prompt(outcome.shown, self._locale)} Reply YES to confirm or NO to leave it."
            return {"status": "waiting_for_the_customer"}, asked
        done = await tool.execute(here, outcome, f"{len(self._messages)}-{call.id}")
        assert isinstance(done, Done)
        return {"done": dict(done.result), "said": tool.word_done(done.result, self._locale)}, None

    def _say(self, text: str) -> str:
        self._messages.append(AssistantText(text=text))
        return text


def told(said: str, results: Sequence[tuple[str, Mapping[str, Any]]], *, locale: str = "en") -> str:
    """What the mock says to results of its calls."""
    calls = tuple(ToolCall(id=f"c{at}", name=name, arguments="{}") for at, (name, _) in enumerate(results))
    messages: list[Message] = [UserText(text=said), AssistantCalls(text=None, calls=calls)]
    messages += [
        ToolResult(call_id=f"c{at}", name=name, content=json.dumps(content))
        for at, (name, content) in enumerate(results)
    ]
    system = f"Language of the chat: {locale}"
    answer = PACK.mock_answer(Request(system=system, messages=messages, tools=SPECS))
    assert answer.text is not None
    return answer.text


# The sentence


@pytest.mark.parametrize(
    "text",
    [
        SENTENCE,
        "add 300 for groceries and then delete expense 1",
        "Please add 300 for groceries. Delete expense #1, thanks",
        "Adaugă 300 pentru groceries, apoi șterge cheltuiala 1",
        "adauga 300 pe groceries si sterge cheltuiala nr. 1",
    ],
)
async def test_two_requests_are_two_calls_in_their_order(text: str) -> None:
    talk = Talk()
    await talk.hear(text)

    assert talk.called == [
        ("add_expense", {"item": "groceries", "amount": "300"}),
        ("delete_expense", {"id": 1}),
    ]


@pytest.mark.parametrize(
    ("level", "answer"),
    [
        (
            1,
            (
                "I'm not permitted to add expenses here, so nothing was added."
                " I'm not permitted to delete expenses here, so nothing was deleted."
            ),
        ),
        (2, "Add expense: groceries, 300.00 RON. Reply YES to confirm or NO to leave it."),
        (3, "Delete expense 1: old rent, 900.00 RON. Reply YES to confirm or NO to leave it."),
        (4, "Added: expense 2, groceries, 300.00 RON. Deleted: expense 1, old rent, 900.00 RON."),
    ],
)
async def test_the_sentence_at_each_level(level: int, answer: str) -> None:
    talk = Talk(level=level)
    talk.sql.has("old rent", "900")

    assert await talk.hear(SENTENCE) == answer


# What is heard


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("add 12,50 lei for lunch", {"item": "lunch", "amount": "12,50", "currency": "RON"}),
        ("Add an expense of €3.40 for bread, please", {"item": "bread", "amount": "3.40", "currency": "EUR"}),
        ("add two coffees for 12", {"item": "two coffees", "amount": "12"}),
        ("pune 40 lei la taxi", {"item": "taxi", "amount": "40", "currency": "RON"}),
        ("I spent 40 on fuel", {"item": "fuel", "amount": "40"}),
        ("add groceries 300", {"item": "groceries", "amount": "300"}),
        ("add 1 250,00 for rent", {"item": "rent", "amount": "1 250,00"}),
        ("adaugă 1.355,90 lei pentru chirie", {"item": "chirie", "amount": "1.355,90", "currency": "RON"}),
        ("am cheltuit 300 de lei pe benzină", {"item": "benzină", "amount": "300", "currency": "RON"}),
        ("Am dat 12,5 pe prânz. Mulțumesc!", {"item": "prânz", "amount": "12,5"}),
        ("add -5 for lunch", {"item": "lunch", "amount": "-5"}),
        ("add 1e3 for lunch", {"item": "lunch", "amount": "1e3"}),
        ("add 1.234 for rent", {"item": "rent", "amount": "1.234"}),
    ],
)
async def test_an_addition_passes_the_amount_letter_by_letter(text: str, arguments: dict[str, str]) -> None:
    talk = Talk()
    await talk.hear(text)

    assert talk.called == [("add_expense", arguments)]


async def test_several_amounts_are_several_expenses() -> None:
    talk = Talk(level=3)

    assert await talk.hear("add 300 for groceries and 50 lei for taxi") == (
        "Added: expense 1, groceries, 300.00 RON. Added: expense 2, taxi, 50.00 RON."
    )


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("delete expense 2", [2]),
        ("delete 2", [2]),
        ("can you remove #2?", [2]),
        ("delete expenses 1, 2 and 3", [1, 2, 3]),
        ("șterge cheltuiala 2", [2]),
        ("vreau să șterg cheltuiala 2", [2]),
        ("stergeti 2 si 3 va rog", [2, 3]),
    ],
)
async def test_named_expenses_are_deleted_by_number(text: str, ids: list[int]) -> None:
    talk = Talk()
    await talk.hear(text)

    assert talk.called == [("delete_expense", {"id": one}) for one in ids]


@pytest.mark.parametrize(
    "text",
    [
        "clean up my old entries",
        "delete my old expenses",
        "delete everything",
        "delete the 12,50 one",
        "remove the 300 lei expense",
        "get rid of the old ones",
        "șterge cheltuielile vechi",
        "fă curat în listă",
    ],
)
async def test_what_names_no_expense_deletes_none(text: str) -> None:
    """PCK-06: it is shown and asked about."""
    talk = Talk(level=4)
    for number in range(1, 11):
        talk.sql.has(f"thing {number}", "10")

    answer = await talk.hear(text)
    thanked = await talk.hear("ok thanks")

    assert talk.called == [("list_expenses", {})]
    assert "1. thing 1, 10" in answer
    assert answer.rstrip('.”"').endswith(("delete expense 1", "șterge cheltuiala 1"))
    assert thanked == "You're welcome!"


@pytest.mark.parametrize(
    "text",
    ["don't delete expense 1", "please do not delete 1", "did you delete expense 1?", "nu șterge cheltuiala 1", "never delete 1"],
)  # fmt: skip
async def test_a_deletion_that_is_not_wanted_is_not_called(text: str) -> None:
    talk = Talk(level=4)
    await talk.hear(text)

    assert not [call for call in talk.called if call[0] == "delete_expense"]


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("how much did I spend?", "get_total"),
        ("How much have I spent so far", "get_total"),
        ("what's the total", "get_total"),
        ("cât am cheltuit?", "get_total"),
        ("list my expenses", "list_expenses"),
        ("show me my expenses please", "list_expenses"),
        ("arată-mi cheltuielile", "list_expenses"),
        ("ce cheltuieli am?", "list_expenses"),
    ],
)
async def test_questions_are_read(text: str, tool: str) -> None:
    talk = Talk()
    await talk.hear(text)

    assert talk.called == [(tool, {})]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("thanks!", "You're welcome!"),
        ("mulțumesc", "Cu plăcere!"),
        ("hello", "Hello! I can add an expense, list what you have, tell the total, or delete one by its number."),
        ("never mind", "All right, I'll leave it as it is."),
    ],
)  # fmt: skip
async def test_small_talk_calls_nothing(text: str, answer: str) -> None:
    talk = Talk()

    assert await talk.hear(text) == answer
    assert talk.called == []


@pytest.mark.parametrize("text", ["yes", "da", "300", "1", "ok", "👍", "", "what a day"])
async def test_words_that_ask_for_nothing_call_nothing(text: str) -> None:
    talk = Talk(level=4)
    await talk.hear(text)

    assert talk.called == []


# What is missing


@pytest.mark.parametrize(
    ("turns", "arguments"),
    [
        (["add lunch", "12,50 lei"], {"item": "lunch", "amount": "12,50", "currency": "RON"}),
        (["add 12,50", "lunch"], {"item": "lunch", "amount": "12,50"}),
        (["adaugă prânz", "12,50"], {"item": "prânz", "amount": "12,50"}),
        (["adaugă 12,50 lei", "pentru prânz"], {"item": "prânz", "amount": "12,50", "currency": "RON"}),
        (["add 1.234 for rent", "1234"], {"item": "rent", "amount": "1234"}),
        (["add 1.234 lei for rent", "1,234.00"], {"item": "rent", "amount": "1,234.00", "currency": "RON"}),
        (["add -5 for lunch", "5"], {"item": "lunch", "amount": "5"}),
    ],
)
async def test_what_is_missing_is_asked_and_the_answer_completes_it(
    turns: list[str], arguments: dict[str, str]
) -> None:
    talk = Talk()
    for text in turns:
        answer = await talk.hear(text)

    assert talk.called[-1] == ("add_expense", arguments)
    assert "Reply YES" in answer


async def test_an_ambiguous_amount_is_asked_about() -> None:
    talk = Talk(level=4)

    assert await talk.hear("add 1.234 for rent") == (
        "“1.234” could mean two amounts. Which one: 1,234.00 RON or 1.23 RON?"
    )
    assert talk.sql.rows == []


async def test_a_number_after_an_addition_that_is_done_adds_nothing() -> None:
    talk = Talk(level=4)
    await talk.hear("add 300 for groceries")
    await talk.hear("300")

    assert len(talk.sql.rows) == 1


# What came of it


async def test_reads_are_told_in_the_customer_s_language() -> None:
    talk = Talk()
    talk.sql.has("chirie", "1355.90")
    talk.sql.has("pâine", "3.40", "EUR")

    assert await talk.hear("how much did I spend?") == "So far: 3.40 EUR, 1,355.90 RON."
    assert await talk.hear("cât am cheltuit?") == "Până acum: 3,40 EUR, 1.355,90 RON."
    assert await talk.hear("list my expenses") == (
        "Your expenses: 1. chirie, 1,355.90 RON (Thursday 3 December); 2. pâine, 3.40 EUR (Thursday 3 December)."
    )
    assert await Talk().hear("list my expenses") == "You have no expenses."


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ({"error": "not_permitted_at_level"}, "I'm not permitted to delete expenses here, so nothing was deleted."),
        (
            {"error": "one_action_at_a_time"},
            "One thing at a time: nothing was deleted. Please ask again when the first one is settled.",
        ),
        (
            {"status": "waiting_for_the_customer"},
            "Nothing has changed yet: that waits for your confirmation.",
        ),
        ({"status": "waiting_for_the_operator"}, "Nothing has changed yet: a colleague has to approve that first."),
        ({"error": "waiting_for_operator"}, "Nothing has changed yet: a colleague has to approve that first."),
        ({"error": "declined_by_operator", "reason": "no"}, "That was declined, so nothing has changed."),
        ({"error": "no_such_expense", "id": 7}, "You have no expense 7."),
        ({"error": "check_failed"}, "I can't do that just now."),
        ({"error": "bad_arguments", "detail": "id: too large"}, "I can't do that just now."),
        ({"done": {"id": 1}}, "I can't do that just now."),
        ({}, "I can't do that just now."),
        (
            {"done": {"id": 1, "item": "rent", "amount": "9.00", "currency": "RON"}, "said": "…"},
            "Deleted: expense 1, rent, 9.00 RON.",
        ),
    ],
)  # fmt: skip
def test_a_result_is_told_for_what_it_is(content: Mapping[str, Any], answer: str) -> None:
    assert told("delete expense 1", [("delete_expense", content)]) == answer


@pytest.mark.parametrize("known", languages())
def test_only_what_was_done_reads_as_a_claim_and_nothing_asks_for_a_yes(known: str) -> None:
    """A claim without a receipt would be held back, and a question for a yes is the system's."""
    locales = [load(name) for name in available()]
    phrases = dict(said_by_itself(words(known)))

    assert {key for key, text in phrases.items() if claims_done(text, locales)} == {
        "add_expense.done",
        "delete_expense.done",
    }
    assert not [key for key, text in phrases.items() if asks_to_confirm(text, locales)]


def said_by_itself(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, str):
            yield f"{path}{key}", value
        elif isinstance(value, dict):
            yield from said_by_itself(value, f"{path}{key}.")


DONE_WORDS = ("Added:", "Deleted:", "Adăugat:", "Șters:")


@given(
    tool=st.sampled_from(sorted(TOOLS)),
    content=st.dictionaries(
        st.sampled_from(["error", "status", "said", "detail", "expenses", "totals", "of", "reason"]),
        st.one_of(st.none(), st.text(max_size=10), st.integers(), st.lists(st.integers(), max_size=2)),
        max_size=4,
    ),
    locale=st.sampled_from(["en", "ro"]),
)
def test_nothing_is_told_as_done_without_a_result_that_says_so(
    tool: str, content: Mapping[str, Any], locale: str
) -> None:
    assert not any(word in told("delete expense 1", [(tool, content)], locale=locale) for word in DONE_WORDS)


@given(text=st.text(max_size=200))
def test_any_text_gets_an_answer(text: str) -> None:
    answer = PACK.mock_answer(Request(system="", messages=[UserText(text=text)], tools=SPECS))

    assert answer.calls or answer.text
    for call in answer.calls:
        json.loads(call.arguments)


def test_a_tool_that_is_not_offered_is_not_called() -> None:
    answer = PACK.mock_answer(Request(system="", messages=[UserText(text=SENTENCE)], tools=[]))

    assert answer.calls == ()
    assert answer.text
