"""What the tools do: gather the facts, let the rules decide, record. Only the sender's own rows, by every query."""

from decimal import Decimal
from typing import Any, Final

from packs.expenses.amounts import canonical
from packs.expenses.arguments import AddExpense, DeleteExpense, Nothing
from packs.expenses.facts import Why
from packs.expenses.rules import judge_addition
from shared.errors import ConstraintRefused
from shared.packs import Done, Established, Proposal, Refusal, Row, ToolContext

LISTED_MAX: Final = 20


async def get_total(context: ToolContext, _: Nothing) -> Established:
    rows = await context.sql.fetch("expenses.totals", context.business, context.customer)
    return Established(data={"totals": [dict(row) for row in rows]})


async def list_expenses(context: ToolContext, _: Nothing) -> Established:
    """The newest ones, in the order in which they were added; `of` is how many there are."""
    rows = await context.sql.fetch("expenses.list", context.business, context.customer, LISTED_MAX)
    listed = [_values(row) | {"added": _day(row, context)} for row in reversed(rows)]
    return Established(data={"expenses": listed, "of": rows[0]["of"] if rows else 0})


async def check_addition(context: ToolContext, asked: AddExpense) -> Proposal | Refusal:
    """Could it be added as it is written? The amount is read here, whatever a model made of it."""
    ledger = await ledger_currency(context)
    verdict = judge_addition(
        item=asked.item, amount=asked.amount, currency=asked.currency, said=context.said, ledger=ledger
    )
    if isinstance(verdict, Refusal):
        return verdict
    values = {"item": verdict.item, "amount": canonical(verdict.value), "currency": verdict.currency}
    return Proposal(arguments=values, shown=values)


async def execute_addition(context: ToolContext, proposal: Proposal, key: str) -> Done | Refusal:
    """The expense, once for a key however often it is tried."""
    item, currency = proposal.arguments["item"], proposal.arguments["currency"]
    amount, business, customer = Decimal(proposal.arguments["amount"]), context.business, context.customer
    try:
        async with context.sql.savepoint():
            await context.sql.fetch(
                "expenses.add", business, customer, key, item, amount, currency, context.now
            )
    except ConstraintRefused as refused:
        if refused.constraint != "numbering_full":
            raise
        return Refusal(code=Why.LIST_FULL)
    rows = await context.sql.fetch("expenses.added", business, customer, key)
    return Done(result=_values(rows[0]))


async def check_deletion(context: ToolContext, asked: DeleteExpense) -> Proposal | Refusal:
    """The sender's expense of that number, with the values that its prompt shows."""
    rows = await context.sql.fetch("expenses.find", context.business, context.customer, asked.id)
    if not rows:
        return Refusal(code=Why.NO_SUCH_EXPENSE, detail={"id": asked.id})
    return Proposal(arguments={"id": asked.id}, shown=_values(rows[0]))


async def execute_deletion(context: ToolContext, proposal: Proposal, key: str) -> Done | Refusal:
    """Marked as deleted, once for a key however often it is tried."""
    no, business, customer = proposal.arguments["id"], context.business, context.customer
    await context.sql.fetch("expenses.delete", business, customer, no, key, context.now)
    rows = await context.sql.fetch("expenses.deleted", business, customer, key)
    if not rows:  # it went between the check and now
        return Refusal(code=Why.NO_SUCH_EXPENSE, detail={"id": no})
    return Done(result=_values(rows[0]))


async def ledger_currency(context: ToolContext) -> str | None:
    rows = await context.sql.fetch("expenses.ledger", context.business)
    return rows[0]["currency"] if rows else None


def _values(row: Row) -> dict[str, Any]:
    """An expense as prompts, receipts and lists show it."""
    return {"id": row["no"], "item": row["item"], "amount": row["amount"], "currency": row["currency"]}


def _day(row: Row, context: ToolContext) -> str:
    day: str = row["added_at"].astimezone(context.zone).date().isoformat()
    return day
