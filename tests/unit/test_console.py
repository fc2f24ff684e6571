"""What the desk says and how lists name things: by value."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeway.operators import actor, clock, one_line
from services.console.core import outcomes as o
from services.console.core.drafts import Seen, named
from services.console.core.waiting import Match, prefix_range, short, the_one
from services.console.core.wording import sentence
from shared.digest import text_digest
from shared.ids import ConversationId, OutboundId, new_id

AT = datetime(2026, 12, 3, 10, 0, tzinfo=UTC)
VALUES: dict[str, Any] = {
    "by": "ana", "what": "send", "at": AT, "state": "superseded", "round": 1, "text": "Hello", "why": "That time is taken.",
    "summary": "Book: cleaning.", "most": 300, "reason": "loop", "until": AT, "outbound": OutboundId(UUID(int=1)),
    "edited": True, "ended_request": True, "approved": True, "conversation": ConversationId(UUID(int=2)),
}  # fmt: skip
EVERY = (*get_args(o.Done), *get_args(o.NotPossible))


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_every_outcome_has_a_sentence(kind: type) -> None:
    said = sentence(kind(**{name: VALUES[name] for name in kind.__dataclass_fields__}))
    assert said.endswith(".")
    assert "\n" not in said


def test_a_sentence_names_who_was_first_and_when() -> None:
    said = sentence(o.AlreadyDecided(by="ana", what="edit", at=AT))
    assert said == "Already decided by ana (edited and sent, 2026-12-03 10:00 UTC)."


def test_every_end_of_an_action_has_words() -> None:
    schema = (Path(__file__).parents[2] / "shared/database/schema.sql").read_text(encoding="utf-8")
    (listed,) = re.findall(r"check \(state in \(('customer', 'operator', [^)]*)\)\)", schema)
    states = set(re.findall(r"'(\w+)'", listed)) - {"operator"}
    assert len(states) > 5
    for state in states:
        assert f"({state})" not in sentence(o.RequestClosed(state=state)), state


@given(st.uuids(), st.integers(6, 32))
def test_a_beginning_of_an_id_finds_it(id_: UUID, length: int) -> None:
    for text in (id_.hex[:length], str(id_)[: length + 4], id_.hex[:length].upper()):
        between = prefix_range(text)
        assert between is not None
        assert between.first <= id_ <= between.last


@pytest.mark.parametrize(
    "text", ["", "01a2e", "zzzzzz", "01a22e8b-c3fe@a1", "0" * 33, "01a22é", "٣٣٣٣٣٣", "%" * 8]
)
def test_what_begins_no_id_is_none(text: str) -> None:
    assert prefix_range(text) is None


@given(st.lists(st.uuids(), min_size=1, max_size=8, unique=True))
def test_short_names_tell_things_apart(ids: list[UUID]) -> None:
    names = [short(one, ids) for one in ids]
    assert len(set(names)) == len(ids)
    for one, name in zip(ids, names, strict=True):
        between = prefix_range(name)
        assert between is not None
        assert [other for other in ids if between.first <= other <= between.last] == [one]


def test_ids_of_one_millisecond_get_longer_names() -> None:
    one = UUID("01a22e8b-c3fe-74a2-ba7f-86453b1f09ed")
    assert short(one, [one]) == "01a22e8b-c3fe"
    assert short(one, [one, UUID("01a22e8b-c3fe-74a3-ba7f-86453b1f09ed")]) == "01a22e8b-c3fe-74a2"


def test_what_waits_comes_before_what_does_not() -> None:
    waits, decided, other = new_id(), new_id(), new_id()
    assert the_one([Match(id=other, rank=2), Match(id=waits, rank=0)]) == waits
    assert the_one([Match(id=decided, rank=1), Match(id=other, rank=2)]) == decided
    assert the_one([Match(id=decided, rank=1), Match(id=other, rank=1)]) is None
    assert the_one([]) is None


def seen(text: str, round_: int = 1) -> Seen:
    return Seen(round=round_, digest=text_digest(text))


def test_a_code_names_text_and_round() -> None:
    there = [seen("Hello", 2), seen("Hello", 1)]
    assert named(None, there) == there[0]
    assert named(there[1].code.upper(), there) == there[1]
    assert named(seen("Bye").code, there) == Seen(round=2, digest=b"")
    assert named(None, []) == named("abcdef", []) == Seen(round=0, digest=b"")
    assert len({seen("Hello", 1).code, seen("Hello", 2).code, seen("Hello!", 1).code}) == 3


@pytest.mark.parametrize(
    ("waited", "said"),
    [
        (-5, "less than a minute"), (59, "less than a minute"), (60, "1 min"), (12 * 60, "12 min"), (3_600, "1 h 00 min"),
        (47 * 3_600 + 240, "47 h 04 min"), (50 * 3_600, "2 d 2 h"),
    ],
)  # fmt: skip
def test_clocks(waited: int, said: str) -> None:
    assert clock(AT, AT + timedelta(seconds=waited)) == said


def test_an_operator_has_a_name() -> None:
    assert actor(" Ana\x1b[2J  Maria\n") == "Ana [2J Maria"
    assert actor(None)
    for nobody in ("", " \n", "\u200b", "x" * 61):
        with pytest.raises(Exception, match="--as takes a name"):
            actor(nobody)


def test_a_text_from_outside_is_one_line_that_steers_nothing() -> None:
    assert one_line("a\x1b[2J\r\n\tb\u202ec") == "a\\u001b[2J\\u000d b\\u202ec"
    assert one_line("x" * 500) == "x" * 199 + "…"
