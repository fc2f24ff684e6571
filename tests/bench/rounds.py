"""The run itself: rounds of all contestants in turn, so that a slow minute hits all of them alike."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.bench.contestants import ChainEntry, Entry, TrialEntry, WebEntry
from tests.bench.model import Report, Result, Sample, sample_of
from tests.bench.servers import Servers

CONNECTIONS = 64
"""Busy connections to a web contestant."""
MESSAGES_MAX = 300_000
"""The most that a throughput run lets in."""
THIRD = "max/3"
"""The label of the pace at a third of the rate that the same repeat just reached."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Lengths:
    """How long the parts of a repeat last."""

    throughput_s: float
    paced_s: float
    third_s: float
    web_s: float


PLAIN = Lengths(throughput_s=3.0, paced_s=4.0, third_s=2.5, web_s=2.5)
FULL = Lengths(throughput_s=15.0, paced_s=20.0, third_s=10.0, web_s=10.0)


async def run(
    entries: Mapping[str, Entry], servers: Servers, *, repeats: int, lengths: Lengths, tell: Tell
) -> Report:
    """Runs contestants `repeats` times, interleaved, then each trial once. What fails is left out and reported."""
    began = time.monotonic()
    trials = {name: entry for name, entry in entries.items() if isinstance(entry, TrialEntry)}
    rivals = {name: entry for name, entry in entries.items() if not isinstance(entry, TrialEntry)}
    samples: dict[str, list[Sample]] = {name: [] for name in rivals}
    figures: dict[str, float] = {}
    failures: dict[str, str] = {}

    def failed(name: str, error: Exception) -> None:
        failures[name] = f"{type(error).__name__}: {error}"
        tell(f"{name} failed: {failures[name]}")

    for repeat in range(1, repeats + 1):
        for name, entry in rivals.items():
            if name in failures:
                continue
            tell(f"round {repeat} of {repeats}, {time.monotonic() - began:3.0f} s: {name}")
            try:
                samples[name].append(await _one(entry, servers, lengths))
            except Exception as error:
                failed(name, error)
            else:
                tell(_line(samples[name][-1]))
    for name, trial in trials.items():
        tell(f"once, {time.monotonic() - began:3.0f} s: {name}")
        try:
            figures |= await _trial(trial, servers, lengths)
        except Exception as error:
            failed(name, error)
    results = tuple(
        Result(name, "requests" if isinstance(entry, WebEntry) else "messages", tuple(samples[name]))
        for name, entry in rivals.items()
        if name not in failures
    )
    return Report(
        results=results,
        figures=figures,
        failures=tuple(failures.items()),
        seconds=time.monotonic() - began,
        servers=servers.description,
    )


async def _trial(entry: TrialEntry, servers: Servers, lengths: Lengths) -> Mapping[str, float]:
    trial = entry.make()
    try:
        return await trial.run(servers, seconds=lengths.paced_s)
    finally:
        await trial.teardown()


async def _one(entry: ChainEntry | WebEntry, servers: Servers, lengths: Lengths) -> Sample:
    if isinstance(entry, ChainEntry):
        return await _chain(entry, servers, lengths)
    contestant = entry.make()
    try:
        await contestant.setup(servers)
        return await contestant.run(lengths.web_s, CONNECTIONS)
    finally:
        await contestant.teardown()


async def _chain(entry: ChainEntry, servers: Servers, lengths: Lengths) -> Sample:
    contestant = entry.make()
    try:
        await contestant.setup(servers)
        paces = [await contestant.run_paced(f"{rate}/s", rate, lengths.paced_s) for rate in entry.rates]
        probe = await contestant.run_throughput(entry.probe)
        messages = min(MESSAGES_MAX, round(probe.messages / probe.seconds * lengths.throughput_s))
        throughput = await contestant.run_throughput(messages)
        third = throughput.messages / throughput.seconds / 3
        paces.append(await contestant.run_paced(THIRD, third, lengths.third_s))
        return sample_of(contestant.name, throughput, paces)
    finally:
        await contestant.teardown()


def _line(sample: Sample) -> str:
    paces = ", ".join(f"p95 {pace.p95_ms:.1f} ms at {pace.label}" for pace in sample.paces)
    return f"    {sample.messages_per_s:,.0f}/s, {sample.cpu_us_per_message:,.0f} µs CPU each; {paces}"
