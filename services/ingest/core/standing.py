"""What waits, as the record shows it now and then: for people, for a stage, for nobody any more. Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

Labels = tuple[str, ...]


class What(StrEnum):
    """What was found, by the word that the record's query has for it."""

    DRAFT = "draft"  # by business
    APPROVAL = "approval"  # by business
    HANDOFF = "handoff"  # by business, claimed or not
    OWED = "owed"  # by stage: overdue
    DEAD = "dead"  # by stage: nobody settled it
    ACCOUNT = "account"  # by channel and state


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Some of one kind: how many, and how old the oldest is in seconds."""

    what: What
    labels: Labels
    number: int
    oldest_s: float = 0.0


def summed(found: Iterable[Found], bounded: Callable[[Found], Labels]) -> Mapping[tuple[What, Labels], Found]:
    """One for each kind and labels: what `bounded` gives the same labels is counted together."""
    sums: dict[tuple[What, Labels], Found] = {}
    for one in found:
        key = one.what, bounded(one)
        before = sums.get(key)
        sums[key] = Found(
            what=one.what,
            labels=key[1],
            number=one.number + (before.number if before else 0),
            oldest_s=max(one.oldest_s, before.oldest_s if before else 0.0, 0.0),
        )
    return sums
