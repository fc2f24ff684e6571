"""Field cases about words alone, as kinds: slips of the finger, spellings of one letter, days and hours. No server, no model.

The cases' own texts stand in tests/unit: test_confirmation_matcher, test_confirmation_reactions, test_guards_words,
test_clinic_dates, test_clinic_clock, test_expenses_amounts.
"""

import tomllib
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

import shared.locales
from packs.clinic.locales import words
from services.agent.core.confirmation import Answer, match
from services.guard.core.guards import judge
from services.guard.core.verdict import Facts, Reason, Unjudged
from shared.autonomy import Mode
from shared.ids import MessageId
from shared.locales import load
from shared.messages import MessageKind, Verdict
from tests.unit.clinic_talk import Talk

EN, RO = load("en"), load("ro")
NOON = datetime(2026, 12, 3, 12, 0, tzinfo=UTC)
NEIGHBOURS = {"y": "tu", "e": "wr", "s": "ad", "d": "sf", "a": "sq", "n": "bm", "o": "ip", "p": "ol", "c": "xv", "f": "dg"}  # fmt: skip
LISTED = {name: load(name).explicit_yes for name in ("en", "ro")}


def letters(text: str) -> str:
    return "".join(char for char in text if char.isalpha())


KNOWN = {letters(phrase) for phrases in LISTED.values() for phrase in phrases}


def slips(word: str) -> Iterator[str]:
    """A word as a hurried thumb writes it: a letter left out, doubled, swapped with the next, or its neighbour's."""
    for at, letter in enumerate(word):
        yield word[:at] + word[at + 1 :]
        yield word[:at] + letter * 2 + word[at + 1 :]
        yield word[:at] + word[at + 1 : at + 2] + letter + word[at + 2 :]
        for other in NEIGHBOURS.get(letter, ""):
            yield word[:at] + other + word[at + 1 :]


@pytest.mark.parametrize("name", LISTED)
def test_no_slip_of_a_yes_is_one(name: str) -> None:
    """CNF-05: every listed yes, every slip, in every word; but where the slip is another listed yes."""
    tried = 0
    for phrase in LISTED[name]:
        parts = phrase.split(" ")
        for at, part in enumerate(parts):
            for slip in slips(part) if part.isalpha() else ():
                text = " ".join([*parts[:at], slip, *parts[at + 1 :]])
                if letters(text) not in KNOWN:
                    tried += 1
                    assert match([text], (EN, RO)) is not Answer.YES, text
    assert tried > 1_000


def test_the_slips_of_the_field_are_among_them() -> None:
    """CNF-05."""
    made = {slip for word in ("yes", "da") for slip in slips(word)}
    assert {"yse", "ye", "dda", "yess"} <= made


# One letter, several spellings


def marked() -> list[str]:
    """Every phrase of the Romanian lists with a letter that is spelled in several ways."""
    lists = tomllib.loads((Path(shared.locales.__file__).parent / "ro.toml").read_text(encoding="utf-8"))[
        "words"
    ]
    found = []
    for name in ("explicit_yes", "soft_yes", "no", "opt_out", "handoff_words"):
        for entry in lists[name]:
            phrase = "".join(part.split("|")[0] for part in entry.replace(")", "(").split("("))
            if set(phrase) & set("șțăâî"):
                found.append(phrase.strip())
    return found


def spellings(phrase: str) -> dict[str, str]:
    cedilla = phrase.translate(str.maketrans("șțȘȚ", "şţŞŢ"))
    return {
        "cedilla": cedilla,
        "letter and mark": unicodedata.normalize("NFD", phrase),
        "cedilla, letter and mark": unicodedata.normalize("NFD", cedilla),
        "capitals": phrase.upper(),
        "capitals with a cedilla": cedilla.upper(),
        "without marks": "".join(c for c in unicodedata.normalize("NFD", phrase) if not unicodedata.combining(c)),
        "wide": "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in phrase),
    }  # fmt: skip


def classified(text: str) -> tuple[Verdict, Reason | None, Answer]:
    """What the guard and the matcher make of it."""
    one = Unjudged(
        id=MessageId(UUID(int=1)),
        kind=MessageKind.TEXT,
        text=text,
        channel_at=NOON,
        received_at=NOON,
        sender="+40700000001",
    )
    [judged] = judge([one], Facts(mode=Mode.AUTO), (EN, RO)).judged
    return judged.verdict, judged.reason, match([text], (EN, RO))


def test_comma_and_cedilla_are_one_letter_in_every_list() -> None:
    """CNF-09: whatever a word is, it is that in all its spellings, for guard and matcher."""
    phrases = [*marked(), "confirmă", "și da", "renunț", "anulați", "dezabonați-mă", "vă rog opriți"]
    assert len(phrases) > 40
    for phrase in phrases:
        expected = classified(phrase)
        for how, spelled in spellings(phrase).items():
            assert classified(spelled) == expected, f"{spelled!r}: {how}"


def test_each_list_is_heard() -> None:
    """Not vacuously: the phrases above come to every outcome there is."""
    found = {classified(phrase) for phrase in marked()}
    assert {answer for *_, answer in found} == {Answer.YES, Answer.SOFT_YES, Answer.NO, Answer.OTHER}
    assert Reason.OPT_OUT in {reason for _, reason, _ in found}


# Days and hours


@pytest.mark.parametrize(
    ("locale", "text"),
    [("en", "a cleaning on {day} at {hour}"), ("ro", "o curățare {day} la {hour}")],
    ids=["en", "ro"],
)
async def test_no_weekday_and_hour_is_ever_asked_for_in_the_past(locale: str, text: str) -> None:
    """TIM-06: on a Thursday at ten, for every weekday and hour; what is asked repeats weekday, date and hour."""
    asked = 0
    for index, names in enumerate(words(locale)["grammar"]["weekdays"]):
        for hour in range(9, 18):
            talk = Talk(locale)
            said = await talk.hear(text.format(day=names[0], hour=hour))
            if "Reply YES" not in said:
                continue
            asked += 1
            [(_, arguments)] = talk.asked
            start = datetime.fromisoformat(arguments["start"])
            assert start.isoformat() > "2026-12-03T10:00"
            assert start.weekday() == index
            shown = load(locale).moment(start)
            assert shown in said
    assert asked > 20
