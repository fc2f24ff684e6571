"""The broker's topology is data: every stage has its queues, with arguments that say all that matters."""

from shared.tickets import Stage
from shared.topology import (
    DEAD_DELIVERY_LIMIT,
    DEAD_QUEUE,
    DEAD_QUEUE_ARGUMENTS,
    DELIVERY_LIMIT,
    EXCHANGE,
    QUEUE_ARGUMENTS,
    WORK_QUEUE,
)


def test_the_names() -> None:
    assert EXCHANGE == "leeway"
    assert set(WORK_QUEUE.values()) == {"leeway.guard", "leeway.agent", "leeway.dispatch"}
    assert set(DEAD_QUEUE.values()) == {"leeway.dead.guard", "leeway.dead.agent", "leeway.dead.dispatch"}


def test_every_stage_has_a_work_queue_and_one_of_the_dead_and_no_two_share_one() -> None:
    assert set(WORK_QUEUE) == set(DEAD_QUEUE) == set(Stage)
    names = [*WORK_QUEUE.values(), *DEAD_QUEUE.values()]
    assert len(set(names)) == len(names)


def test_work_queues_are_quorum_queues_with_an_explicit_delivery_limit_and_nothing_else() -> None:
    """No dead-letter exchange, no length limit, no expiry: each would drop tickets where nobody sees it."""
    assert QUEUE_ARGUMENTS == {"x-queue-type": "quorum", "x-delivery-limit": DELIVERY_LIMIT}
    assert DELIVERY_LIMIT == 20


def test_queues_of_the_dead_keep_everything() -> None:
    assert DEAD_QUEUE_ARGUMENTS == {"x-queue-type": "quorum", "x-delivery-limit": DEAD_DELIVERY_LIMIT}
    assert DEAD_DELIVERY_LIMIT >= 1_000_000, "listing them must not use them up"
