"""The only place that knows the system clock. Shells ask it once per message; cores are handed the answer."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The instant, with zone UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; only differences mean anything."""
        ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251  this module is the one place that may

    def monotonic(self) -> float:
        return time.monotonic()
