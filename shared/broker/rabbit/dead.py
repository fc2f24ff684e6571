"""The queues of the dead: how a message gets its reason, and how they are read and emptied."""

from collections.abc import Mapping, Sequence
from typing import Any

from aio_pika.abc import AbstractConnection
from pamqp.common import FieldTable

from shared.broker.port import DeadLetter
from shared.tickets import Stage
from shared.topology import DEAD_QUEUE

REASON_HEADER = "leeway-reason"
REASON_CHARS_MAX = 300


def reason_headers(reason: str) -> FieldTable:
    """The reason as headers of a message; shortened, since it may quote what could not be read."""
    return {REASON_HEADER: reason.encode("utf-8", "replace").decode()[:REASON_CHARS_MAX]}


async def read(connection: AbstractConnection, stage: Stage, *, most: int) -> Sequence[DeadLetter]:
    """The oldest. They go back with the channel, unacknowledged. Raises the driver's errors."""
    letters: list[DeadLetter] = []
    async with connection.channel(publisher_confirms=False) as channel:
        queue = await channel.get_queue(DEAD_QUEUE[stage])
        while len(letters) < most and (message := await queue.get(no_ack=False, fail=False)) is not None:
            letters.append(DeadLetter(stage=stage, reason=_reason(message.headers), body=message.body))
    return letters


async def drop(connection: AbstractConnection, stage: Stage) -> int:
    """Empty it; how many it held. Raises the driver's errors."""
    async with connection.channel(publisher_confirms=False) as channel:
        queue = await channel.get_queue(DEAD_QUEUE[stage])
        return (await queue.purge()).message_count or 0


def _reason(headers: Mapping[str, Any]) -> str:
    return str(headers.get(REASON_HEADER, "no reason given"))
