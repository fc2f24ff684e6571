"""One run: servers, a stack, customers, faults; then the accounts."""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.chaos.accounts import problems
from tests.chaos.customers import deliver_all, write
from tests.chaos.faults import Faults
from tests.support.servers import Servers
from tests.support.stack import ECHO, OWED, Stack, stack_on


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much, for how long, and by which seed."""

    seed: int
    messages: int
    conversations: int
    seconds: float  # over which customers write and things break
    pause_s: float  # between faults, at most
    settle_s: float  # how long everything may take to come to rest afterwards


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    plan: Plan
    problems: list[str]
    figures: Mapping[str, int | float | str] = field(default_factory=dict)

    def __str__(self) -> str:
        width = max(len(name) for name in self.figures)
        lines = [f"  {name:{width}}  {value}" for name, value in self.figures.items()]
        verdict = [f"  ✗ {problem}" for problem in self.problems[:20]] or ["  every message is accounted for"]
        return "\n".join([f"chaos, seed {self.plan.seed}", *lines, *verdict])


async def chaos(plan: Plan, servers: Servers) -> Report:
    """Run the plan on servers that belong to it alone."""
    chance = random.Random(plan.seed)
    database_url = await servers.postgres.create_database()
    amqp_url = await servers.rabbitmq.create_vhost()
    try:
        async with stack_on(database_url, amqp_url, LEEWAY_LOG_LEVEL="warning") as stack:
            return await _run(plan, servers, stack, chance)
    finally:
        await servers.postgres.restore()
        await servers.rabbitmq.restore()
        await servers.postgres.drop_database(database_url)
        await servers.rabbitmq.delete_vhost(amqp_url)


async def _run(plan: Plan, servers: Servers, stack: Stack, chance: random.Random) -> Report:
    clock = asyncio.get_running_loop().time
    shop = await stack.shop(window_ms=100)
    for _ in range(2):
        stack.make("agent", module=ECHO, LEEWAY_TEST_LATENCY_S="0.1")
    await stack.start(agents=2)
    faults = Faults(stack, servers, chance, plan.pause_s)
    script = write(
        messages=plan.messages, conversations=plan.conversations, seconds=plan.seconds, chance=chance
    )
    supervising = asyncio.create_task(faults.supervise())
    began = clock()
    try:
        async with asyncio.TaskGroup() as running:
            delivering = running.create_task(
                deliver_all(stack, shop, script, within_s=plan.seconds + plan.settle_s)
            )
            running.create_task(faults.run(seconds=plan.seconds * 0.9))
        ended = clock()
        settled = await _settles(stack, within_s=plan.settle_s)
        settled_s = clock() - ended
    finally:
        supervising.cancel()
    found, counted = await problems(stack, script)
    if not settled:
        found.append(await stack.evidence())
    figures = {
        "seconds of faults and messages": round(ended - began, 1),
        "seconds until nothing was owed": round(settled_s, 1),
        "requests": delivering.result(),
        "requests of replies": stack.receiver.requests.total(),
        **counted,
        "faults": faults.done.total(),
        **dict(sorted(faults.done.items())),
    }
    return Report(plan=plan, problems=found, figures=figures)


async def _settles(stack: Stack, *, within_s: float) -> bool:
    clock = asyncio.get_running_loop().time
    until = clock() + within_s
    while clock() < until:
        if (await stack.ask(OWED))[0][0] == 0:
            return True
        await asyncio.sleep(0.25)
    return False
