"""How the rate grows with agents when all of it is waiting for a model, and what a reply costs beyond it at half load.

Each number of agents works off what keeps all its slots busy for some turns, one after another; the rate is taken between
the turns that begin and end such a run, since turns that began together end together. One business has half of a process's
slots, so that half of them is all that works here.
"""

import statistics
from collections import defaultdict

from tests.bench.leeway import paced
from tests.bench.leeway_stack import LeewayStack
from tests.bench.model import rate_between
from tests.bench.ratios import AGENTS_RATE, GROWTH, GROWTH_SPREAD, HALF_LOAD_MS
from tests.bench.servers import Servers
from tests.bench.trials import MODEL_S, Figures

AGENTS = (1, 2, 4)
MOST = AGENTS[-1]
AT_ONCE = 25  # turns of an agent
TURNS_EACH = 10  # of a slot, one after another
EDGE = 2  # of them, at both ends, are not counted: slots fill, and run dry
ROUNDS = 3

ENDED_SQL = "select extract(epoch from ended_at)::float8 as at from turn order by ended_at"


class Scaling:
    """A `Trial` of its own rounds, since one is told by medians: agents one after another, each with services of its own."""

    def __init__(self) -> None:
        self._stack: LeewayStack | None = None

    async def run(self, servers: Servers, *, seconds: float) -> Figures:
        """See `Trial`."""
        rates: dict[int, list[float]] = defaultdict(list)
        overheads_ms = []
        for _ in range(ROUNDS):
            for agents in AGENTS:
                stack = await self._fresh(servers, agents)
                rates[agents].append(await full_rate(stack, agents))
                if agents == MOST:
                    overheads_ms.append(await half_load_ms(stack, rates[agents][-1] / 2, seconds))
                await self.teardown()
        growths = [most / one for most, one in zip(rates[MOST], rates[1], strict=True)]
        return {
            **{AGENTS_RATE.format(agents): statistics.median(found) for agents, found in rates.items()},
            GROWTH: statistics.median(growths),
            GROWTH_SPREAD: (max(growths) - min(growths)) / statistics.median(growths) * 100,
            HALF_LOAD_MS: statistics.median(overheads_ms),
        }

    async def teardown(self) -> None:
        """See `Trial`."""
        stack, self._stack = self._stack, None
        if stack is not None:
            await stack.stop()

    async def _fresh(self, servers: Servers, agents: int) -> LeewayStack:
        self._stack = LeewayStack(agents=agents, slots=2 * AT_ONCE, model_s=MODEL_S)
        await self._stack.start(servers)
        return self._stack


async def full_rate(stack: LeewayStack, agents: int) -> float:
    """Turns a second while every slot is busy: a message of each of so many people, posted at once."""
    at_once = agents * AT_ONCE
    await stack.post(range(at_once * TURNS_EACH))
    await stack.until_done()
    rows = await stack.database.fetch(ENDED_SQL)
    return rate_between([row["at"] for row in rows], first=EDGE * at_once, last=(TURNS_EACH - EDGE) * at_once)


async def half_load_ms(stack: LeewayStack, rate: float, seconds: float) -> float:
    """The p95 of what a reply takes from its webhook on, without the model's time."""
    people = range(
        AGENTS[-1] * AT_ONCE * TURNS_EACH, AGENTS[-1] * AT_ONCE * TURNS_EACH + round(rate * seconds)
    )
    pace = await paced(stack, people, f"{rate:.0f}/s", rate)
    return pace.p95_ms - MODEL_S * 1000
