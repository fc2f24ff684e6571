"""Tickets for what the desk decided, where a broker is at hand."""

from collections.abc import Sequence
from uuid import UUID

from shared.broker.port import Broker
from shared.tickets import Stage
from shared.work.stage import ring


class BrokerRings:
    """services.console.ports.Rings over a broker. One that is away costs seconds, not the work."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def __call__(self, stage: Stage, ids: Sequence[UUID]) -> None:
        await ring(self._broker, stage, ids)
