"""An installation's own prices, from ``LEEWAY_PRICES``: for models that no list has, or that are billed otherwise."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

import msgspec

from shared.llm.port import Usage

FORM = '{"MODEL": {"input": "0.1", "cached": "0.01", "output": "0.5"}}, in $ per million tokens'
DOLLARS_MAX = Decimal(100_000)
NAME_CHARS_MAX = 200
_MILLION = Decimal(1_000_000)
_FIELDS = ("input", "cached", "output")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """Dollars per million tokens. 0 is a price too: of a model that runs on one's own machine, say."""

    input: Decimal
    cached: Decimal
    output: Decimal

    def of(self, usage: Usage) -> Decimal:
        """US dollars. What is written to a cache costs as other input."""
        cached = min(usage.cached, usage.input)
        read = (usage.input - cached) * self.input + cached * self.cached
        return (read + usage.output * self.output) / _MILLION


def read_tariffs(text: str) -> dict[str, Tariff]:
    """The prices by model. Raises ValueError with one line that says what is wrong with which model."""
    if not text.strip():
        return {}
    try:
        told = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        raise ValueError(f"is no JSON; it takes {FORM}") from None
    if not isinstance(told, dict):
        raise ValueError(f"is no JSON object; it takes {FORM}")
    return {name: _tariff(name, fields) for name, fields in told.items()}


def _tariff(name: str, fields: object) -> Tariff:
    if not name.strip() or len(name) > NAME_CHARS_MAX or not name.isprintable():
        raise ValueError("holds a model's name that can't be one")
    if not isinstance(fields, Mapping) or not {"input", "output"} <= set(fields) <= set(_FIELDS):
        raise ValueError(f"{name}: give input and output, and cached where it is cheaper ({FORM})")
    given = {field: _dollars(name, field, value) for field, value in fields.items()}
    return Tariff(input=given["input"], cached=given.get("cached", given["input"]), output=given["output"])


def _dollars(name: str, field: str, value: object) -> Decimal:
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise InvalidOperation
        dollars = Decimal(str(value))
        if not 0 <= dollars <= DOLLARS_MAX:  # of what is no number the comparison raises, too
            raise InvalidOperation
    except InvalidOperation:
        raise ValueError(f"{name}: {field} must be a number from 0 to {DOLLARS_MAX}") from None
    return dollars
