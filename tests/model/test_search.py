"""The protocol is searched whole, and each planted bug that such a search can show is found."""

import pytest

from tests.model.search import PLANTED, Rules, planted, search

pytestmark = pytest.mark.xdist_group("model")


def test_the_protocol_holds_in_every_state_with_any_two_faults() -> None:
    found = search(Rules())
    assert found.violation is None, f"{found.violation}: {' > '.join(found.trace)}"
    assert found.states > 20_000
    assert found.seen == {"executed", "superseded", "unknown", "sent"}, (
        "or the search walks past what it is about"
    )


def test_where_the_channel_takes_a_key_what_is_sent_stays_sent() -> None:
    found = search(Rules(idempotent=True, messages=2, others=("more",)))
    assert found.violation is None, f"{found.violation}: {' > '.join(found.trace)}"


def test_nothing_leaves_after_an_opt_out_that_the_channel_knew_of() -> None:
    found = search(Rules(opts_out=True, messages=2, others=("more",)))
    assert found.violation is None, f"{found.violation}: {' > '.join(found.trace)}"
    assert "opted out" in found.seen


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str) -> None:
    found = search(planted(name))
    assert found.violation is not None
    assert found.trace
