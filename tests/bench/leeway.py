"""Leeway itself: the four services as processes, signed webhooks in, sends out at the sim channel, a zero-latency model.

The burst window is off and the model answers at once and in process, so that what is measured is the pipeline: guards
with facts, turns, calls, replies, claims and outcomes, all of it durable. For throughput the bench posts webhooks of 20
messages, as a channel that batches does; paced messages come one a webhook. Every message of a run goes to a
conversation of its own, made and answered once beforehand.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from tests.bench.driver import RequestFactory, drive
from tests.bench.leeway_requests import CUSTOMERS, generic_requests, number_of, whatsapp_requests
from tests.bench.leeway_stack import QUIET_SECONDS, LeewayStack, UnfinishedError
from tests.bench.model import Pace, Sample, Throughput, pace_of, sample_of
from tests.bench.processes import CpuMeter
from tests.bench.ratios import LEEWAY, WEB_LEEWAY, WEB_WHATSAPP
from tests.bench.servers import Servers
from tests.bench.web import RefusedError

CONVERSATIONS = 9_000
SLOTS = 2_000  # of which one business has half
WARM_SECONDS = 10.0

MARK_SQL = "select (select id from inbound_message order by id desc limit 1) as id, clock_timestamp() as at"
SPAN_SQL = """
select extract(epoch from (select min(received_at) from inbound_message where id > $1)) as began,
       extract(epoch from (select max(settled_at) from send_attempt where started_at > $2)) as ended,
       (select count(*) from send_attempt where started_at > $2 and state = 'sent') as sent
"""
SENT_SQL = "select user_id, max(extract(epoch from delivered_at)) as at from sim_delivery where delivered_at > $1 group by user_id"


class LeewayContestant:
    """A `Contestant`."""

    name = LEEWAY

    def __init__(
        self, *, conversations: int = CONVERSATIONS, slots: int = SLOTS, model_s: float = 0.0
    ) -> None:
        self._conversations = conversations
        self._next = 0
        self._servers: Servers | None = None
        self.stack = LeewayStack(slots=slots, model_s=model_s)

    async def setup(self, servers: Servers) -> None:
        """A database of its own, the services, and every conversation made and answered once."""
        self._servers = servers
        await self.stack.start(servers)
        await self.stack.meet(range(self._conversations))

    async def run_throughput(self, messages: int) -> Throughput:
        """See `Contestant`: from the first message stored to the last send settled."""
        people = await self._people(messages)
        assert self._servers is not None, "setup comes before runs"
        mark = await self.stack.database.fetchrow(MARK_SQL)
        meter = CpuMeter(self._servers, self.stack.crew.pids)
        await self.stack.post(people)
        await self.stack.until_done()
        cpu = meter.used()
        row = await self.stack.database.fetchrow(SPAN_SQL, mark["id"], mark["at"])
        if row["sent"] != len(people):
            raise UnfinishedError(
                f"{row['sent']} of {len(people)} messages were answered by a send of their own"
            )
        return Throughput(len(people), float(row["ended"] - row["began"]), cpu)

    async def run_paced(self, label: str, rate: float, seconds: float) -> Pace:
        """See `Contestant`: from the moment the webhook was due to the send at the channel."""
        return await paced(self.stack, await self._people(max(1, round(rate * seconds))), label, rate)

    async def teardown(self) -> None:
        """See `Contestant`."""
        await self.stack.stop()

    async def _people(self, count: int) -> list[int]:
        """The next customers, going round; those who are asked of again were quiet for long enough."""
        count = min(count, self._conversations)
        if self._next + count > self._conversations:
            self._next = 0
            await asyncio.sleep(QUIET_SECONDS)
        people = list(range(self._next, self._next + count))
        self._next += count
        return people


async def paced(stack: LeewayStack, people: Sequence[int], label: str, rate: float) -> Pace:
    """A message of each of them, `rate` a second, until all are answered: from the moment its webhook was due to the send."""
    mark = await stack.database.fetchrow(MARK_SQL)
    due = await stack.pace(people, rate)
    await stack.until_done()
    rows = await stack.database.fetch(SENT_SQL, mark["at"])
    sent = {row["user_id"]: float(row["at"]) for row in rows}
    latencies_ms = [(sent[number_of(person)] - at) * 1000 for person, at in zip(people, due, strict=True)]
    return pace_of(label, rate, latencies_ms)


class LeewayWebhook:
    """A `WebContestant`: ingest alone, one process, a signed message a request; 200 means committed.

    `requests` makes so many of them, or for ever, for a host.
    """

    def __init__(
        self, name: str, channel: str, requests: Callable[[LeewayStack, int | None], RequestFactory]
    ) -> None:
        self.name = name
        self._channel = channel
        self._requests = requests
        self._stack = LeewayStack(services=("ingest",))
        self._servers: Servers | None = None

    async def setup(self, servers: Servers) -> None:
        """The process, and a message of each customer, after which it knows them."""
        self._servers = servers
        await self._stack.start(servers)
        await self._drive(WARM_SECONDS, connections=32, count=CUSTOMERS)
        await self._stack.database.execute("vacuum analyze")

    async def run(self, seconds: float, connections: int) -> Sample:
        """See `WebContestant`. The driver's CPU is not counted. Raises `RefusedError`."""
        assert self._servers is not None, "setup comes before runs"
        meter = CpuMeter(self._servers, self._stack.crew.pids)
        before = await self._stack.database.fetchval("select count(*) from inbound_message")
        throughput, pace = await self._drive(seconds, connections=connections)
        cpu = meter.used()
        stored = await self._stack.database.fetchval("select count(*) from inbound_message") - before
        if stored != throughput:
            raise RefusedError(f"{throughput} requests were answered 200 and {stored} messages stored")
        return sample_of(self.name, Throughput(throughput, throughput / pace.rate, cpu), [pace])

    async def teardown(self) -> None:
        """See `WebContestant`."""
        await self._stack.stop()

    async def _drive(self, seconds: float, *, connections: int, count: int | None = None) -> tuple[int, Pace]:
        url, requests = self._stack.url(self._channel), self._requests(self._stack, count)
        outcome = await drive(url, requests, seconds=seconds, connections=connections)
        if outcome.accepted != sum(outcome.statuses.values()):
            raise RefusedError(f"{self.name}: answers by status {dict(outcome.statuses)}")
        return outcome.accepted, outcome.pace


def by_signed_webhook() -> LeewayWebhook:
    """At the generic signed webhook."""
    return LeewayWebhook(
        WEB_LEEWAY,
        "generic",
        lambda stack, count: partial(generic_requests, stack.key, stack.path("generic"), count),
    )


def by_whatsapp() -> LeewayWebhook:
    """At WhatsApp's, by Meta's signature."""
    return LeewayWebhook(
        WEB_WHATSAPP,
        "whatsapp",
        lambda stack, count: partial(whatsapp_requests, stack.path("whatsapp"), count),
    )
