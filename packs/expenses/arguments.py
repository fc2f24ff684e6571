"""What a model may say to the tools. Strict and bounded: what does not fit is refused, never repaired."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from packs.expenses.amounts import TEXT_CHARS_MAX
from packs.expenses.facts import ITEM_CHARS_MAX, NUMBER_MAX


class Arguments(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Nothing(Arguments):
    """A tool that takes no arguments."""


class AddExpense(Arguments):
    item: Annotated[
        str,
        Field(min_length=1, max_length=ITEM_CHARS_MAX, description="What it was for: groceries"),
    ]
    amount: Annotated[
        str,
        Field(
            min_length=1,
            max_length=TEXT_CHARS_MAX,
            description='A text: the amount letter by letter as the customer wrote it, "1.355,90". Never convert it.',
        ),
    ]
    currency: Annotated[
        str | None,
        Field(
            min_length=1, max_length=20, description="Only when the customer named one: RON, EUR, USD, GBP"
        ),
    ] = None


class DeleteExpense(Arguments):
    id: Annotated[int, Field(ge=1, le=NUMBER_MAX, description="The expense's number in the customer's list")]
