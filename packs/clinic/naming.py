"""A customer's own name: what one can look like, and changing it. The name is data wherever it is shown."""

import unicodedata
from typing import Final

from packs.clinic.arguments import UpdateMyName
from packs.clinic.changes import carried_out
from packs.clinic.facts import Why
from shared.packs import Done, Proposal, Refusal, ToolContext

NAME_CHARS_MAX: Final = 60
NAME_WORDS_MAX: Final = 6
MARKS_IN_A_ROW_MAX: Final = 2  # vowel signs and accents; more is a drawing
_JOINS: Final = frozenset("'’ʼ-‐")


def plausible(name: str) -> str | None:
    """The name in composed form, if it can be one: letters of any script, joined by single spaces, apostrophes or hyphens."""
    composed = unicodedata.normalize("NFC", name.strip(" "))
    words = composed.split(" ")
    if not 1 <= len(composed) <= NAME_CHARS_MAX or len(words) > NAME_WORDS_MAX:
        return None
    return composed if all(map(_is_name_word, words)) else None


async def check_name(context: ToolContext, asked: UpdateMyName) -> Proposal | Refusal:
    """Could this be the customer's name, and is it another than now?"""
    name = plausible(asked.name)
    if name is None:
        return Refusal(code=Why.IMPLAUSIBLE_NAME)
    rows = await context.sql.fetch("clinic.my_name", context.business, context.customer)
    before = rows[0]["name"] if rows else None
    if name == before:
        return Refusal(code=Why.SAME_NAME, detail={"name": name})
    return Proposal(arguments={"name": name}, shown={"name": name, "before": before})


async def execute_name(context: ToolContext, proposal: Proposal, key: str) -> Done | Refusal:
    """The name, once for a key: said again later, an old key changes nothing."""
    if not await carried_out(context, key):
        await context.sql.fetch(
            "clinic.rename", context.business, context.customer, key, proposal.arguments["name"]
        )
    return Done(result=dict(proposal.shown))


def _is_name_word(word: str) -> bool:
    """Letters with their marks; joins stand singly between letters, an apostrophe may also end it."""
    marks, after_letter = 0, False
    for char in word:
        category = unicodedata.category(char)
        if char in _JOINS or category in ("Mn", "Mc"):
            marks = marks + 1 if char not in _JOINS else 0
            if not after_letter or marks > MARKS_IN_A_ROW_MAX:
                return False
            after_letter = char not in _JOINS
        elif category in ("Lu", "Ll", "Lt", "Lo"):
            marks, after_letter = 0, True
        else:
            return False
    return bool(word) and (after_letter or word[-1] not in "-‐")
