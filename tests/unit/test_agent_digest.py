"""What a confirmation stands for: one number for one tool, arguments and shown values, and for nothing else."""

import hashlib
import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from shared.digest import canonical, digest

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), VALUES, max_size=4)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


def shuffled(value: Any) -> Any:
    """The same value with every object's keys in the opposite order."""
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(list(value))}
    return [shuffled(one) for one in value] if isinstance(value, list) else value


@given(OBJECTS)
def test_the_order_of_keys_does_not_matter(value: dict[str, Any]) -> None:
    assert canonical(value) == canonical(shuffled(value))


@given(OBJECTS)
def test_canonical_text_is_json_of_the_same_value(value: dict[str, Any]) -> None:
    assert json.loads(canonical(value)) == value


def test_a_list_keeps_its_order() -> None:
    assert canonical({"a": [1, 2]}) != canonical({"a": [2, 1]})


@given(st.tuples(TEXTS, TEXTS, TEXTS), st.tuples(TEXTS, TEXTS, TEXTS))
def test_different_parts_have_different_digests(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    assume(one != other)
    assert digest(*one) != digest(*other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("ab", "c", ""), ("a", "bc", "")),
        (("", "ab", "c"), ("", "a", "bc")),
        (("a", "", "b"), ("a", "b", "")),
        (("\x00\x00\x00\x01a", "", ""), ("", "a", "")),
    ],
)
def test_parts_do_not_run_together(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    assert digest(*one) != digest(*other)


def test_the_digest_is_the_same_on_every_machine() -> None:
    parts = b"\x00\x00\x00\x04book" + b"\x00\x00\x00\x02{}" + b'\x00\x00\x00\x07["10"]x'
    assert digest("book", "{}", '["10"]x') == hashlib.sha256(parts).digest()
    assert len(digest("", "", "")) == 32
