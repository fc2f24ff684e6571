"""Customers who write: in order by their own clocks, delivered late, twice and in another order."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.clock import SystemClock
from tests.support.stack import Shop, Stack

WORDS = [
    "amber",
    "bridge",
    "candle",
    "desert",
    "engine",
    "forest",
    "garden",
    "harbor",
    "island",
    "jacket",
    "kettle",
    "lantern",
    "meadow",
    "needle",
    "orange",
    "pepper",
    "quarry",
    "river",
    "saddle",
    "timber",
    "umbrella",
    "valley",
    "window",
    "yellow",
    "zipper",
    "anchor",
    "basket",
    "copper",
    "dragon",
    "elbow",
    "feather",
    "guitar",
    "hammer",
    "insect",
]
DUPLICATES = 0.15
DELAYED = 0.15
DELAY_MAX_S = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One message: who wrote it, as which of theirs, and when by their own clock."""

    id: str
    sender: str
    text: str
    at: datetime
    starts_s: float  # after the beginning, when it is first delivered
    delay_s: float
    copies: int


def write(*, messages: int, conversations: int, seconds: float, chance: random.Random) -> list[Written]:
    """The whole script, by time. Each conversation is on one channel; its texts are like no other's."""
    begins = SystemClock().now()
    written = []
    for n in range(messages):
        conversation, k = n % conversations, n // conversations
        per_conversation = -(-messages // conversations)
        starts_s = seconds * (k + chance.random() * 0.8) / per_conversation
        channel = ("sim", "generic")[conversation % 2]
        words = " ".join(chance.sample(WORDS, 4))
        delayed = chance.random() < DELAYED
        written.append(
            Written(
                id=f"chaos-{conversation}-{k}",
                sender=f"{channel}-{conversation}",
                text=f"{words} {conversation}x{k}",
                at=begins + timedelta(seconds=starts_s),
                starts_s=starts_s,
                delay_s=chance.uniform(0, DELAY_MAX_S) if delayed else 0.0,
                copies=1 + (chance.random() < DUPLICATES) + (chance.random() < DUPLICATES / 3),
            )
        )
    return sorted(written, key=lambda one: one.starts_s + one.delay_s)


async def deliver_all(stack: Stack, shop: Shop, script: Sequence[Written], *, within_s: float) -> int:
    """As channels do: each again until it is taken, some once more. How many requests that took."""
    began = asyncio.get_running_loop().time()
    requests = 0

    async def deliver(one: Written) -> None:
        nonlocal requests
        for copy in range(one.copies):
            while True:
                requests += 1
                if (
                    await stack.say(
                        shop,
                        one.sender.partition("-")[0],
                        one.sender,
                        one.text,
                        message=one.id,
                        at=one.at.isoformat(),
                    )
                    == 200
                ):
                    break
                await asyncio.sleep(0.3 + copy * 0.1)

    async with asyncio.timeout(within_s), asyncio.TaskGroup() as delivering:
        for one in script:
            await asyncio.sleep(
                max(0.0, began + one.starts_s + one.delay_s - asyncio.get_running_loop().time())
            )
            delivering.create_task(deliver(one))
    return requests
