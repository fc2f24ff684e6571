"""What the suites of the adapters on Postgres stand on."""

from collections.abc import AsyncIterator

import pytest

from services.agent.adapters.postgres_turns import PostgresTurns
from tests.support.factories import Ground, ground
from tests.support.turns_on_postgres import running, turns_of


@pytest.fixture
async def place(database_url: str) -> AsyncIterator[Ground]:
    """A database of the test's own, with the pipeline's pool and ways to make rows."""
    async with ground(database_url) as made:
        yield made


@pytest.fixture
async def turns(place: Ground) -> AsyncIterator[PostgresTurns]:
    """The record of turns there, as worker 1."""
    async with running(turns_of(place)) as made:
        yield made
