"""What a customer's words say to a prompt. A lookup, never a model: the whole text is listed, or not."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from shared.locales import Locale, read

ANSWER_CHARS_MAX: Final = 1_000  # of a turn's texts together; a longer one is no bare yes or no


class Answer(StrEnum):
    YES = "yes"
    SOFT_YES = "soft_yes"  # agreeable, but not clear enough to act on
    NO = "no"
    OTHER = "other"  # a new request


def match(fragments: Sequence[str], locales: Sequence[Locale]) -> Answer:
    """The answer that a turn's whole text gives in any of the business's locales.

    `fragments` are the texts of the turn's messages in order, as they were typed: no label of a button, no
    quoted or forwarded text, no transcript. Each an explicit yes is a yes, each a no is a no; else only their
    joined text counts.
    """
    spoken = [fragment for fragment in fragments if fragment and not fragment.isspace()]
    if not spoken or sum(map(len, spoken)) > ANSWER_CHARS_MAX:
        return Answer.OTHER
    if len(spoken) == 1:
        return _meaning(spoken[0], locales)
    meanings = {_meaning(fragment, locales) for fragment in spoken}
    if meanings in ({Answer.YES}, {Answer.NO}):
        return meanings.pop()
    return _meaning(" ".join(spoken), locales)


def _meaning(text: str, locales: Sequence[Locale]) -> Answer:
    """The one meaning the locales give the text; a phrase with two meanings has none."""
    meanings = {answer for locale, normal in read(text, locales).forms for answer in _listed(locale, normal)}
    return meanings.pop() if len(meanings) == 1 else Answer.OTHER


def _listed(locale: Locale, normal: str) -> list[Answer]:
    lists = (
        (Answer.YES, locale.explicit_yes),
        (Answer.SOFT_YES, locale.soft_yes),
        (Answer.NO, locale.no),
    )
    return [answer for answer, phrases in lists if normal in phrases]
