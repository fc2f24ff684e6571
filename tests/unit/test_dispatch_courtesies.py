"""Side calls: made for whom a channel makes them, never in the way, never again, never too many."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from services.dispatch import courtesies as module
from services.dispatch.core.outcome import Outcome
from services.dispatch.courtesies import AT_ONCE_MAX, Courtesies
from services.dispatch.ports import Address, Claimed, Courtesy, CourtesyKind, Probed
from shared.ids import AccountId, MessageId, new_id
from shared.telemetry.metrics import Metrics
from tests.support.eventually import eventually
from tests.support.memory_outbox import MemoryOutbox


class Polite:
    """A channel that makes side calls, as told."""

    def __init__(self) -> None:
        self.made: list[Courtesy] = []
        self.error: Exception | None = None
        self.answering = asyncio.Event()
        self.answering.set()

    async def courtesy(self, courtesy: Courtesy) -> None:
        self.made.append(courtesy)
        await self.answering.wait()
        if self.error:
            raise self.error

    async def send(self, claimed: Claimed, *, key: str) -> Outcome:
        raise AssertionError("no side call sends")

    async def probe(self, address: Address) -> Probed:
        raise AssertionError("no side call asks who we are")

    async def close(self) -> None: ...


class Bell:
    """What asks for side calls."""

    def __init__(self) -> None:
        self.outbox = MemoryOutbox()
        self.channel = Polite()
        self.metrics = Metrics(process=False)
        channels = {"telegram": self.channel, "sim": self.channel}
        self.courtesies = Courtesies(self.outbox, channels, self.metrics)

    def message(self, channel: str = "telegram") -> MessageId:
        message = MessageId(new_id())
        self.outbox.asked_for[message] = Courtesy(
            kind=CourtesyKind.TYPING,
            account=AccountId(1),
            channel=channel,
            user_id="7",
            message_id="7:1",
            quoted=None,
        )
        return message

    def counted(self, outcome: str) -> float:
        labels = {"channel": "telegram", "outcome": outcome}
        return self.metrics.registry.get_sample_value("leeway_courtesies_total", labels) or 0


@asynccontextmanager
async def running(bell: Bell) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        job = group.create_task(bell.courtesies.run())
        await asyncio.sleep(0)
        yield
        job.cancel()


@pytest.fixture
async def bell() -> AsyncIterator[Bell]:
    made = Bell()
    async with running(made):
        yield made


async def test_a_message_gets_the_courtesy_of_its_channel(bell: Bell) -> None:
    known, unknown, elsewhere, nowhere = (
        bell.message(),
        MessageId(new_id()),
        bell.message("sim"),
        bell.message("pigeon"),
    )
    bell.courtesies.ask([known, unknown, elsewhere, nowhere])
    await bell.courtesies.idle()
    await eventually(lambda: bell.channel.made == [bell.outbox.asked_for[known]])
    await eventually(lambda: bell.counted("made") == 1)


async def test_who_asks_waits_for_nothing(bell: Bell) -> None:
    bell.channel.answering.clear()
    bell.courtesies.ask([bell.message()])
    await eventually(lambda: len(bell.channel.made) == 1)
    assert bell.counted("made") == 0


@pytest.mark.parametrize("error", [OSError("reset"), ZeroDivisionError(), TimeoutError()], ids=repr)
async def test_one_that_fails_is_counted_and_not_made_again(bell: Bell, error: Exception) -> None:
    bell.channel.error = error
    bell.courtesies.ask([bell.message()])
    await eventually(lambda: bell.counted("failed") == 1)
    assert len(bell.channel.made) == 1


async def test_one_that_hangs_is_ended(bell: Bell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CALL_S", 0.01)
    bell.channel.answering.clear()
    bell.courtesies.ask([bell.message()])
    await eventually(lambda: bell.counted("failed") == 1)


async def test_a_record_that_is_away_costs_the_courtesy_and_nothing_else(bell: Bell) -> None:
    bell.outbox.away = True
    bell.courtesies.ask([bell.message()])
    await bell.courtesies.idle()
    bell.outbox.away = False
    bell.courtesies.ask([bell.message()])
    await eventually(lambda: bell.counted("made") == 1)


async def test_too_many_at_once_are_dropped(bell: Bell) -> None:
    bell.channel.answering.clear()
    bell.courtesies.ask([bell.message() for _ in range(2 * AT_ONCE_MAX)])
    await eventually(lambda: bell.counted("dropped") > 0)
    assert len(bell.channel.made) <= AT_ONCE_MAX
    bell.channel.answering.set()
    await eventually(lambda: bell.counted("made") + bell.counted("dropped") == 2 * AT_ONCE_MAX)
    bell.courtesies.ask([bell.message()])
    await eventually(lambda: bell.channel.made[-1] == list(bell.outbox.asked_for.values())[-1])


async def test_the_end_waits_a_moment_and_no_longer(bell: Bell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "END_S", 0.01)
    bell.channel.answering.clear()
    bell.courtesies.ask([bell.message()])
    async with asyncio.timeout(1):
        await bell.courtesies.idle()


async def test_what_runs_no_more_asks_for_nothing() -> None:
    bell = Bell()
    bell.channel.answering.clear()
    async with running(bell):
        bell.courtesies.ask([bell.message()])
        await eventually(lambda: len(bell.channel.made) == 1)
    bell.courtesies.ask([bell.message()])
    await bell.courtesies.idle()
    assert len(bell.channel.made) == 1
