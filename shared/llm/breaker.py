"""A circuit breaker around a model: when the provider is away, calls fail at once instead of each waiting in vain.

`Circuit` decides by value; `GuardedModel` is the shell, and fits the port. One of them a model and process.
"""

from dataclasses import dataclass, replace
from decimal import Decimal

import structlog

from shared.clock import Clock
from shared.llm.costs import Reasons, price_source
from shared.llm.port import Answer, FailureKind, Model, ModelFailure, Request, Usage

FAILURES_MAX = 5  # in a row
COOL_DOWN_S = 5.0  # the first time; doubled each time the trial fails
COOL_DOWN_MAX_S = 120.0
FAIR_TIMEOUT_S = 5.0  # a call that was given less says nothing about the provider by being too late

AWAY = frozenset({FailureKind.CONNECTION, FailureKind.SERVER, FailureKind.TIMEOUT, FailureKind.AUTH})
"""What says that the next call would fare no better. The other kinds come from a provider that is there."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """What the calls so far say. Closed while `until` is None; times in seconds of a monotonic clock."""

    failures: int = 0  # in a row
    trips: int = 0  # in a row, without an answer in between
    until: float | None = None  # no call before it
    trying: bool = False  # the one call after it is under way

    def wait_s(self, now: float) -> float | None:
        """How long no call may be made; None if one may be made now."""
        if self.until is None or (now >= self.until and not self.trying):
            return None
        return max(0.0, self.until - now)

    def called(self) -> "Circuit":
        """A call is being made, which `wait_s` allowed."""
        return replace(self, trying=self.until is not None)

    def answered(self) -> "Circuit":
        """The provider is there, whatever it said."""
        return Circuit()

    def failed(self, now: float, *, trial: bool) -> "Circuit":
        """The provider seems away. Calls that were under way when the circuit opened don't prolong it."""
        if self.until is not None and not trial:
            return self
        failures = self.failures + 1
        if failures < FAILURES_MAX:
            return replace(self, failures=failures)
        cool_down_s = min(COOL_DOWN_S * 2**self.trips, COOL_DOWN_MAX_S)
        return Circuit(failures=failures, trips=min(self.trips + 1, 10), until=now + cool_down_s)

    def undecided(self, *, trial: bool) -> "Circuit":
        """A call ended without telling anything, cancelled for example."""
        return replace(self, trying=False) if trial else self


class GuardedModel:
    """A model whose calls fail fast, as FailureKind.OPEN, while its provider is away. Closes it, too."""

    def __init__(self, model: Model, *, clock: Clock) -> None:
        self._model = model
        self._clock = clock
        self._circuit = Circuit()

    def __repr__(self) -> str:
        return f"GuardedModel({self._model!r})"

    @property
    def provider(self) -> str:
        return self._model.provider

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def reasoning_room(self) -> int:
        return self._model.reasoning_room if isinstance(self._model, Reasons) else 0

    async def complete(self, request: Request, *, timeout_s: float) -> Answer:
        """One attempt, or none while the circuit is open. Raises ModelFailure, as the model does."""
        wait_s = self._circuit.wait_s(self._clock.monotonic())
        if wait_s is not None:
            detail = f"not called: {self._circuit.failures} failures in a row, next try in {wait_s:.0f} s"
            raise ModelFailure(FailureKind.OPEN, detail, retry_after_s=wait_s, model=self.name)
        trial = self._circuit.until is not None
        self._circuit = self._circuit.called()
        try:
            answer = await self._model.complete(request, timeout_s=timeout_s)
        except ModelFailure as failure:
            self._heard(failure, trial=trial, fair=timeout_s >= FAIR_TIMEOUT_S)
            raise
        except BaseException:
            self._circuit = self._circuit.undecided(trial=trial)
            raise
        self._circuit = self._circuit.answered()
        return answer

    def price(self, usage: Usage, *, model: str) -> Decimal | None:
        return self._model.price(usage, model=model)

    def price_source(self, *, model: str) -> str | None:
        return price_source(self._model, answered=model)

    async def close(self) -> None:
        await self._model.close()

    def _heard(self, failure: ModelFailure, *, trial: bool, fair: bool) -> None:
        before = self._circuit
        if failure.kind not in AWAY:
            self._circuit = before.answered()
        elif failure.kind is FailureKind.TIMEOUT and not fair:
            self._circuit = before.undecided(trial=trial)
        else:
            self._circuit = before.failed(self._clock.monotonic(), trial=trial)
        if self._circuit.until != before.until and self._circuit.until is not None:
            _log.error("the model is away: not called for a while", model=self.name, kind=failure.kind.value)
