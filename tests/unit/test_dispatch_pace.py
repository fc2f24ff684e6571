"""An account's pace: a burst at once, the rest one after another, and on average never faster."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.dispatch.core.delivery import Send, Supersede, Wait
from services.dispatch.core.pace import Pacer
from shared.channels.traits import TRAITS, Traits
from shared.ids import AccountId
from tests.support.factories import NOON, snapshot

EACH = timedelta(milliseconds=100)
PACED = Traits(text_max=100, per_account=EACH, account_burst=3)


def test_as_many_as_the_burst_go_at_once_and_the_others_one_after_another() -> None:
    pacer = Pacer()
    made = [pacer.pace(snapshot(traits=PACED), Send()) for _ in range(5)]
    assert made == [Send()] * 3 + [Wait(NOON + EACH), Wait(NOON + 2 * EACH)]


@pytest.mark.parametrize(
    ("ahead", "go"),
    [(-EACH, 3), (0 * EACH, 3), (EACH / 2, 2), (EACH, 2), (2 * EACH, 1), (3 * EACH, 0), (9 * EACH, 0)],
)
def test_what_was_sent_before_counts(ahead: timedelta, go: int) -> None:
    pacer = Pacer()
    made = [pacer.pace(snapshot(traits=PACED, account_next_at=NOON + ahead), Send()) for _ in range(4)]
    assert made.count(Send()) == go


def test_accounts_have_their_own_pace_and_what_is_no_send_has_none() -> None:
    pacer = Pacer()
    for account in (1, 2):
        for _ in range(3):
            assert pacer.pace(snapshot(traits=PACED, account=AccountId(account)), Send()) == Send()
    assert pacer.pace(snapshot(traits=PACED), Supersede()) == Supersede()
    assert pacer.pace(snapshot(traits=PACED), Send(by_template=True)) == Wait(NOON + EACH)


def test_a_channel_without_a_pace_waits_for_nothing() -> None:
    pacer = Pacer()
    assert {pacer.pace(snapshot(traits=TRAITS["sim"]), Send()) for _ in range(1000)} == {Send()}


@given(st.lists(st.integers(0, 8), min_size=1, max_size=60))
def test_on_average_it_is_never_faster(arrivals: list[int]) -> None:
    """Each step is one time unit of the pace; whoever waits comes again when they were told to, as the rows have it."""
    next_at, sent, waiting = NOON, [], []
    for step, arriving in enumerate([*arrivals, *[0] * 600]):
        now = NOON + step * EACH
        coming = sum(1 for until in waiting if until <= now) + arriving
        waiting = [until for until in waiting if until > now]
        pacer = Pacer()
        for _ in range(coming):
            decision = pacer.pace(snapshot(traits=PACED, now=now, account_next_at=next_at), Send())
            if isinstance(decision, Wait):
                assert decision.until > now
                waiting.append(decision.until)
            else:
                sent.append(now)
        for _ in [at for at in sent if at == now]:
            next_at = max(next_at, now) + EACH
    assert len(sent) == sum(arrivals), "all leave in the end"
    for first, at in enumerate(sent):
        within = sum(1 for other in sent[first:] if other < at + 10 * EACH)
        assert within <= 10 + PACED.account_burst
