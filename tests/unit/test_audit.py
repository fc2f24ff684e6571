"""The chain of the audit log, by value: what breaks it, where, and what does not."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.audit import GENESIS, Broken, Entry, Head, Intact, Note, chained, verify
from shared.digest import canonical, digest, text_digest
from shared.ids import BusinessId

AT = datetime(2026, 12, 3, 10, 0, tzinfo=UTC)


def entry(n: int, **fields: Any) -> Entry:
    plain = {"actor": "ana", "action": "draft.send", "subject": f"draft {n}", "detail": "{}"}
    return Entry(
        business=fields.pop("business", BusinessId(1)),
        n=n,
        at=fields.pop("at", AT + timedelta(seconds=n)),
        note=Note(**(plain | fields)),
    )


def chain(*entries: Entry) -> list[tuple[Entry, bytes]]:
    written, before = [], GENESIS
    for one in entries:
        before = chained(before, one)
        written.append((one, before))
    return written


def head(written: list[tuple[Entry, bytes]]) -> Head:
    return Head(n=written[-1][0].n, digest=written[-1][1]) if written else Head()


WRITTEN = chain(*(entry(n) for n in range(1, 6)))


@pytest.mark.parametrize("length", range(6))
def test_what_is_as_it_was_written_is_intact(length: int) -> None:
    written = WRITTEN[:length]
    assert verify(written, head(written)) == Intact(head=head(written))


CHANGES: dict[str, dict[str, Any]] = {
    "actor": {"actor": "bogdan"},
    "action": {"action": "draft.discard"},
    "subject": {"subject": "draft 9"},
    "detail": {"detail": '{"a":1}'},
    "time": {"at": AT + timedelta(microseconds=1)},
    "business": {"business": BusinessId(2)},
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("n", [1, 3, 5])
def test_an_entry_that_was_changed_is_named(change: str, n: int) -> None:
    tampered = [(entry(n, **CHANGES[change]) if one.n == n else one, stored) for one, stored in WRITTEN]
    assert verify(tampered, head(WRITTEN)) == Broken(n=n, what="is not as it was written")


def test_an_entry_written_anew_with_its_digest_breaks_the_next() -> None:
    forged = entry(3, actor="bogdan")
    tampered = [*WRITTEN[:2], (forged, chained(WRITTEN[1][1], forged)), *WRITTEN[3:]]
    assert verify(tampered, head(WRITTEN)) == Broken(n=4, what="is not as it was written")


@pytest.mark.parametrize("n", range(1, 6))
def test_an_entry_that_is_missing_is_named(n: int) -> None:
    assert verify([one for one in WRITTEN if one[0].n != n], head(WRITTEN)) == Broken(n=n, what="is missing")


def test_entries_that_changed_places_are_found() -> None:
    swapped = [WRITTEN[0], WRITTEN[2], WRITTEN[1], *WRITTEN[3:]]
    assert verify(swapped, head(WRITTEN)) == Broken(n=2, what="is missing")


def test_an_entry_that_was_put_in_is_found() -> None:
    added = entry(6)
    longer = [*WRITTEN, (added, chained(WRITTEN[-1][1], added))]
    assert verify(longer, head(WRITTEN)) == Broken(n=6, what="does not fit the chain's head")


def test_a_whole_chain_written_anew_is_told_by_a_head_that_was_noted() -> None:
    forged = chain(*(entry(n, actor="bogdan") for n in range(1, 6)))
    assert verify(forged, head(forged)) == Intact(head=head(forged))
    assert verify(forged, head(WRITTEN)) == Broken(n=5, what="does not fit the chain's head")


def test_the_zone_of_a_time_is_no_part_of_it() -> None:
    here = replace(entry(1), at=entry(1).at.astimezone(timezone(timedelta(hours=2))))
    assert chained(GENESIS, here) == chained(GENESIS, entry(1))


@given(
    st.lists(st.text(max_size=8), min_size=4, max_size=4),
    st.lists(st.text(max_size=8), min_size=4, max_size=4),
)
def test_no_two_notes_have_one_digest(one: list[str], other: list[str]) -> None:
    names = ("actor", "action", "subject", "detail")
    first = entry(1, **dict(zip(names, one, strict=True)))
    second = entry(1, **dict(zip(names, other, strict=True)))
    assert (chained(GENESIS, first) == chained(GENESIS, second)) is (one == other)


def test_canonical_text_does_not_depend_on_order() -> None:
    assert (
        canonical({"b": 1, "a": {"d": 1, "c": 2}})
        == canonical({"a": {"c": 2, "d": 1}, "b": 1})
        == '{"a":{"c":2,"d":1},"b":1}'
    )


def test_what_a_confirmation_stands_for_does_not_run_together() -> None:
    assert digest("a", "bc", "d") != digest("ab", "c", "d") != digest("a", "b", "cd")
    assert len(digest("", "", "")) == len(text_digest("")) == 32
