"""What is read from the record now and then: who waits for people, what is overdue, what lies among the dead."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from shared.clock import Clock
from shared.telemetry.metrics.declared import Declared, looked
from shared.telemetry.metrics.labels import ACCOUNT_STATE, BUSINESS, CHANNEL, CLAIMED, STEP

DRAFTS: Final = looked("leeway_drafts_waiting", "Drafts that wait for an operator.", BUSINESS, unit="drafts")
OLDEST_DRAFT: Final = looked(
    "leeway_drafts_oldest_seconds", "Age of the oldest draft that waits.", BUSINESS, unit="seconds"
)
APPROVALS: Final = looked(
    "leeway_approvals_waiting", "Actions that wait for an operator's approval.", BUSINESS, unit="actions"
)
OLDEST_APPROVAL: Final = looked(
    "leeway_approvals_oldest_seconds",
    "How long the oldest of them has waited for it.",
    BUSINESS,
    unit="seconds",
)
HANDOFFS: Final = looked(
    "leeway_handoffs_open",
    "Conversations in people's hands, claimed by one or not.",
    BUSINESS,
    CLAIMED,
    unit="conversations",
)
OLDEST_HANDOFF: Final = looked(
    "leeway_handoffs_oldest_seconds", "Age of the oldest of them.", BUSINESS, CLAIMED, unit="seconds"
)
OWED_AGE: Final = looked(
    "leeway_owed_seconds",
    "For how long the oldest step has been due that nobody took up; 0: none has for two seconds.",
    STEP,
    unit="seconds",
)
OWED: Final = looked(
    "leeway_owed",
    "Steps that have been due for two seconds and that nobody took up, counted up to 10,000.",
    STEP,
    unit="steps",
)
DEAD: Final = looked(
    "leeway_dead_unsettled", "Failed work that nobody settled, counted up to 10,000.", STEP, unit="items"
)
ACCOUNTS: Final = looked(
    "leeway_channel_accounts",
    "Channel accounts; disabled: switched off because their provider refused every send, or by a person.",
    CHANNEL,
    ACCOUNT_STATE,
    unit="accounts",
)
LOOKED_AT: Final = looked(
    "leeway_looked_timestamp_seconds",
    "When this was last read from the record. What is older than a minute is not shown.",
    unit="seconds since 1970",
)

LOOKED: Final = (
    DRAFTS, OLDEST_DRAFT, APPROVALS, OLDEST_APPROVAL, HANDOFFS, OLDEST_HANDOFF, OWED_AGE, OWED, DEAD, ACCOUNTS, LOOKED_AT,
)  # fmt: skip

FRESH_FOR_S: Final = 60.0

Values = Mapping[Declared, Mapping[tuple[str, ...], float]]


class Looked(Collector):
    """Shows the last look as it was: what is no longer there is gone. What is older than a minute is not shown as if it were
    fresh; when that look was is shown for good."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._values: Values = {}
        self._at: tuple[float, float] | None = None  # since 1970, and on the clock that never goes back

    def show(self, values: Values) -> None:
        """A value for each metric and its labels' values."""
        self._values = values
        self._at = self._clock.now().timestamp(), self._clock.monotonic()

    def describe(self) -> Iterable[GaugeMetricFamily]:
        return [_family(declared, {}) for declared in LOOKED]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        if self._at is None:
            return
        since_1970, at = self._at
        yield _family(LOOKED_AT, {(): since_1970})
        if self._clock.monotonic() - at > FRESH_FOR_S:
            return
        for declared, values in self._values.items():
            yield _family(declared, values)


def _family(declared: Declared, values: Mapping[tuple[str, ...], float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(declared.name, declared.meaning, labels=declared.label_names)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family
