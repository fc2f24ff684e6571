"""A process's log lines: one JSON object each, of ours and of libraries, without words, numbers and secrets."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from shared.errors import Unavailable
from shared.settings import load_settings
from shared.telemetry.logs import secrets_of
from shared.telemetry.tracebacks import EXCEPTIONS_MAX, FRAMES_MAX, headline, told

ROOT = Path(__file__).parents[2]
PROGRAM = """
import asyncio, logging, sys, warnings
import structlog
from shared.telemetry.logs import configure_logs
configure_logs(level=sys.argv[1], service="guard", secrets=["tw-TEST"])
log = structlog.get_logger()

def find(words):
    raise KeyError(words)

async def main():
    structlog.contextvars.bind_contextvars(trace="0" * 32, conversation="c1")
    log.debug("detail", tickets=3)
    log.info("message judged", sender="+40740000001", text="a table for two", said="call 0740 000 001", key_used="tw-TEST")
    try:
        find("a table for two")
    except KeyError as error:
        try:
            raise RuntimeError("not found: a table for two") from error
        except RuntimeError:
            log.exception("ticket failed")
    asyncio.get_running_loop().call_exception_handler(
        {"message": "Task exception was never retrieved", "exception": ValueError("a table for two"), "task": "a table for two"})
    logging.getLogger("aiormq.connection").error("closed by a table for two")
    logging.getLogger("httpx2").info("POST https://x.test/bot123456:a-table-for-two-is-the-token")
    logging.getLogger("uvicorn.error").warning("refused %s", "+40740000001")
    logging.getLogger("anything").debug("a table for two")
    warnings.warn("old form", stacklevel=1)

asyncio.run(main())
"""


def lines_of(level: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, level], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert not done.stdout
    return [json.loads(line) for line in done.stderr.splitlines()]


@pytest.fixture(scope="module")
def lines() -> list[dict[str, Any]]:
    return lines_of("debug")


def test_every_line_says_of_which_service_when_how_grave_and_what(lines: list[dict[str, Any]]) -> None:
    assert [line["event"] for line in lines] == [
        "detail",
        "message judged",
        "ticket failed",
        "Task exception was never retrieved",
        "refused [phone]",
        "<string>:28: UserWarning: old form",
    ]
    for line in lines:
        assert line["service"] == "guard"
        assert line["timestamp"].endswith("Z")
        assert line["level"] in ("debug", "info", "warning", "error")


def test_what_is_bound_is_on_every_line_also_of_libraries(lines: list[dict[str, Any]]) -> None:
    assert {(line["trace"], line["conversation"]) for line in lines} == {("0" * 32, "c1")}


def test_no_line_holds_words_numbers_or_secrets(lines: list[dict[str, Any]]) -> None:
    text = json.dumps(lines)
    for secret in ("table for two", "0740", "tw-TEST", "token"):
        assert secret not in text, secret
    judged = lines[1]
    assert (judged["sender"], judged["text"]) == ("[hidden]", "[hidden]")
    assert (judged["said"], judged["key_used"]) == ("call [phone]", "[secret]")


def test_a_traceback_shows_where_and_what_kind_but_not_what_was_said(lines: list[dict[str, Any]]) -> None:
    shown = lines[2]["exception"]
    assert "in find" in shown
    assert shown.index("\nKeyError\n") < shown.index("\nRuntimeError")
    assert lines[3]["exception"] == "ValueError"


def test_libraries_are_as_quiet_at_debug_as_ever(lines: list[dict[str, Any]]) -> None:
    assert {line.get("logger") for line in lines} == {None, "asyncio", "uvicorn.error", "py.warnings"}


def test_below_the_level_nothing_is_written() -> None:
    assert [line["event"] for line in lines_of("error")] == [
        "ticket failed",
        "Task exception was never retrieved",
    ]


# Exceptions


class Database(Exception):
    sqlstate = "23505"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(Unavailable("the broker is closed"), "shared.errors.Unavailable: the broker is closed", id="ours"),
        pytest.param(TypeError("'int' object is not iterable"), "TypeError: 'int' object is not iterable", id="names of code"),
        pytest.param(ConnectionResetError(104, "reset"), "ConnectionResetError: [Errno 104] reset", id="the system's"),
        pytest.param(ValueError("invalid: a table for two"), "ValueError", id="may quote a value"),
        pytest.param(KeyError("a table for two"), "KeyError", id="is a value"),
        pytest.param(Database("Key (text)=(a table for two)"), f"{__name__}.Database (23505)", id="a database's"),
    ],
)  # fmt: skip
def test_an_exception_says_what_it_says_only_where_that_is_nobody_s(error: Exception, said: str) -> None:
    assert headline(error) == said


def test_a_group_shows_its_members() -> None:
    group = ExceptionGroup("a table for two", [ValueError("x"), Unavailable("the broker is closed")])
    assert told(group) == "ValueError\n\nshared.errors.Unavailable: the broker is closed\n\nExceptionGroup"


def test_what_was_handled_on_purpose_is_left_out() -> None:
    with pytest.raises(Unavailable) as caught:  # noqa: PT012  it is about what was handled inside
        try:
            raise KeyError("x")
        except KeyError:
            raise Unavailable("away") from None
    assert "KeyError" not in told(caught.value)


def test_a_long_story_is_cut_and_a_circle_ends() -> None:
    def here(left: int) -> None:
        there(left - 1)

    def there(left: int) -> None:
        if left <= 0:
            raise KeyError("x")
        here(left - 1)

    with pytest.raises(KeyError) as caught:
        here(FRAMES_MAX * 2)
    assert told(caught.value).count("  File ") == FRAMES_MAX
    first, second = ValueError(), KeyError()
    first.__context__, second.__context__ = second, first
    assert told(first) == "KeyError\n\nValueError"
    assert told(ExceptionGroup("", [ValueError() for _ in range(50)])).count("Error") == EXCEPTIONS_MAX - 1


# Secrets among the settings


def test_settings_secrets_are_known_by_value_keys_one_by_one_and_passwords_of_urls() -> None:
    settings = load_settings(
        database_url=SecretStr("postgresql://leeway:pass-word-1@db/leeway"),
        amqp_url=SecretStr("amqp://leeway:pass-word-2@rabbit/"),
        secret_key=SecretStr("key-one,key-two"),
        openai_api_key=SecretStr("sk-three"),
    )
    assert {"pass-word-1", "pass-word-2", "key-one", "key-two", "sk-three"} <= set(secrets_of(settings))
    assert not any("://" in one for one in secrets_of(settings))
