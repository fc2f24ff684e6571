"""Who takes part: what a contestant must be able to do, and the list of them with the size of their runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tests.bench import ratios
from tests.bench.model import Pace, Sample, Throughput
from tests.bench.servers import Servers


class Contestant(Protocol):
    """Four durable stages behind a queue or a webhook. Used once: setup, runs, teardown."""

    name: str

    async def setup(self, servers: Servers) -> None:
        """Starts processes, schema and queues under a prefix of its own, and warms all of it up."""

    async def run_throughput(self, messages: int) -> Throughput:
        """Lets `messages` in as fast as they go; from the first stage's first commit to the last's last."""

    async def run_paced(self, label: str, rate: float, seconds: float) -> Pace:
        """Lets `rate` messages a second in for `seconds`; latency from entry to the last stage's commit."""

    async def teardown(self) -> None:
        """Ends every process it started and deletes what it made; safe after a setup that failed halfway."""


class Trial(Protocol):
    """Something measured of Leeway alone. Used once: run, teardown."""

    async def run(self, servers: Servers, *, seconds: float) -> Mapping[str, float]:
        """Figures by the names of ratios.py; `seconds` is how long a paced part lasts."""

    async def teardown(self) -> None:
        """Ends every process it started and deletes what it made; safe after a run that failed halfway."""


class WebContestant(Protocol):
    """An HTTP endpoint that takes messages in. Used once: setup, run, teardown."""

    name: str

    async def setup(self, servers: Servers) -> None:
        """Starts the server."""

    async def run(self, seconds: float, connections: int) -> Sample:
        """Keeps `connections` busy for `seconds`, each with one request after another."""

    async def teardown(self) -> None:
        """Ends the server and deletes what it made; safe after a setup that failed halfway."""


@dataclass(frozen=True)
class ChainEntry:
    """A contestant, and the fixed rates it is paced at.

    `probe` messages tell its rate roughly: the throughput run is as many as make some seconds, so that a fast
    machine is not measured by a blink nor a slow one past its time.
    """

    make: Callable[[], Contestant]
    probe: int
    rates: tuple[int, ...] = (20, 200)


@dataclass(frozen=True)
class WebEntry:
    """A web contestant."""

    make: Callable[[], WebContestant]


@dataclass(frozen=True)
class TrialEntry:
    """Measured once a run, after all rounds."""

    make: Callable[[], Trial]


Entry = ChainEntry | WebEntry | TrialEntry


def _floor() -> Contestant:
    from tests.bench.chain import Chain
    from tests.bench.floor import FloorForm

    return Chain(FloorForm())


def _faststream() -> Contestant:
    from tests.bench.chain import Chain
    from tests.bench.peers.faststream_job import FastStreamForm

    return Chain(FastStreamForm())


def _celery() -> Contestant:
    from tests.bench.chain import Chain
    from tests.bench.peers.celery_job import CeleryForm

    return Chain(CeleryForm())


def _dramatiq() -> Contestant:
    from tests.bench.chain import Chain
    from tests.bench.peers.dramatiq_job import DramatiqForm

    return Chain(DramatiqForm())


def _web_bare() -> WebContestant:
    from tests.bench.web import bare

    return bare()


def _web_usual() -> WebContestant:
    from tests.bench.web import usual

    return usual()


def _web_signed() -> WebContestant:
    from tests.bench.web import signed

    return signed()


def _leeway() -> Contestant:
    from tests.bench.leeway import LeewayContestant

    return LeewayContestant()


def _web_leeway() -> WebContestant:
    from tests.bench.leeway import by_signed_webhook

    return by_signed_webhook()


def _web_whatsapp() -> WebContestant:
    from tests.bench.leeway import by_whatsapp

    return by_whatsapp()


def _slow_model() -> Trial:
    from tests.bench.trials import SlowModel

    return SlowModel()


def _two_agents() -> Trial:
    from tests.bench.trials import TwoAgents

    return TwoAgents()


def _scaling() -> Trial:
    from tests.bench.scaling import Scaling

    return Scaling()


ENTRIES: dict[str, Entry] = {
    ratios.FLOOR: ChainEntry(_floor, probe=5_000),
    ratios.LEEWAY: ChainEntry(_leeway, probe=1_000),
    ratios.PEERS[0]: ChainEntry(_faststream, probe=150, rates=(20,)),
    ratios.PEERS[1]: ChainEntry(_celery, probe=150, rates=(20,)),
    ratios.PEERS[2]: ChainEntry(_dramatiq, probe=150, rates=(20,)),
    ratios.WEB_BARE: WebEntry(_web_bare),
    ratios.WEB_LEEWAY: WebEntry(_web_leeway),
    ratios.WEB_USUAL: WebEntry(_web_usual),
    ratios.WEB_SIGNED: WebEntry(_web_signed),
    ratios.WEB_WHATSAPP: WebEntry(_web_whatsapp),
    "slow model": TrialEntry(_slow_model),
    "two agents": TrialEntry(_two_agents),
    "scaling": TrialEntry(_scaling),
}
"""In the order in which a round runs them. Peers are not paced at 200/s: some can't do it everywhere."""
