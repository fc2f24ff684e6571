"""Reactions that a phone sends as text: known for what they are, whatever they quote."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.agent.core.confirmation import Answer, match
from shared.locales import load

EN, RO = load("en"), load("ro")
PROMPT = (
    "Book: cleaning with Dr. Ionescu, Thursday 3 December, 10:00. Reply YES to confirm or NO to leave it."
)


def answer(text: str, *locales: str) -> Answer:
    return match([text], [load(name) for name in locales or ("en", "ro")])


@pytest.mark.parametrize(
    "text",
    [
        "Liked “Reply YES to cancel your appointment”", "Loved “Reply YES to confirm”",
        "Disliked “Reply YES to confirm”", "Laughed at “Reply YES to confirm”", "Emphasized “yes”",
        "Emphasised “yes”", "Questioned “Reply YES to confirm”", "Liked \"YES\"", "Liked 'YES'", "liked “da”",
        "LIKED “YES”", "Liked  “YES” ", "Liked “YES”.", "Liked “Reply YES to confirm or…",
        "Liked “She said “yes” to me”", f"Liked “{PROMPT}”", f"Loved “{PROMPT.replace('. ', '.' + chr(10))}”",
        "Reacted 👍 to “Reply YES to confirm”", "Reacted 👍🏽 to “YES”", "Reacted ❤️ to “YES”",
        "Reacted 👨‍👩‍👧 to “YES”", "Reacted with a sticker to “YES”", "👍 to “YES”", "❤️ to “YES”",
        "\u200a❤️\u200b to “\u200bReply YES\u200b”", "Removed 👍 from “YES”", "Removed a heart from “YES”",
        "Removed a like from “Reply YES to confirm”", "Removed an exclamation mark from “YES”",
        "Removed a question mark from \"YES\"", "Liked an image", "Loved a movie", "Reacted 🔥 to an image",
        "Questioned an audio message", "Removed a heart from an image",
    ],
)  # fmt: skip
def test_the_wordings_of_english_phones_in_every_business(text: str) -> None:
    assert answer(text) is answer(text, "en") is Answer.REACTION


@pytest.mark.parametrize(
    "text",
    [
        "I-a plăcut „Răspundeți DA”", "I-a placut \"Raspundeti DA\"", "I-a plăcut “Răspundeți DA”",
        "Nu i-a plăcut „Răspundeți DA”", "A apreciat „DA”",
        "A adorat „DA”", "A îndrăgit „DA”", "A râs la „DA”", "A ras la „DA”", "A evidențiat „DA”", "A evidenţiat „DA”",
        "A subliniat „DA”", "A pus la îndoială „DA”", "A întrebat despre „DA”", "A reacționat cu 👍 la „DA”",
        "A reacționat cu ❤️ la „Răspundeți DA pentru a confirma.”", "👍 la „DA”", "A eliminat 👍 de la „DA”",
        "A eliminat o inimă din „DA”", "A apreciat o imagine", "I-a plăcut o fotografie", "I-a plăcut «DA»",
        "Liked “Răspundeți DA”", "Reacted 👍 to „DA”",
    ],
)  # fmt: skip
def test_the_wordings_of_romanian_phones(text: str) -> None:
    assert answer(text) is answer(text, "ro") is Answer.REACTION


@pytest.mark.parametrize(
    "text",
    [
        "Liked “YES” but book it for 3pm", "I liked “YES”", "I loved the “cleaning”", "Liked it", "Loved your clinic",
        "Liked", "Liked “", "Nu mi-a plăcut cum s-a purtat", "A apreciat colegul meu", "mi-a plăcut la voi",
        "👍 to Monday", "👍", "“YES”?", "She said “yes”", "Questioned by the police", "Disliked the dentist",
    ],
)  # fmt: skip
def test_words_of_the_customers_own_are_no_reaction(text: str) -> None:
    assert answer(text) is not Answer.REACTION


VERBS = (
    "Liked",
    "Loved",
    "Disliked",
    "Laughed at",
    "Emphasized",
    "Questioned",
    "Reacted 👍 to",
    "A apreciat",
)


@settings(deadline=None)  # a busy machine is no failure
@given(
    st.sampled_from(VERBS), st.sampled_from(["“{}”", '"{}"', "„{}”", "„{}“", "«{}»"]), st.text(max_size=200)
)
def test_whatever_a_reaction_quotes_it_is_neither_a_yes_nor_a_request(
    verb: str, quote: str, quoted: str
) -> None:
    assert answer(f"{verb} {quote.format(quoted)}") is Answer.REACTION


@settings(deadline=None)  # a busy machine is no failure
@given(st.sampled_from(sorted(EN.explicit_yes | RO.explicit_yes)))
def test_a_yes_beside_a_reaction_confirms_nothing(yes: str) -> None:
    assert match([yes, "Disliked “YES”"], (EN, RO)) is Answer.REACTION
    assert match([f"Liked “{yes}”"], (EN, RO)) is Answer.REACTION


def test_a_text_longer_than_any_message_is_no_reaction() -> None:
    assert answer(f"Liked “{'x' * 5_000}”") is Answer.OTHER


@pytest.mark.parametrize(
    "texts",
    [
        ["Liked “yes”"],
        ["yes"],
        ["no"],
        ["yes", "Liked “yes”"],
        ["no", "Liked “yes”"],
        ["hello"],
        ["👍"],
        [""],
        [],
    ],
    ids=str,
)
def test_where_nothing_was_asked_a_reaction_is_all_that_is_told_apart(texts: list[str]) -> None:
    asked, unasked = (match(texts, [EN, RO], asked=asked) for asked in (True, False))
    assert (unasked is Answer.REACTION) is (asked is Answer.REACTION)
