"""What the expenses pack declares, and its tools over a list in memory."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from packs.expenses import PACK
from packs.expenses.arguments import AddExpense, DeleteExpense, Nothing
from packs.expenses.operations import (
    LISTED_MAX,
    check_addition,
    check_deletion,
    execute_addition,
    execute_deletion,
    get_total,
    list_expenses,
)
from packs.expenses.prompt import prompt_facts
from shared.autonomy import Asked, Risk, Ruling, decide
from shared.packs import Done, Proposal, Refusal, Tool, wrongly_declared
from tests.unit.expenses_demo import FakeSql, context

TOOLS = {tool.name: tool for tool in PACK.tools}
RISKS = {
    "get_total": Risk.READ,
    "list_expenses": Risk.READ,
    "add_expense": Risk.WRITE,
    "delete_expense": Risk.IRREVERSIBLE,
}


def test_the_registry_is_declared_rightly() -> None:
    assert wrongly_declared(PACK.tools) == []
    assert {tool.name: tool.risk for tool in PACK.tools} == RISKS


@pytest.mark.parametrize("tool", PACK.tools, ids=lambda tool: tool.name)
def test_the_level_alone_decides(tool: Tool) -> None:
    assert (tool.level, tool.floor, tool.asked) == (2, 0, Asked.CUSTOMER)


@pytest.mark.parametrize(
    ("level", "addition", "deletion"),
    [
        (0, Ruling.DENY, Ruling.DENY),
        (1, Ruling.DENY, Ruling.DENY),
        (2, Ruling.ASK, Ruling.ASK),
        (3, Ruling.ALLOW, Ruling.ASK),
        (4, Ruling.ALLOW, Ruling.ALLOW),
    ],
)
def test_what_each_level_says_to_the_sentence(level: int, addition: Ruling, deletion: Ruling) -> None:
    """Add 300 for groceries, then delete expense 1."""
    assert decide(level, TOOLS["add_expense"].risk) is addition
    assert decide(level, TOOLS["delete_expense"].risk) is deletion


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("get_total", {"customer": "another"}),
        ("add_expense", {"item": "rent"}),
        ("add_expense", {"item": "rent", "amount": 300}),
        ("add_expense", {"item": "rent", "amount": 1.234}),
        ("add_expense", {"item": "rent", "amount": ["300"]}),
        ("add_expense", {"item": "", "amount": "300"}),
        ("add_expense", {"item": "x" * 81, "amount": "300"}),
        ("add_expense", {"item": "rent", "amount": "3" * 41}),
        ("add_expense", {"item": "rent", "amount": "300", "currency": ""}),
        ("add_expense", {"item": "rent", "amount": "300", "customer": "another"}),
        ("delete_expense", {}),
        ("delete_expense", {"id": 0}),
        ("delete_expense", {"id": -1}),
        ("delete_expense", {"id": 100_000}),
        ("delete_expense", {"id": 1.5}),
        ("delete_expense", {"id": [1, 2]}),
        ("delete_expense", {"id": "all"}),
        ("delete_expense", {"id": True}),
    ],
)
def test_arguments_that_do_not_fit_are_refused(tool: str, arguments: Mapping[str, Any]) -> None:
    with pytest.raises(ValidationError):
        TOOLS[tool].arguments.model_validate(arguments)


async def test_the_prompt_repeats_item_amount_and_currency() -> None:
    """PCK-04."""
    word = TOOLS["add_expense"].word_prompt
    assert word
    for amount, shown in (("1.355,90 lei", "1.355,90 RON"), ("3,40 €", "3,40 EUR"), ("12,5", "12,50 RON")):
        checked = await check_addition(context(locale="ro"), AddExpense(item="pâine", amount=amount))
        assert isinstance(checked, Proposal)
        assert word(checked.shown, "ro") == f"Adaug cheltuiala: pâine, {shown}."


async def test_the_same_amount_is_proposed_in_every_locale() -> None:
    asked = AddExpense(item="rent", amount="1.355,90")

    assert await check_addition(context(locale="ro"), asked) == await check_addition(context(), asked)


async def test_an_ambiguous_amount_is_refused_in_words_that_ask() -> None:
    """PCK-05."""
    refused = await check_addition(context(), AddExpense(item="rent", amount="1.234", currency="lei"))
    word = TOOLS["add_expense"].word_refusal
    assert isinstance(refused, Refusal)
    assert word
    assert refused.code == "ambiguous_amount"
    assert word(refused, "en").endswith("Which one: 1,234.00 RON or 1.23 RON?")


async def test_an_addition_from_check_to_the_list() -> None:
    sql = FakeSql()
    checked = await check_addition(context(sql), AddExpense(item="groceries", amount="300"))
    assert isinstance(checked, Proposal)

    done = await execute_addition(context(sql), checked, "k1")

    assert done == Done(result={"id": 1, "item": "groceries", "amount": "300.00", "currency": "RON"})
    listed = await list_expenses(context(sql), Nothing())
    assert listed.data == {"expenses": [{**done.result, "added": "2026-12-03"}], "of": 1}


async def test_a_deletion_shows_what_goes_and_says_what_went() -> None:
    sql = FakeSql()
    sql.has("groceries", "300")
    checked = await check_deletion(context(sql), DeleteExpense(id=1))
    assert isinstance(checked, Proposal)
    assert checked.shown == {"id": 1, "item": "groceries", "amount": "300.00", "currency": "RON"}

    done = await execute_deletion(context(sql), checked, "k1")

    assert done == Done(result=checked.shown)
    gone = await check_deletion(context(sql), DeleteExpense(id=1))
    assert gone == Refusal(code="no_such_expense", detail={"id": 1})


async def test_currencies_are_never_added_up() -> None:
    sql = FakeSql()
    for item, amount, currency in (("rent", "1200", "RON"), ("bread", "3.40", "EUR"), ("milk", "7.5", "RON")):
        sql.has(item, amount, currency)

    assert (await get_total(context(sql), Nothing())).data["totals"] == [
        {"currency": "EUR", "total": "3.40", "expenses": 1},
        {"currency": "RON", "total": "1207.50", "expenses": 2},
    ]


async def test_of_many_expenses_the_newest_are_listed_in_their_order() -> None:
    sql = FakeSql()
    for number in range(LISTED_MAX + 5):
        sql.has(f"thing {number}", "1")

    listed = (await list_expenses(context(sql), Nothing())).data

    assert [one["id"] for one in listed["expenses"]] == list(range(6, 26))
    assert listed["of"] == 25


async def test_the_page_names_the_currency_and_nobody() -> None:
    page = await prompt_facts(context(locale="ro"))

    assert "Default currency: RON, where the customer names none" in page
    assert page.endswith("Language of the chat: ro")
    assert "none: the customer must name one" in await prompt_facts(context(FakeSql(ledger=None)))


def test_the_pack_brings_its_files() -> None:
    assert [path.name for path in PACK.queries] == ["queries.sql"]
    assert Path(PACK.migrations, "0001_expenses.sql").is_file()
