"""The broker's topology, as data: one exchange, a work queue and a queue of the dead for each stage.

RabbitMQ 3.10 and 4.x differ in their defaults, so everything that matters is said here and nothing else is used.
"""

from typing import Final

from shared.tickets import Stage

EXCHANGE: Final = "leeway"
NOTE_HEADER: Final = (
    "leeway-traces"  # what a publisher sends beside a packet; who does not know it passes it over
)
DELIVERY_LIMIT: Final = 20  # explicit, since the default differs by version; it decides about no message
QUEUE_ARGUMENTS: Final[dict[str, str | int]] = {"x-queue-type": "quorum", "x-delivery-limit": DELIVERY_LIMIT}
# Listing the dead delivers them and gives them back; from 4.0 on, twenty times of that would drop them.
DEAD_DELIVERY_LIMIT: Final = 1_000_000
DEAD_QUEUE_ARGUMENTS: Final[dict[str, str | int]] = {
    "x-queue-type": "quorum",
    "x-delivery-limit": DEAD_DELIVERY_LIMIT,
}

WORK_QUEUE: Final[dict[Stage, str]] = {stage: f"leeway.{stage}" for stage in Stage}
DEAD_QUEUE: Final[dict[Stage, str]] = {stage: f"leeway.dead.{stage}" for stage in Stage}
