"""Prices: known ones to the last digit, unknown ones None, whatever the usage says."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.llm.port import Usage
from shared.llm.prices import price

TURN = Usage(input=2000, cached=1500, output=150)


def test_a_listed_model_has_the_vendors_price() -> None:
    # 500 x 0.40 + 1500 x 0.10 + 150 x 1.60 dollars a million
    assert price(TURN, provider="openai", model="gpt-4.1-mini") == Decimal("0.00059")


def test_a_dated_answer_is_priced_as_its_model() -> None:
    dated = price(TURN, provider="openai", model="gpt-4.1-mini-2025-04-14")
    assert dated == price(TURN, provider="openai", model="gpt-4.1-mini")


def test_tokens_written_to_the_cache_cost_what_the_vendor_takes_for_them() -> None:
    plain = price(Usage(input=1000), provider="openai", model="gpt-6-luna")
    written = price(Usage(input=1000, written=1000), provider="openai", model="gpt-6-luna")
    assert plain is not None
    assert written is not None
    assert written > plain


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "no-such-model"),
        ("openai", ""),
        ("openai-compatible", "gpt-4.1-mini"),  # a name proves nothing about who answers
        ("openai-compatible", "llama"),
        ("nobody", "gpt-4.1-mini"),
        ("", ""),
    ],
)
def test_what_is_not_listed_has_no_price_rather_than_none_to_pay(provider: str, model: str) -> None:
    assert price(TURN, provider=provider, model=model) is None


def test_the_mock_is_free() -> None:
    assert price(TURN, provider="mock", model="mock-rules") == Decimal(0)


TOKENS = st.integers(min_value=0, max_value=2**31 - 1)


@given(read=TOKENS, cached=TOKENS, written=TOKENS, output=TOKENS)
def test_no_usage_breaks_it_or_costs_less_than_nothing(
    read: int, cached: int, written: int, output: int
) -> None:
    usage = Usage(input=read, cached=cached, written=written, output=output)
    cost = price(usage, provider="openai", model="gpt-6-luna")
    assert isinstance(cost, Decimal)
    assert cost >= 0
