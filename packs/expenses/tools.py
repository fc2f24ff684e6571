"""What the pack lets a model ask for. No floors: the level of a tool alone decides whether anybody is asked."""

from typing import Final

from packs.expenses import operations, wording
from packs.expenses.arguments import AddExpense, DeleteExpense, Nothing
from shared.autonomy import Risk
from shared.packs import Tool, ToolKind

TOOLS: Final = (
    Tool(
        name="get_total",
        description="What this customer spent so far, one total per currency. Currencies are never added up.",
        arguments=Nothing,
        kind=ToolKind.READ,
        risk=Risk.READ,
        wrong_call_costs="Somebody else who holds the customer's phone reads what they spent.",
        level=2,
        read=operations.get_total,
    ),
    Tool(
        name="list_expenses",
        description="This customer's newest expenses (up to 20) with number, item, amount and day.",
        arguments=Nothing,
        kind=ToolKind.READ,
        risk=Risk.READ,
        wrong_call_costs="Somebody else who holds the customer's phone reads what they spent it on.",
        level=2,
        read=operations.list_expenses,
    ),
    Tool(
        name="add_expense",
        description=(
            "Ask to add an expense of this customer. Call it as soon as item and amount are known. "
            "Pass the amount as text, letter by letter as the customer wrote it: the system reads it."
        ),
        arguments=AddExpense,
        kind=ToolKind.ACTION,
        risk=Risk.WRITE,
        wrong_call_costs="The customer's total is wrong until they delete the expense.",
        example="Add 300 for groceries",
        level=2,
        check=operations.check_addition,
        execute=operations.execute_addition,
        word_prompt=wording.add_prompt,
        word_done=wording.add_done,
        word_refusal=wording.refusal,
    ),
    Tool(
        name="delete_expense",
        description=(
            "Ask to delete one expense of this customer, by its number. Only one that the customer named. "
            '"Delete my old expenses" names none: list them and ask which.'
        ),
        arguments=DeleteExpense,
        kind=ToolKind.ACTION,
        risk=Risk.IRREVERSIBLE,
        wrong_call_costs="An expense the customer still needs is gone, and they may not notice.",
        example="Delete expense 1",
        level=2,
        check=operations.check_deletion,
        execute=operations.execute_deletion,
        word_prompt=wording.delete_prompt,
        word_done=wording.delete_done,
        word_refusal=wording.refusal,
    ),
)
