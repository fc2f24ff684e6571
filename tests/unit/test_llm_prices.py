"""Prices: known ones to the last digit, unknown ones None, whatever the usage says; estimates that are never too low."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.llm.costs import estimate, failure_cost, has_price, price_source, tokens
from shared.llm.endpoint import EndpointModel
from shared.llm.mock import MockModel
from shared.llm.port import (
    UNTOLD,
    AssistantCalls,
    FailureKind,
    ModelFailure,
    Request,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    UserText,
)
from shared.llm.prices import LIST, Prices
from shared.llm.profiles import COMPATIBLE, OPENAI
from shared.llm.retirement import RETIREMENTS, retirement
from shared.llm.scripted import ScriptedModel, in_order
from shared.llm.tariffs import Tariff

TURN = Usage(input=2000, cached=1500, output=150)
EVENING = datetime(2026, 11, 30, 20, tzinfo=UTC)


def price(usage: Usage, *, listed: str | None = "openai", model: str = "gpt-6-luna") -> Decimal | None:
    return Prices(listed=listed, asked=model).price(usage, model=model, at=EVENING)


@pytest.mark.parametrize(
    ("listed", "model", "dollars"),
    [
        ("openai", "gpt-4.1-mini", "0.00059"),  # 500 x 0.40 + 1500 x 0.10 + 150 x 1.60 dollars a million
        ("openai", "gpt-6-luna", "0.00014"),
        ("google", "gemini-3.5-flash-lite", "0.00057"),
        ("google", "models/gemini-3.5-flash-lite", "0.00057"),
        ("deepseek", "deepseek-flash", "0.0001695"),
        ("anthropic", "claude-haiku-4-5", "0.0014"),
        ("anthropic", "claude-haiku-4-5-20251001", "0.0014"),
    ],
)
def test_a_listed_model_has_the_vendors_price(listed: str, model: str, dollars: str) -> None:
    assert price(TURN, listed=listed, model=model) == Decimal(dollars)


def test_a_dated_answer_is_priced_as_its_model() -> None:
    assert price(TURN, model="gpt-4.1-mini-2025-04-14") == price(TURN, model="gpt-4.1-mini")


def test_deepseek_costs_more_at_the_hours_when_it_says_so() -> None:
    busy = Prices(listed="deepseek", asked="deepseek-flash").price(
        TURN, model="deepseek-flash", at=datetime(2026, 11, 30, 7, tzinfo=UTC)
    )
    quiet = price(TURN, listed="deepseek", model="deepseek-flash")
    assert quiet is not None
    assert busy == 2 * quiet


def test_tokens_written_to_the_cache_cost_what_the_vendor_takes_for_them() -> None:
    plain, written = price(Usage(input=1000)), price(Usage(input=1000, written=1000))
    assert plain is not None
    assert written is not None
    assert written > plain


@pytest.mark.parametrize(
    ("listed", "model"),
    [
        ("openai", "no-such-model"),
        ("openai", ""),
        (None, "gpt-4.1-mini"),  # a name proves nothing about who answers
        (None, "llama"),
        ("nobody", "gpt-4.1-mini"),
    ],
)
def test_what_is_not_listed_has_no_price_rather_than_none_to_pay(listed: str | None, model: str) -> None:
    assert price(TURN, listed=listed, model=model) is None
    assert Prices(listed=listed, asked=model).source(model=model) is None


def test_a_usage_that_was_not_told_costs_nobody_knows_what() -> None:
    assert price(UNTOLD) is None
    own = Prices(listed="openai", asked="gpt-6-luna", own={"gpt-6-luna": FREE})
    assert own.price(UNTOLD, model="gpt-6-luna") is None


# Own prices

FREE = Tariff(input=Decimal(0), cached=Decimal(0), output=Decimal(0))
OWN = Tariff(input=Decimal("0.1"), cached=Decimal("0.01"), output=Decimal("0.5"))


@pytest.mark.parametrize("answered", ["gpt-6-luna", "gpt-6-luna-2026-09-01"])
def test_an_own_price_wins_over_the_list_for_the_model_and_its_dated_names(answered: str) -> None:
    prices = Prices(listed="openai", asked="gpt-6-luna", own={"gpt-6-luna": OWN})
    assert prices.price(TURN, model=answered) == Decimal("0.00014")  # 500 x 0.1 + 1500 x 0.01 + 150 x 0.5
    assert prices.source(model=answered) == "LEEWAY_PRICES"


def test_nought_is_a_price() -> None:
    assert Prices(listed=None, asked="llama", own={"llama": FREE}).price(TURN, model="llama") == 0


def test_another_model_that_answers_is_not_billed_at_the_asked_ones_own_price() -> None:
    prices = Prices(listed="google", asked="gemini-2.5-flash", own={"gemini-2.5-flash": FREE})
    assert prices.price(TURN, model="gemini-3.5-flash-lite", at=EVENING) == Decimal("0.00057")
    assert prices.source(model="gemini-3.5-flash-lite") == LIST


def test_a_server_of_ones_own_may_call_its_model_anything() -> None:
    assert (
        Prices(listed=None, asked="llama", own={"llama": OWN}).price(TURN, model="/models/x.gguf") is not None
    )


def test_the_list_is_named_with_its_version() -> None:
    assert LIST.startswith("genai-prices 0.")
    assert Prices(listed="openai", asked="gpt-6-luna").source(model="gpt-6-luna") == LIST


TOKENS = st.integers(min_value=0, max_value=2**31 - 1)


@given(read=TOKENS, cached=TOKENS, written=TOKENS, output=TOKENS)
def test_no_usage_breaks_it_or_costs_less_than_nothing(
    read: int, cached: int, written: int, output: int
) -> None:
    usage = Usage(input=read, cached=cached, written=written, output=output)
    for prices in (
        Prices(listed="openai", asked="gpt-6-luna"),
        Prices(listed=None, asked="gpt-6-luna", own={"gpt-6-luna": OWN}),
    ):
        cost = prices.price(usage, model="gpt-6-luna")
        assert isinstance(cost, Decimal)
        assert cost >= 0


# What a call may cost


def model_named(name: str, *, listed: bool = True, own: Tariff | None = None) -> EndpointModel:
    profile = OPENAI if listed else COMPATIBLE
    tariffs = {name: own} if own else {}
    return EndpointModel(profile, name, api_key=None, slots=1, base_url="http://127.0.0.1:1", tariffs=tariffs)


ROUND = Request(
    system="You answer for a dentist.",
    messages=(
        UserText(text="Aș dori o programare mâine la 10."),
        AssistantCalls(text=None, calls=(ToolCall(id="a", name="find_slots", arguments='{"day":"luni"}'),)),
        ToolResult(call_id="a", name="find_slots", content='{"slots":["10:00"]}'),
    ),
    tools=(ToolSpec(name="find_slots", description="Free times", parameters={"type": "object"}),),
    max_output_tokens=600,
)


def test_an_estimate_is_the_full_price_of_all_that_is_read_and_of_the_longest_answer() -> None:
    found = estimate(model_named("llama", listed=False, own=OWN), ROUND)
    assert found == (tokens(ROUND) * Decimal("0.1") + 600 * Decimal("0.5")) / 1_000_000


def test_an_estimate_counts_what_a_cache_takes_for_writing() -> None:
    model = model_named("gpt-6-luna")
    written = model.price(Usage(input=tokens(ROUND), output=600, written=tokens(ROUND)), model="gpt-6-luna")
    assert estimate(model, ROUND) == written


def test_an_estimate_has_room_for_thinking_that_cannot_be_switched_off() -> None:
    model = model_named("gpt-5-mini")
    assert model.reasoning_room > 0
    plain = model.price(Usage(input=tokens(ROUND), output=600), model="gpt-5-mini")
    assert plain is not None
    assert (estimate(model, ROUND) or 0) > plain


@pytest.mark.parametrize("text", ["The dentist is free at ten. ", "Aș dori o programare mâine. ", "10:00, "])
def test_more_tokens_are_counted_than_the_usual_four_characters_give(text: str) -> None:
    assert tokens(Request(system=text * 40, messages=(), tools=())) > len(text * 40) / 4 * 1.3


def test_a_signed_round_counts_as_it_is_sent_back() -> None:
    signed = AssistantCalls(text=None, calls=(), raw=({"signature": "x" * 3000},))
    assert tokens(Request(system="", messages=(signed,), tools=())) > 1000


def test_without_a_price_there_is_no_estimate_and_it_is_said() -> None:
    model = model_named("llama", listed=False)
    assert estimate(model, ROUND) is None
    assert not has_price(model)
    assert price_source(model, answered="llama") is None
    assert has_price(model_named("gpt-6-luna"))


def test_the_mock_is_free_and_any_other_model_that_fits_the_port_will_do() -> None:
    for model in (MockModel({}), ScriptedModel(in_order([]))):
        assert has_price(model)
        assert estimate(model, ROUND) == 0
        assert price_source(model, answered=model.name) is None


@pytest.mark.parametrize(
    ("kind", "usage", "cost"),
    [
        (FailureKind.OPEN, None, Decimal(0)),
        (FailureKind.RATE, None, Decimal(0)),
        (FailureKind.REFUSED, None, Decimal(0)),
        (FailureKind.AUTH, None, Decimal(0)),
        (FailureKind.GONE, None, Decimal(0)),
        (FailureKind.TIMEOUT, None, None),
        (FailureKind.CONNECTION, None, None),
        (FailureKind.SERVER, None, None),
        (FailureKind.BAD_ANSWER, None, None),
        (FailureKind.BAD_ANSWER, Usage(input=1_000_000), Decimal("0.1")),
    ],
)
def test_a_failed_call_costs_what_was_told_or_nothing_or_nobody_knows(
    kind: FailureKind, usage: Usage | None, cost: Decimal | None
) -> None:
    failure = ModelFailure(kind, "", usage=usage, model="llama")
    assert failure_cost(model_named("llama", listed=False, own=OWN), failure) == cost


# Retirement


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("gpt-4.1-mini", "gpt-4.1-mini ends on 2027-01-14 (in 45 days). Set gpt-6-luna instead."),
        ("gpt-4.1-mini-2025-04-14", "gpt-4.1-mini-2025-04-14 ends on 2027-01-14"),
        (
            "gemini-2.5-flash",
            "(in 1 days); then calls are answered by, and billed as, gemini-3.5-flash-lite.",
        ),
        ("deepseek-chat", "ended on 2026-07-24. Set deepseek-flash instead."),
        ("gpt-5-mini", "ends on 2026-12-11"),
    ],
)
def test_a_model_that_ends_says_when_and_what_to_set_instead(model: str, said: str) -> None:
    assert said in (retirement(model, date(2026, 11, 30)) or "")


@pytest.mark.parametrize(
    "model",
    [
        "gpt-6-luna",
        "gpt-5.4-mini",
        "gemini-2.5-flash-lite",
        "deepseek-flash",
        "claude-haiku-4-5",
        "llama",
        "",
    ],
)
def test_a_model_that_stays_says_nothing(model: str) -> None:
    assert retirement(model, date(2026, 11, 30)) is None


def test_nobody_is_sent_to_a_model_that_ends_as_well() -> None:
    assert not {row.instead for row in RETIREMENTS.values()} & set(RETIREMENTS)
