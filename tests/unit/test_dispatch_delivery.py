"""May this reply leave: the checks of the claim in their order, over every combination of conditions."""

from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.dispatch.core.delivery import (
    Decision,
    Discard,
    DraftReason,
    MakeDraft,
    NotYet,
    Origin,
    Send,
    Snapshot,
    Supersede,
    Wait,
    decide,
    is_open,
    part_key,
)
from shared.autonomy import Mode
from shared.channels.traits import TRAITS, traits_of
from shared.ids import OutboundId
from tests.support.factories import NOON, snapshot

LATER = NOON + timedelta(seconds=5)
EARLIER = NOON - timedelta(seconds=5)
WHATSAPP = {"channel": "whatsapp", "traits": TRAITS["whatsapp"]}
WINDOW_CLOSED = WHATSAPP | {"last_customer_at": NOON - timedelta(hours=25)}


def test_a_plain_reply_leaves() -> None:
    assert decide(snapshot()) == Send()


# Each condition by itself

ALONE = [
    # what, the snapshot's fields, decision
    ("a message is not judged", {"unguarded": 1}, NotYet()),
    ("a send is under way", {"sending": True}, NotYet()),
    ("an older reply waits", {"first_in_line": False}, NotYet()),
    ("it backs off", {"not_before": LATER}, Wait(LATER)),
    ("it has backed off", {"not_before": EARLIER}, Send()),
    ("it backs off until now", {"not_before": NOON}, Send()),
    ("the customer opted out", {"opted_out": True}, Discard()),
    ("the account is disabled", {"account_on": False}, Wait(NOON + timedelta(minutes=1))),
    ("the provider said wait", {"account_waits_until": LATER}, Wait(LATER)),
    ("the provider's wait is over", {"account_waits_until": NOON}, Send()),
    ("this person is to wait", {"person_waits_until": LATER}, Wait(LATER)),
    ("this person has waited", {"person_waits_until": NOON}, Send()),
    ("person and account are to wait, the longer counts",
     {"person_waits_until": LATER, "account_waits_until": LATER + timedelta(seconds=1)}, Wait(LATER + timedelta(seconds=1))),
    ("its window is closed", WINDOW_CLOSED, MakeDraft(DraftReason.WINDOW_CLOSED)),
    ("its window is closed, and there is a template", WINDOW_CLOSED | {"has_template": True}, Send(by_template=True)),
    ("handed off since", {"in_handoff": True, "handoff_epoch": 1}, MakeDraft(DraftReason.HANDOFF)),
    ("handed off since, and one send has an unknown outcome",
     {"in_handoff": True, "handoff_epoch": 1, "may_have_left": True}, MakeDraft(DraftReason.MAY_HAVE_ARRIVED)),
    ("handed off and released since", {"handoff_epoch": 2}, MakeDraft(DraftReason.HANDOFF)),
    ("made in this handoff", {"in_handoff": True, "handoff_epoch": 1, "epoch": 1}, Send()),
    ("held as late", {"held": DraftReason.LATE}, MakeDraft(DraftReason.LATE)),
    ("the business is in suggest", {"modes": (Mode.SUGGEST, None, None)}, MakeDraft(DraftReason.SUGGEST)),
    ("the account is in suggest", {"modes": (Mode.AUTO, Mode.SUGGEST, None)}, MakeDraft(DraftReason.SUGGEST)),
    ("the conversation is in suggest", {"modes": (Mode.AUTO, None, Mode.SUGGEST)}, MakeDraft(DraftReason.SUGGEST)),
    ("it was decided in suggest", {"mode_at_decision": Mode.SUGGEST}, MakeDraft(DraftReason.SUGGEST)),
    ("the business is off", {"modes": (Mode.OFF, None, None)}, MakeDraft(DraftReason.MODE_OFF)),
    ("the conversation is off", {"modes": (Mode.AUTO, Mode.SUGGEST, Mode.OFF)}, MakeDraft(DraftReason.MODE_OFF)),
    ("no mode is set", {"modes": (None, None, None)}, Send()),
    ("the customer wrote again", {"customer_seq": 2}, Supersede()),
    ("the customer wrote again, a receipt", {"customer_seq": 2, "receipt": True}, Send()),
    ("the customer wrote again, a part has left", {"customer_seq": 2, "parts_sent": 1}, Send()),
    ("the customer wrote again, it may have left", {"customer_seq": 2, "may_have_left": True}, Send()),
    ("the customer wrote again, an operator decided", {"customer_seq": 2, "round": 2}, Send()),
    ("the customer wrote again, superseded once", {"customer_seq": 2, "superseded_in_row": 1}, Supersede()),
    ("the customer wrote again, superseded twice", {"customer_seq": 2, "superseded_in_row": 2}, Send()),
    ("the customer wrote again, waiting for 30 s",
     {"customer_seq": 2, "unanswered_since": NOON - timedelta(seconds=30)}, Supersede()),
    ("the customer wrote again, waiting for longer",
     {"customer_seq": 2, "unanswered_since": NOON - timedelta(seconds=31)}, Send()),
    ("in suggest, sent by an operator in a later round", {"modes": (Mode.SUGGEST, None, None), "round": 2}, Send()),
    ("in suggest, a part has left", {"modes": (Mode.SUGGEST, None, None), "parts_sent": 1}, Send()),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "decision"), [row[1:] for row in ALONE], ids=[row[0] for row in ALONE])
