"""Gauges of what waits: as the last look found it, gone when it is gone, and never old figures as if they were new."""

from collections.abc import Sequence

import pytest

from services.ingest.core.standing import Found, What, summed
from services.ingest.watching import SHOWN, Watching
from shared.errors import Unavailable
from shared.telemetry.metrics import BUSINESSES_MAX, Metrics
from shared.telemetry.metrics.looking import FRESH_FOR_S, LOOKED, LOOKED_AT
from tests.support.factories import SetClock


class Record:
    """services.ingest.ports.Standing: what a test says, or away."""

    def __init__(self) -> None:
        self.found: list[Found] = []
        self.away = False

    async def look(self) -> Sequence[Found]:
        if self.away:
            raise Unavailable("taken away by a test")
        return self.found


class Watch:
    """A watching ingest."""

    def __init__(self) -> None:
        self.record = Record()
        self.clock = SetClock()
        self.metrics = Metrics(process=False)
        self.watching = Watching(standing=self.record, metrics=self.metrics, clock=self.clock)

    async def finds(self, *found: Found) -> None:
        self.record.found = list(found)
        await self.watching.look()

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)

    def shown(self) -> set[str]:
        looked = {declared.name for declared in LOOKED}
        return {family.name for family in self.metrics.registry.collect()} & looked


@pytest.fixture
def watch() -> Watch:
    return Watch()


def drafts(slug: str, number: int, oldest_s: float) -> Found:
    return Found(what=What.DRAFT, labels=(slug,), number=number, oldest_s=oldest_s)


# What was found, counted together


def test_what_gets_the_same_labels_is_counted_together_with_the_age_of_the_oldest() -> None:
    found = [drafts("a", 2, 9.0), drafts("b", 3, 40.0), drafts("c", 1, 2.0)]
    sums = summed(found, lambda one: ("other",) if one.labels != ("c",) else one.labels)
    assert {key: (one.number, one.oldest_s) for key, one in sums.items()} == {
        (What.DRAFT, ("other",)): (5, 40.0),
        (What.DRAFT, ("c",)): (1, 2.0),
    }


def test_kinds_are_kept_apart_and_no_age_is_below_zero() -> None:
    found = [drafts("a", 1, -0.5), Found(what=What.APPROVAL, labels=("a",), number=4, oldest_s=3.0)]
    sums = summed(found, lambda one: one.labels)
    assert [(one.what, one.number, one.oldest_s) for one in sums.values()] == [
        (What.DRAFT, 1, 0.0),
        (What.APPROVAL, 4, 3.0),
    ]


# Shown


async def test_everything_that_is_found_is_shown(watch: Watch) -> None:
    await watch.finds(
        drafts("clinic", 3, 120.0),
        Found(what=What.APPROVAL, labels=("clinic",), number=1, oldest_s=5.0),
        Found(what=What.HANDOFF, labels=("clinic", "no"), number=2, oldest_s=60.0),
        Found(what=What.OWED, labels=("agent",), number=7, oldest_s=8.0),
        Found(what=What.DEAD, labels=("guard",), number=4),
        Found(what=What.ACCOUNT, labels=("sim", "disabled"), number=1),
    )
    value = watch.value
    assert value("leeway_drafts_waiting", business="clinic") == 3
    assert value("leeway_drafts_oldest_seconds", business="clinic") == 120
    assert value("leeway_approvals_waiting", business="clinic") == 1
    assert value("leeway_approvals_oldest_seconds", business="clinic") == 5
    assert value("leeway_handoffs_open", business="clinic", claimed="no") == 2
    assert value("leeway_handoffs_oldest_seconds", business="clinic", claimed="no") == 60
    assert value("leeway_owed", stage="agent") == 7
    assert value("leeway_owed_seconds", stage="agent") == 8
    assert value("leeway_dead_unsettled", stage="guard") == 4
    assert value("leeway_channel_accounts", channel="sim", state="disabled") == 1
    assert value("leeway_looked_timestamp_seconds") == watch.clock.now().timestamp()
    assert watch.shown() == {declared.name for declared in LOOKED}


def test_every_kind_is_shown_somewhere() -> None:
    shown = [declared for both in SHOWN.values() for declared in both if declared is not None]
    assert set(SHOWN) == set(What)
    assert {*shown, LOOKED_AT} == set(LOOKED)


async def test_stages_that_owe_nothing_are_0_and_a_business_without_drafts_is_gone(watch: Watch) -> None:
    await watch.finds(drafts("clinic", 1, 1.0), Found(what=What.OWED, labels=("agent",), number=1))
    await watch.finds()
    assert watch.value("leeway_drafts_waiting", business="clinic") is None
    for stage in ("ingest", "guard", "agent", "dispatch"):
        assert watch.value("leeway_owed", stage=stage) == 0
        assert watch.value("leeway_owed_seconds", stage=stage) == 0
        assert watch.value("leeway_dead_unsettled", stage=stage) == 0


async def test_businesses_beyond_the_bound_are_one_series(watch: Watch) -> None:
    await watch.finds(*[drafts(f"b-{n}", 1, float(n)) for n in range(BUSINESSES_MAX + 30)])
    (family,) = [one for one in watch.metrics.registry.collect() if one.name == "leeway_drafts_waiting"]
    assert len(family.samples) == BUSINESSES_MAX + 1
    assert watch.value("leeway_drafts_waiting", business="other") == 30
    assert watch.value("leeway_drafts_oldest_seconds", business="other") == BUSINESSES_MAX + 29


async def test_a_channel_of_a_newer_version_is_unknown(watch: Watch) -> None:
    await watch.finds(Found(what=What.ACCOUNT, labels=("carrier-pigeon", "on"), number=2))
    assert watch.value("leeway_channel_accounts", channel="unknown", state="on") == 2


# Fresh


def test_before_the_first_look_nothing_is_shown(watch: Watch) -> None:
    assert not watch.shown()


async def test_a_look_that_fails_leaves_the_last_one_until_it_is_too_old(watch: Watch) -> None:
    await watch.finds(drafts("clinic", 1, 1.0))
    at = watch.value("leeway_looked_timestamp_seconds")
    watch.record.away = True
    with pytest.raises(Unavailable):
        await watch.watching.look()
    watch.clock.pass_(FRESH_FOR_S)
    assert watch.value("leeway_drafts_waiting", business="clinic") == 1
    watch.clock.pass_(1)
    assert watch.shown() == {LOOKED_AT.name}
    assert watch.value("leeway_looked_timestamp_seconds") == at
    watch.record.away = False
    await watch.watching.look()
    assert watch.value("leeway_drafts_waiting", business="clinic") == 1
