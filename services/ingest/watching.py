"""Looks now and then what waits, and shows it as gauges."""

from collections.abc import Mapping
from typing import Final

from services.ingest.core.standing import Found, Labels, What, summed
from services.ingest.ports import Standing
from shared.clock import Clock
from shared.telemetry.metrics import Metrics
from shared.telemetry.metrics.declared import Declared
from shared.telemetry.metrics.looking import (
    ACCOUNTS,
    APPROVALS,
    DEAD,
    DRAFTS,
    HANDOFFS,
    OLDEST_APPROVAL,
    OLDEST_DRAFT,
    OLDEST_HANDOFF,
    OWED,
    OWED_AGE,
    Looked,
)

# How many there are of what was found, and how old the oldest is
SHOWN: Final[Mapping[What, tuple[Declared, Declared | None]]] = {
    What.DRAFT: (DRAFTS, OLDEST_DRAFT),
    What.APPROVAL: (APPROVALS, OLDEST_APPROVAL),
    What.HANDOFF: (HANDOFFS, OLDEST_HANDOFF),
    What.OWED: (OWED, OWED_AGE),
    What.DEAD: (DEAD, None),
    What.ACCOUNT: (ACCOUNTS, None),
}
# Of these every label value is known, and one with nothing is shown as 0.
ALWAYS: Final = (What.OWED, What.DEAD)


class Watching:
    """`look` must be run again and again. What it found last is shown, for as long as it is fresh."""

    def __init__(self, *, standing: Standing, metrics: Metrics, clock: Clock) -> None:
        self._standing = standing
        self._metrics = metrics
        self._clock = clock
        self._looked = Looked(clock)
        metrics.registry.register(self._looked)

    async def look(self) -> None:
        """Raises Unavailable; what was shown before stays until it is too old."""
        found = [*_nothing(), *await self._standing.look()]
        values: dict[Declared, dict[Labels, float]] = {}
        for one in summed(found, self._bounded).values():
            number, age = SHOWN[one.what]
            values.setdefault(number, {})[one.labels] = one.number
            if age is not None:
                values.setdefault(age, {})[one.labels] = one.oldest_s
        self._looked.show(values)

    def _bounded(self, found: Found) -> Labels:
        number, _ = SHOWN[found.what]
        return tuple(map(self._metrics.bounded, number.labels, found.labels))


def _nothing() -> list[Found]:
    return [
        Found(what=what, labels=(value,), number=0)
        for what in ALWAYS
        for label in SHOWN[what][0].labels
        for value in label.values or ()
    ]
