"""What the suites of the adapters on Postgres stand on."""

from collections.abc import AsyncIterator

import pytest

from tests.support.factories import Ground, ground


@pytest.fixture
async def place(database_url: str) -> AsyncIterator[Ground]:
    """A database of the test's own, with the pipeline's pool and ways to make rows."""
    async with ground(database_url) as made:
        yield made
