"""What the driver may raise, translated at the door.

aiormq ends what waits on a lost connection with whatever closed it: its own errors, but also a CancelledError
that nobody sent, or a bare Exception. Untranslated the first ends a supervisor silently, and a TaskGroup
takes it for a child that was called off: the publish would count as confirmed.
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
"""What to catch around a call of the driver, and to raise on unless `is_trouble`."""


def is_trouble(error: BaseException) -> bool:
    """Whether the driver raised it for the broker or the network: no bug, and nobody who cancelled us."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and not task.cancelling()
    return isinstance(error, CONNECTION_EXCEPTIONS) or type(error) is Exception


def in_words(error: BaseException) -> str:
    """What the broker or the network said, to be put into a sentence."""
    return " ".join(str(part) for part in error.args if part) or "the connection was lost"


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise Misconfigured where the broker refuses us, and Unavailable for any other trouble."""
    try:
        yield
    except RAISED as error:
        if not is_trouble(error):
            raise
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