def test_one_condition(fields: dict[str, Any], decision: Decision) -> None:
    assert decide(snapshot(**fields)) == decision


# The order: of two conditions, the one named first decides

ORDER: list[tuple[str, dict[str, Any], type[Decision] | MakeDraft]] = [
    ("not judged", {"unguarded": 1}, NotYet),
    ("under way", {"sending": True}, NotYet),
    ("not first", {"first_in_line": False}, NotYet),
    ("backs off", {"not_before": LATER}, Wait),
    ("opted out", {"opted_out": True}, Discard),
    ("disabled", {"account_on": False}, Wait),
    ("provider's wait", {"account_waits_until": LATER}, Wait),
    ("this person's wait", {"person_waits_until": LATER}, Wait),
    ("handoff", {"in_handoff": True, "handoff_epoch": 1}, MakeDraft(DraftReason.HANDOFF)),
    ("off", {"modes": (Mode.OFF, None, None)}, MakeDraft(DraftReason.MODE_OFF)),
    ("held", {"held": DraftReason.LATE}, MakeDraft(DraftReason.LATE)),
    ("suggest", {"mode_at_decision": Mode.SUGGEST}, MakeDraft(DraftReason.SUGGEST)),
    ("superseded", {"customer_seq": 2}, Supersede),
    ("window closed", WINDOW_CLOSED, MakeDraft(DraftReason.WINDOW_CLOSED)),
]


def is_it(decision: Decision, wanted: type[Decision] | MakeDraft) -> bool:
    return decision == wanted if isinstance(wanted, MakeDraft) else isinstance(decision, wanted)


def test_over_every_combination_the_first_condition_decides() -> None:
    """All 16,384 of them."""
    for chosen in product([False, True], repeat=len(ORDER)):
        holding = [row for row, holds in zip(ORDER, chosen, strict=True) if holds]
        fields: dict[str, Any] = {}
        for _, more, _ in holding:
            fields |= more
        expected = holding[0][2] if holding else Send
        decision = decide(snapshot(**fields))
        assert is_it(decision, expected), ([name for name, _, _ in holding], decision)


# Origins


@pytest.mark.parametrize("origin", Origin)
@pytest.mark.parametrize(
    ("fields", "asked_of"),
    [
        pytest.param(
            {"modes": (Mode.SUGGEST, None, None)}, {Origin.TURN, Origin.NOTICE, Origin.REMINDER}, id="mode"
        ),
        pytest.param(
            {"modes": (Mode.OFF, None, None)}, {Origin.TURN, Origin.NOTICE, Origin.REMINDER}, id="off"
        ),
        pytest.param(
            {"in_handoff": True, "handoff_epoch": 1},
            {Origin.TURN, Origin.NOTICE, Origin.REMINDER},
            id="handoff",
        ),
        pytest.param({"handoff_epoch": 1}, {Origin.TURN}, id="released since"),
        pytest.param({"customer_seq": 9}, {Origin.TURN}, id="superseded"),
        pytest.param({"opted_out": True}, set(Origin), id="opted out"),
        pytest.param({"account_on": False}, set(Origin), id="disabled"),
        pytest.param({"unguarded": 1}, set(Origin), id="not judged"),
    ],
)
def test_whom_a_check_is_for(origin: Origin, fields: dict[str, Any], asked_of: set[Origin]) -> None:
    decision = decide(snapshot(origin=origin, **fields))
    assert (decision != Send()) is (origin in asked_of)


