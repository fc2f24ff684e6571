"""`leeway report` on a real Postgres: sums, shares, what is not known, and what it says of nothing."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

import pytest
from typer.testing import CliRunner

from leeway.cli import app, sentence
from leeway.report import _begins
from shared.ids import ConversationId, new_id
from tests.support.commands import Ended, environment
from tests.support.factories import NOON, Ground, ground

pytestmark = pytest.mark.postgres

DOCUMENT = Path(__file__).parents[2] / "docs/report.md"


class Report(Protocol):
    async def __call__(self, *words: str, fails: int = 0) -> Ended: ...


@pytest.fixture
async def rows(database_url: str) -> AsyncIterator[Ground]:
    async with ground(database_url) as made:
        yield made


@pytest.fixture
def report(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Report:
    monkeypatch.setattr("leeway.operators.configure_logs", lambda **_: None)  # this process has its own
    runner = CliRunner(env=environment(LEEWAY_DATABASE_URL=database_url))

    def called(words: tuple[str, ...]) -> Ended:
        ended = runner.invoke(app, ["report", *words])
        if ended.exception is None or isinstance(ended.exception, SystemExit):
            return Ended(ended.exit_code, ended.stdout, ended.stderr)
        return Ended(1, ended.stdout, sentence(ended.exception))

    async def report(*words: str, fails: int = 0) -> Ended:
        ended = await asyncio.to_thread(called, words)
        assert ended.code == fails, ended
        assert "\x1b" not in ended.out
        if "--json" not in words:
            assert max((len(line) for line in ended.out.splitlines()), default=0) <= 80
            assert not any(line.endswith(" ") for line in ended.out.splitlines())
        return ended

    return report


class Calls:
    """Model calls of conversations, made row by row."""

    def __init__(self, rows: Ground) -> None:
        self.rows = rows
        self._turns: dict[ConversationId, Any] = {}

    async def conversation(self, slug: str) -> ConversationId:
        known = await self.rows.rows("business", slug=slug)
        business = known[0]["id"] if known else await self.rows.business(slug=slug)
        conversation = await self.rows.conversation(await self.rows.account(business))
        message = await self.rows.said(conversation, "Hello", due=False)
        self._turns[conversation] = await self.rows.turn(
            conversation, message, state="done", outcome="answered"
        )
        return conversation

    async def made(self, conversation: ConversationId, cost: str | None = "0.01", **more: Any) -> None:
        plain = {
            "id": new_id(), "business": (await self.rows.state(conversation))["business"], "conversation": conversation,
            "turn": self._turns[conversation], "n": 1, "engine": "tool_loop", "provider": "openai", "model": "gpt-test",
            "state": "done", "input_tokens": 1_000, "cached_tokens": 200, "output_tokens": 30, "reasoning_tokens": 10,
            "cost_usd": None if cost is None else Decimal(cost), "latency_ms": 500,
        }  # fmt: skip
        await self.rows.insert("llm_call", **(plain | more))


@pytest.fixture
def calls(rows: Ground) -> Calls:
    return Calls(rows)


async def told(report: Report, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((await report("--json", *words)).out)
    return found


async def test_nothing_was_asked_yet(report: Report, rows: Ground) -> None:
    await rows.business(slug="corner")
    assert (await report()).out == "There are no model calls.\n"
    assert (await report("--business", "corner", "--since", "2026-11-01")).out == (
        "There are no model calls of corner since 2026-11-01 00:00 UTC.\n"
    )
    found = await told(report)
    assert (found["models"], found["total"]["calls"], found["total"]["cost_usd"]) == ([], 0, None)
    assert found["conversations"] == {"count": 0, "of_known_cost": 0, "mean_usd": None, "dearest": []}


async def test_calls_are_summed_by_model_engine_and_iteration(report: Report, calls: Calls) -> None:
    conversation = await calls.conversation("corner")
    for latency in range(100, 2_100, 100):
        await calls.made(conversation, latency_ms=latency)
    await calls.made(conversation, "0.5", n=2, input_tokens=200_000)
    await calls.made(conversation, "0", provider="mock", model="mock-rules", engine="planner")
    found = await told(report)
    first, second, mock = found["models"][1], found["models"][2], found["models"][0]
    assert (first["model"], first["engine"], first["iteration"], first["calls"]) == (
        "gpt-test",
        "tool_loop",
        1,
        20,
    )
    assert (first["latency_ms_p50"], first["latency_ms_p95"]) == (1_000, 1_900)
    assert (first["input_tokens"], first["cached_tokens"], first["output_tokens"]) == (20_000, 4_000, 600)
    assert Decimal(first["cost_usd"]) == Decimal("0.2")
    assert (second["iteration"], Decimal(second["cost_usd"])) == (2, Decimal("0.5"))
    assert (mock["engine"], Decimal(mock["cost_usd"])) == ("planner", 0)
    out = (await report()).out
    assert "openai gpt-test" in out
    assert re.search(r"tool_loop +1 +20 +0 +20,000 +4,000 +600 +0\.2000 +1,000 +1,900", out)
    assert re.search(r"tool_loop +2 +1 +0 +200k", out)
    assert "In all 22 calls, 221,000 tokens in, 660 out, $0.7000." in out
    assert "not in the sum" not in out


async def test_an_unknown_cost_is_counted_apart_and_never_nought(report: Report, calls: Calls) -> None:
    known, unknown = await calls.conversation("corner"), await calls.conversation("corner")
    await calls.made(known, "0.03")
    await calls.made(unknown, "0.50")
    await calls.made(unknown, None)
    await calls.made(unknown, None, model="no-price")
    found = await told(report)
    assert found["total"]["calls_of_unknown_cost"] == 2
    assert Decimal(found["total"]["cost_usd"]) == Decimal("0.53")
    assert [row["cost_usd"] for row in found["models"] if row["model"] == "no-price"] == [None]
    assert (found["conversations"]["count"], found["conversations"]["of_known_cost"]) == (2, 1)
    assert Decimal(found["conversations"]["mean_usd"]) == Decimal("0.03")
    (dearest, _) = found["conversations"]["dearest"]
    assert (dearest["conversation"], dearest["calls_of_unknown_cost"]) == (str(unknown), 2)
    out = (await report()).out
    assert re.search(r"tool_loop +1 +3 +0 .* 0\.5300\* ", out)
    assert re.search(r"tool_loop +1 +1 +0 .* unknown\* ", out)
    assert "2 calls of unknown cost: not in the sum; see * above." in out
    assert "1 conversation with calls of unknown cost: not in the average." in out
    assert "3 calls, 2 of unknown cost" in out


async def test_all_unknown_is_unknown(report: Report, calls: Calls) -> None:
    await calls.made(await calls.conversation("corner"), None)
    out = (await report()).out
    assert "30 out, cost unknown." in out
    assert "$" not in out


async def test_errors_and_what_is_under_way(report: Report, calls: Calls) -> None:
    conversation = await calls.conversation("corner")
    await calls.made(conversation, latency_ms=100)
    await calls.made(conversation, "0", state="failed", error="rate", latency_ms=9_000)
    await calls.made(conversation, None, state="lost", latency_ms=None)
    await calls.made(conversation, None, state="started", latency_ms=None)
    (row,) = (await told(report))["models"]
    assert (row["calls"], row["errors"], row["under_way"], row["calls_of_unknown_cost"]) == (3, 2, 1, 1)
    assert (row["latency_ms_p50"], row["latency_ms_p95"]) == (100, 100)
    assert "1 call under way: counted when over." in (await report()).out


async def test_the_dearest_ten_come_first_with_a_name_to_look_them_up(report: Report, calls: Calls) -> None:
    made = [await calls.conversation("corner") for _ in range(12)]
    for number, conversation in enumerate(made, start=1):
        await calls.made(conversation, f"0.{number:02}")
    dearest = (await told(report))["conversations"]["dearest"]
    assert [row["conversation"] for row in dearest] == [str(one) for one in reversed(made[2:])]
    out = (await report()).out
    assert f"  {str(made[-1])[:13]}" in out
    assert out.count("  corner") == 10


async def test_of_one_business_and_since_an_instant(report: Report, calls: Calls, rows: Ground) -> None:
    now = await rows.now()
    corner, other = await calls.conversation("corner"), await calls.conversation("other")
    await calls.made(corner)
    await calls.made(corner, started_at=now - timedelta(hours=30))
    await calls.made(corner, started_at=now - timedelta(days=10))
    await calls.made(other)
    for words, count in (
        ((), 4),
        (("--business", "corner"), 3),
        (("--business", "corner", "--since", "24h"), 1),
        (("--business", "corner", "--since", "7d"), 2),
        (("--since", f"{now - timedelta(days=20):%Y-%m-%d}"), 4),
    ):
        assert (await told(report, *words))["total"]["calls"] == count, words
    assert (await report("--business", "nobody", fails=1)).err == "There is no business nobody."


@pytest.mark.parametrize(
    "since", ["soon", "7", "0d", "7w", "-7d", "2026-13-01", "20261101", "99999d", "2026-11-01T00:00", ""]
)
async def test_another_since_is_refused_in_a_sentence(report: Report, since: str) -> None:
    ended = await report("--since", since, fails=2)
    assert "--since takes a span like 7d or 24h, or a day like" in " ".join(
        re.sub(r"[│╭╮╰╯─]", " ", ended.err).split()
    )


def test_spans_and_days() -> None:
    assert _begins(None, now=NOON) is None
    assert _begins("24h", now=NOON) == NOON - timedelta(days=1)
    assert _begins("7D", now=NOON) == NOON - timedelta(days=7)
    assert _begins("9999d", now=NOON) == NOON - timedelta(days=9_999)
    assert _begins("2026-11-01", now=NOON) == datetime.fromisoformat("2026-11-01T00:00:00+00:00")


async def test_the_document_says_what_is_in_the_object(report: Report, calls: Calls) -> None:
    await calls.made(await calls.conversation("corner"))
    said = set(re.findall(r"`(\w+)`", DOCUMENT.read_text(encoding="utf-8")))
    found = await told(report)
    keys = set(found)
    for one in (
        found["total"],
        found["models"][0],
        found["conversations"],
        found["conversations"]["dearest"][0],
    ):
        keys |= set(one)
    assert keys <= said, keys - said


async def test_names_of_models_are_only_text(report: Report, calls: Calls) -> None:
    await calls.made(
        await calls.conversation("corner"), model="\x1b[2J[red]evil" + "x" * 200, cost_usd=Decimal("12345.6")
    )
    out = (await report()).out
    assert "\\u001b[2J[red]evil" in out
    assert "12,345.60" in out
