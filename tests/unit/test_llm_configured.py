"""LLM=…: what is accepted, and how a person is told of what is not."""

import asyncio
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from shared.errors import Misconfigured
from shared.llm.configured import Choice, configured_model, parse
from shared.llm.costs import has_price, price_source
from shared.llm.mock import MockModel
from shared.llm.mock_server import app
from shared.llm.port import Answer, FailureKind, ModelFailure, Request, UserText
from shared.llm.profiles import PROFILES
from shared.packs import Pack
from shared.settings import Settings, load_settings
from shared.telemetry.health import server


@pytest.fixture(autouse=True)
def no_stray_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in {profile.key for profile in PROFILES.values()} | {"LEEWAY_PRICES"}:
        monkeypatch.delenv(variable, raising=False)


class FakeClock:
    def now(self) -> datetime:
        return datetime(2026, 11, 30, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0


class EchoPack:
    name = "echo"
    tools = ()

    def mock_answer(self, request: Request) -> Answer:
        return Answer(text=f"heard: {request.messages[-1].text}")


@pytest.fixture
def pack() -> Pack:
    return EchoPack()


def configured(llm: str, key: str | None = None, *, variable: str = "OPENAI_API_KEY") -> Settings:
    return load_settings(llm=llm, _env_file=None, **{variable.lower(): key})


@pytest.mark.parametrize(
    ("spec", "choice"),
    [
        ("mock", Choice(word="mock", model="mock-rules")),
        (" mock\n", Choice(word="mock", model="mock-rules")),
        ("openai:gpt-6-luna", Choice(word="openai", model="gpt-6-luna")),
        ("openai:ft:gpt-6-luna:acme::x1", Choice(word="openai", model="ft:gpt-6-luna:acme::x1")),
        (
            "openai-compatible:qwen3:8b@http://localhost:11434/v1",
            Choice(word="openai-compatible", model="qwen3:8b", base_url="http://localhost:11434/v1"),
        ),
        (
            "openai-compatible:@cf/meta/llama@https://host.example/v1/",
            Choice(word="openai-compatible", model="@cf/meta/llama", base_url="https://host.example/v1/"),
        ),
        (
            "openai-compatible:m@http://[::1]:8000/v1",
            Choice(word="openai-compatible", model="m", base_url="http://[::1]:8000/v1"),
        ),
    ],
)
def test_choices_that_are_understood(spec: str, choice: Choice) -> None:
    assert parse(spec) == choice


NOT_UNDERSTOOD = (
    *("", ":", "Mock", "mock:", "mock:x", "openai", "openai:", "openai: gpt", "openai:a b", "gpt-6-luna"),
    *(
        "groq:x",
        "gemini:",
        "deepseek: x",
        "anthropic",
        "openai:" + "m" * 201,
        "openai-compatible:",
        "openai-compatible:m",
    ),
    *("openai-compatible:m@", "openai-compatible:m@host:80/v1", "openai-compatible:@http://h/v1"),
    "openai-compatible:m@http://a@http://b",
)


@pytest.mark.parametrize("spec", NOT_UNDERSTOOD)
def test_anything_else_is_one_line_that_says_what_is_accepted(spec: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        parse(spec)
    said = str(caught.value)
    for word in ("mock", "openai:MODEL", "gemini:MODEL", "deepseek:MODEL", "anthropic:MODEL"):
        assert word in said
    assert "openai-compatible:MODEL@URL" in said
    assert "\n" not in said


BAD_ADDRESSES = (
    *("http://", "http://:80/v1", "http://h:0/v1", "http://h:99999/v1", "http://h:x/v1", "http://[::1/v1"),
    *("http://h/ v1", "http://me:pass@h/v1", "http://me@h/v1", "http://h/v1?key=pass", "http://h/v1#pass"),
)


@pytest.mark.parametrize("url", BAD_ADDRESSES)
def test_an_address_that_cannot_work_or_holds_a_secret_is_refused(url: str) -> None:
    with pytest.raises(Misconfigured, match="openai-compatible:MODEL@URL") as caught:
        parse(f"openai-compatible:m@{url}")
    assert "pass@" not in str(caught.value)
    assert "key=" not in str(caught.value)


def test_another_provider_is_named_back_but_a_pasted_key_is_not() -> None:
    with pytest.raises(Misconfigured, match="not groq:"):
        parse("groq:llama")
    with pytest.raises(Misconfigured) as caught:
        parse("sk-proj-0123456789ABC")
    assert "0123456789" not in str(caught.value)


async def test_the_mock_needs_nothing() -> None:
    model = await configured_model(configured("mock"), {})
    assert isinstance(model, MockModel)


WITH_A_KEY = (
    ("openai:gpt-6-luna", "OPENAI_API_KEY", "openai"),
    ("openai-chat:gpt-6-luna", "OPENAI_API_KEY", "openai"),
    ("gemini:gemini-3.5-flash-lite", "GEMINI_API_KEY", "gemini"),
    ("deepseek:deepseek-flash", "DEEPSEEK_API_KEY", "deepseek"),
    ("anthropic:claude-haiku-5-5", "ANTHROPIC_API_KEY", "anthropic"),
)
providers = pytest.mark.parametrize(("llm", "variable", "provider"), WITH_A_KEY)


@providers
async def test_a_provider_with_its_key(llm: str, variable: str, provider: str) -> None:
    model = await configured_model(configured(llm, " sk-test-0123456789\n", variable=variable), {})
    assert (model.provider, model.name) == (provider, llm.split(":")[1])
    assert "0123456789" not in repr(model)
    await model.close()


@providers
async def test_another_providers_key_is_never_used(llm: str, variable: str, provider: str) -> None:
    others = {name.lower(): "sk-of-another" for _, name, _ in WITH_A_KEY if name != variable}
    settings = load_settings(llm=llm, _env_file=None, **others)
    with pytest.raises(Misconfigured, match=f"{llm} needs {variable}"):
        await configured_model(settings, {})


async def test_a_model_is_guarded_against_a_provider_that_is_away() -> None:
    clock = FakeClock()
    settings = configured("openai-compatible:llama@http://127.0.0.1:1/v1")
    model = await configured_model(settings, {}, clock=clock)
    request = Request(system="", messages=(UserText(text="Hello"),), tools=())
    for kind in [FailureKind.CONNECTION] * 5 + [FailureKind.OPEN]:
        with pytest.raises(ModelFailure) as caught:
            await model.complete(request, timeout_s=10)
        assert caught.value.kind is kind
    await model.close()


async def test_openai_can_be_asked_at_another_address(pack: Pack) -> None:
    """The server is the mock's, which speaks Responses as well: the base URL is an argument, not environment."""
    http = server(app({"a": pack}), host="127.0.0.1", port=0)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(http.serve())
        while not http.started:
            await asyncio.sleep(0)
        settings = configured("openai:mock-rules", "sk-test-0123456789")
        model = await configured_model(settings, {}, base_url=f"{http.address}/v1")
        answer = await model.complete(
            Request(system="", messages=(UserText(text="Hello"),), tools=()), timeout_s=10
        )
        assert answer.text == "heard: Hello"
        await model.close()
        http.should_exit = True


async def test_a_compatible_server_needs_no_key() -> None:
    model = await configured_model(configured("openai-compatible:llama@http://127.0.0.1:1/v1"), {})
    assert (model.provider, model.name) == ("openai-compatible", "llama")
    await model.close()


@pytest.mark.parametrize("key", [None, "", "  "])
async def test_a_missing_key_is_named(key: str | None) -> None:
    with pytest.raises(Misconfigured, match="OPENAI_API_KEY"):
        await configured_model(configured("openai:gpt-6-luna", key), {})


@pytest.mark.parametrize("key", ["sk-a b", "sk-a\nb", "sk-–long-dash"])
async def test_a_key_that_no_header_can_carry_is_named_but_not_shown(key: str) -> None:
    with pytest.raises(Misconfigured, match="OPENAI_API_KEY") as caught:
        await configured_model(configured("openai:gpt-6-luna", key), {})
    assert key not in str(caught.value)


def test_the_mock_does_not_load_the_openai_client() -> None:
    code = "import sys, shared.llm.configured; sys.exit('openai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# LEEWAY_PRICES


async def test_own_prices_reach_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEEWAY_PRICES", '{"llama": {"input": 0, "output": "0.5"}}')
    settings = load_settings(llm="openai-compatible:llama@http://127.0.0.1:1/v1", _env_file=None)
    assert settings.prices["llama"].output == Decimal("0.5")
    model = await configured_model(settings, {})
    assert has_price(model)
    assert price_source(model, answered="/srv/models/llama.gguf") == "LEEWAY_PRICES"
    await model.close()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is no JSON"),
        ("[]", "is no JSON object"),
        ('{"m": 1}', "m: give input and output"),
        ('{"m": {"input": 1}}', "m: give input and output"),
        ('{"m": {"input": 1, "output": 1, "cahced": 1}}', "m: give input and output"),
        ('{"m": {"input": "-1", "output": 1}}', "m: input must be a number"),
        ('{"m": {"input": "NaN", "output": 1}}', "m: input must be a number"),
        ('{"m": {"input": "cheap", "output": 1}}', "m: input must be a number"),
        ('{"m": {"input": true, "output": 1}}', "m: input must be a number"),
        ('{"m": {"input": 1, "output": "1e99"}}', "m: output must be a number"),
        ('{" ": {"input": 1, "output": 1}}', "name that can't be one"),
    ],
)
def test_prices_that_are_none_are_refused_at_start_with_their_variable(
    monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.setenv("LEEWAY_PRICES", text)
    with pytest.raises(Misconfigured) as caught:
        load_settings(_env_file=None)
    assert f"LEEWAY_PRICES: {said}" in str(caught.value) or f"LEEWAY_PRICES: holds a model's {said}" in str(
        caught.value
    )
    assert "\n" not in str(caught.value)


def test_no_prices_are_none_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEEWAY_PRICES", "")
    assert load_settings(_env_file=None).prices == {}
