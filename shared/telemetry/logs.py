"""Structured logs: constant sentences, data as fields, one JSON object a line; readable on a terminal.

Lines of libraries go the same way. Whatever a line holds is masked last (`shared.masking`), and messages' texts are never
logged, at no level.
"""

import logging
import sys
from collections.abc import Iterable, MutableMapping
from typing import Any, TextIO

import structlog
from pydantic import SecretStr

from shared.masking import Masker
from shared.settings import Settings
from shared.telemetry.tracebacks import told

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
# Their INFO and DEBUG hold URLs with tokens, headers and bodies; what fails in the servers' drivers reaches us, and we say it.
QUIET = {
    "httpx2": logging.WARNING,
    "httpcore2": logging.WARNING,
    "aiormq": logging.CRITICAL,
    "opentelemetry": logging.CRITICAL,
    "asyncpg": logging.CRITICAL,
}

Event = MutableMapping[str, Any]


def configure_logs(
    *, level: str, service: str, secrets: Iterable[str] = (), stream: TextIO | None = None
) -> None:
    """Set up the process's logs on standard error. Called once, by whoever wires the process.

    `secrets`: what this process knows, masked by value wherever it turns up.
    """
    stream = stream or sys.stderr
    render: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if stream.isatty() else structlog.processors.JSONRenderer()
    )
    common = processors(service=service, secrets=secrets)
    structlog.configure(
        processors=[*common, render],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    libraries = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.add_logger_name, _first_line, *common],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, render],
        pass_foreign_args=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(libraries)
    logging.basicConfig(level=max(LEVELS[level], logging.WARNING), handlers=[handler])
    for name, least in QUIET.items():
        logging.getLogger(name).setLevel(least)
    logging.captureWarnings(capture=True)


def processors(*, service: str, secrets: Iterable[str] = ()) -> list[structlog.typing.Processor]:
    """What every line goes through before it is rendered: of ours and of libraries."""
    masker = Masker(secrets)

    def name_service(_: Any, __: str, event: Event) -> Event:
        event["service"] = service
        return event

    def mask(_: Any, __: str, event: Event) -> Event:
        return {name: value if name in _META else masker.field(name, value) for name, value in event.items()}

    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        name_service,
        _tell_exception,
        mask,
    ]


def secrets_of(settings: Settings) -> list[str]:
    """The secrets among the settings, by value: keys one by one, and of a URL its password."""
    values = (getattr(settings, name) for name in type(settings).model_fields)
    told = [value.get_secret_value() for value in values if isinstance(value, SecretStr)]
    return [part for text in told for part in (_password(text) if "://" in text else text.split(","))]


_META = frozenset({"_record", "_from_structlog"})  # structlog's own notes, taken out before rendering


def _password(url: str) -> list[str]:
    _, _, credentials = url.partition("://")[2].rpartition("@")[0].partition(":")
    return [credentials]


def _first_line(_: Any, __: str, event: Event) -> Event:
    """What follows in a library's line may quote an exception, and with it somebody's words."""
    event["event"] = str(event["event"]).partition("\n")[0]
    return event


def _tell_exception(_: Any, __: str, event: Event) -> Event:
    """`exc_info` as a text without values."""
    given = event.pop("exc_info", None)
    event.pop("stack_info", None)
    error = given[1] if isinstance(given, tuple) else given if isinstance(given, BaseException) else None
    if error is None and given:
        error = sys.exc_info()[1]
    if error is not None:
        event["exception"] = told(error)
    return event
