"""What is measured of Leeway alone, once a run: overhead beyond a slow model, rest, order with two agents, a killed one.

Each trial starts its own services and returns figures by name; ratios.py says which of them have goals.
"""

import asyncio
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from uuid import UUID

import psutil

from tests.bench.leeway import LeewayContestant
from tests.bench.leeway_stack import LeewayStack, UnfinishedError
from tests.bench.ratios import (
    OVERHEAD_MS,
    REST_CPU,
    REST_PSS,
    REST_RSS,
    STALL_S,
    TURNS_RATE,
    VIOLATIONS,
)
from tests.bench.servers import Servers

Figures = Mapping[str, float]

MODEL_S = 1.0
MODEL_RATE = 80
MODEL_CONVERSATIONS = 800

WORK_S = 0.1
WORK_SLOTS = 16  # a process, of which one business has half
AGENTS = 2
CONVERSATIONS = 400
SECOND_WAVE_AFTER_S = 0.3
KILLED_WITH = 60  # conversations with a message, of which 16 are being answered
HELD_AT_LEAST = 4  # turns under way in the process that is killed
STATEMENT_S = 0.02  # for a statement that was sent before the process stopped

SETTLE_S = 3.0
REST_S = 5.0

TURNS_SQL = """
select count(*) as turns, extract(epoch from max(ended_at) - min(started_at)) as seconds from turn where started_at > $1
"""
# Two turns of a conversation at once, or over the same messages; replies out of order, or two to the same; one sent twice.
VIOLATIONS_SQL = """
with t as (
  select seq_to, ended_at, lead(started_at) over w as next_start, lead(seq_from) over w as next_from
  from turn window w as (partition by conversation order by seq_from)),
d as (
  select o.id, o.basis_seq, lag(o.basis_seq) over (partition by o.conversation order by d.delivered_at) as before
  from sim_delivery d join outbound o on d.key = 'out_' || replace(o.id::text, '-', '') || '_' || o.round || '_1')
select (select count(*) from t where next_start < ended_at) + (select count(*) from t where next_from <= seq_to)
  + (select count(*) from d where before >= basis_seq) + (select count(*) - count(distinct id) from d)
  + (select count(*) from (select from send_attempt where state = 'sent' group by outbound, part having count(*) > 1) twice)
"""
HELD_SQL = """
select s.conversation from conversation_state s join worker w on w.number = s.lease_worker
where w.pid = $1 and s.lease_token is not null
"""
# Of the turns held: all answered, and the last of those that were not before the kill.
ANSWERED_SQL = """
select count(distinct conversation) as answered, extract(epoch from max(settled_at) - $2) as seconds
from send_attempt where conversation = any ($1::uuid[]) and settled_at > $3 and state = 'sent'
"""


class SlowModel:
    """P5, and then P9: what the pipeline adds to a model of one second; and its services once they rest."""

    def __init__(self) -> None:
        self._leeway = LeewayContestant(conversations=MODEL_CONVERSATIONS, slots=400, model_s=MODEL_S)

    async def run(self, servers: Servers, *, seconds: float) -> Figures:
        """See `Trial`."""
        await self._leeway.setup(servers)
        pace = await self._leeway.run_paced(f"{MODEL_RATE}/s", MODEL_RATE, seconds)
        rest = await at_rest(self._leeway.stack)
        return {OVERHEAD_MS: pace.p95_ms - MODEL_S * 1000, **rest}

    async def teardown(self) -> None:
        """See `Trial`."""
        await self._leeway.teardown()


class TwoAgents:
    """P7: work of 0.1 s a turn, two agent processes, messages that come while their conversation is being answered."""

    def __init__(self) -> None:
        self._stack = LeewayStack(agents=AGENTS, slots=WORK_SLOTS, model_s=WORK_S)

    async def run(self, servers: Servers, *, seconds: float) -> Figures:
        """See `Trial`."""
        await self._stack.start(servers)
        await self._stack.meet(range(CONVERSATIONS))
        ideal = AGENTS * (WORK_SLOTS // 2) / WORK_S
        began = await self._now()
        await self._stack.post(range(CONVERSATIONS))
        await asyncio.sleep(SECOND_WAVE_AFTER_S)
        await self._stack.pace(range(CONVERSATIONS), ideal)
        await self._stack.until_done()
        row = await self._stack.database.fetchrow(TURNS_SQL, began)
        stall_s = await self._kill_one()
        violations = await self._stack.database.fetchval(VIOLATIONS_SQL)
        return {
            TURNS_RATE: row["turns"] / float(row["seconds"]) / ideal,
            VIOLATIONS: float(violations),
            STALL_S: stall_s,
        }

    async def teardown(self) -> None:
        """See `Trial`."""
        await self._stack.stop()

    async def _kill_one(self) -> float:
        """Seconds from the SIGKILL of an agent at work until the last turn that it held is answered."""
        await asyncio.sleep(SETTLE_S)
        pid = next(pid for service, pid in self._stack.pids if service == "agent")
        began = await self._now()
        await self._stack.post(range(KILLED_WITH))
        async with asyncio.timeout(SETTLE_S):
            held = await self._stopped_with(pid)
        killed_at = await self._now()
        self._stack.kill(pid)
        await self._stack.until_done()
        row = await self._stack.database.fetchrow(ANSWERED_SQL, held, killed_at, began)
        if row["answered"] != len(held) or row["seconds"] is None:
            raise UnfinishedError(
                f"{row['answered']} of the {len(held)} turns that the killed agent held were answered"
            )
        return float(row["seconds"])

    async def _stopped_with(self, pid: int) -> list[UUID]:
        """Stops the agent while it holds turns, so that they are still its own when it is killed; which they are."""
        process = psutil.Process(pid)
        while True:
            process.suspend()
            await asyncio.sleep(STATEMENT_S)
            held = await self._stack.database.fetch(HELD_SQL, pid)
            if len(held) >= HELD_AT_LEAST:
                return [row["conversation"] for row in held]
            process.resume()
            await asyncio.sleep(STATEMENT_S)

    async def _now(self) -> datetime:
        now: datetime = await self._stack.database.fetchval("select clock_timestamp()")
        return now


async def at_rest(stack: LeewayStack) -> Figures:
    """Each service's memory in MiB and share of a core, with nothing to do."""
    await asyncio.sleep(SETTLE_S)
    processes = [(service, psutil.Process(pid)) for service, pid in stack.pids]
    began = [_cpu_s(process) for _, process in processes]
    await asyncio.sleep(REST_S)
    figures: dict[str, float] = {}
    for (service, process), before in zip(processes, began, strict=True):
        figures[REST_CPU.format(service)] = (_cpu_s(process) - before) / REST_S * 100
        figures[REST_PSS.format(service)] = _pss_mib(process.pid)
        figures[REST_RSS.format(service)] = process.memory_info().rss / 2**20
    return figures


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _pss_mib(pid: int) -> float:
    """Proportional set size: pages shared with other processes are divided among them."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    kib = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kib / 1024
