"""Tokens of feeds: nobody makes one without the key, and one opens nothing else."""

import pytest

from services.console.core.feed_keys import NAME, FeedKeys
from services.console.feeds import feed_keys_of
from shared.errors import Misconfigured
from shared.ids import BusinessId
from shared.secrets import new_key
from shared.settings import load_settings

KEYS = FeedKeys(["first", "second"])
ONE, TWO = BusinessId(1), BusinessId(12)
NAME_1 = "dentist-1.ics"
TOKEN = KEYS.token(ONE, NAME_1)


def test_a_token_opens_its_feed_and_is_the_same_each_time() -> None:
    assert KEYS.opens(TOKEN, ONE, NAME_1)
    assert KEYS.token(ONE, NAME_1) == TOKEN
    assert NAME.fullmatch(TOKEN.strip("-_"))
    assert len(TOKEN) == 43


@pytest.mark.parametrize(
    ("token", "business", "name"),
    [
        pytest.param(TOKEN, ONE, "dentist-2.ics", id="another feed"),
        pytest.param(TOKEN, ONE, "dentist-1.ic", id="a shorter name"),
        pytest.param(TOKEN, TWO, NAME_1, id="another business"),
        pytest.param(TOKEN[:-1], ONE, NAME_1, id="cut off"),
        pytest.param(TOKEN + "A", ONE, NAME_1, id="longer"),
        pytest.param(TOKEN.swapcase(), ONE, NAME_1, id="another case"),
        pytest.param("", ONE, NAME_1, id="none"),
        pytest.param("ă" * 43, ONE, NAME_1, id="letters beyond ASCII"),
        pytest.param("\udcff", ONE, NAME_1, id="half a letter"),
        pytest.param("\x00", ONE, NAME_1, id="a NUL"),
        pytest.param("A" * 1_000_000, ONE, NAME_1, id="a long one"),
        pytest.param(FeedKeys(["third"]).token(ONE, NAME_1), ONE, NAME_1, id="another key's"),
    ],
)
def test_nothing_else_opens_it(token: str, business: BusinessId, name: str) -> None:
    assert not KEYS.opens(token, business, name)


def test_business_and_name_can_not_run_together() -> None:
    assert KEYS.token(BusinessId(1), "2/x") != KEYS.token(BusinessId(12), "/x")


def test_a_renewed_key_opens_what_the_one_before_made() -> None:
    renewed = FeedKeys(["new", "first"])
    assert renewed.opens(TOKEN, ONE, NAME_1)
    assert renewed.token(ONE, NAME_1) != TOKEN
    assert not FeedKeys(["new"]).opens(TOKEN, ONE, NAME_1)


def test_the_installation_s_secret_keys_make_them() -> None:
    first, second = new_key(), new_key()
    both = feed_keys_of(load_settings(secret_key=f"{first}, {second},"))
    assert both.token(ONE, NAME_1) == feed_keys_of(load_settings(secret_key=first)).token(ONE, NAME_1)
    assert both.opens(FeedKeys([second]).token(ONE, NAME_1), ONE, NAME_1)


@pytest.mark.parametrize("secret", [None, " , "])
def test_without_a_secret_key_there_are_no_feeds(secret: str | None) -> None:
    with pytest.raises(Misconfigured, match="LEEWAY_SECRET_KEY is not set"):
        feed_keys_of(load_settings(secret_key=secret))
