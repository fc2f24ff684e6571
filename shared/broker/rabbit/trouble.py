"""What the driver may raise, translated at the door.

aiormq ends what waits on a lost connection with whatever closed it: its own errors, a bare Exception, or a
CancelledError that nobody sent. Untranslated that ends a supervisor silently, and a TaskGroup takes it for a
child that was called off: the publish would count as confirmed. The other way round, a real cancellation may
come out as the error that closed the connection: swallowed, whoever waits for the cancelled task waits for ever.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from aio_pika.exceptions import (
    CONNECTION_EXCEPTIONS,
    AuthenticationError,
    InvalidFrameError,
    ProbableAuthenticationError,
)
from aiormq.exceptions import ChannelAccessRefused

from shared.errors import Misconfigured, Unavailable

RAISED = (Exception, asyncio.CancelledError)
"""What to catch around a call of the driver, and to hand to `only_trouble`."""


def cancellations() -> int:
    """How often the running task was asked to cancel; ask before calling the driver.

    Only a rise means anything: a TaskGroup of Python 3.11 whose child failed leaves the count raised.
    """
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


def only_trouble(error: BaseException, *, before: int) -> None:
    """Return if it came of the broker or the network. Raise it if not; CancelledError if we are cancelled."""
    cancelled = cancellations() > before
    if cancelled and not isinstance(error, asyncio.CancelledError):
        raise asyncio.CancelledError from error
    if cancelled or not _is_trouble(error):
        raise error


def in_words(error: BaseException) -> str:
    """What the broker or the network said, to be put into a sentence."""
    return " ".join(str(part) for part in error.args if part) or "the connection was lost"


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise Misconfigured where the broker refuses us, and Unavailable for any other trouble."""
    before = cancellations()
    try:
        yield
    except RAISED as error:
        only_trouble(error, before=before)
        if isinstance(error, AuthenticationError | ProbableAuthenticationError | ChannelAccessRefused):
            raise Misconfigured(
                f"RabbitMQ refuses LEEWAY_AMQP_URL while {doing}: {in_words(error)}"
            ) from error
        if isinstance(error, InvalidFrameError) and "Connection.Close" in str(error):
            # The answer to opening a virtual host; aiormq keeps nothing of it but this name.
            raise Misconfigured(
                "RabbitMQ refuses LEEWAY_AMQP_URL: its virtual host is not there or not ours"
            ) from error
        raise Unavailable(f"RabbitMQ is away or in trouble while {doing}: {in_words(error)}") from error


def _is_trouble(error: BaseException) -> bool:
    return isinstance(error, (*CONNECTION_EXCEPTIONS, asyncio.CancelledError)) or type(error) is Exception
