"""Spans as the stages tell them. This process tells none: nobody asked for traces, and each call here costs next to nothing."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from uuid import UUID

from shared.telemetry.traces.context import TraceContext
from shared.tickets import Stage

Value = str | bool | int | float | Sequence[str]
Attributes = Mapping[str, Value]


class SpanKind(StrEnum):
    """OpenTelemetry's kinds."""

    SERVER = "server"  # somebody's request
    CLIENT = "client"  # a request of ours
    CONSUMER = "consumer"  # a ticket's work
    INTERNAL = "internal"


class Span:
    """One that is not told."""

    def set(self, attributes: Attributes) -> None:
        """Add what became known. Never words, names or numbers of people."""

    def failed(self, kind: str) -> None:
        """It ended in an error of that kind, which is a word of ours or the name of a class."""


class Traces:
    """What a process tells of its work."""

    on: bool = False

    def now(self) -> int:
        """Nanoseconds since 1970, for `past`."""
        return 0

    def span(
        self,
        name: str,
        kind: SpanKind,
        *,
        at: TraceContext | None = None,
        under: TraceContext | None = None,
        links: Sequence[TraceContext] = (),
        attributes: Attributes | None = None,
    ) -> AbstractContextManager[Span]:
        """What happens inside, with whatever is told in there below it.

        `at`: its own place, where that follows from ids. `under`: its parent; without both it stands below the span that is open.
        An exception that leaves it is told by its class alone.
        """
        return _NOTHING

    def past(
        self,
        name: str,
        kind: SpanKind,
        *,
        began: int,
        at: TraceContext | None = None,
        under: TraceContext | None = None,
        links: Sequence[TraceContext] = (),
        attributes: Attributes | None = None,
    ) -> None:
        """The same for what is over now, and began then."""

    def place(self, cause: UUID, subject: UUID, work: str) -> TraceContext | None:
        """Where the span of that work stands in the trace of `cause`; None where no traces are told."""
        return None

    def here(self) -> TraceContext | None:
        """The span that is open."""
        return None

    def leave(self, stage: Stage, ticket: UUID, context: TraceContext | None) -> None:
        """Let the next packet with that ticket tell the stage where it comes from."""

    def inject(self, stage: Stage, tickets: Sequence[UUID]) -> str:
        """The header of a packet of these tickets: what was left for them, which is then gone."""
        return ""

    def extract(self, stage: Stage, tickets: Sequence[UUID], header: object) -> None:
        """Keep what a packet's header tells of its tickets. Anything unreadable is passed over."""

    def found(self, stage: Stage, ticket: UUID) -> TraceContext | None:
        """What the last packet with that ticket told, once."""
        return None

    async def close(self) -> None:
        """Let go of what is told within seconds, and be done."""


_NOTHING: AbstractContextManager[Span] = nullcontext(Span())
UNTOLD = Traces()
