"""The chain of evidence: whole as it was sealed, and whatever is changed, taken out, put in or moved is found."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.evidence import Envelope, Found, check, seal

WHOLE, ERASED, TAMPERED = Found.WHOLE, Found.ERASED, Found.TAMPERED
SALTS = {"inputs": b"\x01" * 16, "outcome": b"\x02" * 16}


def sealed(n: int, previous: bytes | None, **facts: Any) -> Envelope:
    parts = {"inputs": {"text": f"Message {n}"}, "outcome": {"text": "Hello!"}}
    return seal({"turn": f"turn-{n}", **facts}, parts, n=n, previous=previous, salts=SALTS)


def chain(length: int = 3) -> list[Envelope]:
    made: list[Envelope] = []
    for n in range(1, length + 1):
        made.append(sealed(n, made[-1].digest if made else None))
    return made


def header(one: Envelope, **changes: Any) -> str:
    return json.dumps(json.loads(one.header) | changes, separators=(",", ":"), sort_keys=True)


def part(one: Envelope, name: str, **changes: Any) -> str:
    parts = json.loads(one.parts)
    return json.dumps(parts | {name: parts[name] | changes}, separators=(",", ":"), sort_keys=True)


def without(one: Envelope, *names: str) -> Envelope:
    """The envelope of which these parts were erased, with their salts."""
    parts = {name: None if name in names else body for name, body in json.loads(one.parts).items()}
    return replace(one, parts=json.dumps(parts))


def test_a_chain_is_whole_as_it_was_sealed() -> None:
    assert check(chain()) == [WHOLE, WHOLE, WHOLE]
    assert check([]) == []


def test_names_and_texts_stand_in_parts_alone() -> None:
    (one,) = chain(1)
    assert "Message" not in one.header
    assert "Message 1" in one.parts


def test_what_is_erased_is_told_apart_and_the_chain_holds() -> None:
    first, second, third = chain()
    assert check([without(first, "inputs"), without(second, "inputs", "outcome"), third]) == [
        ERASED, ERASED, WHOLE,
    ]  # fmt: skip


def test_a_part_that_is_not_named_at_all_is_erased_too() -> None:
    (one,) = chain(1)
    parts = json.loads(one.parts)
    assert check([replace(one, parts=json.dumps({"outcome": parts["outcome"]}))]) == [ERASED]


def test_the_salt_keeps_a_guess_of_an_erased_text_from_being_confirmed() -> None:
    def digest_of(salt: bytes) -> str:
        one = seal({}, {"inputs": {"text": "Yes"}}, n=1, previous=None, salts={"inputs": salt})
        named: str = json.loads(one.header)["parts"]["inputs"]
        return named

    assert digest_of(b"a" * 16) != digest_of(b"b" * 16)
    assert digest_of(b"a" * 16) == digest_of(b"a" * 16)


def test_salt_and_text_do_not_run_together() -> None:
    one = seal({}, {"x": {"a": 1}}, n=1, previous=None, salts={"x": b"salt"})
    moved = {"x": {"salt": b"sal".hex(), "body": 't{"a":1}'}}
    assert check([replace(one, parts=json.dumps(moved))]) == [TAMPERED]


TAMPERINGS: dict[str, Any] = {
    "a text": lambda one: replace(one, parts=part(one, "inputs", body='{"text":"Message 9"}')),
    "a salt": lambda one: replace(one, parts=part(one, "inputs", salt="00" * 16)),
    "a fact": lambda one: replace(one, header=header(one, turn="another")),
    "a fact more": lambda one: replace(one, header=header(one, more=1)),
    "a header of the same meaning": lambda one: replace(one, header=f" {one.header}"),
    "the digest": lambda one: replace(one, digest=b"\x00" * 32),
    "the number": lambda one: replace(one, n=one.n + 1),
    "a part that was never sealed": lambda one: replace(
        one, parts=json.dumps(json.loads(one.parts) | {"more": {"salt": "00", "body": "{}"}})
    ),
    "parts of another form": lambda one: replace(one, parts="[]"),
    "parts that are no JSON": lambda one: replace(one, parts="{"),
    "a part without a salt": lambda one: replace(one, parts='{"inputs":{"body":"{}"}}'),
    "a part that is a text": lambda one: replace(one, parts='{"inputs":"x"}'),
    "a header that is no JSON": lambda one: replace(one, header="{"),
    "a header without a number": lambda one: replace(one, header="{}"),
}


@pytest.mark.parametrize("tamper", TAMPERINGS.values(), ids=TAMPERINGS)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_whatever_is_changed_is_found(tamper: Any, at: int) -> None:
    envelopes = chain()
    envelopes[at] = tamper(envelopes[at])
    assert check(envelopes)[at] is TAMPERED


def test_a_changed_envelope_sealed_again_breaks_the_next_one() -> None:
    first, second, third = chain()
    forged = sealed(1, None, more="forged")
    assert check([forged, second, third]) == [WHOLE, TAMPERED, WHOLE]
    assert first.digest != forged.digest


def test_the_first_has_no_predecessor() -> None:
    assert check([sealed(1, b"\x01" * 32)]) == [TAMPERED]


@pytest.mark.parametrize("order", [(1, 2), (0, 2), (1, 0, 2), (0, 2, 1), (0, 0, 1, 2), (2,)])
def test_what_is_left_out_moved_or_doubled_is_found(order: tuple[int, ...]) -> None:
    envelopes = chain()
    assert TAMPERED in check([envelopes[at] for at in order])


def test_what_is_cut_off_at_the_end_shows_only_against_the_row() -> None:
    """A chain can't know how long it was: the conversation's row keeps its length and its head."""
    assert check(chain()[:2]) == [WHOLE, WHOLE]


@given(st.integers(0, 2), st.sampled_from(["header", "parts"]), st.data())
def test_any_one_character_changed_is_found(at: int, column: str, data: st.DataObject) -> None:
    envelopes = chain()
    text = getattr(envelopes[at], column)
    place = data.draw(st.integers(0, len(text) - 1))
    char = data.draw(st.sampled_from([char for char in "0aZ{}:\"' \x7fé" if char != text[place]]))
    changed = replace(envelopes[at], **{column: text[:place] + char + text[place + 1 :]})
    assert check([*envelopes[:at], changed, *envelopes[at + 1 :]])[at] is TAMPERED
