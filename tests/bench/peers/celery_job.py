"""Celery on RabbitMQ with a psycopg pool: one worker of sixteen threads.

As its documentation advises for many short tasks: a high prefetch multiplier, no results, no events, no
gossip, mingle or remote control; for durability acknowledgements late and `confirm_publish`. Forked processes
(two and four) and eight threads were tried and were slower. Started by this module, since Celery's command
line takes no factory; it is Celery's own worker that runs.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec
from celery import Celery
from kombu import Queue
from psycopg_pool import ConnectionPool

from tests.bench.job import BODY, SEEN_SCHEMA, STAGES, JobSettings, queue_of
from tests.bench.loader import Envelope
from tests.bench.marks import LAST_STAGE, MarkWriter

POOL = "threads"
CONCURRENCY = 16
PREFETCH_MULTIPLIER = 16
SEEN_SQL = "INSERT INTO seen (stage, number) VALUES (%s, %s) ON CONFLICT DO NOTHING RETURNING true"


def make_app(job: JobSettings) -> Celery:
    """The application with its four tasks."""
    app = Celery("bench", broker=job.amqp_url)
    app.conf.update(
        broker_transport_options={"confirm_publish": True},
        broker_pool_limit=CONCURRENCY,
        task_acks_late=True,
        task_ignore_result=True,
        task_default_exchange=job.run,
        task_queues=[
            Queue(queue_of(job.run, stage), routing_key=queue_of(job.run, stage)) for stage in STAGES
        ],
        worker_prefetch_multiplier=PREFETCH_MULTIPLIER,
        worker_disable_rate_limits=True,
        worker_enable_remote_control=False,
        worker_hijack_root_logger=False,
    )
    marks = MarkWriter(job.marks)

    @lru_cache(maxsize=1)
    def pool() -> ConnectionPool:
        """Opened by the first task, after a fork."""
        return ConnectionPool(
            job.database_url,
            min_size=1,
            max_size=CONCURRENCY,
            open=True,
            kwargs={"autocommit": True, "options": f"-c search_path={job.run}"},
        )

    def add(stage: int) -> None:
        @app.task(name=f"stage{stage}")
        def handle(number: int, body: str) -> None:
            with pool().connection() as connection:
                fresh = connection.execute(SEEN_SQL, (stage, number)).fetchone()
            marks.mark(stage, [number])
            if fresh is not None and stage < LAST_STAGE:
                following = app.tasks[f"stage{stage + 1}"]
                following.apply_async((number, body), queue=queue_of(job.run, stage + 1))

    for stage in STAGES:
        add(stage)
    return app


class CeleryForm:
    """Celery as a `ChainForm`."""

    name = "Celery"
    schema_sql = SEEN_SCHEMA
    consumers_per_queue = 1
    packs = False
    queue_arguments: Mapping[str, str] | None = None

    def __init__(self) -> None:
        self._app = Celery("bench")

    def commands(self) -> Sequence[Sequence[str]]:
        """One worker."""
        return [["-m", __name__, "--pool", POOL, "--concurrency", str(CONCURRENCY)]]

    def envelopes(self, run: str, numbers: Sequence[int]) -> list[Envelope]:
        """What `apply_async` would publish."""
        queue = queue_of(run, STAGES.start)
        return [_envelope(self._app, queue, number) for number in numbers]

    def leftovers(self, run: str) -> tuple[list[str], list[str]]:
        """The four queues and the exchange they are bound to."""
        return [queue_of(run, stage) for stage in STAGES], [run]


def _envelope(app: Celery, queue: str, number: int) -> Envelope:
    task_id = os.urandom(16).hex()
    message = app.amqp.as_task_v2(task_id, f"stage{STAGES.start}", (number, BODY), {}, ignore_result=True)
    return Envelope(
        queue,
        msgspec.json.encode(message.body),
        (number,),
        headers={key: value for key, value in message.headers.items() if value is not None},
        properties={
            "content_type": "application/json",
            "content_encoding": "utf-8",
            "correlation_id": task_id,
        },
    )


def main() -> None:
    """The worker's command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pool", required=True)
    parser.add_argument("--concurrency", required=True)
    chosen = parser.parse_args()
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "WARNING"]
    sizes = ["--pool", chosen.pool, "--concurrency", chosen.concurrency]
    make_app(JobSettings.told()).worker_main(["worker", *sizes, *quiet])
    sys.exit(0)


if __name__ == "__main__":
    main()
