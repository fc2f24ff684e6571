"""What a message leaves behind in PostgreSQL: bytes on disk and of the write-ahead log, by kind of message.

``python -m tests.bench.disk [PEOPLE]``: so many people write each text twice, to the real services with the rule-based model.
Everything that a message brings about is counted: the raw webhook, the turn, its model calls and tools, the reply, the evidence.
"""

import asyncio
import sys
from dataclasses import dataclass

from shared.ids import new_id
from tests.support.servers import Servers, private_servers
from tests.support.stack import Shop, Stack, stack_on

PEOPLE = 2_000
AT_ONCE = 40
TEXTS = {
    "a greeting": "hello",
    "a question that a tool answers": "Is a cleaning free tomorrow?",
    "a request to book, and the question for a yes": "Book a cleaning tomorrow at 10",
}
SIZE = "select pg_database_size(current_database()) as disk, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8 as log"


@dataclass(frozen=True, slots=True)
class Left:
    """Bytes a message."""

    disk: float
    log: float


async def left_by(stack: Stack, shop: Shop, people: list[str], text: str) -> Left:
    """One message of each."""
    before = (await stack.ask(SIZE))[0]
    at_once = asyncio.Semaphore(AT_ONCE)

    async def write(person: str) -> None:
        async with at_once:
            await stack.deliver(shop, "generic", person, text)

    async with asyncio.TaskGroup() as writing:
        for person in people:
            writing.create_task(write(person))
    await stack.settled(within_s=600)
    await stack.ask("vacuum analyze")
    after = (await stack.ask(SIZE))[0]
    return Left((after["disk"] - before["disk"]) / len(people), (after["log"] - before["log"]) / len(people))


async def main(count: int) -> None:
    async with private_servers(durable=True) as servers:
        await measure(servers, count)


async def measure(servers: Servers, count: int) -> None:
    for what, text in TEXTS.items():
        database_url = await servers.postgres.create_database(migrated=False)
        amqp_url = await servers.rabbitmq.create_vhost()
        async with stack_on(database_url, amqp_url) as stack:
            shop = await stack.shop(window_ms=0)
            await stack.start()
            people = [f"generic-{new_id().hex}" for _ in range(count)]
            for which in ("first", "second"):
                left = await left_by(stack, shop, people, text)
                sys.stdout.write(
                    f"{what}, the {which} of each person: {left.disk / 1000:.1f} KB on disk, {left.log / 1000:.1f} KB of log\n"
                )


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else PEOPLE))