def test_an_operator_s_draft_of_the_bot_that_was_sent_obeys_opt_out_and_handoff() -> None:
    approved = snapshot(round=2)
    assert decide(replace(approved, opted_out=True)) == Discard()
    assert decide(replace(approved, in_handoff=True, handoff_epoch=1)) == MakeDraft(DraftReason.HANDOFF)


# Whatever comes together


@given(
    st.fixed_dictionaries(
        {
            "origin": st.sampled_from(Origin),
            "unguarded": st.integers(0, 1),
            "sending": st.booleans(),
            "opted_out": st.booleans(),
            "modes": st.tuples(*[st.none() | st.sampled_from(Mode)] * 3),
            "mode_at_decision": st.sampled_from(Mode),
            "in_handoff": st.booleans(),
            "epoch": st.integers(0, 1),
            "handoff_epoch": st.integers(0, 1),
            "account_on": st.booleans(),
            "round": st.integers(1, 2),
            "parts_sent": st.integers(0, 1),
            "receipt": st.booleans(),
            "may_have_left": st.booleans(),
            "held": st.none() | st.just(DraftReason.LATE),
            "customer_seq": st.integers(1, 2),
            "superseded_in_row": st.integers(0, 2),
            "traits": st.sampled_from([TRAITS["sim"], TRAITS["whatsapp"]]),
            "last_customer_at": st.none() | st.just(NOON) | st.just(NOON - timedelta(days=2)),
            "window_closed_at": st.none() | st.just(NOON) | st.just(NOON - timedelta(days=1)),
            "has_template": st.booleans(),
            "person_waits_until": st.none() | st.just(LATER),
        }
    )
)
def test_what_never_leaves(fields: dict[str, Any]) -> None:
    reply: Snapshot = snapshot(**fields)
    decision = decide(reply)
    if isinstance(decision, Send):
        assert decision.by_template is not is_open(reply)
        assert not (decision.by_template and (reply.parts_sent or not reply.has_template))
        assert reply.person_waits_until is None
        assert not reply.opted_out
        assert not reply.unguarded
        assert not reply.sending
        assert reply.account_on
        if reply.origin is not Origin.OPERATOR:
            assert not (reply.in_handoff and reply.epoch != reply.handoff_epoch)
            if reply.round == 1 and not reply.parts_sent:
                assert Mode.OFF not in reply.modes
                assert Mode.SUGGEST not in reply.modes
                assert reply.held is None
    if decision == Supersede():
        assert reply.origin is Origin.TURN
        assert not reply.receipt
        assert not reply.may_have_left


# The window for free text: 24 hours after the customer's last message, less ten minutes

MARGIN = timedelta(hours=23, minutes=50)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("fields", "opened"),
    [
        ({"last_customer_at": NOON - MARGIN + SECOND}, True),
        ({"last_customer_at": NOON - MARGIN}, False),
        ({"last_customer_at": None}, False),
        ({"last_customer_at": NOON - SECOND, "window_closed_at": NOON - 2 * SECOND}, True),
        ({"last_customer_at": NOON - SECOND, "window_closed_at": NOON - SECOND}, False),
        ({"last_customer_at": NOON - 2 * SECOND, "window_closed_at": NOON - SECOND}, False),
    ],
    ids=[
        "just open",
        "just closed",
        "never wrote",
        "wrote since the channel said no",
        "at that moment",
        "not since",
    ],
)
def test_when_the_window_is_open(fields: dict[str, Any], opened: bool) -> None:
    assert is_open(snapshot(**(WHATSAPP | fields))) is opened
    assert is_open(snapshot(**fields)), "a channel that has none"


