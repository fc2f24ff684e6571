"""The bare floor: four stages that do the durable work of a message, and nothing that decides.

A packet holds all tickets of a committed batch and is published once, confirmed and persistent, to a durable
quorum queue; stock aio-pika; four processes, one a stage. A stage's full job is a deduplication row, a state
row and an outbox row with the body of some 500 bytes, written by one statement over arrays in one round trip.
The worker is `floor_stage.py`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import UUID

import msgspec
from uuid_utils import compat

from tests.bench.job import BODY, STAGES, queue_of
from tests.bench.loader import Envelope

TICKETS_MAX = 100
"""A packet, and a batch, hold at most this many tickets."""


class Ticket(msgspec.Struct, frozen=True):
    """One message on its way: its number for the bench, its id for the tables."""

    number: int
    message: UUID
    body: str


class Packet(msgspec.Struct, frozen=True):
    """The tickets of one committed batch."""

    tickets: list[Ticket]


class FloorForm:
    """The floor as a `ChainForm`. The loader packs too, as an ingest that groups its requests would."""

    name = "bare floor"
    schema_sql = Path(__file__).with_name("floor_schema.sql").read_text()
    consumers_per_queue = 1
    packs = True
    queue_arguments: Mapping[str, str] | None = {"x-queue-type": "quorum"}

    def commands(self) -> Sequence[Sequence[str]]:
        """One process a stage."""
        return [["-m", "tests.bench.floor_stage", str(stage)] for stage in STAGES]

    def envelopes(self, run: str, numbers: Sequence[int]) -> list[Envelope]:
        """As few packets as hold them."""
        return [
            self._packet(run, numbers[start : start + TICKETS_MAX])
            for start in range(0, len(numbers), TICKETS_MAX)
        ]

    def leftovers(self, run: str) -> tuple[list[str], list[str]]:
        """The four queues."""
        return [queue_of(run, stage) for stage in STAGES], []

    def _packet(self, run: str, numbers: Sequence[int]) -> Envelope:
        packet = Packet([Ticket(number, compat.uuid7(), BODY) for number in numbers])
        return Envelope(queue_of(run, STAGES.start), msgspec.json.encode(packet), tuple(numbers))
