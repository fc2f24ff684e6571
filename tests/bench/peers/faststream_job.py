"""FastStream on RabbitMQ with asyncpg: one worker process, ten messages under way in each queue.

As its documentation advises: the prefetch count as the bound on messages under way, msgspec as the faster
serializer, an acknowledgement after the handler returned. A second worker process (`--workers 2`) and a
higher prefetch count were tried: on two cores, shared with broker and database, both were slower and took
more CPU. Started by FastStream's own command line.
"""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import asyncpg
import msgspec
from fast_depends.msgspec import MsgSpecSerializer
from faststream import AckPolicy, FastStream
from faststream.rabbit import Channel, RabbitBroker, RabbitQueue

from tests.bench.job import BODY, SEEN_SCHEMA, STAGES, JobSettings, queue_of
from tests.bench.loader import Envelope
from tests.bench.marks import MarkWriter

WORKERS = 1
PREFETCH = 10
POOL_SIZE = 10
SEEN_SQL = "INSERT INTO seen (stage, number) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING true"


class Ticket(msgspec.Struct):
    """One message on its way."""

    number: int
    body: str


class Stages:
    """The handlers and what they share."""

    def __init__(self, broker: RabbitBroker, job: JobSettings) -> None:
        self._job = job
        self._broker = broker
        self._marks = MarkWriter(job.marks)
        self._pool: asyncpg.Pool | None = None

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Holds the pool while the worker runs."""
        async with asyncpg.create_pool(
            self._job.database_url,
            min_size=POOL_SIZE,
            max_size=POOL_SIZE,
            server_settings={"search_path": self._job.run},
        ) as self._pool:
            yield

    def add(self, stage: int) -> None:
        """Subscribes the stage, and publishes to the next one."""
        queue = RabbitQueue(queue_of(self._job.run, stage), durable=True)
        following = None
        if stage + 1 in STAGES:
            after = RabbitQueue(queue_of(self._job.run, stage + 1), durable=True)
            following = self._broker.publisher(after, persist=True)

        @self._broker.subscriber(queue, ack_policy=AckPolicy.NACK_ON_ERROR)
        async def handle(ticket: Ticket) -> None:
            assert self._pool is not None, "the lifespan opened it"
            fresh = await self._pool.fetchval(SEEN_SQL, stage, ticket.number)
            self._marks.mark(stage, [ticket.number])
            if fresh and following is not None:
                await following.publish(ticket)


def make_app() -> FastStream:
    """The application, for `faststream run --factory`."""
    job = JobSettings.told()
    broker = RabbitBroker(
        job.amqp_url,
        default_channel=Channel(prefetch_count=PREFETCH, publisher_confirms=True, on_return_raises=True),
        serializer=MsgSpecSerializer(),
        logger=None,
    )
    stages = Stages(broker, job)
    for stage in STAGES:
        stages.add(stage)
    return FastStream(broker, lifespan=stages.lifespan, logger=None)


class FastStreamForm:
    """FastStream as a `ChainForm`."""

    name = "FastStream"
    schema_sql = SEEN_SCHEMA
    consumers_per_queue = WORKERS
    packs = False
    queue_arguments: Mapping[str, str] | None = None

    def commands(self) -> Sequence[Sequence[str]]:
        """FastStream's own command, which starts the workers."""
        app = f"{__name__}:make_app"
        return [["-m", "faststream", "run", "--factory", "--workers", str(WORKERS), app]]

    def envelopes(self, run: str, numbers: Sequence[int]) -> list[Envelope]:
        """One JSON message a ticket."""
        queue = queue_of(run, STAGES.start)
        return [
            Envelope(
                queue,
                msgspec.json.encode(Ticket(number, BODY)),
                (number,),
                properties={"content_type": "application/json", "correlation_id": os.urandom(16).hex()},
            )
            for number in numbers
        ]

    def leftovers(self, run: str) -> tuple[list[str], list[str]]:
        """The four queues."""
        return [queue_of(run, stage) for stage in STAGES], []
