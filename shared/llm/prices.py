"""What a call cost, by the list inside the genai-prices package (no network). Unknown is None, never 0."""

from decimal import Decimal

from genai_prices import Usage as Billed
from genai_prices import calc_price

from shared.llm.port import Usage

LISTED = {"openai": "openai"}
"""Our provider → the list's. The list guesses at names it doesn't know, so it is asked for no others."""

FREE = frozenset({"mock"})


def price(usage: Usage, *, provider: str, model: str) -> Decimal | None:
    """US dollars for `usage` at `provider`, by the name the provider answered with, at today's price.

    None for a provider or model that the list doesn't have: a self-hosted model may cost nothing, or a GPU.
    """
    if provider in FREE:
        return Decimal(0)
    listed = LISTED.get(provider)
    if listed is None:
        return None
    cached = min(usage.cached, usage.input)
    billed = Billed(
        input_tokens=usage.input,
        cache_read_tokens=cached,
        cache_write_tokens=min(usage.written, usage.input - cached),
        output_tokens=usage.output,
    )
    try:
        return calc_price(billed, model, provider_id=listed).total_price
    except LookupError:
        return None
