"""Dramatiq on RabbitMQ with a psycopg pool: two processes of eight threads, its defaults on two cores.

As its documentation advises: delivery confirmed by the broker, the default middleware, one pool a process. It
acknowledges after the actor returned. Started by Dramatiq's own command line.
"""

from collections.abc import Mapping, Sequence

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from psycopg_pool import ConnectionPool

from tests.bench.job import BODY, SEEN_SCHEMA, STAGES, JobSettings, queue_of
from tests.bench.loader import Envelope
from tests.bench.marks import LAST_STAGE, MarkWriter

PROCESSES = 2
THREADS = 8
SEEN_SQL = "INSERT INTO seen (stage, number) VALUES (%s, %s) ON CONFLICT DO NOTHING RETURNING true"


class PoolMiddleware(dramatiq.Middleware):
    """Opens the pool once the worker process has forked."""

    def __init__(self, job: JobSettings) -> None:
        self.pool = ConnectionPool(
            job.database_url,
            min_size=THREADS,
            max_size=THREADS,
            open=False,
            kwargs={"autocommit": True, "options": f"-c search_path={job.run}"},
        )

    def after_process_boot(self, broker: dramatiq.Broker) -> None:
        """Opens it."""
        self.pool.open(wait=True)


def make_broker() -> RabbitmqBroker:
    """The broker with its four actors, for the `dramatiq` command."""
    job = JobSettings.told()
    broker = RabbitmqBroker(url=job.amqp_url, confirm_delivery=True)
    holder = PoolMiddleware(job)
    broker.add_middleware(holder)
    marks = MarkWriter(job.marks)
    actors: dict[int, dramatiq.Actor[[int, str], None]] = {}

    def add(stage: int) -> None:
        @dramatiq.actor(
            broker=broker, queue_name=queue_of(job.run, stage), actor_name=f"stage{stage}", max_retries=3
        )
        def handle(number: int, body: str) -> None:
            with holder.pool.connection() as connection:
                fresh = connection.execute(SEEN_SQL, (stage, number)).fetchone()
            marks.mark(stage, [number])
            if fresh is not None and stage < LAST_STAGE:
                actors[stage + 1].send(number, body)

        actors[stage] = handle

    for stage in STAGES:
        add(stage)
    dramatiq.set_broker(broker)
    return broker


class DramatiqForm:
    """Dramatiq as a `ChainForm`."""

    name = "Dramatiq"
    schema_sql = SEEN_SCHEMA
    consumers_per_queue = PROCESSES
    packs = False
    queue_arguments: Mapping[str, str] | None = None

    def commands(self) -> Sequence[Sequence[str]]:
        """Dramatiq's own command, which forks the workers."""
        sizes = ["--processes", str(PROCESSES), "--threads", str(THREADS)]
        return [["-m", "dramatiq", *sizes, f"{__name__}:make_broker"]]

    def envelopes(self, run: str, numbers: Sequence[int]) -> list[Envelope]:
        """What `actor.send` would publish."""
        queue = queue_of(run, STAGES.start)
        name = f"stage{STAGES.start}"
        return [
            Envelope(
                queue,
                dramatiq.Message(queue, name, args=(number, BODY), kwargs={}, options={}).encode(),
                (number,),
            )
            for number in numbers
        ]

    def leftovers(self, run: str) -> tuple[list[str], list[str]]:
        """The queues, with the delayed and the dead one that Dramatiq declares beside each."""
        queues = [queue_of(run, stage) for stage in STAGES]
        return [f"{queue}{ending}" for queue in queues for ending in ("", ".DQ", ".XQ")], []
