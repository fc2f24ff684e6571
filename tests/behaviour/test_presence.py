"""A worker number says who lives: what is claimed under it is safe while it is held, and nothing is claimed while it is not."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from shared.errors import Unavailable
from shared.settings import Timeouts
from shared.tickets import Stage
from shared.work.presence import CHECK_EVERY_S, Presence, Undertaker
from tests.support.eventually import eventually
from tests.support.factories import Ground
from tests.support.turns_on_postgres import ANYONE, claim_one, turns_of

pytestmark = pytest.mark.postgres

# Of this database alone: on the server are those of other tests too, with the same numbers.
CUT_OFF = """
select pg_terminate_backend(l.pid, 5000) from pg_locks l join pg_database d on d.oid = l.database
where d.datname = current_database() and l.locktype = 'advisory' and l.classid = 4711 and l.objid = $1
"""


@pytest.fixture
async def presence(place: Ground) -> AsyncIterator[Presence]:
    made = Presence(place.url, Stage.AGENT, Timeouts())
    await made.enter()
    yield made
    await made.leave()


@pytest.fixture
async def undertaker(place: Ground) -> AsyncIterator[Undertaker]:
    made = Undertaker(place.url, Timeouts())
    yield made
    await made.close()


@contextlib.asynccontextmanager
async def kept(presence: Presence) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        keeping = group.create_task(presence.keep())
        yield
        keeping.cancel()


async def cut_off(place: Ground, presence: Presence) -> None:
    """Its connection ends, as when Postgres restarts; back once it noticed."""
    await place.owner.fetch(CUT_OFF, presence.number)
    await eventually(lambda: not presence.held)


async def test_a_lost_number_is_held_again_at_once_and_stays_the_same(
    place: Ground, presence: Presence
) -> None:
    number = presence.number
    async with kept(presence):
        await asyncio.sleep(0.05)  # it waits for its next look, which is seconds away
        await place.owner.fetch(CUT_OFF, number)
        await eventually(lambda: presence.held, within_s=CHECK_EVERY_S / 2)
        assert presence.number == number


async def test_nothing_is_claimed_under_a_number_that_is_not_held(place: Ground, presence: Presence) -> None:
    turns = turns_of(place, presence=presence)
    conversation = await place.conversation()
    await place.said(conversation, "Hello")
    await cut_off(place, presence)
    with pytest.raises(Unavailable):
        await turns.claim([conversation], ANYONE)
    state = await place.state(conversation)
    assert state["lease_token"] is None
    assert state["due_at"] is not None


async def test_a_turn_meets_one_lost_connection_once_however_often_the_dead_are_looked_for(
    place: Ground, presence: Presence, undertaker: Undertaker
) -> None:
    """Each void lease counts as an attempt that brought nothing: six of them, and a person would get an apology."""
    turns = turns_of(place, presence=presence)
    conversation = await place.conversation()
    await place.said(conversation, "Hello")
    await claim_one(turns, conversation)
    await cut_off(place, presence)
    for _ in range(8):
        await undertaker.bury(await turns.leaseholders(), turns.void_leases)
        with contextlib.suppress(Unavailable):
            await turns.claim([conversation], ANYONE)
    await presence.enter()
    turn = await claim_one(turns, conversation)
    assert (turn.attempt, turn.fruitless) == (2, 2)
    await undertaker.bury(await turns.leaseholders(), turns.void_leases)
    assert (await place.state(conversation))["lease_token"] == turn.token


async def test_a_number_that_others_are_clearing_up_after_is_not_taken_back(
    place: Ground, presence: Presence, undertaker: Undertaker
) -> None:
    number = presence.number
    await cut_off(place, presence)

    async def meanwhile(dead: int) -> None:
        assert dead == number
        await presence.leave()
        await presence.enter()

    await undertaker.bury([number], meanwhile)
    assert presence.number != number