@pytest.mark.parametrize("origin", Origin)
def test_outside_the_window_nobody_s_free_text_leaves(origin: Origin) -> None:
    decision = decide(snapshot(origin=origin, **WINDOW_CLOSED))
    assert decision == MakeDraft(DraftReason.WINDOW_CLOSED)


def test_over_twilio_only_whatsapp_s_senders_have_a_window() -> None:
    at = {"channel": "twilio", "last_customer_at": None}
    sms, whatsapp = "+40700000001", "whatsapp:+40700000001"
    assert decide(snapshot(user_id=sms, traits=traits_of("twilio", sms), **at)) == Send()
    closed = snapshot(user_id=whatsapp, traits=traits_of("twilio", whatsapp), **at)
    assert decide(closed) == MakeDraft(DraftReason.WINDOW_CLOSED)


@pytest.mark.parametrize(
    ("fields", "fits"),
    [
        ({"body": "x" * 1000}, True),
        ({"body": "x" * 1001}, False),
        ({"body": "x", "parts_sent": 1}, False),
        ({"body": "👍" * 801, "traits": traits_of("twilio", "whatsapp:+40700000001")}, False),
    ],
    ids=["just", "too long", "a part has left", "more than one part"],
)
def test_by_template_goes_what_fits_it_whole(fields: dict[str, Any], fits: bool) -> None:
    decision = decide(snapshot(**(WINDOW_CLOSED | {"has_template": True} | fields)))
    assert decision == (Send(by_template=True) if fits else MakeDraft(DraftReason.WINDOW_CLOSED))


def test_a_reminder_by_template_waits_for_the_morning_and_one_without_is_for_people_at_once() -> None:
    night = WINDOW_CLOSED | {"origin": Origin.REMINDER, "local_now": NOON.replace(hour=23)}
    assert decide(snapshot(**night, has_template=True)) == Wait(NOON + timedelta(hours=9))
    assert decide(snapshot(**night)) == MakeDraft(DraftReason.WINDOW_CLOSED)


# Quiet hours: reminders wait, answers don't


def at_night(**fields: Any) -> Snapshot:
    """At eleven at night, local time; quiet from nine to eight."""
    return snapshot(**({"local_now": NOON.replace(hour=23)} | fields))


@pytest.mark.parametrize("origin", Origin)
def test_at_night_reminders_wait_for_the_morning_and_nothing_else_does(origin: Origin) -> None:
    waits = Wait(NOON + timedelta(hours=9))
    assert decide(at_night(origin=origin)) == (waits if origin is Origin.REMINDER else Send())


def test_a_reminder_of_which_a_part_has_left_is_finished() -> None:
    assert decide(at_night(origin=Origin.REMINDER, parts_sent=1)) == Send()


@pytest.mark.parametrize(
    ("fields", "decision"),
    [
        ({"opted_out": True}, Discard()),
        ({"modes": (Mode.SUGGEST, None, None)}, MakeDraft(DraftReason.SUGGEST)),
        ({"in_handoff": True, "handoff_epoch": 1}, MakeDraft(DraftReason.HANDOFF)),
    ],
    ids=["opted out", "mode", "handoff"],
)
def test_every_other_check_comes_before_the_night(fields: dict[str, Any], decision: Decision) -> None:
    assert decide(at_night(origin=Origin.REMINDER, **fields)) == decision


def test_by_day_a_reminder_leaves() -> None:
    assert decide(snapshot(origin=Origin.REMINDER)) == Send()


# The idempotency key

ONE, TWO = OutboundId(UUID(int=1)), OutboundId(UUID(int=2))


def test_the_key_is_the_same_for_every_attempt_and_another_for_every_part_and_round() -> None:
    keys = {
        part_key(outbound, round_, part)
        for outbound in (ONE, TWO)
        for round_ in (1, 2, 12)
        for part in (1, 2, 21)
    }
    assert len(keys) == 18
    assert part_key(ONE, 1, 2) == part_key(ONE, 1, 2)


def test_the_key_may_stand_in_a_webhook_id() -> None:
    assert part_key(ONE, 1, 2) == "out_00000000000000000000000000000001_1_2"
    assert "." not in part_key(ONE, 1, 2)
