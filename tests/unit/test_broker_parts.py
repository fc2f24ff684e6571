"""The pure parts of the RabbitMQ broker."""

import asyncio

import pytest
from aio_pika.exceptions import (
    AMQPConnectionError,
    ChannelClosed,
    InvalidFrameError,
    ProbableAuthenticationError,
)

from shared.broker.rabbit.backoff import FIRST_S, LONGEST_S, pause_s
from shared.broker.rabbit.dead import REASON_CHARS_MAX, REASON_HEADER, reason_headers
from shared.broker.rabbit.trouble import translated
from shared.errors import Misconfigured, NotPublished, Unavailable


def test_pauses_double_from_the_first_to_the_longest() -> None:
    full = [pause_s(failures, 1.0) for failures in range(1, 9)]
    assert full[:3] == [FIRST_S, 2 * FIRST_S, 4 * FIRST_S]
    assert full[-1] == LONGEST_S
    assert full == sorted(full)


@pytest.mark.parametrize("failures", [1, 5, 100, 10**9])
def test_a_pause_is_between_half_and_full(failures: int) -> None:
    assert pause_s(failures, 0.0) == pause_s(failures, 1.0) / 2
    assert pause_s(failures, 0.0) < pause_s(failures, 0.3) < pause_s(failures, 1.0) <= LONGEST_S


@pytest.mark.parametrize("reason", ["x" * 100_000, "é" * 1_000, "half a \ud800", ""])
def test_any_reason_fits_a_header(reason: str) -> None:
    text = reason_headers(reason)[REASON_HEADER]
    assert isinstance(text, str)
    assert len(text.encode()) <= 4 * REASON_CHARS_MAX


@pytest.mark.parametrize(
    ("raised", "becomes"),
    [
        (AMQPConnectionError(111, "Connect call failed"), Unavailable),
        (ChannelClosed(None, None), Unavailable),
        (ConnectionResetError(), Unavailable),
        (TimeoutError(), Unavailable),
        (Exception(), Unavailable),
        (asyncio.CancelledError(), Unavailable),
        (ProbableAuthenticationError("ACCESS_REFUSED"), Misconfigured),
        (InvalidFrameError("Expected OpenOk, got <Connection.Close object>"), Misconfigured),
        (NotPublished("ours"), NotPublished),
        (KeyError("a bug"), KeyError),
    ],
    ids=repr,
)
async def test_what_the_driver_raises_is_translated(
    raised: BaseException, becomes: type[BaseException]
) -> None:
    with pytest.raises(becomes) as caught, translated("testing"):
        raise raised
    assert type(caught.value) is becomes
    assert "\n" not in str(caught.value)


async def test_a_real_cancellation_stays_one() -> None:
    async def work() -> None:
        with translated("waiting"):
            await asyncio.sleep(60)

    working = asyncio.create_task(work())
    await asyncio.sleep(0)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working


async def test_a_cancellation_that_the_driver_turned_into_an_error_is_one_again() -> None:
    async def work() -> None:
        with translated("waiting"):
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                raise AMQPConnectionError from None

    working = asyncio.create_task(work())
    await asyncio.sleep(0)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working


async def test_a_time_out_of_ours_is_trouble() -> None:
    with pytest.raises(Unavailable), translated("waiting"):
        async with asyncio.timeout(0):
            await asyncio.sleep(60)
