"""The vendors' own packages and Prometheus, for the tests that ask them."""

from collections.abc import Iterator

import pytest

from tests.oracles.asking import Judge, the_judge
from tests.support.prometheus import prometheus

__all__ = ["judge", "prometheus"]


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    """Fails, and never skips, where the vendors' packages are not installed."""
    try:
        with the_judge() as judge:
            yield judge
    except FileNotFoundError as missing:
        raise pytest.fail.Exception(str(missing), pytrace=False) from None
