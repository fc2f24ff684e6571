"""What a run measures: samples, the median of repeats, and the whole report as values."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cpu:
    """CPU seconds used by the contestant's processes, the broker and Postgres."""

    client_s: float
    broker_s: float
    database_s: float


@dataclass(frozen=True)
class Throughput:
    """`messages` took `seconds` from the first commit of the first stage to the last of the last."""

    messages: int
    seconds: float
    cpu: Cpu


@dataclass(frozen=True)
class Pace:
    """Latency from entry to the last stage's commit while `rate` messages a second come in."""

    label: str
    rate: float
    messages: int
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True)
class Sample:
    """One repeat of one contestant. CPU is in µs a message, split by who used it."""

    name: str
    messages_per_s: float
    cpu_us_per_message: float
    cpu_us_client: float
    cpu_us_broker: float
    cpu_us_database: float
    paces: tuple[Pace, ...] = ()

    @property
    def p50_ms(self) -> float | None:
        """The median latency at the first (slowest) pace, `None` when nothing was paced."""
        return self.paces[0].p50_ms if self.paces else None

    @property
    def p95_ms(self) -> float | None:
        """The 95th percentile at the first (slowest) pace, `None` when nothing was paced."""
        return self.paces[0].p95_ms if self.paces else None

    def pace(self, label: str) -> Pace | None:
        """The pace with this label, if it was run."""
        return next((pace for pace in self.paces if pace.label == label), None)


@dataclass(frozen=True)
class Result:
    """All repeats of one contestant; `unit` says what is counted (`messages` or `requests`)."""

    name: str
    unit: str
    repeats: tuple[Sample, ...]

    @property
    def median(self) -> Sample:
        """Every number's own median over the repeats."""
        return median_of(self.repeats)

    @property
    def spread(self) -> float:
        """(fastest − slowest) ÷ median of the rate: how far repeats lie apart."""
        rates = [sample.messages_per_s for sample in self.repeats]
        return (max(rates) - min(rates)) / self.median.messages_per_s


@dataclass(frozen=True)
class Report:
    """One interleaved run. A contestant that failed has no result and one sentence in `failures`."""

    results: tuple[Result, ...]
    figures: Mapping[str, float]
    """What the trials measured, by the names of ratios.py."""
    failures: tuple[tuple[str, str], ...]
    seconds: float
    servers: str
    """Which broker and Postgres, and how durable."""

    def rounds(self) -> list[dict[str, Sample]]:
        """The samples of each round by contestant."""
        count = max((len(result.repeats) for result in self.results), default=0)
        return [{result.name: result.repeats[turn] for result in self.results} for turn in range(count)]


def sample_of(name: str, throughput: Throughput, paces: Sequence[Pace]) -> Sample:
    """A repeat as one sample; the CPU is divided by the messages of the throughput run."""
    each = 1e6 / throughput.messages
    cpu = throughput.cpu
    return Sample(
        name=name,
        messages_per_s=throughput.messages / throughput.seconds,
        cpu_us_per_message=(cpu.client_s + cpu.broker_s + cpu.database_s) * each,
        cpu_us_client=cpu.client_s * each,
        cpu_us_broker=cpu.broker_s * each,
        cpu_us_database=cpu.database_s * each,
        paces=tuple(paces),
    )


def pace_of(label: str, rate: float, latencies_ms: Iterable[float]) -> Pace:
    """Nearest-rank percentiles of the latencies; at least one is needed."""
    ordered = sorted(latencies_ms)
    return Pace(label, rate, len(ordered), percentile(ordered, 0.50), percentile(ordered, 0.95))


def percentile(ordered: Sequence[float], share: float) -> float:
    """The nearest-rank percentile of a sorted, non-empty sequence."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def rate_between(ended: Sequence[float], *, first: int, last: int) -> float:
    """Turns a second, from the end of the turn that is `first` by its end (1: the earliest) to that of the `last`."""
    return (last - first) / (ended[last - 1] - ended[first - 1])


def median_of(samples: Sequence[Sample]) -> Sample:
    """Each field's median; a pace counts when every repeat ran it."""
    shared = [
        label
        for label in (pace.label for pace in samples[0].paces)
        if all(sample.pace(label) is not None for sample in samples)
    ]
    return Sample(
        name=samples[0].name,
        messages_per_s=_median(samples, lambda sample: sample.messages_per_s),
        cpu_us_per_message=_median(samples, lambda sample: sample.cpu_us_per_message),
        cpu_us_client=_median(samples, lambda sample: sample.cpu_us_client),
        cpu_us_broker=_median(samples, lambda sample: sample.cpu_us_broker),
        cpu_us_database=_median(samples, lambda sample: sample.cpu_us_database),
        paces=tuple(_median_pace([sample.pace(label) for sample in samples]) for label in shared),
    )


def _median(samples: Sequence[Sample], field: Callable[[Sample], float]) -> float:
    return statistics.median(field(sample) for sample in samples)


def _median_pace(paces: Sequence[Pace | None]) -> Pace:
    run = [pace for pace in paces if pace is not None]
    return Pace(
        label=run[0].label,
        rate=statistics.median(pace.rate for pace in run),
        messages=sum(pace.messages for pace in run),
        p50_ms=statistics.median(pace.p50_ms for pace in run),
        p95_ms=statistics.median(pace.p95_ms for pace in run),
    )
