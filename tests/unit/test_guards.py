"""The sixteen guards: each alone, their order, and how the snapshot goes on from message to message."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.guard.core.guards import GUARDS, in_order, judge
from services.guard.core.verdict import Facts, Judged, Judgement, Notice, Reason, Said, Unjudged
from shared.autonomy import Mode
from shared.ids import MessageId
from shared.locales import load
from shared.messages import MessageKind, Verdict

EN, RO = load("en"), load("ro")
NOON = datetime(2026, 12, 3, 12, 0, tzinfo=UTC)
OWN = "+40200000001"
ANA = "+40700000001"
AWAY = "Thank you for your message, our desk opens again on Monday."


def after(**time: float) -> datetime:
    return NOON + timedelta(**time)


def said(text: str, at: datetime) -> Said:
    return Said(text=text, received_at=at)


_number = iter(range(1, 1_000_000))


def message(text: str = "Do you have a place on Monday?", at: datetime = NOON, **fields: Any) -> Unjudged:
    plain = {
        "id": MessageId(UUID(int=next(_number))),
        "kind": MessageKind.TEXT,
        "channel_at": at,
        "received_at": at,
        "sender": ANA,
    }
    return Unjudged(text=text, **(plain | fields))


def facts(**fields: Any) -> Facts:
    return Facts(**({"mode": Mode.AUTO, "own_addresses": frozenset({OWN})} | fields))


def judge_all(messages: Sequence[Unjudged], **fields: Any) -> Judgement:
    return judge(messages, facts(**fields), (EN, RO))


def judge_one(one: Unjudged, **fields: Any) -> Judged:
    (judged,) = judge_all([one], **fields).judged
    return judged


def reasons(judgement: Judgement) -> list[Reason | None]:
    return [judged.reason for judged in judgement.judged]


def echo(at: datetime = NOON, **fields: Any) -> Unjudged:
    return message("Yes, come at 5", at, kind=MessageKind.ECHO, sender=OWN, **fields)


def test_a_plain_message_is_left_to_a_turn() -> None:
    one = message()
    assert judge_one(one) == Judged(message=one.id, verdict=Verdict.TURN, customer_spoke=True, locale="en")


# One guard each: what speaks to it, what it decides

STORED = {"verdict": Verdict.STORED}
HANDED_OVER = {"verdict": Verdict.HANDOFF, "handoff": True, "clears_action": True}
STALE = {"channel_at": after(hours=-1, seconds=-1), "received_at": NOON}


@pytest.mark.parametrize(
    ("one", "snapshot", "decision"),
    [
        pytest.param(
            message(kind=MessageKind.SYSTEM), {}, STORED | {"reason": Reason.SYSTEM_MESSAGE}, id="2 system"
        ),
        pytest.param(
            message("👍", kind=MessageKind.REACTION),
            {},
            STORED | {"reason": Reason.REACTION},
            id="2 reaction",
        ),
        pytest.param(echo(from_us=True), {}, STORED | {"reason": Reason.FROM_ME}, id="3 our own echo"),
        pytest.param(
            echo(),
            {},
            STORED | {"reason": Reason.OWNER_TAKEOVER, "handoff": True, "clears_action": True},
            id="3 the owner on the phone",
        ),
        pytest.param(message(sender=OWN), {}, STORED | {"reason": Reason.SELF_ECHO}, id="4 our own address"),
        pytest.param(
            message("yes", kind=MessageKind.GROUP), {}, STORED | {"reason": Reason.GROUP}, id="5 group"
        ),
        pytest.param(
            message("STOP"),
            {},
            {
                "verdict": Verdict.CONSENT,
                "reason": Reason.OPT_OUT,
                "opt_out": True,
                "clears_action": True,
                "customer_spoke": True,
            },
            id="6 opt-out",
        ),
        pytest.param(
            message("START"),
            {"opted_out": True},
            {
                "verdict": Verdict.CONSENT,
                "reason": Reason.OPT_IN,
                "opt_out": False,
                "customer_spoke": True,
                "notice": Notice.OPTED_IN,
            },
            id="6 opt-in",
        ),
        pytest.param(message(), {"opted_out": True}, STORED | {"reason": Reason.OPTED_OUT}, id="7 opted out"),
        pytest.param(
            message(), {"account_on": False}, STORED | {"reason": Reason.CHANNEL_DISABLED}, id="8 account off"
        ),
        pytest.param(
            message(), {"mode": Mode.OFF}, STORED | {"reason": Reason.AUTONOMY_OFF}, id="9 mode off"
        ),
        pytest.param(
            message(), {"in_handoff": True}, STORED | {"reason": Reason.HANDOFF_ACTIVE}, id="10 in handoff"
        ),
        pytest.param(
            message("operator"),
            {},
            HANDED_OVER
            | {
                "reason": Reason.HANDOFF_REQUESTED,
                "notice": Notice.HANDOFF_REQUESTED,
                "customer_spoke": True,
            },
            id="11 a person, please",
        ),
        pytest.param(
            message(auto_reply=True), {}, HANDED_OVER | {"reason": Reason.LOOP}, id="12 loop, silently"
        ),
        pytest.param(
            message(),
            {"messages_in_10_min": 20},
            HANDED_OVER | {"reason": Reason.RATE_LIMITED, "notice": Notice.RATE_LIMITED},
            id="13 the twenty-first",
        ),
        pytest.param(message(**STALE), {}, STORED | {"reason": Reason.STALE, "flag": True}, id="14 stale"),
        pytest.param(
            message("", kind=MessageKind.UNSUPPORTED),
            {},
            {"verdict": Verdict.TURN, "reason": Reason.UNSUPPORTED, "customer_spoke": True},
            id="15 a sticker",
        ),
        pytest.param(
            message(),
            {"cap_reached": True},
            HANDED_OVER | {"reason": Reason.BUDGET, "notice": Notice.BUDGET},
            id="16 budget",
        ),
    ],
)
def test_each_guard_decides_what_its_row_says(
    one: Unjudged, snapshot: dict[str, Any], decision: dict[str, Any]
) -> None:
    decided = judge_one(one, **snapshot)
    assert decided == Judged(message=one.id, locale=decided.locale, **decision)


def test_a_message_that_comes_twice_is_a_duplicate_and_changes_nothing() -> None:
    one = message()
    twice = judge_all([one, one])
    assert reasons(twice) == [None, Reason.DUPLICATE]
    assert twice.after == judge_all([one]).after


# Of two guards that would speak, the earlier one does

SPEAKS: dict[Reason, tuple[dict[str, Any], dict[str, Any]]] = {
    Reason.GROUP: ({"kind": MessageKind.GROUP}, {}),
    Reason.SELF_ECHO: ({"sender": OWN}, {}),
    Reason.OPT_OUT: ({"opt_word": "opt_out"}, {}),
    Reason.OPTED_OUT: ({}, {"opted_out": True}),
    Reason.CHANNEL_DISABLED: ({}, {"account_on": False}),
    Reason.AUTONOMY_OFF: ({}, {"mode": Mode.OFF}),
    Reason.HANDOFF_ACTIVE: ({}, {"in_handoff": True}),
    Reason.HANDOFF_REQUESTED: ({"text": "operator"}, {}),
    Reason.LOOP: ({"auto_reply": True}, {}),
    Reason.RATE_LIMITED: ({}, {"messages_in_10_min": 20}),
    Reason.STALE: (STALE, {}),
    Reason.UNSUPPORTED: ({"text": " "}, {}),
    Reason.BUDGET: ({}, {"cap_reached": True}),
}
ORDER = (
    Reason.SELF_ECHO,
    Reason.GROUP,
    Reason.OPT_OUT,
    Reason.OPTED_OUT,
    Reason.CHANNEL_DISABLED,
    Reason.AUTONOMY_OFF,
    Reason.HANDOFF_ACTIVE,
    Reason.HANDOFF_REQUESTED,
    Reason.LOOP,
    Reason.RATE_LIMITED,
    Reason.STALE,
    Reason.UNSUPPORTED,
    Reason.BUDGET,
)
BOTH_BY_TEXT = {(Reason.HANDOFF_REQUESTED, Reason.UNSUPPORTED)}  # one message can't be both


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(one, other, id=f"{one} before {other}")
        for at, one in enumerate(ORDER)
        for other in ORDER[at + 1 :]
        if (one, other) not in BOTH_BY_TEXT
    ],
)
def test_the_first_guard_that_speaks_decides(first: Reason, second: Reason) -> None:
    (fields, snapshot), (more, wider) = SPEAKS[first], SPEAKS[second]
    assert judge_one(message(**(more | fields)), **(wider | snapshot)).reason is first


def test_the_table_has_sixteen_guards() -> None:
    assert len(GUARDS) == 16


@pytest.mark.parametrize(
    "kind", [MessageKind.SYSTEM, MessageKind.ECHO, MessageKind.GROUP, MessageKind.REACTION]
)
@pytest.mark.parametrize("text", ["STOP", "START", "operator", "yes"])
def test_words_count_only_from_the_customer(kind: MessageKind, text: str) -> None:
    judged = judge_one(message(text, kind=kind, from_us=True), opted_out=text == "START")
    assert judged.verdict is Verdict.STORED
    assert (judged.handoff, judged.customer_spoke, judged.clears_action) == (False, False, False)
    assert judged.opt_out is None


# Consent


@pytest.mark.parametrize(
    "text",
    [
        "STOP", "STOP!", " stop ", "Stop.", "stopall", "Unsubscribe", "END", "quit", "REVOKE", "OPTOUT",
        "opt out", "Opt-out",
        "Stop. Thanks a lot", "stop, thank you", "STOP please", "Please stop texting me", "ＳＴＯＰ",
        "s\u200btop", "dezabonare",
        "Dezabonare, vă rog", "STOP mesaje", "nu mai vreau mesaje", "Nu mai vreau mesaje, mulţumesc",
        "stop sms",
    ],
)  # fmt: skip
def test_a_whole_message_that_says_stop_opts_out(text: str) -> None:
    assert judge_one(message(text)).reason is Reason.OPT_OUT


@pytest.mark.parametrize(
    "text",
    [
        "We have to STOP this bleeding, can I come now?", "Does the pain ever end", "quit smoking advice?",
        "stop?", "the end",
        "stop by at 5?", "don't stop", "STOP " + "x" * 5_000,
        "stop" + " " * 5_000 + "bleeding", "Please end the treatment",
        "anulez", "anulez programarea", "nu", "no", "nu mai vreau", "cancel", "CANCEL",
        "cancel my appointment", "yes", "START",
        "stopover", "weekend", "când e weekend", "friend", "thanks", "Stop thanking me",
    ],
)  # fmt: skip
def test_stop_inside_a_sentence_opts_nobody_out(text: str) -> None:
    judged = judge_one(message(text))
    assert (judged.verdict, judged.opt_out) == (Verdict.TURN, None)


@pytest.mark.parametrize(
    ("fields", "snapshot", "reason"),
    [
        pytest.param({}, {"carrier_takes_cancel": True}, Reason.OPT_OUT, id="where the carrier takes it"),
        pytest.param(
            {"sender": "whatsapp:+40700000001"},
            {"carrier_takes_cancel": True},
            None,
            id="by WhatsApp, which no carrier hears",
        ),
        pytest.param({"opt_word": "opt_out"}, {}, Reason.OPT_OUT, id="where the channel says so"),
        pytest.param({}, {}, None, id="elsewhere never"),
    ],
)
def test_cancel_is_an_opt_out_only_where_the_carrier_makes_it_one(
    fields: dict[str, Any], snapshot: dict[str, Any], reason: Reason | None
) -> None:
    judged = judge_one(message("CANCEL", **fields), **snapshot)
    assert judged.reason is reason
    assert judged.flag is (reason is Reason.OPT_OUT)
    assert judged.clears_action is (reason is Reason.OPT_OUT)


def test_an_opt_out_is_answered_by_nothing() -> None:
    assert judge_one(message("STOP")).notice is None
    assert not judge_one(message("STOP")).flag


@pytest.mark.parametrize("text", ["START", "start!", "YES", "unstop", "Start, thanks"])
def test_yes_and_start_opt_in_who_is_opted_out_and_confirm_nothing(text: str) -> None:
    judgement = judge_all([message(text), message()], opted_out=True)
    assert judgement.judged[0].verdict is Verdict.CONSENT
    assert judgement.judged[1].verdict is Verdict.TURN
    assert not judgement.after.opted_out


@pytest.mark.parametrize("opt_word", [None, "opt_in"])
@pytest.mark.parametrize("text", ["YES", "START"])
def test_yes_and_start_are_plain_messages_of_anyone_else(text: str, opt_word: str | None) -> None:
    assert judge_one(message(text, opt_word=opt_word)).verdict is Verdict.TURN


@pytest.mark.parametrize("text", ["da", "yes, on Friday", "I want to start a treatment", "hello"])
def test_other_words_opt_nobody_in(text: str) -> None:
    assert judge_one(message(text), opted_out=True).reason is Reason.OPTED_OUT


def test_where_the_carrier_answers_an_opt_in_we_do_not() -> None:
    assert judge_one(message("START", opt_word="opt_in"), opted_out=True).notice is None
    assert judge_one(message("START"), opted_out=True, carrier_takes_cancel=True).notice is None
    by_whatsapp = message("START", sender="whatsapp:+40700000001")
    assert judge_one(by_whatsapp, opted_out=True, carrier_takes_cancel=True).notice is Notice.OPTED_IN


def test_what_follows_a_stop_is_only_stored() -> None:
    judgement = judge_all(
        [message("STOP"), message("hello?"), message("operator"), message("START"), message()]
    )
    assert reasons(judgement) == [Reason.OPT_OUT, Reason.OPTED_OUT, Reason.OPTED_OUT, Reason.OPT_IN, None]


@pytest.mark.parametrize("label", ["STOP", "CANCEL", "operator", "YES", "Confirm"])
def test_a_button_is_a_tap_whatever_its_label_says(label: str) -> None:
    judged = judge_one(message(label, kind=MessageKind.BUTTON), carrier_takes_cancel=True)
    assert judged.verdict is Verdict.TURN
    assert judged.reason is None
    assert judged.closes_window
    assert judged.customer_spoke


# A person, please


@pytest.mark.parametrize(
    "text",
    [
        "om", "Om!", "om?", "OPERATOR", "agent", "human", "human please", "Human, please!", "vreau un om",
        "Vreau un om, vă rog",
        "talk to a person", "I want to talk to a person please", "can I speak with a human?",
        "Could I talk to someone",
        "aş vrea să vorbesc cu un om", "aș vrea sa vorbesc cu cineva de la voi",
        "nu pot vorbi cu un operator?",
        "Can't I talk to a human?", "un operator, te rog", "this is useless, get me a representative",
        "Bună ziua, vreau un operator că nu înțeleg",
        "I don't want a robot, I want to talk to a real person",
    ],
)  # fmt: skip
def test_a_wish_for_a_person_is_granted(text: str) -> None:
    assert judge_one(message(text)).reason is Reason.HANDOFF_REQUESTED


@pytest.mark.parametrize(
    "text",
    [
        "what is on the agenda?", "user agent", "humanity", "omul meu de la cabinet", "automat", "pom",
        "om bun",
        "am vorbit cu operatorul ieri", "I talked to a person yesterday",
        "nu vreau un om, vreau o programare",
        "I don't want to talk to a person", "nu vreau să vorbesc cu un om",
        "do I need a person to drive me home?",
        "am nevoie de o persoană care să mă însoțească?", "two persons", "operatorul de telefonie",
        "is a human tooth hollow?",
        "real estate agent", "cât costă pentru un om", "persoana de contact", "roman", "domnul",
        "agentul termic",
    ],
)  # fmt: skip
def test_words_that_only_contain_a_person_are_plain(text: str) -> None:
    assert judge_one(message(text)).verdict is Verdict.TURN


def test_a_caption_can_ask_for_a_person_or_stop() -> None:
    assert judge_one(message("operator", kind=MessageKind.MEDIA)).reason is Reason.HANDOFF_REQUESTED
    assert judge_one(message("STOP", kind=MessageKind.MEDIA)).reason is Reason.OPT_OUT


# The owner on the phone


def test_what_follows_the_owners_message_waits_for_people() -> None:
    judgement = judge_all([message(), echo(after(seconds=5)), message(at=after(seconds=9))])
    assert reasons(judgement) == [None, Reason.OWNER_TAKEOVER, Reason.HANDOFF_ACTIVE]
    assert judgement.after.takeover_ends_at == after(seconds=5, minutes=60)


def test_each_message_of_the_owner_lengthens_the_takeover_and_opens_no_other() -> None:
    judgement = judge_all([echo(), echo(after(minutes=30)), message(at=after(minutes=61))])
    assert reasons(judgement) == [Reason.OWNER_TAKEOVER, Reason.OWNER_TAKEOVER, Reason.HANDOFF_ACTIVE]
    assert [judged.handoff for judged in judgement.judged] == [True, False, False]
    assert judgement.after.takeover_ends_at == after(minutes=90)


def test_a_takeover_is_never_shortened() -> None:
    judgement = judge_all([echo()], in_handoff=True, takeover_ends_at=after(minutes=90))
    assert judgement.after.takeover_ends_at == after(minutes=90)


def test_sixty_quiet_minutes_release_a_takeover_and_the_message_is_judged_on() -> None:
    judgement = judge_all([message(), message()], in_handoff=True, takeover_ends_at=after(seconds=-1))
    first, second = judgement.judged
    assert (first.verdict, first.releases) == (Verdict.TURN, True)
    assert (second.verdict, second.releases) == (Verdict.TURN, False)
    assert not judgement.after.in_handoff
    assert judgement.after.takeover_ends_at is None


def test_a_message_written_in_the_quiet_hour_releases_nothing_however_late_it_is_judged() -> None:
    judged = judge_one(message(at=NOON), in_handoff=True, takeover_ends_at=NOON)
    assert (judged.reason, judged.releases) == (Reason.HANDOFF_ACTIVE, False)


def test_a_channel_clock_that_runs_ahead_releases_nothing() -> None:
    early = message(channel_at=after(hours=2), received_at=NOON)
    assert (
        judge_one(early, in_handoff=True, takeover_ends_at=after(minutes=1)).reason is Reason.HANDOFF_ACTIVE
    )


def test_a_released_conversation_can_be_handed_over_by_the_same_message() -> None:
    judged = judge_one(message("operator"), in_handoff=True, takeover_ends_at=after(minutes=-1))
    assert (judged.reason, judged.releases, judged.handoff) == (Reason.HANDOFF_REQUESTED, True, True)


@pytest.mark.parametrize(
    "kind", [MessageKind.SYSTEM, MessageKind.REACTION, MessageKind.GROUP, MessageKind.ECHO]
)
def test_only_the_customer_releases(kind: MessageKind) -> None:
    over = {"in_handoff": True, "takeover_ends_at": after(minutes=-1)}
    judgement = judge_all([message(kind=kind, from_us=True)], **over)
    assert not judgement.judged[0].releases
    assert judgement.after.in_handoff


def test_another_handoff_never_releases_itself_nor_becomes_a_takeover() -> None:
    judgement = judge_all([echo(), message(at=after(days=3))], in_handoff=True)
    assert reasons(judgement) == [Reason.FROM_ME, Reason.HANDOFF_ACTIVE]
    assert judgement.after.takeover_ends_at is None


def test_an_owners_message_takes_over_whatever_else_is_wrong() -> None:
    judged = judge_one(echo(), opted_out=True, mode=Mode.OFF, account_on=False, cap_reached=True)
    assert judged.reason is Reason.OWNER_TAKEOVER


# Loops


def test_the_third_near_same_text_is_a_loop_and_no_word_is_said() -> None:
    judgement = judge_all(
        [message(AWAY), message(AWAY), message(AWAY.replace("opens", "is open")), message("hello?")]
    )
    assert reasons(judgement) == [None, None, Reason.LOOP, Reason.HANDOFF_ACTIVE]
    assert all(judged.notice is None for judged in judgement.judged)


@pytest.mark.parametrize(
    ("texts", "apart"),
    [
        pytest.param([AWAY, AWAY, AWAY], timedelta(minutes=5, seconds=1), id="over more than ten minutes"),
        pytest.param([AWAY, "Is anybody there?", AWAY], timedelta(seconds=10), id="with another in between"),
        pytest.param(["da", "da", "da"], timedelta(seconds=10), id="yes thrice"),
        pytest.param(
            ["Da, mulțumesc", "da mulţumesc", "Da, multumesc!"], timedelta(seconds=10), id="a long yes thrice"
        ),
        pytest.param(["hello?", "hello?", "hello?"], timedelta(seconds=10), id="an impatient hello"),
        pytest.param(
            ["and also 1", "and also 2", "and also 3"], timedelta(seconds=2), id="a list that goes on"
        ),
        pytest.param(
            ["luni la 10 se poate?", "luni la 11 se poate?", "luni la 12 se poate?"],
            timedelta(seconds=9),
            id="hours tried",
        ),
    ],
)
def test_people_repeat_themselves_too(texts: list[str], apart: timedelta) -> None:
    judgement = judge_all([message(text, NOON + at * apart) for at, text in enumerate(texts)])
    assert reasons(judgement) == [None, None, None]


def test_texts_said_before_this_batch_count() -> None:
    before = (said(AWAY, after(minutes=-9)), said(AWAY, after(minutes=-5)))
    assert judge_one(message(AWAY), last_said=before).reason is Reason.LOOP


def quick(
    seconds: Sequence[float], replies: Sequence[float], texts: Sequence[str] = ("a", "b", "c", "d")
) -> Judged:
    *before, last = zip(texts, seconds, strict=True)
    return judge_one(
        message(last[0], after(seconds=last[1])),
        last_said=[said(text, after(seconds=at)) for text, at in before],
        reply_times=[after(seconds=at) for at in replies],
    )


@pytest.mark.parametrize(
    ("seconds", "replies", "loop"),
    [
        pytest.param([2, 12, 22, 32], [0, 10, 20, 30], True, id="four, each two seconds after a reply"),
        pytest.param([3, 13, 23, 33], [0, 10, 20, 30], True, id="three seconds still"),
        pytest.param([2, 12, 22, 33.1], [0, 10, 20, 30], False, id="the last one slower"),
        pytest.param([2, 15, 22, 32], [0, 10, 20, 30], False, id="one in between slower"),
        pytest.param([1, 1.5, 2, 32], [0, 10, 20, 30], False, id="three fragments after one reply"),
        pytest.param([0.5, 1.5, 2.5, 2.9], [0, 1, 2, 2.1], True, id="quick replies, each answered"),
        pytest.param([-1, 9, 19, 29], [0, 10, 20, 30], False, id="before the replies"),
        pytest.param([2, 12, 22, 32], [10, 20, 30], False, id="only three replies"),
        pytest.param([2, 12, 22, 32], [-20, -10, 0, 10, 20, 30], True, id="older replies don't disturb"),
    ],
)
def test_four_answers_within_seconds_are_a_loop(
    seconds: list[float], replies: list[float], *, loop: bool
) -> None:
    assert (quick(seconds, replies).reason is Reason.LOOP) is loop


@pytest.mark.parametrize("texts", [("a", "b", "c", "yes"), ("da", "b", "c", "d"), ("a", "ok", "nu", "d")])
def test_a_quick_yes_or_no_is_no_machine(texts: tuple[str, ...]) -> None:
    assert quick([2, 12, 22, 32], [0, 10, 20, 30], texts).verdict is Verdict.TURN


def test_quick_taps_are_no_machine() -> None:
    tap = message("Confirm", after(seconds=32), kind=MessageKind.BUTTON)
    before = [said(text, after(seconds=at)) for text, at in (("a", 2), ("b", 12), ("c", 22))]
    replies = [after(seconds=at) for at in (0, 10, 20, 30)]
    assert judge_one(tap, last_said=before, reply_times=replies).verdict is Verdict.TURN


@pytest.mark.parametrize(
    "text",
    [
        "I am out of office until Monday. Sunt plecat din birou.", "Automatic reply: I'm on leave",
        "Auto-reply - back at 9",
        "[Auto Reply] We got your text", "Acesta este un mesaj automat.", "Răspuns automat: revin luni",
        "raspuns automat",
        "This is an automated message, please do not reply to this message.",
        "I'm driving with Focus turned on.",
    ],
)  # fmt: skip
def test_an_automatic_reply_is_known_by_its_words(text: str) -> None:
    assert judge_one(message(text)).reason is Reason.LOOP


@pytest.mark.parametrize(
    "text",
    [
        "Am primit un mesaj automat de la voi, ce înseamnă?", "I got an automated message from you",
        "Is the door automatic?",
        "Mesaj automat de la voi?", "I work in an office until Monday",
        "Thank you for your message, Monday is fine",
    ],
)  # fmt: skip
def test_who_speaks_of_automatic_messages_is_no_machine(text: str) -> None:
    assert judge_one(message(text)).verdict is Verdict.TURN


# Rate


def numbered(count: int, apart: timedelta = timedelta(seconds=1), **fields: Any) -> list[Unjudged]:
    words = ("tooth", "pain", "price", "hours", "place", "doctor", "card", "child")
    return [message(f"{words[at % 8]} {at}", NOON + at * apart, **fields) for at in range(count)]


def test_ten_messages_over_the_limit_are_one_handoff_and_one_notice() -> None:
    judgement = judge_all(numbered(30))
    assert reasons(judgement) == [None] * 20 + [Reason.RATE_LIMITED] + [Reason.HANDOFF_ACTIVE] * 9
    assert [judged.notice for judged in judgement.judged if judged.notice] == [Notice.RATE_LIMITED]
    assert judgement.after.messages_in_10_min == 30


def test_messages_judged_before_count_and_the_limit_is_a_setting() -> None:
    assert reasons(judge_all(numbered(3), messages_in_10_min=18))[1:] == [None, Reason.RATE_LIMITED]
    assert reasons(judge_all(numbered(3), rate_per_10_min=2)) == [None, None, Reason.RATE_LIMITED]


def test_a_backlog_written_over_hours_is_no_flood() -> None:
    late = [replace(one, received_at=after(minutes=50)) for one in numbered(30, timedelta(seconds=100))]
    assert set(reasons(judge_all(late))) == {None}


def test_a_flood_that_comes_late_is_still_one() -> None:
    late = [replace(one, received_at=after(minutes=50)) for one in numbered(21)]
    assert reasons(judge_all(late))[-1] is Reason.RATE_LIMITED


def test_what_the_customer_did_not_say_is_not_counted() -> None:
    others = [
        *numbered(15, kind=MessageKind.REACTION),
        *numbered(15, kind=MessageKind.GROUP),
        *numbered(15, sender=OWN),
    ]
    assert judge_all([*others, message()]).judged[-1].verdict is Verdict.TURN


# Time


@pytest.mark.parametrize(
    ("fields", "snapshot", "stale"),
    [
        pytest.param({"channel_at": after(hours=-1)}, {}, False, id="an hour old"),
        pytest.param({"channel_at": after(hours=-1, seconds=-1)}, {}, True, id="older than an hour"),
        pytest.param(
            {"channel_at": after(seconds=-61)}, {"stale_after": timedelta(seconds=60)}, True, id="a setting"
        ),
        pytest.param(
            {"channel_at": after(seconds=-60)}, {"newest_answered_at": NOON}, False, id="a minute behind"
        ),
        pytest.param(
            {"channel_at": after(seconds=-61)}, {"newest_answered_at": NOON}, True, id="further behind"
        ),
        pytest.param({"channel_at": after(days=1)}, {"newest_answered_at": NOON}, False, id="a clock ahead"),
    ],
)
def test_old_messages_are_stored_and_flagged(
    fields: dict[str, Any], snapshot: dict[str, Any], *, stale: bool
) -> None:
    judged = judge_one(message(**({"received_at": NOON} | fields)), **snapshot)
    assert (judged.reason is Reason.STALE, judged.flag, judged.customer_spoke) == (stale, stale, not stale)


def test_messages_stand_in_the_channels_order_by_the_second_then_as_they_came() -> None:
    late, early = message(at=after(seconds=2)), message(at=NOON)
    half, whole = message(at=after(seconds=1.9)), message(at=after(seconds=1.1))
    assert in_order([late, half, early, whole]) == [early, half, whole, late]


# Nothing to answer


@pytest.mark.parametrize("text", ["", " ", "\n", "\u200b", "\u2800", "\ufe0f"])
def test_an_empty_text_is_unsupported(text: str) -> None:
    judged = judge_one(message(text))
    assert (judged.verdict, judged.reason, judged.flag) == (Verdict.TURN, Reason.UNSUPPORTED, False)


def test_media_is_flagged_and_its_caption_is_text() -> None:
    bare = judge_one(message("", kind=MessageKind.MEDIA))
    captioned = judge_one(message("my tooth", kind=MessageKind.MEDIA))
    assert (bare.verdict, bare.reason, bare.flag, bare.customer_spoke) == (
        Verdict.TURN,
        Reason.UNSUPPORTED,
        True,
        True,
    )
    assert (captioned.verdict, captioned.reason, captioned.flag) == (Verdict.TURN, None, True)


def test_a_question_mark_alone_is_something_to_answer() -> None:
    assert judge_one(message("?")).reason is None


def test_what_needs_no_model_call_costs_no_budget() -> None:
    assert judge_one(message("", kind=MessageKind.UNSUPPORTED), cap_reached=True).reason is Reason.UNSUPPORTED


# Whatever arrives

KINDS = st.sampled_from(MessageKind)
TEXTS = st.sampled_from(["", "yes", "STOP", "START", "operator", AWAY, "hello", "CANCEL"]) | st.text(
    max_size=30
)
ARRIVING = st.builds(
    lambda kind, text, seconds, lag, from_us: message(
        text,
        kind=kind,
        channel_at=after(seconds=seconds),
        received_at=after(seconds=seconds + lag),
        from_us=from_us,
    ),
    KINDS,
    TEXTS,
    st.integers(0, 9_000),
    st.integers(-60, 5_000),
    st.booleans(),
)
SNAPSHOTS = st.builds(
    facts,
    mode=st.sampled_from(Mode),
    in_handoff=st.booleans(),
    opted_out=st.booleans(),
    account_on=st.booleans(),
    cap_reached=st.booleans(),
    messages_in_10_min=st.integers(0, 25),
)


@given(st.lists(ARRIVING, max_size=12), SNAPSHOTS)
def test_every_message_gets_one_verdict_and_consequences_that_fit_it(
    messages: list[Unjudged], start: Facts
) -> None:
    judgement = judge(in_order(messages), start, (EN, RO))
    assert [judged.message for judged in judgement.judged] == [one.id for one in in_order(messages)]
    handed, out = start.in_handoff, start.opted_out
    for judged in judgement.judged:
        handed = handed and not judged.releases
        assert not (judged.handoff and handed), "a handoff is opened once"
        assert not (judged.verdict is Verdict.TURN and (handed or out)), (
            "nobody is answered in handoff or after a stop"
        )
        assert (judged.verdict is Verdict.HANDOFF) <= judged.handoff <= judged.clears_action
        assert judged.customer_spoke is (
            judged.verdict in (Verdict.TURN, Verdict.CONSENT) or judged.reason is Reason.HANDOFF_REQUESTED
        )
        handed = handed or judged.handoff
        out = out if judged.opt_out is None else judged.opt_out
    assert (judgement.after.in_handoff, judgement.after.opted_out) == (handed, out)


@given(st.lists(ARRIVING, max_size=8), st.integers(0, 8), SNAPSHOTS)
def test_a_batch_is_judged_as_its_messages_would_be_one_by_one(
    messages: list[Unjudged], cut: int, start: Facts
) -> None:
    ordered = [replace(one, channel_at=NOON) for one in messages]
    whole = judge(ordered, start, (EN, RO))
    first = judge(ordered[:cut], start, (EN, RO))
    second = judge(ordered[cut:], first.after, (EN, RO))
    assert whole.judged == first.judged + second.judged
    assert whole.after == second.after
