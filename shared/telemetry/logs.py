"""Structured logs: constant sentences, data as fields, one JSON object a line; readable on a terminal."""

import logging
import sys

import structlog

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure_logs(*, level: str, service: str) -> None:
    """Set up the process's logs on standard error. Called once, by whoever wires the process."""
    terminal = sys.stderr.isatty()
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(service=service)
    for client in ("httpx2", "httpcore2"):  # they log URLs, and Telegram's hold the bot's token
        logging.getLogger(client).setLevel(logging.WARNING)
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)  # what fails there reaches us, and we say it
    logging.basicConfig(
        level=max(LEVELS[level], logging.WARNING), stream=sys.stderr, format="%(name)s: %(message)s"
    )
