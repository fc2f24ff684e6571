"""What several unit tests need."""

from collections.abc import AsyncIterator

import pytest

from tests.support.served import Served, the_server


@pytest.fixture(scope="session")
async def served() -> AsyncIterator[Served]:
    """The worker's HTTP server."""
    async with the_server() as made:
        yield made
