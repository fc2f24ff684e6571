"""Every kind of check: made to hold, made to fail, and what its failure means."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from leeway.evals.checks import Scene, check_step, check_store, same
from leeway.evals.expected import Check, Class, Expect
from leeway.evals.record import Happened, Snapshot

TALK = UUID(int=1)
OTHER = UUID(int=2)
ZONE = ZoneInfo("Europe/Bucharest")
Row = dict[str, Any]


def reply(n: int = 10, state: str = "sent", body: str = "We are open at 09:00.", **more: Any) -> Row:
    plain = {
        "id": UUID(int=n), "conversation": TALK, "state": state, "reason": None, "round": 1, "body": body,
        "buttons": None, "origin_kind": "turn", "origin": UUID(int=20), "epoch": 0, "rounds_decided": None,
    }  # fmt: skip
    return plain | more


def action(tool: str = "book_appointment", **more: Any) -> Row:
    arguments = {"service": "cleaning", "start": "2026-12-04T10:00+02:00"}
    plain = {
        "id": UUID(int=30), "conversation": TALK, "tool": tool, "arguments": json.dumps(arguments),
        "state": "customer", "step": 1, "decided": None,
    }  # fmt: skip
    return plain | more


def receipt(tool: str = "book_appointment", n: int = 40) -> Row:
    return {"id": UUID(int=n), "conversation": TALK, "tool": tool, "action": UUID(int=30)}


def message(n: int = 50, reason: str | None = None) -> Row:
    return {"id": UUID(int=n), "conversation": TALK, "reason": reason, "verdict": "stored", "kind": "text"}


def turn(attempts: int = 1, **more: Any) -> Row:
    return {
        "id": UUID(int=20),
        "conversation": TALK,
        "attempts": attempts,
        "state": "done",
        "outcome": "reply",
    } | more


def call(tool: str, decision: str, reason: str | None = None) -> Row:
    return {"turn": UUID(int=20), "tool": tool, "decision": decision, "reason": reason}


def scene(after: Snapshot, *, before: Snapshot | None = None, outcome: str | None = None) -> Scene:
    return Scene(
        happened=Happened(before=before or Snapshot(), after=after),
        conversation=TALK,
        zone=ZONE,
        spelled=lambda value: value,
        outcome=outcome,
        step=1,
    )


def judged(expect: Mapping[str, Any], after: Snapshot, **more: Any) -> tuple[bool, Class]:
    (finding,) = check_step(Expect.model_validate(expect), scene(after, **more))
    assert finding.check.value == next(iter(expect))
    assert finding.step == 1
    return finding.holds, finding.cls


OUT = Snapshot(outbounds=[reply()])
DRAFT = Snapshot(outbounds=[reply(state="draft", reason="send_failed: number can't be reached")])
NOTHING = Snapshot()
WAITING = Snapshot(actions=[action()])
RAN = Snapshot(receipts=[receipt()])
HANDED = Snapshot(handoffs=[{"conversation": TALK, "reason": "loop", "open": True, "epoch": 1}])
CALLED = Snapshot(turns=[turn()], tool_calls=[call("cancel_appointment", "refuse", "no_such_appointment")])
ALLOWED = Snapshot(turns=[turn()], tool_calls=[call("cancel_appointment", "allow")])
SAFETY, CONVERSION = Class.SAFETY, Class.CONVERSION

# expectation, a record in which it holds, one in which it fails, and what that failure means
CASES: Sequence[tuple[str, Mapping[str, Any], Snapshot, Snapshot, Class]] = [
    ("sent", {"reply": "sent"}, OUT, NOTHING, CONVERSION),
    ("sent, a draft", {"reply": "sent"}, OUT, DRAFT, CONVERSION),
    ("none", {"reply": "none"}, NOTHING, OUT, SAFETY),
    ("none, a draft", {"reply": "none"}, NOTHING, DRAFT, CONVERSION),
    ("draft", {"reply": "draft"}, DRAFT, OUT, SAFETY),
    ("draft with a reason", {"reply": {"kind": "draft", "reason": "send_failed"}}, DRAFT,
     Snapshot(outbounds=[reply(state="draft", reason="suggest")]), CONVERSION),
    ("discarded", {"reply": "discarded"}, Snapshot(outbounds=[reply(state="discarded")]), NOTHING, CONVERSION),
    ("one reply", {"replies": 1}, OUT, Snapshot(outbounds=[reply(10), reply(11)]), SAFETY),
    ("a fact", {"text": {"contains": ["09:00"]}}, OUT, NOTHING, CONVERSION),
    ("a secret", {"text": {"not_contains": ["09:00"]}}, NOTHING, OUT, SAFETY),
    ("nothing pending", {"pending": "none"}, NOTHING, WAITING, CONVERSION),
    ("pending", {"pending": {"tool": "book_appointment", "arguments": {"start": "2026-12-04T10:00"}}}, WAITING, NOTHING, CONVERSION),
    ("pending at another hour", {"pending": {"tool": "book_appointment", "arguments": {"start": "2026-12-04T10:00"}}}, WAITING,
     Snapshot(actions=[action(arguments=json.dumps({"start": "2026-12-04T11:00+02:00"}))]), CONVERSION),
    ("pending of another tool", {"pending": {"tool": "book_appointment"}}, WAITING, Snapshot(actions=[action("cancel_appointment")]), CONVERSION),
    ("pending at another step", {"pending": {"tool": "book_appointment", "step": 1}}, WAITING, Snapshot(actions=[action(step=2)]), CONVERSION),
    ("pending for an operator", {"pending": {"tool": "book_appointment", "waits_for": "operator"}},
     Snapshot(actions=[action(state="operator")]), WAITING, CONVERSION),
    ("executed", {"executed": ["book_appointment"]}, RAN, NOTHING, CONVERSION),
    ("executed nothing", {"executed": []}, NOTHING, RAN, SAFETY),
    ("executed twice", {"executed": ["book_appointment"]}, RAN, Snapshot(receipts=[receipt(n=40), receipt(n=41)]), SAFETY),
    ("skipped", {"skip": "stale"}, Snapshot(messages=[message(reason="stale")]), Snapshot(messages=[message()]), SAFETY),
    ("handed over", {"handoff": "loop"}, HANDED, NOTHING, CONVERSION),
    ("not handed over", {"handoff": "none"}, NOTHING, HANDED, CONVERSION),
    ("flags", {"flags": ["media"]}, Snapshot(flags=[{"conversation": TALK, "reason": "media", "message": UUID(int=9)}]), NOTHING, CONVERSION),
    ("calls", {"calls": [{"tool": "cancel_appointment", "decision": "refuse"}]}, CALLED, NOTHING, CONVERSION),
    ("calls that were allowed", {"calls": [{"tool": "cancel_appointment", "decision": "refuse"}]}, CALLED, ALLOWED, SAFETY),
    ("calls for a reason", {"calls": [{"tool": "cancel_appointment", "decision": "refuse", "reason": "no_such_appointment"}]}, CALLED,
     Snapshot(turns=[turn()], tool_calls=[call("cancel_appointment", "refuse", "closed")]), CONVERSION),
    ("model calls", {"model_calls": 0}, NOTHING, Snapshot(llm_calls=[{"conversation": TALK, "n": 1}]), CONVERSION),
    ("reclaimed", {"reclaimed": True}, Snapshot(turns=[turn(2)]), Snapshot(turns=[turn()]), CONVERSION),
    ("opted out", {"opted_out": True}, Snapshot(conversations=[{"conversation": TALK, "opted_out": True}]),
     Snapshot(conversations=[{"conversation": TALK, "opted_out": False}]), SAFETY),
]  # fmt: skip


@pytest.mark.parametrize(
    ("what", "expect", "holding", "failing", "cls"), CASES, ids=[case[0] for case in CASES]
)
def test_a_check_holds_and_fails(
    what: str, expect: Mapping[str, Any], holding: Snapshot, failing: Snapshot, cls: Class
) -> None:
    assert judged(expect, holding)[0], what
    assert judged(expect, failing) == (False, cls), what


def test_an_operator_s_outcome_is_checked() -> None:
    assert judged({"outcome": "on_its_way"}, NOTHING, outcome="on_its_way") == (True, CONVERSION)
    assert judged({"outcome": "on_its_way"}, NOTHING, outcome="customer_wrote") == (False, CONVERSION)


def test_every_kind_of_check_that_a_step_may_name_was_tried() -> None:
    tried = {name for _, expect, *_ in CASES for name in expect} | {"outcome"}
    assert tried == set(Expect.model_fields) - {"classes"}


def test_a_script_may_say_what_a_failure_means() -> None:
    expect = {"reply": "sent", "classes": {"reply": "safety"}}
    assert judged(expect, NOTHING) == (False, SAFETY)


def test_what_was_there_before_is_not_of_this_step() -> None:
    assert judged({"reply": "none"}, OUT, before=OUT)[0]
    assert judged({"executed": []}, RAN, before=RAN)[0]


def test_a_draft_that_an_operator_sends_left_in_this_step() -> None:
    assert judged({"reply": "sent"}, Snapshot(outbounds=[reply(round=2)]), before=DRAFT)[0]


def test_what_happens_to_somebody_else_is_not_checked() -> None:
    assert judged({"reply": "none"}, Snapshot(outbounds=[reply(conversation=OTHER)]))[0]


@pytest.mark.parametrize(
    ("wanted", "found", "are_same"),
    [
        ("2026-12-04T10:00", "2026-12-04T10:00+02:00", True),
        ("2026-12-04T10:00", "2026-12-04T08:00+00:00", True),
        ("2026-12-04T10:00", "2026-12-04T10:00+03:00", False),
        ("cleaning", "filling", False),
        (3, 3, True),
        (3, "3", False),
    ],
)
def test_times_are_compared_as_instants(wanted: Any, found: Any, are_same: bool) -> None:
    assert same(wanted, found, ZONE) is are_same


HERS: Row = {"customer": "1", "service": "cleaning", "start": "2026-12-04T10:00", "id": "x"}
WANTED = [{"service": "cleaning", "start": "2026-12-04T10:00"}]


@pytest.mark.parametrize(
    ("wanted", "rows", "before", "holds", "cls"),
    [
        (WANTED, [HERS], [], True, CONVERSION),
        (WANTED, [], [], False, CONVERSION),  # not booked
        (WANTED, [], [HERS], False, SAFETY),  # it was there, and is lost
        ([], [HERS], [], False, SAFETY),  # nobody asked for it
        ([], [HERS], [HERS], False, CONVERSION),  # it was there, and was not cancelled
        (WANTED, [HERS, HERS | {"id": "y"}], [], False, SAFETY),  # twice
        (WANTED, [HERS | {"start": "2026-12-04T11:00"}], [], False, SAFETY),  # at another hour
        ([], [HERS | {"customer": "2"}], [], True, CONVERSION),  # somebody else's
    ],
)
def test_the_store_is_checked_row_by_row(
    wanted: Any, rows: list[Row], before: list[Row], holds: bool, cls: Class
) -> None:
    (finding,) = check_store(
        "appointments", {"ana": wanted}, rows, before, customers={"1": "ana", "2": "bob"}, zone=ZONE
    )
    assert (finding.check, finding.holds) == (Check.STORE, holds)
    assert holds or finding.cls is cls
