"""What follows from a provider's answer, for every answer, on either kind of channel, in the last part or before."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.dispatch.core.outcome import (
    BACKOFF_MAX,
    SENT_RANK,
    Accepted,
    AccountRefused,
    GivenBack,
    NoAnswer,
    OptedOut,
    Outcome,
    Refused,
    Settled,
    Throttled,
    WindowClosed,
    backoff,
    settle,
)
from shared.channels.troubles import Trouble
from tests.support.factories import NOON

SECOND = timedelta(seconds=1)


def settled(outcome: Outcome, **fields: Any) -> Settled:
    return settle(outcome, **({"last_part": True, "idempotent": False, "backoff": SECOND} | fields))


SAME_EVERYWHERE = [
    # outcome, how it is stored, whatever the channel and the part
    (Refused(reason="no such number"),
     Settled(attempt="refused", rank=0, outbound="draft", reason="send_failed: no such number")),
    (AccountRefused(reason="401"),
     Settled(attempt="refused", rank=0, outbound="queued", reason="send_failed: 401", retry_after=BACKOFF_MAX, gives_up_as="queued")),
    (Throttled(reason="429"),
     Settled(attempt="throttled", rank=0, outbound="queued", reason="send_failed: 429", retry_after=SECOND)),
    (Throttled(reason="429", retry_after=timedelta(minutes=2)),
     Settled(attempt="throttled", rank=0, outbound="queued", reason="send_failed: 429", retry_after=timedelta(minutes=2))),
    (Throttled(reason="spam", retry_after=timedelta(seconds=121), whole_account=True),
     Settled(attempt="throttled", rank=0, outbound="draft", reason="send_failed: spam")),
    (Throttled(reason="pair", retry_after=timedelta(seconds=4), whole_person=True),
     Settled(attempt="throttled", rank=0, outbound="queued", reason="send_failed: pair",
             retry_after=timedelta(seconds=4), person_waits=timedelta(seconds=4))),
    (Throttled(reason="pair", retry_after=timedelta(seconds=256), whole_person=True),
     Settled(attempt="throttled", rank=0, outbound="draft", reason="send_failed: pair", person_waits=timedelta(seconds=256))),
    (Refused(reason="spam words", trouble=Trouble.CONTENT),
     Settled(attempt="refused", rank=0, outbound="draft", reason="send_failed: filtered: spam words")),
    (OptedOut(reason="21610"),
     Settled(attempt="refused", rank=0, outbound="discarded", reason="opted_out: 21610", opts_out=True)),
    (WindowClosed(reason="131047"),
     Settled(attempt="refused", rank=0, outbound="queued", reason="window_closed: 131047", retry_after=timedelta(),
             gives_up_as="queued", closes_window=True)),
    (GivenBack(), Settled(attempt="given_back", rank=0, outbound="queued", retry_after=timedelta())),
]  # fmt: skip


@pytest.mark.parametrize("last_part", [True, False], ids=["last part", "more parts"])
@pytest.mark.parametrize("idempotent", [True, False], ids=["with a key", "without"])
@pytest.mark.parametrize(
    ("outcome", "stored"), SAME_EVERYWHERE, ids=[type(row[0]).__name__ for row in SAME_EVERYWHERE]
)
def test_what_is_the_same_on_every_channel(
    outcome: Outcome, stored: Settled, *, last_part: bool, idempotent: bool
) -> None:
    assert settled(outcome, last_part=last_part, idempotent=idempotent) == stored


@pytest.mark.parametrize("idempotent", [True, False], ids=["with a key", "without"])
def test_an_accepted_part_leaves_the_reply_until_the_last(*, idempotent: bool) -> None:
    last = settled(Accepted(provider_id="p1"), idempotent=idempotent)
    assert last == Settled(attempt="sent", rank=SENT_RANK, outbound="sent", provider_id="p1")
    before = settled(Accepted(provider_id="p1"), idempotent=idempotent, last_part=False)
    assert before == Settled(attempt="sent", rank=SENT_RANK, outbound=None, provider_id="p1")


@pytest.mark.parametrize("last_part", [True, False], ids=["last part", "more parts"])
def test_an_unknown_outcome_is_sent_again_only_under_a_key(*, last_part: bool) -> None:
    silent = NoAnswer(reason="time-out")
    assert settled(silent, last_part=last_part) == Settled(
        attempt="unknown", rank=0, outbound="unknown", reason="time-out"
    )
    assert settled(silent, last_part=last_part, idempotent=True) == Settled(
        attempt="retried",
        rank=0,
        outbound="queued",
        reason="time-out",
        retry_after=SECOND,
        gives_up_as="unknown",
    )


def test_a_template_that_the_window_keeps_out_is_for_people() -> None:
    """Else it would be sent so again and again."""
    stored = settled(WindowClosed(reason="131047"), by_template=True)
    assert stored == Settled(attempt="refused", rank=0, outbound="draft", reason="send_failed: 131047")


def test_an_accepted_part_says_when_it_was_taken_and_what_it_costs() -> None:
    stored = settled(Accepted(provider_id="p1", taken_at=NOON, segments=3))
    assert (stored.taken_at, stored.segments) == (NOON, 3)


def test_only_an_accepted_send_has_a_rank() -> None:
    for outcome in (
        Refused(reason=""),
        AccountRefused(reason=""),
        Throttled(reason=""),
        NoAnswer(reason=""),
        GivenBack(),
    ):
        assert settled(outcome).rank == 0


@pytest.mark.parametrize(
    ("said_s", "backoff_s", "waits_s"),
    [(None, 4, 4), (2, 4, 4), (60, 4, 60), (0, 0, 0)],
    ids=["the provider says nothing", "less than we would", "more", "nought"],
)
def test_a_throttled_send_waits_what_the_provider_says_and_never_less_than_our_back_off(
    said_s: float | None, backoff_s: float, waits_s: float
) -> None:
    said = None if said_s is None else timedelta(seconds=said_s)
    stored = settled(Throttled(reason="", retry_after=said), backoff=timedelta(seconds=backoff_s))
    assert stored.retry_after == timedelta(seconds=waits_s)


@given(tries=st.integers(0, 1_000), chance=st.floats(0, 1, exclude_max=True))
def test_the_back_off_grows_with_jitter_to_half_a_minute(*, tries: int, chance: float) -> None:
    pause = backoff(tries, chance=chance)
    full = min(timedelta(seconds=2 ** min(tries, 10)), BACKOFF_MAX)
    assert full / 2 <= pause <= full


def test_the_first_pauses() -> None:
    assert [backoff(tries, chance=0) for tries in range(6)] == [
        timedelta(seconds=s) for s in (0.5, 1, 2, 4, 8, 15)
    ]
