"""What the driver may raise, translated at the door.

aiormq rejects what waits on a lost connection with whatever ended it, and that can be a CancelledError
although nobody cancelled us. Untranslated it ends a supervisor silently, and a TaskGroup takes it for a child
that was called off: the publish would count as confirmed.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from aio_pika.exceptions import (
    CONNECTION_EXCEPTIONS,
    AuthenticationError,
    ConnectionClosed,
    ProbableAuthenticationError,
)
from aiormq.exceptions import ChannelAccessRefused

from shared.errors import Misconfigured, Unavailable

DRIVER_ERRORS: tuple[type[BaseException], ...] = (*CONNECTION_EXCEPTIONS, TimeoutError)
_NOT_ALLOWED = 530  # Connection.Close for a virtual host that is not there or not ours


def really_cancelled() -> bool:
    """Whether somebody cancelled the running task, as opposed to a CancelledError that the driver made up."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def in_words(error: BaseException) -> str:
    """What the broker or the network said, to be put into a sentence."""
    return " ".join(str(part) for part in error.args if part) or type(error).__name__


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise Misconfigured where the broker refuses us, Unavailable for other failures of driver, network."""
    try:
        yield
    except asyncio.CancelledError as error:
        if really_cancelled():
            raise
        raise Unavailable(f"RabbitMQ went away while {doing}") from error
    except DRIVER_ERRORS as error:
        if _refuses_us(error):
            raise Misconfigured(
                f"RabbitMQ refuses LEEWAY_AMQP_URL while {doing}: {in_words(error)}"
            ) from error
        raise Unavailable(f"RabbitMQ is away or in trouble while {doing}: {in_words(error)}") from error


def _refuses_us(error: BaseException) -> bool:
    if isinstance(error, AuthenticationError | ProbableAuthenticationError | ChannelAccessRefused):
        return True
    return isinstance(error, ConnectionClosed) and error.args[:1] == (_NOT_ALLOWED,)
