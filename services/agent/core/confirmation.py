"""What a customer's words say to a prompt. A lookup, never a model: the whole text is listed, or not."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from shared.locales import Locale, read
from shared.words import is_blank

ANSWER_CHARS_MAX: Final = 1_000  # of a turn's texts together; a longer one is no bare yes or no


class Answer(StrEnum):
    YES = "yes"
    SOFT_YES = "soft_yes"  # agreeable, but not clear enough to act on
    NO = "no"
    REACTION = "reaction"  # a phone's text in place of one: it answers nothing and asks for nothing
    OTHER = "other"  # a new request


def match(fragments: Sequence[str], locales: Sequence[Locale], *, asked: bool = True) -> Answer:
    """The answer that a turn's whole text gives in any of the business's locales. Not `asked`: where there is no prompt, only
    a reaction is told from everything else.

    `fragments` are the texts of the turn's messages in order, as they were typed: no label of a button, no
    quoted or forwarded text, no transcript. Each an explicit yes is a yes, each a no is a no; else only their
    joined text counts. Reactions are not words: the others decide, but a yes beside one is no bare yes, and
    the turn is taken as the reaction, which does nothing.
    """
    spoken = [fragment for fragment in fragments if not is_blank(fragment)]
    said = [fragment for fragment in spoken if not _is_reaction(fragment, locales)]
    if not said:
        return Answer.REACTION if spoken else Answer.OTHER
    if not asked and len(said) == len(spoken):
        return Answer.OTHER
    answer = _answer(said, locales)
    return Answer.REACTION if answer is Answer.YES and len(said) < len(spoken) else answer


def _is_reaction(text: str, locales: Sequence[Locale]) -> bool:
    return any(locale.is_reaction(text) for locale in locales)


def _answer(said: Sequence[str], locales: Sequence[Locale]) -> Answer:
    if sum(map(len, said)) > ANSWER_CHARS_MAX:
        return Answer.OTHER
    if len(said) == 1:
        return _meaning(said[0], locales)
    meanings = {_meaning(fragment, locales) for fragment in said}
    if meanings in ({Answer.YES}, {Answer.NO}):
        return meanings.pop()
    return _meaning(" ".join(said), locales)


def _meaning(text: str, locales: Sequence[Locale]) -> Answer:
    """The one meaning the locales give the text; a phrase with two meanings has none."""
    meanings = {answer for locale, normal in read(text, locales).forms for answer in _listed(locale, normal)}
    if len(meanings) != 1 or any(locale.means_another_word(text) for locale in locales):
        return Answer.OTHER
    return meanings.pop()


def _listed(locale: Locale, normal: str) -> list[Answer]:
    lists = (
        (Answer.YES, locale.explicit_yes),
        (Answer.SOFT_YES, locale.soft_yes),
        (Answer.NO, locale.no),
    )
    return [answer for answer, phrases in lists if normal in phrases]
