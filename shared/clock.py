"""The only place that knows the system clock. Shells ask it once per message; cores are handed the answer."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The instant, with zone UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; only differences mean anything."""
        ...


@dataclass(slots=True)
class Shift:
    """By how much business time is moved: only a simulation or a test has one, and it may change as that goes on."""

    by: timedelta = timedelta()


class SystemClock:
    """The system's clock; with a shift, business time as the simulation has it."""

    def __init__(self, shift: Shift | None = None) -> None:
        self._shift = shift or Shift()

    def now(self) -> datetime:
        return datetime.now(UTC) + self._shift.by  # noqa: TID251  the one reading of the system clock; all else is given a Clock

    def monotonic(self) -> float:
        return time.monotonic()
