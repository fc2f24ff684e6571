"""What the system prompt says of the business: its currency, and how to work with expenses. Stable text first."""

from typing import Final

from packs.expenses.amounts import CURRENCIES
from packs.expenses.locales import language
from packs.expenses.operations import ledger_currency
from shared.packs import ToolContext

_ADVICE: Final = """\
Keeping a customer's expenses:
- Item and amount known: call add_expense at once. "Add 300 for groceries" lacks nothing.
- Amounts are texts. Pass each letter by letter as the customer wrote it ("1.355,90", "12,5", "1.234"): never convert, \
round or add up. The system reads it.
- `ambiguous_amount`: tell the customer both readings and ask which; then pass what they answer.
- Several requests in one message are several calls in one answer, in the customer's order: "Add 300 for groceries, \
then delete expense 1" is add_expense, then delete_expense.
- Delete only what the customer named by its number, or so that one expense alone fits. "Clean up my old entries" \
names none: call list_expenses and ask which.
- A result that is an error, or that waits, means that nothing was done: say so. Totals come from get_total only."""


async def prompt_facts(context: ToolContext) -> str:
    """One query, and nothing of a customer: it is the same page for all of them."""
    ledger = await ledger_currency(context)
    default = f"{ledger}, where the customer names none" if ledger else "none: the customer must name one"
    return "\n".join(
        (
            _ADVICE,
            "",
            f"Currencies: {', '.join(CURRENCIES)}",
            f"Default currency: {default}",
            f"Language of the chat: {language(context.locale)}",
        )
    )
