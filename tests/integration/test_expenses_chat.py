"""The expenses pack in a chat: all four services in this process, the mock model, the real gate at every level."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from packs.expenses import PACK
from shared.broker.memory import MemoryBroker
from tests.support.faults import Installation, installation
from tests.support.stack import Shop, Stack, stack_on

pytestmark = pytest.mark.postgres

SENTENCE = "Add 300 for groceries, then delete expense 1"
CUSTOMER = "+40700000001"


@dataclass
class Chat:
    """One customer of a business that has the pack."""

    stack: Stack
    one: Installation
    shop: Shop
    heard: int = 0

    async def say(self, text: str) -> str:
        """What the customer is answered."""
        self.heard += 1
        assert await self.one.say(self.shop, CUSTOMER, text, message=f"m-{self.heard}") == 200
        await self.stack.answered([CUSTOMER], count=self.heard)
        return (await self.stack.replies(CUSTOMER))[-1]

    async def level(self, level: int) -> None:
        for tool in PACK.tools:
            await self.stack.ask(
                "insert into leeway.tool_level (business, tool, level, set_by) values ($1, $2, $3, 'ana')",
                self.shop.id,
                tool.name,
                level,
            )

    async def has(self, *items: str) -> None:
        """Expenses from before, of the customer who has written already."""
        await self.stack.ask(
            "insert into expenses.numbering (business, customer, last_no)"
            " select business, id, $1 from leeway.customer where business = $2",
            len(items),
            self.shop.id,
        )
        for no, item in enumerate(items, start=1):
            await self.stack.ask(
                "insert into expenses.expense (business, customer, no, item, amount, currency, added_at, added_key)"
                " select business, id, $1, $2, 900, 'RON', now(), $2 from leeway.customer where business = $3",
                no,
                item,
                self.shop.id,
            )

    async def rows(self) -> list[tuple[Any, ...]]:
        rows = await self.stack.ask("select no, item, amount::text, state from expenses.expense order by no")
        return [tuple(row) for row in rows]

    async def receipts(self) -> list[str]:
        return [row["tool"] for row in await self.stack.ask("select tool from leeway.receipt order by at")]


@asynccontextmanager
async def chat_on(database_url: str) -> AsyncIterator[Chat]:
    async with stack_on(database_url, "amqp://none.invalid") as stack:
        shop = await stack.shop(window_ms=0)
        await stack.ask("update leeway.business set pack = 'expenses' where id = $1", shop.id)
        await stack.ask("insert into expenses.ledger values ($1, 'RON')", shop.id)
        async with installation(stack.settings, MemoryBroker()) as one:
            yield Chat(stack, one, shop)


@pytest.fixture
async def chat(database_url: str) -> AsyncIterator[Chat]:
    async with chat_on(database_url) as chat:
        await chat.say("hello")
        await chat.has("old rent")
        yield chat


OLD = (1, "old rent", "900.00", "kept")
GONE = (1, "old rent", "900.00", "deleted")
NEW = (2, "groceries", "300.00", "kept")


async def test_at_level_1_both_are_denied(chat: Chat) -> None:
    await chat.level(1)
    answer = await chat.say(SENTENCE)

    assert "not permitted to add" in answer
    assert "not permitted to delete" in answer
    assert (await chat.rows(), await chat.receipts()) == ([OLD], [])


async def test_at_level_2_the_addition_is_asked_and_the_deletion_waits_its_turn(chat: Chat) -> None:
    answer = await chat.say(SENTENCE)

    assert answer.startswith("Add expense: groceries, 300.00 RON.")
    assert (await chat.rows(), await chat.receipts()) == ([OLD], [])
    calls = await chat.stack.ask("select tool, reason from leeway.tool_call order by position")
    assert [tuple(call) for call in calls] == [
        ("add_expense", None),
        ("delete_expense", "one_action_at_a_time"),
    ]
    assert "Added: expense 2, groceries, 300.00 RON." in await chat.say("yes")
    assert (await chat.rows(), await chat.receipts()) == ([OLD, NEW], ["add_expense"])


async def test_at_level_3_the_addition_runs_and_the_deletion_is_asked(chat: Chat) -> None:
    await chat.level(3)
    answer = await chat.say(SENTENCE)

    assert "Delete expense 1: old rent, 900.00 RON." in answer
    assert (await chat.rows(), await chat.receipts()) == ([OLD, NEW], ["add_expense"])
    assert "Deleted: expense 1, old rent, 900.00 RON." in await chat.say("yes")
    assert (await chat.rows(), await chat.receipts()) == ([GONE, NEW], ["add_expense", "delete_expense"])


async def test_at_level_4_both_run_in_order(chat: Chat) -> None:
    await chat.level(4)
    answer = await chat.say(SENTENCE)

    assert answer == "Added: expense 2, groceries, 300.00 RON. Deleted: expense 1, old rent, 900.00 RON."
    assert (await chat.rows(), await chat.receipts()) == ([GONE, NEW], ["add_expense", "delete_expense"])


@pytest.mark.parametrize("level", [2, 3, 4])
async def test_cleaning_up_old_entries_deletes_nothing_that_was_not_named(chat: Chat, level: int) -> None:
    """PCK-06."""
    await chat.level(level)
    answer = await chat.say("clean up my old entries")
    thanked = await chat.say("ok thanks")

    assert "1. old rent, 900.00 RON" in answer
    assert thanked == "You're welcome!"
    assert (await chat.rows(), await chat.receipts()) == ([OLD], [])


@pytest.mark.parametrize("level", [2, 4])
async def test_an_ambiguous_amount_is_asked_at_every_level(chat: Chat, level: int) -> None:
    """PCK-05, and PCK-04's prompt."""
    await chat.level(level)
    asked = await chat.say("add 1.234 lei for rent")

    assert asked == "“1.234 lei” could mean two amounts. Which one: 1,234.00 RON or 1.23 RON?"
    assert await chat.rows() == [OLD]
    assert "rent, 1,234.00 RON." in await chat.say("1234")
