"""The broker as the stages see it. Two implementations pass one behaviour suite: RabbitMQ, and in-process.

What a broker promises: a packet published without NotPublished is delivered at least once, to one consumer at
a time, until it is acknowledged. What nobody may rely on: order, delivery counts, delays, or that a packet
survives the loss of the broker's disk. The row owes the work in every case.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from shared.tickets import Packet, Stage


class Seen(StrEnum):
    """What became of packets, for whoever counts them."""

    PUBLISHED = "published"
    NOT_PUBLISHED = "not_published"  # of these, or of some that were published beside them
    TAKEN = "taken"
    DEAD = "dead"  # nobody could read it


Tally = Callable[[Stage, Seen, int], None]


def untold(_stage: Stage, _seen: Seen, _packets: int) -> None:
    """A tally that nobody keeps."""


class Delivery(Protocol):
    """One packet in hand, unacknowledged."""

    @property
    def packet(self) -> Packet: ...

    @property
    def redelivered(self) -> bool:
        """Whether somebody had it and did not acknowledge it: the only sign of a ticket that kills."""
        ...

    @property
    def note(self) -> object:
        """What its publisher sent beside it, as it came: anything, or None. No work may depend on it."""
        ...

    async def ack(self) -> None:
        """Acknowledge this packet by itself. A lost channel is no error: the packet comes again."""
        ...


class Consumer(Protocol):
    """A subscription to one stage's queue. At most `prefetch` packets are in hand and unacknowledged."""

    @property
    def attached(self) -> bool:
        """Whether the broker would deliver to us now; False while the connection or the consumer is lost."""
        ...

    async def take(self, *, most: int) -> Sequence[Delivery]:
        """Wait for a packet, then return what is at hand, of at most `most` tickets (but always one packet).

        Unreadable messages never come out of here: the consumer moved them to the stage's queue of the dead.
        Survives a lost broker: it goes on waiting until the connection is back.
        """
        ...

    async def let_go(self) -> None:
        """Give everything in hand back to the broker; no more comes until `take` is called."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message that no consumer could read, as it lies in a queue of the dead."""

    stage: Stage
    reason: str
    body: bytes


class Broker(Protocol):
    """A connection to the broker (two where it has connections: one publishes, one consumes)."""

    async def publish(self, stage: Stage, packets: Sequence[Packet], *, notes: Sequence[str] = ()) -> None:
        """Publish persistently, all at once, and wait for every confirm. `notes`: one to go beside each packet, or none.

        Raises NotPublished when one was unroutable, refused, or not confirmed in time; others may be there.
        """
        ...

    def consume(self, stage: Stage, *, prefetch: int) -> AbstractAsyncContextManager[Consumer]:
        """A subscription as long as the context; leaving it gives back what is not acknowledged."""
        ...

    async def ready(self, stage: Stage) -> int:
        """How many packets wait in the stage's queue, undelivered. Raises Unavailable."""
        ...

    async def dead_letters(self, stage: Stage, *, most: int) -> Sequence[DeadLetter]:
        """The oldest messages in the stage's queue of the dead, which stay there."""
        ...

    async def drop_dead_letters(self, stage: Stage) -> int:
        """Empty the stage's queue of the dead; how many it held."""
        ...

    async def rebuild(self) -> None:
        """Delete and declare every work queue (not the dead): for queues that exist with other arguments."""
        ...

    async def close(self) -> None: ...
