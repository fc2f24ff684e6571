"""LLM=…: what is accepted, and how a person is told of what is not."""

import subprocess
import sys

import pytest

from shared.errors import Misconfigured
from shared.llm.chat import ChatModel
from shared.llm.configured import Choice, configured_model, parse
from shared.llm.mock import MockModel
from shared.settings import Settings, load_settings


@pytest.fixture(autouse=True)
def no_stray_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def configured(llm: str, key: str | None = None) -> Settings:
    return load_settings(llm=llm, openai_api_key=key, _env_file=None)


@pytest.mark.parametrize(
    ("spec", "choice"),
    [
        ("mock", Choice(provider="mock", model="mock-rules")),
        (" mock\n", Choice(provider="mock", model="mock-rules")),
        ("openai:gpt-6-luna", Choice(provider="openai", model="gpt-6-luna")),
        ("openai:ft:gpt-6-luna:acme::x1", Choice(provider="openai", model="ft:gpt-6-luna:acme::x1")),
        (
            "openai-compatible:qwen3:8b@http://localhost:11434/v1",
            Choice(provider="openai-compatible", model="qwen3:8b", base_url="http://localhost:11434/v1"),
        ),
        (
            "openai-compatible:@cf/meta/llama@https://host.example/v1/",
            Choice(provider="openai-compatible", model="@cf/meta/llama", base_url="https://host.example/v1/"),
        ),
        (
            "openai-compatible:m@http://[::1]:8000/v1",
            Choice(provider="openai-compatible", model="m", base_url="http://[::1]:8000/v1"),
        ),
    ],
)
def test_choices_that_are_understood(spec: str, choice: Choice) -> None:
    assert parse(spec) == choice


NOT_UNDERSTOOD = (
    *("", ":", "Mock", "mock:", "mock:x", "openai", "openai:", "openai: gpt", "openai:a b", "gpt-6-luna"),
    *("gemini:x", "openai:" + "m" * 201, "openai-compatible:", "openai-compatible:m"),
    *("openai-compatible:m@", "openai-compatible:m@host:80/v1", "openai-compatible:@http://h/v1"),
    "openai-compatible:m@http://a@http://b",
)


@pytest.mark.parametrize("spec", NOT_UNDERSTOOD)
def test_anything_else_is_one_line_that_says_what_is_accepted(spec: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        parse(spec)
    said = str(caught.value)
    assert "mock, openai:MODEL or openai-compatible:MODEL@URL" in said
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
    with pytest.raises(Misconfigured, match="not gemini:"):
        parse("gemini:gemini-3.5-flash-lite")
    with pytest.raises(Misconfigured) as caught:
        parse("sk-proj-0123456789ABC")
    assert "0123456789" not in str(caught.value)


async def test_the_mock_needs_nothing() -> None:
    model = await configured_model(configured("mock"), {})
    assert isinstance(model, MockModel)


async def test_openai_with_its_key() -> None:
    model = await configured_model(configured("openai:gpt-6-luna", " sk-test-0123456789\n"), {})
    assert isinstance(model, ChatModel)
    assert (model.provider, model.name) == ("openai", "gpt-6-luna")
    await model.close()


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
