"""What tickets tell of their traces, between who finds out and who packs or works them. Of what is too much the oldest goes."""

from collections import OrderedDict
from uuid import UUID

from shared.telemetry.traces.context import TraceContext
from shared.tickets import Stage

KEPT_MAX = 10_000


class Carried:
    """Contexts by stage and ticket, each taken once."""

    def __init__(self, *, most: int = KEPT_MAX) -> None:
        self._most = most
        self._contexts: OrderedDict[tuple[Stage, UUID], TraceContext] = OrderedDict()

    def put(self, stage: Stage, ticket: UUID, context: TraceContext | None) -> None:
        if context is None:
            return
        self._contexts[stage, ticket] = context
        self._contexts.move_to_end((stage, ticket))
        if len(self._contexts) > self._most:
            self._contexts.popitem(last=False)

    def take(self, stage: Stage, ticket: UUID) -> TraceContext | None:
        return self._contexts.pop((stage, ticket), None)

    def __len__(self) -> int:
        return len(self._contexts)
