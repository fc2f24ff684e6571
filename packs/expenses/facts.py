"""What the rules speak of, and the codes of a refusal. Nothing here decides."""

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Final

AMOUNT_MAX: Final = Decimal("9999999.99")
ITEM_CHARS_MAX: Final = 80
NUMBER_MAX: Final = 99_999  # of one customer's expenses, deleted ones included


class Why(StrEnum):
    """Why an expense can't be added or deleted."""

    AMBIGUOUS_AMOUNT = "ambiguous_amount"  # it could be read as two amounts
    AMOUNT_MISMATCH = "amount_mismatch"  # the customer's words have these digits as another amount
    NOT_AN_AMOUNT = "not_an_amount"
    NOT_POSITIVE = "not_positive"
    TOO_PRECISE = "too_precise"
    TOO_LARGE = "too_large"
    UNKNOWN_CURRENCY = "unknown_currency"
    WHICH_CURRENCY = "which_currency"  # none was named and the ledger has none, or two were
    NO_ITEM = "no_item"
    NO_SUCH_EXPENSE = "no_such_expense"
    LIST_FULL = "list_full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clear:
    """An amount that can be read in one way."""

    value: Decimal
    currency: str | None = None  # as the text named it


@dataclass(frozen=True, slots=True, kw_only=True)
class Ambiguous:
    """An amount that can be read in two ways, a factor of 1,000 apart. Nobody but the customer knows which."""

    readings: tuple[Decimal, Decimal]
    currency: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    why: Why


Reading = Clear | Ambiguous | Unreadable


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """A checked expense that can be added."""

    item: str
    value: Decimal
    currency: str
