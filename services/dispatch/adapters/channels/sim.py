"""The sim channel: deliveries are rows, one a key, where the demo, the simulator and tests read them.

Like real providers it has test numbers: one that ends in 000099 can't be reached, and sends to it are refused.
"""

from collections.abc import Sequence

from services.dispatch.adapters.postgres_outbox import PostgresOutbox
from services.dispatch.core.outcome import Accepted, NoAnswer, Outcome, Refused
from services.dispatch.ports import Address, Claimed, Courtesy, Probed
from shared.errors import Unavailable
from shared.work.batches import Batcher

DELIVERIES_MOST = 100
UNREACHABLE_ENDING = "000099"

Delivery = tuple[str, Claimed, str, str | None]


class SimChannel:
    """`run` must run beside it."""

    def __init__(self, outbox: PostgresOutbox) -> None:
        self._outbox = outbox
        self._deliveries: Batcher[Delivery, None] = Batcher(self._deliver, most=DELIVERIES_MOST)

    async def run(self) -> None:
        await self._deliveries.run()

    async def send(self, claimed: Claimed, *, key: str) -> Outcome:
        if claimed.user_id.endswith(UNREACHABLE_ENDING):
            return Refused(reason="number can't be reached")
        buttons = claimed.buttons if claimed.last_part else None
        try:
            await self._deliveries.submit((key, claimed, claimed.parts[claimed.part - 1], buttons))
        except Unavailable as error:
            return NoAnswer(reason=str(error))
        return Accepted(provider_id=f"sim_{claimed.attempt.hex}")

    async def courtesy(self, courtesy: Courtesy) -> None:
        """A telephone of rows has no use for them."""

    async def probe(self, address: Address) -> Probed:
        return Probed(works=True, said="a simulated telephone line needs nothing")

    async def close(self) -> None:
        """Nothing is held."""

    async def _deliver(self, deliveries: Sequence[Delivery]) -> Sequence[None]:
        await self._outbox.deliver_sim(deliveries)
        return [None] * len(deliveries)
