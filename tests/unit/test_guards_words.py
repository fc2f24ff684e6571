"""How the words of the field are classified before any model call: to stop, to reach a person, a machine, or a turn."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from services.guard.core.guards import judge
from services.guard.core.verdict import Facts, Judged, Reason, Unjudged
from shared.autonomy import Mode
from shared.ids import MessageId
from shared.locales import Locale, load
from shared.messages import MessageKind, Verdict

EN, RO = load("en"), load("ro")
NOON = datetime(2026, 12, 3, 12, 0, tzinfo=UTC)
BUSINESSES = pytest.mark.parametrize("locales", [(EN, RO), (RO, EN)], ids=["en first", "ro first"])


def classified(text: str, locales: tuple[Locale, ...] = (EN, RO)) -> Judged:
    one = Unjudged(
        id=MessageId(UUID(int=1)),
        kind=MessageKind.TEXT,
        text=text,
        channel_at=NOON,
        received_at=NOON,
        sender="+40700000001",
    )
    facts = Facts(mode=Mode.AUTO, own_addresses=frozenset({"+40200000001"}))
    return judge([one], facts, locales).judged[0]


@BUSINESSES
@pytest.mark.parametrize("text", ["Stop. Thanks a lot", "STOP!", " stop ", "Please stop texting me"])
def test_opt_03_a_stop_with_thanks_or_signs_opts_out(text: str, locales: tuple[Locale, ...]) -> None:
    assert classified(text, locales).reason is Reason.OPT_OUT


@BUSINESSES
@pytest.mark.parametrize(
    "text",
    ["We have to STOP this bleeding, can I come now?", "Does the pain ever end", "quit smoking advice?"],
)
def test_opt_04_a_stop_inside_a_sentence_is_answered(text: str, locales: tuple[Locale, ...]) -> None:
    judged = classified(text, locales)
    assert (judged.verdict, judged.opt_out) == (Verdict.TURN, None)


@pytest.mark.parametrize("locales", [(EN,), (RO,), (EN, RO)], ids=["en", "ro", "both"])
@pytest.mark.parametrize(
    "text", ["STOP", "stopall", "Unsubscribe", "END", "quit", "REVOKE", "OPTOUT", "opt out"]
)
def test_opt_05_the_carriers_words_opt_out_in_every_business(text: str, locales: tuple[Locale, ...]) -> None:
    assert classified(text, locales).reason is Reason.OPT_OUT


@BUSINESSES
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("dezabonare", Reason.OPT_OUT),
        ("STOP mesaje", Reason.OPT_OUT),
        ("nu mai vreau mesaje", Reason.OPT_OUT),
        ("Vă rog nu îmi mai trimiteți mesaje", Reason.OPT_OUT),
        ("va rog nu-mi mai trimiteti mesaje", Reason.OPT_OUT),
        ("anulez", None),
        ("anulez programarea", None),
        ("renunț", None),
        ("nu", None),
        ("nu mai vreau", None),
    ],
)
def test_opt_09_romanian_words_to_stop_and_those_of_the_domain(
    text: str, reason: Reason | None, locales: tuple[Locale, ...]
) -> None:
    assert classified(text, locales).reason is reason


@BUSINESSES
@pytest.mark.parametrize(
    "text",
    [
        "what is on the agenda?", "user agent", "humanity", "omul meu de la cabinet", "automat", "pom",
        "am vorbit cu operatorul ieri", "Auto", "Auto.", "mașina e la service auto", "oameni", "the agent's name?",
    ],
)  # fmt: skip
def test_con_17_words_that_hold_a_person_stay_with_the_bot(text: str, locales: tuple[Locale, ...]) -> None:
    assert classified(text, locales).verdict is Verdict.TURN


@BUSINESSES
@pytest.mark.parametrize("text", ["om", "vreau un om", "human please", "talk to a person"])
def test_con_17_a_wish_for_a_person_is_granted(text: str, locales: tuple[Locale, ...]) -> None:
    assert classified(text, locales).reason is Reason.HANDOFF_REQUESTED


@BUSINESSES
@pytest.mark.parametrize(
    "text",
    [
        "I am out of office until Monday. Sunt plecat din birou.", "[Auto] We are closed", "[Auto-Reply] Back at 9",
        "Răspuns automat: revin luni", "RASPUNS AUTOMAT - revin luni",
    ],
)  # fmt: skip
def test_ech_05_an_auto_responder_is_handed_over_at_its_first_word(
    text: str, locales: tuple[Locale, ...]
) -> None:
    judged = classified(text, locales)
    assert (judged.verdict, judged.reason, judged.notice) == (Verdict.HANDOFF, Reason.LOOP, None)


def test_ech_05_thirty_rounds_of_it_are_one_handoff_and_no_turn() -> None:
    text = "I am out of office until Monday. Sunt plecat din birou."
    rounds = [
        Unjudged(
            id=MessageId(UUID(int=at + 1)),
            kind=MessageKind.TEXT,
            text=text,
            channel_at=NOON + timedelta(seconds=2 * at),
            received_at=NOON + timedelta(seconds=2 * at),
            sender="+40700000001",
        )
        for at in range(30)
    ]
    facts = Facts(mode=Mode.AUTO, own_addresses=frozenset({"+40200000001"}))
    judged = judge(rounds, facts, (EN, RO)).judged
    assert sum(one.handoff for one in judged) == 1
    assert not any(one.verdict is Verdict.TURN for one in judged)


@pytest.mark.parametrize("locale", [EN, RO], ids=["en", "ro"])
def test_no_word_that_answers_a_prompt_stops_the_messages_or_asks_for_a_person(locale: Locale) -> None:
    for phrase in locale.explicit_yes | locale.soft_yes | locale.no:
        assert classified(phrase).verdict is Verdict.TURN, phrase


@pytest.mark.parametrize("text", ["Liked “Reply STOP to opt out”", "Loved “STOP”", "I-a plăcut „om”"])
def test_a_reaction_to_such_a_word_is_not_the_word(text: str) -> None:
    assert classified(text).verdict is Verdict.TURN
