"""A conversation's row, as the desk sees it under its lock."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What is known of, owed to and allowed for one customer, as far as a person's decision asks."""

    unguarded: int
    customer_seq: int
    in_handoff: bool
    epoch: int
    opted_out: bool
