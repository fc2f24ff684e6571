"""One stage of the floor: `python -m tests.bench.floor_stage STAGE`, told the rest by its environment.

Natural batching: whatever arrived while the last batch was under way is the next one; one batch in flight.
"""

import argparse
import asyncio
from collections import deque
from pathlib import Path

import aio_pika
import asyncpg
import msgspec
from aio_pika.abc import AbstractIncomingMessage

from tests.bench.floor import TICKETS_MAX, Packet, Ticket
from tests.bench.job import JobSettings, queue_of
from tests.bench.marks import LAST_STAGE, MarkWriter

PREFETCH_PACKETS = 32
CONFIRM_SECONDS = 10.0
RECORD_SQL = Path(__file__).with_name("floor.sql").read_text()


class Inbox:
    """Packets delivered and not yet worked on."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[AbstractIncomingMessage, list[Ticket]]] = deque()
        self._arrived = asyncio.Event()
        self._decoder = msgspec.json.Decoder(Packet)

    async def put(self, delivery: AbstractIncomingMessage) -> None:
        """Takes a delivery in."""
        self._waiting.append((delivery, self._decoder.decode(delivery.body).tickets))
        self._arrived.set()

    async def batch(self) -> tuple[list[AbstractIncomingMessage], list[Ticket]]:
        """Whole packets, at least one, together at most 100 tickets when that is more than one packet."""
        await self._arrived.wait()
        deliveries: list[AbstractIncomingMessage] = []
        tickets: list[Ticket] = []
        while self._waiting and (not deliveries or len(tickets) + len(self._waiting[0][1]) <= TICKETS_MAX):
            delivery, held = self._waiting.popleft()
            deliveries.append(delivery)
            tickets.extend(held)
        if not self._waiting:
            self._arrived.clear()
        return deliveries, tickets


async def work(stage: int, job: JobSettings) -> None:
    """Consumes until it is told to end."""
    database = await asyncpg.connect(job.database_url, server_settings={"search_path": job.run})
    record = await database.prepare(RECORD_SQL)
    connection = await aio_pika.connect(job.amqp_url)
    consuming = await connection.channel()
    publishing = await connection.channel(publisher_confirms=True, on_return_raises=True)
    await consuming.set_qos(prefetch_count=PREFETCH_PACKETS)
    queue = await consuming.get_queue(queue_of(job.run, stage))
    marks, inbox = MarkWriter(job.marks), Inbox()
    await queue.consume(inbox.put)
    while True:
        deliveries, tickets = await inbox.batch()
        arrived = {ticket.message: ticket for ticket in tickets}
        bodies = [ticket.body for ticket in arrived.values()]
        rows = await record.fetch(stage, list(arrived), bodies)
        fresh = {arrived[row["message"]].number for row in rows}
        marks.mark(stage, fresh)
        if stage < LAST_STAGE and fresh:
            packet = Packet([ticket for ticket in tickets if ticket.number in fresh])
            await publishing.default_exchange.publish(
                aio_pika.Message(msgspec.json.encode(packet), delivery_mode=aio_pika.DeliveryMode.PERSISTENT),
                routing_key=queue_of(job.run, stage + 1),
                timeout=CONFIRM_SECONDS,
            )
        for delivery in deliveries:
            await delivery.ack()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stage", type=int)
    asyncio.run(work(parser.parse_args().stage, JobSettings.told()))


if __name__ == "__main__":
    main()
